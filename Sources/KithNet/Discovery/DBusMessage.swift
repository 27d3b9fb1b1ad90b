import KithWire

/// A message on a message bus, of the kinds and types that a conversation with Avahi has.
///
/// D-Bus specification, "Message Protocol". Little-endian is what is written; both are read.
///
/// ```
///  0  'l' or 'B'; kind; flags; 1         4  bytes of the body
///  8  serial number                     12  bytes of the header fields
/// 16  header fields: each (code, variant), aligned to 8; then to 8 again; the body
/// ```
struct DBusMessage: Hashable {
    /// The role of a message.
    enum Kind: UInt8, Hashable {
        case call = 1
        case reply, failure, signal
    }

    /// A value in a body.
    enum Value: Hashable {
        case byte(UInt8)
        case uint16(UInt16)
        case int32(Int32)
        case uint32(UInt32)
        case string(String)
        /// The path of an object.
        case path(String)
        case bytes([UInt8])
        case lists([[UInt8]])

        fileprivate var signature: String {
            switch self {
            case .byte: "y"
            case .uint16: "q"
            case .int32: "i"
            case .uint32: "u"
            case .string: "s"
            case .path: "o"
            case .bytes: "ay"
            case .lists: "aay"
            }
        }
    }

    /// The longest message that is read; what Avahi sends is far shorter.
    static let maxBytes = 64 << 10

    var kind = Kind.call
    var serial: UInt32 = 0
    /// The number of the call that a reply or a failure answers.
    var replySerial: UInt32 = 0
    var path = ""
    var interface = ""
    var member = ""
    /// The name of a failure.
    var failure = ""
    var destination = ""
    /// Who sent it: the bus writes it, nobody else.
    var sender = ""
    /// The body; empty, too, where it has a type that is not known here.
    var values: [Value] = []

    /// The bytes to send.
    ///
    /// A call starts no service that is not running (flag `NO_AUTO_START`).
    var bytes: [UInt8] {
        var body = DBusWriter()
        for value in values { body.append(value) }
        var fields = DBusWriter()
        let signature = values.map(\.signature).joined()
        for (code, text, type) in [
            (1, path, "o"), (2, interface, "s"), (3, member, "s"), (4, failure, "s"), (6, destination, "s"),
            (7, sender, "s"), (8, signature, "g"),
        ] as [(UInt8, String, String)] where !text.isEmpty {
            fields.align(to: 8)
            fields.bytes.append(code)
            fields.appendSignature(type)
            if type == "g" { fields.appendSignature(text) } else { fields.append(.string(text)) }
        }
        if replySerial != 0 {
            fields.align(to: 8)
            fields.bytes.append(5)
            fields.appendSignature("u")
            fields.append(.uint32(replySerial))
        }
        var all = DBusWriter()
        all.bytes = [UInt8(ascii: "l"), kind.rawValue, kind == .call ? 2 : 0, 1]
        all.append(.uint32(UInt32(clamping: body.bytes.count)))
        all.append(.uint32(serial))
        all.append(.bytes(fields.bytes))
        all.align(to: 8)
        return all.bytes + body.bytes
    }

    /// Returns how long the message is that begins there; `nil` as long as that cannot be seen.
    ///
    /// - Throws: `KithError` `.invalid` for one that is too long, or no message.
    static func length(of bytes: [UInt8]) throws(KithError) -> Int? {
        guard bytes.count >= 16 else { return nil }
        guard bytes[3] == 1 else { throw DBusReader.malformed("it is of another version") }
        var reader = try DBusReader(bytes)
        let body = Int(try reader.uint32(at: 4))
        let fields = Int(try reader.uint32(at: 12))
        guard body <= maxBytes, fields <= maxBytes else { throw DBusReader.malformed("it is too long") }
        let length = 16 + (fields + 7) / 8 * 8 + body
        guard length <= maxBytes else { throw DBusReader.malformed("it is too long") }
        return length
    }
}

extension DBusMessage {
    /// Reads one message.
    ///
    /// - Throws: `KithError` `.invalid` for what is none.
    init(_ bytes: [UInt8]) throws(KithError) {
        guard let length = try Self.length(of: bytes), length == bytes.count, let kind = Kind(rawValue: bytes[1]) else {
            throw DBusReader.malformed("it has another length")
        }
        self.kind = kind
        var reader = try DBusReader(bytes)
        serial = try reader.uint32(at: 8)
        let end = 16 + Int(try reader.uint32(at: 12))
        reader.position = 16
        var types = ""
        while reader.position < end {
            try reader.align(to: 8)
            let code = try reader.byte()
            let type = try reader.signature()
            if code == 8 {
                guard type == "g" else { throw DBusReader.malformed("its signature is none") }
                types = try reader.signature()
                continue
            }
            switch (code, try reader.value(type)) {
            case (1, .path(let text)): path = text
            case (2, .string(let text)): interface = text
            case (3, .string(let text)): member = text
            case (4, .string(let text)): failure = text
            case (5, .uint32(let number)): replySerial = number
            case (6, .string(let text)): destination = text
            case (7, .string(let text)): sender = text
            default: break
            }
        }
        guard reader.position == end else { throw DBusReader.malformed("its header has another length") }
        try reader.align(to: 8)
        values = try reader.values(types)
    }
}

/// Puts values behind each other, each at a place that is divisible by its size.
private struct DBusWriter {
    var bytes: [UInt8] = []

    mutating func align(to size: Int) {
        bytes += [UInt8](repeating: 0, count: (size - bytes.count % size) % size)
    }

    private mutating func append<Number: FixedWidthInteger & UnsignedInteger>(number: Number) {
        align(to: Number.bitWidth / 8)
        for shift in stride(from: 0, to: Number.bitWidth, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: number >> Number(shift)))
        }
    }

    mutating func appendSignature(_ text: String) {
        bytes.append(UInt8(clamping: text.utf8.count))
        bytes += Array(text.utf8) + [0]
    }

    mutating func append(_ value: DBusMessage.Value) {
        switch value {
        case .byte(let number): bytes.append(number)
        case .uint16(let number): append(number: number)
        case .int32(let number): append(number: UInt32(bitPattern: number))
        case .uint32(let number): append(number: number)
        case .string(let text), .path(let text):
            append(number: UInt32(clamping: text.utf8.count))
            bytes += Array(text.utf8) + [0]
        case .bytes(let list):
            append(number: UInt32(clamping: list.count))
            bytes += list
        case .lists(let lists):
            align(to: 4)
            let place = bytes.count
            bytes += [0, 0, 0, 0]
            for list in lists { append(.bytes(list)) }
            var length = DBusWriter()
            length.append(number: UInt32(clamping: bytes.count - place - 4))
            bytes.replaceSubrange(place..<place + 4, with: length.bytes)
        }
    }
}

/// Takes values apart again; every length is checked against what is there.
private struct DBusReader {
    private let bytes: [UInt8]
    private let isBigEndian: Bool
    var position = 0

    init(_ bytes: [UInt8]) throws(KithError) {
        switch bytes.first {
        case UInt8(ascii: "l"): isBigEndian = false
        case UInt8(ascii: "B"): isBigEndian = true
        default: throw Self.malformed("its byte order is none")
        }
        self.bytes = bytes
    }

    static func malformed(_ why: String) -> KithError {
        KithError(.invalid, "The message bus sent what is not a message: \(why).")
    }

    mutating func take(_ count: Int) throws(KithError) -> ArraySlice<UInt8> {
        guard count >= 0, count <= bytes.count - position else { throw Self.malformed("it ends too early") }
        defer { position += count }
        return bytes[position..<position + count]
    }

    mutating func align(to size: Int) throws(KithError) { _ = try take((size - position % size) % size) }

    mutating func byte() throws(KithError) -> UInt8 {
        let one = try take(1)
        return one[one.startIndex]
    }

    private mutating func number(_ size: Int) throws(KithError) -> UInt32 {
        try align(to: size)
        let taken = try take(size)
        return (isBigEndian ? Array(taken) : taken.reversed()).reduce(0) { $0 << 8 | UInt32($1) }
    }

    mutating func uint32(at place: Int) throws(KithError) -> UInt32 {
        position = place
        return try number(4)
    }

    private mutating func text(_ count: Int) throws(KithError) -> String {
        guard let text = String(validating: try take(count), as: UTF8.self), try byte() == 0 else {
            throw Self.malformed("a text is none")
        }
        return text
    }

    mutating func signature() throws(KithError) -> String { try text(Int(try byte())) }

    mutating func value(_ type: String) throws(KithError) -> DBusMessage.Value? { try values(type).first }

    /// Reads values of these types; none when one of the types is not known here.
    mutating func values(_ types: String) throws(KithError) -> [DBusMessage.Value] {
        var found: [DBusMessage.Value] = []
        var rest = types[...]
        while !rest.isEmpty {
            if rest.hasPrefix("aay") {
                rest = rest.dropFirst(3)
                let end = Int(try number(4)).addingReportingOverflow(position).partialValue
                var lists: [[UInt8]] = []
                while position < end { lists.append(Array(try take(Int(try number(4))))) }
                guard position == end else { throw Self.malformed("a list has another length") }
                found.append(.lists(lists))
                continue
            }
            if rest.hasPrefix("ay") {
                rest = rest.dropFirst(2)
                found.append(.bytes(Array(try take(Int(try number(4))))))
                continue
            }
            switch rest.removeFirst() {
            case "y": found.append(.byte(try byte()))
            case "q": found.append(.uint16(UInt16(truncatingIfNeeded: try number(2))))
            case "i": found.append(.int32(Int32(bitPattern: try number(4))))
            case "u": found.append(.uint32(try number(4)))
            case "s": found.append(.string(try text(Int(try number(4)))))
            case "o": found.append(.path(try text(Int(try number(4)))))
            default: return []
            }
        }
        return found
    }
}
