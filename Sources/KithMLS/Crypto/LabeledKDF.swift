import Crypto

/// `LabeledExtract` and `LabeledExpand` of RFC 9180 §4 for one `suite_id`.
struct LabeledKDF<Hash: SuiteHash>: Sendable {
    let suite: [UInt8]

    func extract(salt: borrowing Secret, _ label: String, _ input: borrowing Secret) -> Secret {
        var bytes = Array("HPKE-v1".utf8)
        bytes.reserveCapacity(64 + input.count)
        bytes += suite
        bytes += label.utf8
        unsafe input.key.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        let labeled = Secret(copying: bytes)
        clear(&bytes)
        return KDF<Hash>.extract(salt: salt, labeled)
    }

    func expand(_ secret: borrowing Secret, _ label: String, _ info: [UInt8], _ count: Int) -> Secret {
        var bytes = bigEndian(UInt16(count))
        bytes.reserveCapacity(48 + info.count)
        bytes += "HPKE-v1".utf8
        bytes += suite
        bytes += label.utf8
        bytes += info
        return KDF<Hash>.expand(secret, info: bytes, count: count)
    }
}

extension Secret {
    /// The secret of no bytes.
    static var empty: Secret { Secret(copying: []) }
}

/// A number's two bytes, most significant first.
func bigEndian(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }
