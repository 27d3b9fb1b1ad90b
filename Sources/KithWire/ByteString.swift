/// Bytes in a message: a byte string in CBOR, base64 text in JSON.
public struct ByteString: Hashable, Sendable {
    /// The bytes.
    public var bytes: [UInt8]

    /// Wraps bytes.
    public init(_ bytes: [UInt8] = []) { self.bytes = bytes }
}

extension ByteString: ExpressibleByArrayLiteral {
    /// Wraps the bytes of an array literal.
    public init(arrayLiteral elements: UInt8...) { self.init(elements) }
}

extension ByteString: Codable {
    /// Reads base64 text.
    ///
    /// The CBOR decoder knows this type and reads a byte string instead.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let bytes = Base64.decode(text) else {
            throw KithError(.invalid, "Bytes are written as padded base64 (RFC 4648 §4).")
        }
        self.init(bytes)
    }

    /// Writes base64 text.
    ///
    /// The CBOR encoder knows this type and writes a byte string instead.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(Base64.encode(bytes))
    }
}
