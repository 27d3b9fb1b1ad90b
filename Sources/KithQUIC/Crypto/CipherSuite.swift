internal import CQUICCrypto

/// An AEAD and hash that protect packets (RFC 8446 §B.4, RFC 9001 §5.3).
package enum CipherSuite: Hashable, Sendable, CaseIterable {
    /// TLS_AES_128_GCM_SHA256, the suite of Initial packets.
    case aes128GCM

    /// TLS_AES_256_GCM_SHA384.
    case aes256GCM

    /// TLS_CHACHA20_POLY1305_SHA256.
    case chacha20Poly1305

    /// Its name in the TLS Cipher Suites registry.
    package var name: String {
        switch self {
        case .aes128GCM: "TLS_AES_128_GCM_SHA256"
        case .aes256GCM: "TLS_AES_256_GCM_SHA384"
        case .chacha20Poly1305: "TLS_CHACHA20_POLY1305_SHA256"
        }
    }

    /// The bytes the AEAD adds to a packet, in every suite.
    package static let tagLength = 16

    /// The length of the AEAD's key, and of the header protection key.
    package var keyLength: Int {
        switch self {
        case .aes128GCM: 16
        case .aes256GCM, .chacha20Poly1305: 32
        }
    }

    /// The length of the hash, which is the length of a secret.
    package var hashLength: Int {
        switch self {
        case .aes128GCM, .chacha20Poly1305: 32
        case .aes256GCM: 48
        }
    }

    /// The most packets one key may protect; update it before (RFC 9001 §6.6).
    package var confidentialityLimit: UInt64 {
        switch self {
        case .aes128GCM, .aes256GCM: 1 << 23
        // Above the number of packets a connection can send.
        case .chacha20Poly1305: 1 << 62
        }
    }

    /// The most packets that may fail authentication, over all keys of a connection, before it must close.
    package var integrityLimit: UInt64 {
        switch self {
        case .aes128GCM, .aes256GCM: 1 << 52
        case .chacha20Poly1305: 1 << 36
        }
    }

    /// The number `CQUICCrypto` knows the suite by.
    var code: Int32 {
        switch self {
        case .aes128GCM: KITH_SUITE_AES_128_GCM
        case .aes256GCM: KITH_SUITE_AES_256_GCM
        case .chacha20Poly1305: KITH_SUITE_CHACHA20_POLY1305
        }
    }

    /// The suite with a number of `CQUICCrypto`.
    init?(code: Int32) {
        switch code {
        case KITH_SUITE_AES_128_GCM: self = .aes128GCM
        case KITH_SUITE_AES_256_GCM: self = .aes256GCM
        case KITH_SUITE_CHACHA20_POLY1305: self = .chacha20Poly1305
        default: return nil
        }
    }
}
