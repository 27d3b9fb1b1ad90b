/// The kinds of content that a clipboard has (rfbproto, Extended Clipboard).
package struct RFBClipboardFormats: OptionSet, Hashable, Sendable {
    package var rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let text = RFBClipboardFormats(rawValue: 1)
    package static let rtf = RFBClipboardFormats(rawValue: 2)
    package static let html = RFBClipboardFormats(rawValue: 4)
    /// Those that are read and written here.
    package static let known: RFBClipboardFormats = [.text, .rtf, .html]
}

/// The contents of a clipboard, in each of the formats it has.
package struct RFBClipboard: Hashable, Sendable {
    /// Lines end with a line feed.
    package var text: String?
    /// Rich Text Format, as it is.
    package var rtf: [UInt8]?
    /// A fragment of HTML, as the other end's system writes it.
    package var html: String?

    package init(text: String? = nil, rtf: [UInt8]? = nil, html: String? = nil) {
        self.text = text
        self.rtf = rtf
        self.html = html
    }

    /// The formats it has.
    package var formats: RFBClipboardFormats {
        var formats: RFBClipboardFormats = []
        if text != nil { formats.insert(.text) }
        if rtf != nil { formats.insert(.rtf) }
        if html != nil { formats.insert(.html) }
        return formats
    }

    /// The bytes of all formats together.
    package var byteCount: Int { (text?.utf8.count ?? 0) + (rtf?.count ?? 0) + (html?.utf8.count ?? 0) }

    /// The bytes of one format as they are sent: text ends with a zero, its lines with two characters.
    func bytes(_ format: RFBClipboardFormats) -> [UInt8]? {
        switch format {
        case .text:
            guard let text else { return nil }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(text.utf8.count + 1)
            var last: UInt8 = 0
            for byte in text.utf8 {
                if byte == 10, last != 13 { bytes.append(13) }
                bytes.append(byte)
                last = byte
            }
            return bytes + [0]
        case .rtf: return rtf
        case .html: return html.map { Array($0.utf8) }
        default: return nil
        }
    }

    mutating func set(_ format: RFBClipboardFormats, _ bytes: [UInt8]) {
        switch format {
        case .text: text = Self.lines(bytes.last == 0 ? bytes.dropLast() : bytes[...])
        case .rtf: rtf = bytes
        case .html: html = String(decoding: bytes.last == 0 ? bytes.dropLast() : bytes[...], as: UTF8.self)
        default: break
        }
    }

    private static func lines(_ bytes: ArraySlice<UInt8>) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        for byte in bytes {
            if byte == 10, result.last == 13 { result.removeLast() }
            result.append(byte)
        }
        return String(decoding: result, as: UTF8.self)
    }
}

/// Something that happened to the other end's clipboard, or to ours by it.
package enum RFBClipboardEvent: Hashable, Sendable {
    /// The other end has something new in these formats; it is sent when it is asked for.
    case offered(RFBClipboardFormats)
    /// Contents arrived.
    case received(RFBClipboard)
    /// Contents above the limit arrived, and were dropped whole.
    case refused(bytes: Int)
}

/// ISO 8859-1, as the protocol's first messages use it.
enum Latin1 {
    /// The bytes of a text; a character that has none becomes a question mark.
    static func bytes(_ text: String) -> [UInt8] {
        text.unicodeScalars.compactMap { $0 == "\r" ? nil : $0.value < 256 ? UInt8($0.value) : UInt8(ascii: "?") }
    }

    static func text(_ bytes: [UInt8]) -> String {
        var text = String.UnicodeScalarView()
        for byte in bytes { text.append(Unicode.Scalar(byte)) }
        return String(text)
    }
}
