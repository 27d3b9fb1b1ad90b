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
        // One form after the other: a value of another form is not an error.
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
    public func value() throws -> JSONValue { try JSONValue(parsed) }
}

extension JSONValue {
    /// Takes a value over, numbers by what they come to.
    fileprivate init(_ value: ParsedJSON) throws {
        switch value {
        case .null: self = .null
        case .bool(let flag): self = .boolean(flag)
        case .string(let text): self = .string(text)
        case .array(let elements): self = .array(try elements.map { try JSONValue($0) })
        case .object(let members): self = .object(try members.mapValues { try JSONValue($0) })
        case .number(let literal):
            if let integer = Int64(literal) {
                self = .integer(integer)
                return
            }
            guard let number = Double(literal), number.isFinite else {
                throw KithError(.invalid, "No number is as large as \(literal.prefix(32)).")
            }
            self = .number(number)
        }
    }
}
