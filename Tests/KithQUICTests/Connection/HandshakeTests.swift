import KithQUIC
import KithWire
import Testing

@Suite struct HandshakeTests {
    @Test func `two devices that trust each other connect`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        #expect(pair.client.negotiatedALPN == "kith/1")
        #expect(pair.client.peerCredential == .rawPublicKey(try TestIdentity(2).publicKey))
        #expect(pair.server?.peerCredential == .rawPublicKey(try TestIdentity(1).publicKey))
        #expect(pair.serverEvents.contains(.connected))
        let mine = pair.client.exportKeyingMaterial(label: "test", context: [1], count: 32)
        #expect(mine != nil)
        let theirs = pair.server?.exportKeyingMaterial(label: "test", context: [1], count: 32)
        #expect(mine == theirs)
    }

    @Test func `a byte stream crosses both ways`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let id = try pair.clientOpen(.bidirectional)
        let sent = try Array("hello".utf8).withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(sent == 5)
        try pair.client.finish(id)
        #expect(pair.run { $0.serverEvents.contains(.readable(id)) })
        #expect(pair.serverEvents.contains(.streamOpened(id)))
        let got = try pair.serverRead(id)
        #expect(got.bytes == Array("hello".utf8))
        #expect(got.isFinished)
        _ = try Array("world!".utf8).withUnsafeBytes { try pair.server?.write($0, to: id) }
        try pair.server?.finish(id)
        #expect(pair.run { $0.clientEvents.contains(.readable(id)) })
        #expect(try pair.clientRead(id).bytes == Array("world!".utf8))
        #expect(
            pair.run { $0.clientEvents.contains(.streamFinished(id)) && $0.serverEvents.contains(.streamFinished(id)) })
    }

    @Test func `an unpaired key is refused with access_denied`() throws {
        let alice = try TestIdentity(1)
        let bob = try TestIdentity(2)
        let eve = try TestIdentity(3)
        let pair = try Pair(eve.configuration(trusting: bob), bob.configuration(trusting: alice))
        #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(let code, _, _, let isRemote) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
        #expect(code == 0x131)
        #expect(isRemote)
        #expect(!pair.serverEvents.contains(.connected))
    }

    @Test func `a server with another key is refused`() throws {
        let alice = try TestIdentity(1)
        let bob = try TestIdentity(2)
        let eve = try TestIdentity(3)
        let pair = try Pair(alice.configuration(trusting: bob), eve.configuration(trusting: alice))
        #expect(pair.run { Pair.closeReason($0.serverEvents) != nil })
        #expect(!pair.clientEvents.contains(.connected))
        #expect(!pair.serverEvents.contains(.connected))
        guard case .transport(0x131, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }
}
