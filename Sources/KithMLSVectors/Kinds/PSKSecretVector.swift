import KithMLS

struct PSKSecretVector: Vector {
    struct PSK: Codable, Sendable {
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

extension PSKSecretVector {
    /// `index` keys.
    static func make(_ suite: any CipherSuite, _ index: Int, _ draw: inout Draw) throws -> PSKSecretVector {
        let psks = (0..<index).map { _ in
            PSK(
                pskId: draw.hex(draw.number(1...32)), psk: draw.hex(draw.number(1...64)),
                pskNonce: draw.hex(suite.secretLength))
        }
        var keys = PreSharedKeys()
        for psk in psks { keys.add(external: psk.pskId.bytes, Secret(copying: psk.psk.bytes)) }
        let ids = psks.map { PreSharedKeyID(key: .external(id: $0.pskId.bytes), nonce: $0.pskNonce.bytes) }
        return PSKSecretVector(
            cipherSuite: suite.id.rawValue, psks: psks,
            pskSecret: Hex(try suite.pskSecret(ids, from: keys).reveal()))
    }
}
