import KithIdentity
import KithReach
import KithWire
import Testing

@Suite("Relay frames") struct RelayFrameTests {
    private static func device(_ byte: UInt8) -> DeviceID {
        guard let key = try? DeviceKey(seed: [UInt8](repeating: byte, count: 32)) else { preconditionFailure() }
        return key.id
    }

    private static let relayFrames: [RelayFrame] = [
        .challenge(Array(0..<16)), .confirmed, .denied("no"), .denied(String(repeating: "é", count: 200)),
        .received(from: device(1), RelayedDatagrams([1, 2, 3], ecn: 2)),
        .received(from: device(1), RelayedDatagrams([1, 2, 3, 4, 5], segmentSize: 2, ecn: 3)), .gone(device(2)),
        .ping(Array(1...8)), .pong(Array(1...8)), .restarting(reconnectIn: 250, tryFor: 30_000),
    ]
    private static let clientFrames: [RelayFrame] = [
        .proof(device(3), signature: [UInt8](repeating: 9, count: 64)),
        .send(to: device(1), RelayedDatagrams([7])),
        .send(to: device(1), RelayedDatagrams([UInt8](repeating: 5, count: 3_000), segmentSize: 1_200)),
        .ping([UInt8](repeating: 0, count: 8)), .pong([UInt8](repeating: 255, count: 8)),
    ]

    @Test(arguments: RelayVersion.allCases) func `a frame that is written reads the same`(version: RelayVersion) throws
    {
        let own: RelayFrame = version == .v1 ? .health("slow") : .status(.elsewhere)
        for frame in Self.relayFrames + [own] {
            #expect(try RelayFrame(frame.bytes, version: version, from: .relay) == frame)
        }
        for frame in Self.clientFrames {
            #expect(try RelayFrame(frame.bytes, version: version, from: .client) == frame)
        }
    }

    @Test func `each frame has the bytes the protocol says`() {
        #expect(RelayFrame.challenge(Array(0..<16)).bytes == [0] + Array(0..<16))
        #expect(RelayFrame.denied("no").bytes == [3, 2] + Array("no".utf8))
        #expect(RelayFrame.denied(String(repeating: "x", count: 300)).bytes.prefix(3) == [3, 0xAC, 0x02])
        let peer = Self.device(1)
        #expect(RelayFrame.send(to: peer, RelayedDatagrams([8, 9], ecn: 3)).bytes == [4] + peer.bytes + [3, 8, 9])
        #expect(
            RelayFrame.received(from: peer, RelayedDatagrams([8, 9], segmentSize: 0x0102)).bytes
                == [7] + peer.bytes + [0, 1, 2, 8, 9])
        #expect(RelayFrame.restarting(reconnectIn: 1, tryFor: 0x0203).bytes == [12, 0, 0, 0, 1, 0, 0, 2, 3])
        #expect(RelayFrame.status(.rateLimited).bytes == [13, 2])
        #expect(RelayFrame.health("").bytes == [11])
    }

    @Test func `a frame of the other end, or of the other version, is refused`() {
        for frame in Self.clientFrames where frame.type < 9 {
            #expect(throws: RelayFrameError.type(UInt64(frame.type))) {
                try RelayFrame(frame.bytes, version: .v2, from: .relay)
            }
        }
        for frame in Self.relayFrames where frame.type < 9 || frame.type > 10 {
            #expect(throws: RelayFrameError.type(UInt64(frame.type))) {
                try RelayFrame(frame.bytes, version: .v2, from: .client)
            }
        }
        #expect(throws: RelayFrameError.type(11)) { try RelayFrame([11, 65], version: .v2, from: .relay) }
        #expect(throws: RelayFrameError.type(13)) { try RelayFrame([13, 0], version: .v1, from: .relay) }
        #expect(throws: RelayFrameError.type(14)) { try RelayFrame([14], version: .v2, from: .relay) }
    }

    @Test func `an unknown status is tolerated`() throws {
        #expect(try RelayFrame([13, 77], version: .v2, from: .relay) == .status(.other(77)))
    }

    @Test func `what is too short, too long or empty is refused`() {
        let key = Self.device(1).bytes
        #expect(throws: RelayFrameError.empty) { try RelayFrame([4] + key + [0], version: .v2, from: .client) }
        #expect(throws: RelayFrameError.empty) {
            try RelayFrame([5] + key + [0, 0, 0, 1], version: .v2, from: .client)
        }
        #expect(throws: RelayFrameError.ecn(4)) { try RelayFrame([4] + key + [4, 1], version: .v2, from: .client) }
        #expect(throws: RelayFrameError.proof) {
            try RelayFrame([1] + key + [0x41] + [UInt8](repeating: 0, count: 64), version: .v2, from: .client)
        }
        #expect(throws: RelayFrameError.text) { try RelayFrame([3, 1, 0xFF], version: .v2, from: .relay) }
        #expect(throws: RelayFrameError.wire(.trailing(1))) {
            try RelayFrame([2, 0], version: .v2, from: .relay)
        }
        #expect(throws: RelayFrameError.tooLong(65_538)) {
            try RelayFrame([4] + key + [UInt8](repeating: 0, count: 65_505), version: .v2, from: .client)
        }
        for frame in Self.relayFrames {
            for length in 0..<frame.bytes.count where frame.type != 6 && frame.type != 7 {
                #expect(throws: RelayFrameError.self) {
                    try RelayFrame(Array(frame.bytes[..<length]), version: .v2, from: .relay)
                }
            }
        }
    }

    @Test func `the highest version that both know is chosen`() {
        #expect(RelayVersion.offer == "iroh-relay-v2, iroh-relay-v1")
        #expect(RelayVersion.best(of: RelayVersion.offer) == .v2)
        #expect(RelayVersion.best(of: "iroh-relay-v9,iroh-relay-v1") == .v1)
        #expect(RelayVersion.best(of: "chat") == nil)
    }
}
