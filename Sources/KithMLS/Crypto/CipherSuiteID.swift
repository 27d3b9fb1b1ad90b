/// The number of a cipher suite in the registry of RFC 9420 §17.1.
public struct CipherSuiteID: CodePoint, Sendable {
    /// The registered number.
    public let rawValue: UInt16

    /// Takes any number, known or not.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Suite 1: X25519, AES-128-GCM, SHA-256, Ed25519; mandatory to implement.
    public static let MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519 = CipherSuiteID(rawValue: 1)
    /// Suite 2: P-256, AES-128-GCM, SHA-256, ECDSA.
    public static let MLS_128_DHKEMP256_AES128GCM_SHA256_P256 = CipherSuiteID(rawValue: 2)
    /// Suite 3: X25519, ChaCha20-Poly1305, SHA-256, Ed25519.
    public static let MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519 = CipherSuiteID(rawValue: 3)
    /// Suite 5: P-521, AES-256-GCM, SHA-512, ECDSA.
    public static let MLS_256_DHKEMP521_AES256GCM_SHA512_P521 = CipherSuiteID(rawValue: 5)
    /// Suite 7: P-384, AES-256-GCM, SHA-384, ECDSA.
    public static let MLS_256_DHKEMP384_AES256GCM_SHA384_P384 = CipherSuiteID(rawValue: 7)
}
