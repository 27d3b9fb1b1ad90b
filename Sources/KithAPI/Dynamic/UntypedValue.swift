package import KithRPC
import KithWire

/// A value of a type unknown here, on its way between JSON and CBOR.
///
/// Numbers are not rounded: each keeps its literal. A byte string of CBOR becomes base64 text, which a decoder that
/// expects bytes accepts, too.
package struct UntypedValue: StreamMessage, Hashable {
    /// The value.
    package var value: ParsedJSON

    /// Wraps a value.
    package init(_ value: ParsedJSON) { self.value = value }

    /// Reads JSON.
    package init(_ text: JSONText) { value = text.parsed }

    /// The value as JSON, members in the order of their names.
    package var json: JSONText {
        var bytes: [UInt8] = []
        Self.append(value, to: &bytes)
        return JSONText(scanned: bytes)
    }

    private static func append(_ value: ParsedJSON, to bytes: inout [UInt8]) {
        func list<Element>(_ elements: [Element], _ ends: String, _ append: (Element, inout [UInt8]) -> Void) {
            bytes += ends.utf8.prefix(1)
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                append(element, &bytes)
            }
            bytes += ends.utf8.suffix(1)
        }
        switch value {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .number(let literal): bytes += literal.utf8
        case .string(let text): bytes += JSONText.quoted(text)
        case .array(let elements): list(elements, "[]") { Self.append($0, to: &$1) }
        case .object(let members):
            list(members.sorted { $0.key < $1.key }, "{}") {
                $1 += JSONText.quoted($0.key)
                $1.append(UInt8(ascii: ":"))
                Self.append($0.value, to: &$1)
            }
        }
    }
}

extension UntypedValue: Codable {
    /// Reads a value of any form.
    ///
    /// - Throws: `KithError` `.invalid` for a number that JSON cannot express.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        // One form after the other: a value of another form is not an error.
        if container.decodeNil() {
            value = .null
        } else if let flag = try? container.decode(Bool.self) {
            value = .bool(flag)
        } else if let number = try? container.decode(Int64.self) {
            value = .number("\(number)")
        } else if let number = try? container.decode(UInt64.self) {
            value = .number("\(number)")
        } else if let number = try? container.decode(Double.self) {
            guard number.isFinite else { throw KithError(.invalid, "\(number) cannot be written as JSON.") }
            value = .number("\(number)")
        } else if let text = try? container.decode(String.self) {
            value = .string(text)
        } else if let bytes = try? container.decode(ByteString.self) {
            value = .string(Base64.encode(bytes.bytes))
        } else if let elements = try? container.decode([UntypedValue].self) {
            value = .array(elements.map(\.value))
        } else {
            value = .object(try container.decode([String: UntypedValue].self).mapValues(\.value))
        }
    }

    /// Writes the value.
    ///
    /// - Throws: `KithError` `.invalid` for a number that does not fit in 64 bits.
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch value {
        case .null: try container.encodeNil()
        case .bool(let flag): try container.encode(flag)
        case .string(let text): try container.encode(text)
        case .array(let elements): try container.encode(elements.map { UntypedValue($0) })
        case .object(let members): try container.encode(members.mapValues { UntypedValue($0) })
        case .number(let literal):
            if let number = Int64(literal) {
                try container.encode(number)
            } else if let number = UInt64(literal) {
                try container.encode(number)
            } else if let number = Double(literal), number.isFinite {
                // Programs for which all numbers are of one kind write whole ones in either way.
                if let whole = Int64(exactly: number), whole.magnitude < 1 << 53 {
                    try container.encode(whole)
                } else {
                    try container.encode(number)
                }
            } else {
                throw KithError(.invalid, "\(literal.prefix(32)) is too large for a number.")
            }
        }
    }
}
