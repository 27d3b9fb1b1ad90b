/// The conversation about clipboards, the same for both ends (RFC 6143 §7.5.6, §7.6.4; rfbproto, Extended Clipboard).
///
/// What we offer is kept until the other end asks for it; nothing is asked for by itself.
struct ClipboardExchange: Sendable {
    /// What the other end takes without asking: formats, actions, and the most bytes of each format.
    private struct Peer: Sendable {
        var formats: RFBClipboardFormats
        var actions: UInt32
        var sizes: [UInt32: UInt32]
    }

    private enum Action {
        static let caps: UInt32 = 1 << 24
        static let request: UInt32 = 1 << 25
        static let peek: UInt32 = 1 << 26
        static let notify: UInt32 = 1 << 27
        static let provide: UInt32 = 1 << 28
        static let all = caps | request | peek | notify | provide
    }

    /// 6 from a viewer, 3 from a server.
    private let messageType: UInt8
    private let limit: Int
    private var peer: Peer?
    private var offered: RFBClipboard?
    /// Bytes of a message above the limit that are still to be dropped.
    private var dropping = 0

    init(messageType: UInt8, limit: Int) {
        self.messageType = messageType
        self.limit = limit
    }

    /// The other end may use the extension; by its first such message it says that it knows it.
    var allowsExtension = false

    /// The other end listed the extension, and may say later what it takes.
    mutating func peerIsExtended() {
        allowsExtension = true
        guard peer == nil else { return }
        peer = Peer(
            formats: .known, actions: Action.request | Action.notify | Action.provide,
            sizes: [RFBClipboardFormats.text.rawValue: 20 << 20])
    }

    /// Says what we take: every known format, and nothing that was not asked for.
    func appendCapabilities(to output: inout [UInt8]) {
        var body: [UInt8] = []
        for _ in 0..<3 { body.appendInteger(UInt32(0)) }
        append(flags: Action.all | RFBClipboardFormats.known.rawValue, body, to: &output)
    }

    /// Asks for what was offered.
    func request(_ formats: RFBClipboardFormats, to output: inout [UInt8]) {
        guard let peer, peer.actions & Action.request != 0 else { return }
        append(flags: Action.request | formats.intersection(.known).rawValue, [], to: &output)
    }

    /// Offers contents in place of what was offered before; they are sent at once to an end that cannot ask.
    ///
    /// - Throws: ``RFBError/tooLong(field:limit:actual:)`` when they are above the limit; nothing is sent then.
    mutating func offer(_ contents: RFBClipboard, to output: inout [UInt8]) throws(RFBError) {
        guard contents.byteCount <= limit else {
            throw .tooLong(field: "clipboard", limit: limit, actual: contents.byteCount)
        }
        offered = contents
        guard let peer else {
            guard let text = contents.text else { return }
            let bytes = Latin1.bytes(text)
            output += [messageType, 0, 0, 0]
            output.appendInteger(UInt32(bytes.count))
            output += bytes
            return
        }
        if peer.actions & Action.notify != 0 {
            append(flags: Action.notify | contents.formats.rawValue, [], to: &output)
        } else if peer.actions & Action.provide != 0 {
            let small = contents.formats.each.filter { format in
                (contents.bytes(format)?.count ?? 0) <= Int(peer.sizes[format.rawValue] ?? 0)
            }
            provide(contents, RFBClipboardFormats(small), to: &output)
        }
    }

    private func provide(_ contents: RFBClipboard, _ formats: RFBClipboardFormats, to output: inout [UInt8]) {
        let wanted = formats.intersection(contents.formats)
        var data: [UInt8] = []
        for format in wanted.each {
            guard let bytes = contents.bytes(format) else { continue }
            data.appendInteger(UInt32(bytes.count))
            data += bytes
        }
        var body: [UInt8] = []
        var stream = DeflateStream()
        stream.compress(data, level: 6, to: &body)
        append(flags: Action.provide | wanted.rawValue, body, to: &output)
    }

    private func append(flags: UInt32, _ body: [UInt8], to output: inout [UInt8]) {
        output += [messageType, 0, 0, 0]
        output.appendInteger(Int32(-(4 + body.count)))
        output.appendInteger(flags)
        output += body
    }

    // MARK: - Reading

    /// The result of reading a message.
    enum Step {
        /// More bytes are needed.
        case incomplete
        /// The message was read.
        case done(RFBClipboardEvent?)
    }

    /// Reads a cut text message, or what is still to be dropped of one.
    mutating func receive(_ input: inout ByteQueue, output: inout [UInt8]) throws(RFBError) -> Step {
        guard dropping == 0 else { return drop(&input) }
        guard input.count >= 8 else { return .incomplete }
        let length = Int(Int32(bitPattern: input.u32(at: 4)))
        // Compressed data may be a little longer than what it holds.
        let count = abs(length)
        guard count <= limit + 4096 else {
            // Told of when its beginning is seen; the rest is passed over as it comes.
            input.skip(8)
            dropping = count
            _ = drop(&input)
            return .done(.refused(bytes: count))
        }
        guard input.count >= 8 + count else { return .incomplete }
        input.skip(8)
        let body = input.take(count)
        guard length < 0 else { return .done(.received(RFBClipboard(text: Latin1.text(body)))) }
        guard allowsExtension else { throw .unsupported("the extended clipboard, which was not agreed on") }
        guard body.count >= 4 else { throw .malformed("a clipboard message has flags") }
        let flags = body[0..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return .done(try receive(flags: flags, body, output: &output))
    }

    /// True while a message above the limit is being dropped.
    var isDropping: Bool { dropping > 0 }

    private mutating func drop(_ input: inout ByteQueue) -> Step {
        let count = min(dropping, input.count)
        input.skip(count)
        dropping -= count
        return dropping == 0 ? .done(nil) : .incomplete
    }

    private mutating func receive(
        flags: UInt32, _ body: [UInt8], output: inout [UInt8]
    ) throws(RFBError) -> RFBClipboardEvent? {
        let formats = RFBClipboardFormats(rawValue: flags & 0xFFFF)
        switch flags & 0xFF00_0000 {
        case let actions where actions & Action.caps != 0:
            var sizes: [UInt32: UInt32] = [:]
            var offset = 4
            for format in formats.each {
                guard body.count >= offset + 4 else { throw .malformed("each clipboard format has a size") }
                sizes[format.rawValue] = body[offset..<offset + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                offset += 4
            }
            peer = Peer(formats: formats, actions: actions, sizes: sizes)
            return nil
        case Action.request:
            guard let offered else { return nil }
            provide(offered, formats, to: &output)
            return nil
        case Action.peek:
            append(flags: Action.notify | (offered?.formats.rawValue ?? 0), [], to: &output)
            return nil
        case Action.notify:
            return .offered(formats.intersection(.known))
        case Action.provide:
            return try contents(formats, body)
        default:
            throw .malformed("a clipboard message has one action")
        }
    }

    private func contents(_ formats: RFBClipboardFormats, _ body: [UInt8]) throws(RFBError) -> RFBClipboardEvent {
        var stream = InflateStream()
        try stream.begin(Array(body.dropFirst(4)))
        var contents = RFBClipboard()
        var total = 0
        for format in formats.each {
            var head: [UInt8] = []
            try stream.read(4, to: &head)
            let size = Int(head.reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
            total += size
            // A text's last byte is a zero, and its line ends are two bytes.
            guard total <= limit + 4096 else { return .refused(bytes: total) }
            var bytes: [UInt8] = []
            try stream.read(size, to: &bytes)
            contents.set(format, bytes)
        }
        return .received(contents)
    }
}

extension RFBClipboardFormats {
    /// Each of the sixteen formats that is in it, the lowest first.
    var each: [RFBClipboardFormats] {
        (0..<16).map { RFBClipboardFormats(rawValue: 1 << $0) }.filter { contains($0) }
    }
}
