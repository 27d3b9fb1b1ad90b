import Crypto

/// The suites this engine has.
public enum CipherSuites {
    /// Suites 1, 2, 3, 5 and 7; 4 and 6 need X448 and Ed448, which swift-crypto lacks.
    public static let all: [any CipherSuite] = [
        StandardSuite<DHKEM<X25519>, AES128GCM, SHA256, Ed25519>(
            .MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519),
        StandardSuite<DHKEM<NISTGroup<P256>>, AES128GCM, SHA256, ECDSA<P256>>(
            .MLS_128_DHKEMP256_AES128GCM_SHA256_P256),
        StandardSuite<DHKEM<X25519>, ChaCha20Poly1305, SHA256, Ed25519>(
            .MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519),
        StandardSuite<DHKEM<NISTGroup<P521>>, AES256GCM, SHA512, ECDSA<P521>>(
            .MLS_256_DHKEMP521_AES256GCM_SHA512_P521),
        StandardSuite<DHKEM<NISTGroup<P384>>, AES256GCM, SHA384, ECDSA<P384>>(
            .MLS_256_DHKEMP384_AES256GCM_SHA384_P384),
    ]

    /// The suite with a number, when the engine has it, the experimental ones included.
    public static subscript(id id: CipherSuiteID) -> (any CipherSuite)? {
        all.first { $0.id == id } ?? experimental.first { $0.id == id }
    }
}
