import KithMLS

struct SecretTreeVector: Vector {
    struct SenderData: Decodable, Sendable {
        let senderDataSecret: Hex
        let ciphertext: Hex
        let key: Hex
        let nonce: Hex
    }
    struct Keys: Decodable, Sendable {
        let generation: UInt32
        let handshakeKey: Hex
        let handshakeNonce: Hex
        let applicationKey: Hex
        let applicationNonce: Hex
    }

    let cipherSuite: UInt16
    let senderData: SenderData
    let encryptionSecret: Hex
    let leaves: [[Keys]]
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        let outer = SenderDataKey(
            suite, Secret(copying: senderData.senderDataSecret.bytes), ciphertext: senderData.ciphertext.bytes)
        try check(outer.key.reveal() == senderData.key.bytes, "sender data key")
        try check(outer.nonce == senderData.nonce.bytes, "sender data nonce")
        var room: UInt32 = 1
        while room < leaves.count { room *= 2 }
        var tree = SecretTree(suite, encryptionSecret: Secret(copying: encryptionSecret.bytes), leaves: room)
        for (leaf, generations) in leaves.enumerated() {
            for keys in generations {
                for (kind, key, nonce) in [
                    (RatchetKind.handshake, keys.handshakeKey, keys.handshakeNonce),
                    (.application, keys.applicationKey, keys.applicationNonce),
                ] {
                    let step = try tree.key(
                        leaf: UInt32(leaf), kind, generation: keys.generation, limits: RatchetLimits())
                    tree.apply(step)
                    try check(step.key.key.reveal() == key.bytes, "\(kind) key \(keys.generation) of \(leaf)")
                    try check(step.key.nonce == nonce.bytes, "\(kind) nonce \(keys.generation) of \(leaf)")
                }
            }
        }
    }
}
