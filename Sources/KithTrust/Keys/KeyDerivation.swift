import Crypto
import KithWire

/// The derivation of keys from a P-256 private key: HKDF-SHA256 (RFC 5869) of its 32 bytes, with an info for each purpose.
///
/// The names are those of existing keys, which must come out the same.
enum KeyDerivation {
    static let salt = Array("RunarKeyDerivationSalt/v1".utf8)

    /// The purposes.
    enum Purpose {
        case rootAgreement
        case profile(KeyLabel)

        var info: String {
            switch self {
            case .rootAgreement: "runar-v1:user-root:agreement"
            case .profile(let label): "runar-v1:profile:agreement:\(label)"
            }
        }
    }

    /// The 32 bytes for `info`, which are the caller's to clear.
    static func bytes(from secret: SecretBytes, info: String) -> [UInt8] {
        let key = unsafe secret.withUnsafeBytes { unsafe SymmetricKey(data: $0) }
        return unsafe HKDF<SHA256>.deriveKey(
            inputKeyMaterial: key, salt: salt, info: Array(info.utf8), outputByteCount: 32
        ).withUnsafeBytes { unsafe Array($0) }
    }

    /// The P-256 key for `info`: the first of `info`, `info:1`, `info:2`, … whose bytes are a private key.
    ///
    /// `expand` gives 32 bytes for an info. One in 2³² is no private key, so that 16 in a row mean that it is broken.
    static func agreementKey(
        info: String, _ expand: (String) -> [UInt8]
    ) throws(KithError) -> AgreementKey {
        for attempt in 0..<16 {
            var scalar = expand(attempt == 0 ? info : "\(info):\(attempt)")
            defer { scalar.clear() }
            if let key = try? AgreementKey(scalar: scalar) { return key }
        }
        throw KithError(.internal, "No key could be derived.")
    }

    static func agreementKey(from secret: SecretBytes, for purpose: Purpose) throws(KithError) -> AgreementKey {
        try agreementKey(info: purpose.info) { bytes(from: secret, info: $0) }
    }
}
