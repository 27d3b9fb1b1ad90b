import KithMLS

struct SecretTreeVector: Vector {
    struct SenderData: Codable, Sendable {
        let senderDataSecret: Hex
        let ciphertext: Hex
        let key: Hex
        let nonce: Hex
    }
    struct Keys: Codable, Sendable {
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

extension SecretTreeVector {
    static func make(_ suite: any CipherSuite, _ index: Int, _ draw: inout Draw) throws -> SecretTreeVector {
        let senderDataSecret = draw.hex(suite.secretLength)
        let ciphertext = draw.hex(draw.number(0...100))
        let outer = SenderDataKey(suite, Secret(copying: senderDataSecret.bytes), ciphertext: ciphertext.bytes)
        let encryptionSecret = draw.hex(suite.secretLength)
        let room: UInt32 = [1, 8, 32][index % 3]
        var tree = SecretTree(suite, encryptionSecret: Secret(copying: encryptionSecret.bytes), leaves: room)
        var leaves: [[Keys]] = []
        for leaf in 0..<room {
            leaves.append(
                try [0, draw.number(1...UInt32(30))].map { generation in
                    let handshake = try take(leaf, .handshake, generation, from: &tree)
                    let application = try take(leaf, .application, generation, from: &tree)
                    return Keys(
                        generation: generation, handshakeKey: Hex(handshake.key.reveal()),
                        handshakeNonce: Hex(handshake.nonce), applicationKey: Hex(application.key.reveal()),
                        applicationNonce: Hex(application.nonce))
                })
        }
        return SecretTreeVector(
            cipherSuite: suite.id.rawValue,
            senderData: SenderData(
                senderDataSecret: senderDataSecret, ciphertext: ciphertext, key: Hex(outer.key.reveal()),
                nonce: Hex(outer.nonce)),
            encryptionSecret: encryptionSecret, leaves: leaves)
    }

    private static func take(
        _ leaf: UInt32, _ kind: RatchetKind, _ generation: UInt32, from tree: inout SecretTree
    ) throws -> MessageKey {
        let step = try tree.key(leaf: leaf, kind, generation: generation, limits: RatchetLimits())
        tree.apply(step)
        return step.key
    }
}
