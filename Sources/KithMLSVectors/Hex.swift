import KithWire

/// Bytes that stand in JSON as hexadecimal text.
struct Hex: Codable, Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let bytes = KithWire.Hex.decode(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not hexadecimal")
        }
        self.bytes = bytes
    }

    func encode(to encoder: any Encoder) throws { try text.encode(to: encoder) }

    /// The digits, in lower case.
    var text: String { KithWire.Hex.encode(bytes) }
}

extension KeyedEncodingContainer {
    /// Writes what is missing as null: the format wants every name to be there.
    mutating func encodeIfPresent(_ value: Hex?, forKey key: Key) throws {
        if let value { try encode(value, forKey: key) } else { try encodeNil(forKey: key) }
    }
}
