public import KithWire

/// One message about a clipboard, either way: what is there is offered, and travels only when it is asked for.
///
///     offer(change, formats) ──▶
///                  ◀── request(change, format)
///     content(change, format, bytes, isLast)… or refused(change) ──▶
@nonexhaustive
public enum ScreenClipboard: Hashable, Sendable {
    /// The clipboard has changed, and has these formats now.
    case offer(change: UInt64, selection: Selection, formats: [Format])
    /// The content in this format is wanted.
    case request(change: UInt64, format: Format)
    /// A part of the content, in order; at most 10 MB in all.
    case content(change: UInt64, format: Format, bytes: ByteString, isLast: Bool)
    /// The content does not come: it is too large, or not there any more. Nothing of it has.
    case refused(change: UInt64, message: String)

    /// The most bytes of one content: 10 MB.
    public static let contentLimit = 10_000_000
    /// The most bytes of one part.
    public static let partLimit = 64 << 10

    /// The clipboards of X11.
    @frozen
    public enum Selection: String, Codable, Hashable, Sendable, CaseIterable {
        /// What was copied.
        case clipboard
        /// What is selected.
        case primary
    }

    /// The formats that are exchanged.
    @frozen
    public enum Format: String, Codable, Hashable, Sendable, CaseIterable {
        /// UTF-8.
        case text
        /// HTML in UTF-8.
        case html
        /// An image.
        case png
    }
}

extension ScreenClipboard: StreamMessage {
    /// A part and its description.
    public static var sizeLimit: Int { partLimit + 256 }

    private struct Form: Codable {
        struct Offer: Codable {
            var change: UInt64
            var selection: Selection
            var formats: [Format]
        }
        struct Request: Codable {
            var change: UInt64
            var format: Format
        }
        struct Content: Codable {
            var change: UInt64
            var format: Format
            var bytes: ByteString
            var isLast: Bool
        }
        struct Refusal: Codable {
            var change: UInt64
            var message: String
        }
        var offer: Offer?
        var request: Request?
        var content: Content?
        var refused: Refusal?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none, or a part is too long.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        if let value = form.offer {
            guard value.formats.count <= Format.allCases.count else {
                throw KithError(.invalid, "A clipboard has each format once.")
            }
            self = .offer(change: value.change, selection: value.selection, formats: value.formats)
        } else if let value = form.request {
            self = .request(change: value.change, format: value.format)
        } else if let value = form.content {
            guard value.bytes.bytes.count <= Self.partLimit else {
                throw KithError(.invalid, "A part of a clipboard has at most \(Self.partLimit) bytes.")
            }
            self = .content(
                change: value.change, format: value.format, bytes: value.bytes, isLast: value.isLast)
        } else if let value = form.refused {
            self = .refused(change: value.change, message: String(value.message.prefix(256)))
        } else {
            throw KithError(.invalid, "A message about a clipboard has one member, named for what it carries.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .offer(let change, let selection, let formats):
            form.offer = Form.Offer(change: change, selection: selection, formats: formats)
        case .request(let change, let format): form.request = Form.Request(change: change, format: format)
        case .content(let change, let format, let bytes, let isLast):
            form.content = Form.Content(change: change, format: format, bytes: bytes, isLast: isLast)
        case .refused(let change, let message): form.refused = Form.Refusal(change: change, message: message)
        }
        try form.encode(to: encoder)
    }
}
