import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@Suite("The relay handshake") struct RelayHandshakeTests {
    private let key: DeviceKey
    private var random = SeededRandom(seed: 1)

    init() throws { key = try DeviceKey(seed: [UInt8](repeating: 42, count: 32)) }

    /// The vector of iroh's protocol.
    @Test func `what is signed for a challenge is what iroh signs`() {
        #expect(
            Hex.encode(RelayHandshake.signedBytes(for: Array(0..<16)))
                == "b7b16e505d2cb5dbaf494800092c3b05a6c45d8d3fd4f1b888c6a77240b876c0")
    }

    @Test mutating func `a device proves its key`() throws {
        let server = RelayHandshake.Server(using: &random)
        var client = RelayHandshake.Client(key: key)
        guard case .send(let proof) = try client.received(server.opening) else {
            Issue.record("no proof was sent")
            return
        }
        #expect(try server.received(proof) == key.id)
        #expect(try client.received(.confirmed) == .begin)
    }

    @Test mutating func `a proof for another challenge, or of another key, is refused`() throws {
        let (first, second) = (RelayHandshake.Server(using: &random), RelayHandshake.Server(using: &random))
        var client = RelayHandshake.Client(key: key)
        guard case .send(.proof(let id, let signature)) = try client.received(first.opening) else {
            Issue.record("no proof was sent")
            return
        }
        #expect(throws: RelayHandshake.Failure.signature) {
            try second.received(.proof(id, signature: signature))
        }
        #expect(throws: RelayHandshake.Failure.signature) {
            try first.received(.proof(DeviceKey().id, signature: signature))
        }
        #expect(throws: RelayHandshake.Failure.unexpected) { try first.received(.confirmed) }
    }

    @Test mutating func `a relay that skips the challenge, or challenges twice, is refused`() throws {
        var client = RelayHandshake.Client(key: key)
        #expect(throws: RelayHandshake.Failure.unexpected) { try client.received(.confirmed) }
        _ = try client.received(.challenge(Array(0..<16)))
        #expect(throws: RelayHandshake.Failure.unexpected) { try client.received(.challenge(Array(0..<16))) }
        #expect(try client.received(.denied("no token")) == .refused("no token"))
        #expect(throws: RelayHandshake.Failure.unexpected) { try client.received(.confirmed) }
    }
}
