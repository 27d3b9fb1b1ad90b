import KithWire

/// Any JSON value, for text whose type is not known, and for schemas.
@frozen
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case boolean(Bool)
    /// A whole number.
    case integer(Int64)
    /// Any other number.
    case number(Double)
    /// Text.
    case string(String)
    /// Values in order.
    case array([JSONValue])
    /// Values by name.
    case object([String: JSONValue])
}

extension JSONValue: Codable {
    /// Reads whatever stands there.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
            return
        }
        // One form after the other: that a value is of another one is not an error.
        if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode(ByteString.self) {
            // Of CBOR: JSON has text for it.
            self = .string(Base64.encode(value.bytes))
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    /// Writes the value.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .boolean(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let values): try container.encode(values)
        case .object(let members): try container.encode(members)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }

    /// A whole number.
    public init(integerLiteral value: Int64) { self = .integer(value) }

    /// `true` or `false`.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }

    /// Values in order.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// Values by name; of two of one name the last.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(Dictionary(elements) { $1 }) }
}

extension JSONText {
    /// The value, parsed.
    ///
    /// - Throws: `KithError` `.invalid` for a number beyond all bounds.
    public func value() throws -> JSONValue { try Self.value(of: bytes, in: 0..<bytes.count) }

    /// Converts what the scanner has accepted, which cannot fail here; `null` stands for the impossible.
    private static func value(of bytes: [UInt8], in range: Range<Int>) throws -> JSONValue {
        var scanner = JSONScanner(bytes, in: range)
        switch scanner.peek() {
        case UInt8(ascii: "{"):
            let members = (try? scanner.members()) ?? []  // see above
            return .object(Dictionary(try members.map { ($0.name, try value(of: bytes, in: $0.value)) }) { $1 })
        case UInt8(ascii: "["):
            let elements = (try? scanner.elements()) ?? []  // see above
            return .array(try elements.map { try value(of: bytes, in: $0) })
        case UInt8(ascii: "\""):
            let text = (try? scanner.value()) ?? range  // see above
            return .string(JSONScanner.unescaped(bytes[text]))
        case UInt8(ascii: "t"): return .boolean(true)
        case UInt8(ascii: "f"): return .boolean(false)
        case UInt8(ascii: "n"), nil: return .null
        default:
            let text = String(decoding: bytes[(try? scanner.value()) ?? range], as: UTF8.self)  // see above
            if let integer = Int64(text) { return .integer(integer) }
            guard let number = Double(text), number.isFinite else {
                throw KithError(.invalid, "No number is as large as \(text.prefix(32)).")
            }
            return .number(number)
        }
    }
}
