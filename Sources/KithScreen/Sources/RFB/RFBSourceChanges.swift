import KithAPI
import KithIO
import KithRFB
import KithWire

/// The changes of a server's screen that nobody has taken yet.
struct RFBSourceChanges: Sendable {
    var damage = RFBRegion()
    var displays: [Screen.Display]?
    var cursor: CursorImage?
    var pointer: (x: Int32, y: Int32)?
    var clipboard: [ScreenClipboard.Format]?

    var isEmpty: Bool {
        damage.isEmpty && displays == nil && cursor == nil && pointer == nil && clipboard == nil
    }

    /// Takes all of them: the displays first.
    mutating func take() -> [ScreenChange] {
        defer { self = RFBSourceChanges() }
        var changes: [ScreenChange] = []
        if let displays { changes.append(.displays(displays)) }
        if let cursor { changes.append(.cursor(cursor)) }
        if let pointer { changes.append(.pointer(x: pointer.x, y: pointer.y)) }
        if let clipboard { changes.append(.clipboard(.clipboard, clipboard)) }
        if !damage.isEmpty { changes.append(.damage(damage.rectangles.map { Screen.Rectangle($0) })) }
        return changes
    }
}

/// The server's clipboard, as far as it is known here.
struct RFBSourceClipboard: Sendable {
    /// A content that was asked for.
    enum Answer {
        case content([UInt8])
        case coming(Promise<Result<[UInt8], KithError>>)
        case none
    }

    private var formats: RFBClipboardFormats = []
    private var contents = RFBClipboard()
    private var waiting: [(format: RFBClipboardFormats, promise: Promise<Result<[UInt8], KithError>>)] = []
    /// The last of our own offers.
    private(set) var lastOffer: UInt64 = 0

    /// Takes in what the server says; returns the formats when there is something new to paste.
    mutating func received(_ event: RFBClipboardEvent) -> [ScreenClipboard.Format]? {
        switch event {
        case .offered(let offered):
            fail(KithError(.conflict, "The clipboard there has changed."))
            contents = RFBClipboard()
            formats = offered
            return offered.forScreens
        case .received(let received):
            contents = received
            let isAnswer = !waiting.isEmpty
            formats.formUnion(received.formats)
            for (format, promise) in waiting { promise.fulfil(Self.result(contents.content(format))) }
            waiting = []
            return isAnswer ? nil : received.formats.forScreens
        case .refused:
            fail(KithError(.exhausted, "The clipboard there has more than 10 MB."))
            return nil
        }
    }

    /// The content in one format; what is only offered is asked for by `request`.
    mutating func content(_ format: RFBClipboardFormats, request: (RFBClipboardFormats) -> Void) -> Answer {
        if let bytes = contents.content(format) {
            return bytes.count <= ScreenClipboard.contentLimit ? .content(bytes) : .none
        }
        guard formats.contains(format), waiting.count < 8 else { return .none }
        let promise = Promise<Result<[UInt8], KithError>>()
        waiting.append((format, promise))
        request(format)
        return .coming(promise)
    }

    /// The number of a new offer of ours, which takes the place of the server's.
    mutating func beginOffer() -> UInt64 {
        formats = []
        contents = RFBClipboard()
        lastOffer += 1
        return lastOffer
    }

    /// Forgets who waited in vain.
    mutating func giveUp(_ promise: Promise<Result<[UInt8], KithError>>) {
        waiting.removeAll { $0.promise === promise }
    }

    mutating func end(with error: KithError) { fail(error) }

    private mutating func fail(_ error: KithError) {
        for (_, promise) in waiting { promise.fulfil(.failure(error)) }
        waiting = []
    }

    private static func result(_ bytes: [UInt8]?) -> Result<[UInt8], KithError> {
        guard let bytes, bytes.count <= ScreenClipboard.contentLimit else {
            return .failure(KithError(.notFound, "The clipboard has nothing in that format."))
        }
        return .success(bytes)
    }
}

extension RFBClipboard {
    /// The content in one format, in UTF-8.
    func content(_ format: RFBClipboardFormats) -> [UInt8]? {
        switch format {
        case .text: text.map { Array($0.utf8) }
        case .html: html.map { Array($0.utf8) }
        default: nil
        }
    }
}

extension RFBClipboardFormats {
    /// The protocol's form of a format; `nil` for images, which it does not have.
    init?(_ format: ScreenClipboard.Format) {
        switch format {
        case .text: self = .text
        case .html: self = .html
        case .png: return nil
        }
    }

    /// Those that a screen's clipboard has too.
    var forScreens: [ScreenClipboard.Format] {
        ScreenClipboard.Format.allCases.filter { format in RFBClipboardFormats(format).map { contains($0) } ?? false }
    }
}

extension Screen.Rectangle {
    init(_ rectangle: RFBRectangle) {
        self.init(
            x: Int32(clamping: rectangle.x), y: Int32(clamping: rectangle.y), width: UInt32(clamping: rectangle.width),
            height: UInt32(clamping: rectangle.height))
    }
}

extension CursorImage {
    /// A server's shape, premultiplied.
    init(_ cursor: RFBCursor) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cursor.pixels.count * 4)
        for pixel in cursor.pixels {
            let alpha = pixel >> 24
            for shift: UInt32 in [0, 8, 16] { bytes.append(UInt8(((pixel >> shift & 0xFF) * alpha + 127) / 255)) }
            bytes.append(UInt8(alpha))
        }
        self.init(width: cursor.width, height: cursor.height, hotX: cursor.hotX, hotY: cursor.hotY, pixels: bytes)
    }
}
