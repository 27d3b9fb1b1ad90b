import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The hybrid of ML-KEM-768 and X25519 (draft-connolly-cfrg-xwing-kem).
///
/// Experimental: the draft's derivation of keys, and the code points of suites with it, still differ between
/// implementations (Documentation/Deviations.md).
@available(macOS 26.0, iOS 26.0, *)
enum XWing: KEM {
    static var id: UInt16 { 0x647A }

    static func generate() -> XWingMLKEM768X25519.PrivateKey {
        do { return try .generate() } catch { preconditionFailure("a fresh key pair can always be made") }
    }

    /// The seed is `SHAKE256(ikm, 32)`.
    static func derive(_ secret: borrowing Secret) throws(MLSError) -> XWingMLKEM768X25519.PrivateKey {
        var input = secret.reveal()
        defer { clear(&input) }
        var seed = SHAKE256.hash(input, count: 32)
        defer { clear(&seed) }
        return try importKey(seed)
    }

    static func importKey(_ bytes: [UInt8]) throws(MLSError) -> XWingMLKEM768X25519.PrivateKey {
        do { return try .init(seedRepresentation: bytes, publicKey: nil) } catch { throw .invalidPrivateKey }
    }

    static func exportKey(_ key: XWingMLKEM768X25519.PrivateKey) -> Secret {
        var bytes = [UInt8](key.seedRepresentation)
        defer { clear(&bytes) }
        return Secret(copying: bytes)
    }

    static func publicKey(_ key: XWingMLKEM768X25519.PrivateKey) -> HPKEPublicKey {
        [UInt8](key.publicKey.rawRepresentation)
    }

    private static func parse(_ key: HPKEPublicKey) throws(MLSError) -> XWingMLKEM768X25519.PublicKey {
        do { return try .init(rawRepresentation: key) } catch { throw .invalidPublicKey }
    }

    /// Its end is the key of X25519.
    static func isValid(_ key: HPKEPublicKey) -> Bool {
        (try? parse(key)) != nil && X25519.isValid(Array(key.suffix(32)))  // the error adds nothing
    }

    static func encapsulate(to key: HPKEPublicKey) throws(MLSError) -> Encapsulation {
        let key = try parse(key)
        do {
            let result = try key.encapsulate()
            return Encapsulation(sharedSecret: Secret(result.sharedSecret), output: [UInt8](result.encapsulated))
        } catch { throw .encryptionFailed }
    }

    static func decapsulate(
        _ output: [UInt8], with key: XWingMLKEM768X25519.PrivateKey
    ) throws(MLSError) -> Secret {
        do { return Secret(try key.decapsulate(Data(output))) } catch { throw .invalidPublicKey }
    }
}

extension CipherSuites {
    /// Suites whose numbers are not registered yet; a client that wants one lists it in its capabilities itself.
    ///
    /// One so far: X-Wing, ChaCha20-Poly1305, SHA-256 and Ed25519 under 0x004D, as OpenMLS has it.
    public static let experimental: [any CipherSuite] = {
        guard #available(macOS 26.0, iOS 26.0, *) else { return [] }
        return [StandardSuite<XWing, ChaCha20Poly1305, SHA256, Ed25519>(.experimentalXWing)]
    }()
}

extension CipherSuiteID {
    /// X-Wing, ChaCha20-Poly1305, SHA-256 and Ed25519; see ``CipherSuites/experimental``.
    public static let experimentalXWing = CipherSuiteID(rawValue: 0x004D)
}
