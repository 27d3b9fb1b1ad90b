import Crypto
import KithWire

/// The identity of a P-256 public key: the first 16 bytes of the SHA-256 of its 65 bytes.
///
/// Written as 26 letters and digits, base32 with the extended hex alphabet (RFC 4648 §7), lower case, without padding.
public struct KeyID: Hashable, Sendable {
    /// The 16 bytes.
    public let bytes: [UInt8]

    /// The identity of a public key, given in its uncompressed form (SEC 1 §2.3.3).
    public init(publicKey: [UInt8]) { bytes = Array(SHA256.hash(data: publicKey).prefix(16)) }

    /// Takes the 16 bytes.
    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Reads the text form; `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        guard let bytes = Base32Hex.decode(text), bytes.count == 16 else { return nil }
        self.bytes = bytes
    }
}

extension KeyID: Comparable {
    /// Orders by the bytes.
    public static func < (left: KeyID, right: KeyID) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}

extension KeyID: CustomStringConvertible {
    /// The text form.
    public var description: String { Base32Hex.encode(bytes) }
}

extension KeyID: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        guard let id = KeyID(try decoder.singleValueContainer().decode(String.self)) else {
            throw KithError(.invalid, "A key is named by 26 digits and letters from a to v.")
        }
        self = id
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
