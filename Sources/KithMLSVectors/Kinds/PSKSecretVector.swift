import KithMLS

struct PSKSecretVector: Vector {
    struct PSK: Decodable, Sendable {
        let pskId: Hex
        let psk: Hex
        let pskNonce: Hex
    }

    let cipherSuite: UInt16
    let psks: [PSK]
    let pskSecret: Hex
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        var keys = PreSharedKeys()
        for psk in psks { keys.add(external: psk.pskId.bytes, Secret(copying: psk.psk.bytes)) }
        let ids = psks.map { PreSharedKeyID(key: .external(id: $0.pskId.bytes), nonce: $0.pskNonce.bytes) }
        try check(try suite.pskSecret(ids, from: keys).reveal() == pskSecret.bytes, "psk_secret")
    }
}
