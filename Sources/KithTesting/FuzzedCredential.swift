internal import KithGroups
internal import KithMLS
internal import KithMLSX509

/// The input from others to members of groups and their delivery service: chains of certificates, and records.
enum FuzzedCredential {
    /// The parts of an input, each behind its length in two bytes; the last may be cut off.
    private static func parts(_ bytes: ArraySlice<UInt8>) -> [[UInt8]] {
        var parts: [[UInt8]] = []
        var rest = bytes
        while rest.count >= 2, parts.count < 16 {
            let count = Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
            rest = rest.dropFirst(2)
            parts.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return parts
    }

    /// A chain of certificates: the first byte says whether its last is trusted; eight say what time it is; then come
    /// the signature key and the chain.
    static func credential(_ bytes: [UInt8]) {
        guard bytes.count > 9 else { return }
        let now = bytes[1...8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let parts = parts(bytes[9...])
        guard let key = parts.first else { return }
        let chain = Array(parts.dropFirst())
        let roots = bytes[0] & 1 == 0 ? [] : chain.suffix(1)
        // A refusal is an answer.
        guard let service = try? X509AuthenticationService(roots: Array(roots), now: { now }) else { return }
        let credential = Credential.x509(certificates: chain)
        let identity = try? service.identity(of: chain, signatureKey: key)
        precondition(
            service.isValid(credential, signatureKey: key, for: .add) == (identity != nil),
            "A chain with an identity is valid, and no other")
        precondition(identity == nil || !roots.isEmpty, "Nothing is believed without a root")
        let isSame = service.isSameParticipant(credential, credential)
        precondition(isSame || identity == nil, "Who is somebody is the same as itself")
        precondition(!service.isSameParticipant(credential, .basic(identity: key)), "A name is no certificate")
    }

    /// Records of a delivery service.
    static func delivery(_ bytes: [UInt8]) {
        let parts = parts(bytes[...])
        precondition(DeliveryInspection.take(parts) <= parts.count, "A record is taken once")
    }
}
