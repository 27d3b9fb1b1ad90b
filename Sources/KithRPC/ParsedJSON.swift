/// Any JSON value as it was written: what goes on as another format, or becomes a ``JSONValue``.
package enum ParsedJSON: Hashable, Sendable {
    case null
    case bool(Bool)
    /// A number, by its literal, so that none is rounded.
    case number(String)
    case string(String)
    case array([ParsedJSON])
    case object([String: ParsedJSON])
}

extension JSONText {
    /// The value, parsed.
    package var parsed: ParsedJSON { Self.value(of: bytes, in: 0..<bytes.count) }

    /// Converts what the scanner has accepted, which cannot fail here; `null` stands for the impossible.
    private static func value(of bytes: [UInt8], in range: Range<Int>) -> ParsedJSON {
        var scanner = JSONScanner(bytes, in: range)
        switch scanner.peek() {
        case UInt8(ascii: "{"):
            let members = (try? scanner.members()) ?? []  // see above
            return .object(Dictionary(members.map { ($0.name, value(of: bytes, in: $0.value)) }) { $1 })
        case UInt8(ascii: "["):
            let elements = (try? scanner.elements()) ?? []  // see above
            return .array(elements.map { value(of: bytes, in: $0) })
        case UInt8(ascii: "\""):
            let text = (try? scanner.value()) ?? range  // see above
            return .string(JSONScanner.unescaped(bytes[text]))
        case UInt8(ascii: "t"): return .bool(true)
        case UInt8(ascii: "f"): return .bool(false)
        case UInt8(ascii: "n"), nil: return .null
        default:
            let text = (try? scanner.value()) ?? range  // see above
            return .number(String(decoding: bytes[text], as: UTF8.self))
        }
    }
}
