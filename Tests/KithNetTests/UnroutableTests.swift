import KithIdentity
import KithNet
import KithWire
import Logging
import NIOCore
import NIOPosix
import Testing

/// What an endpoint says to datagrams of no connection (RFC 9000 §5.2, §6, §10.3).
@Suite struct UnroutableTests {
    @Test func `an unknown version is answered with ours, when the datagram is large enough`() async throws {
        try await withEndpoint { endpoint in
            try await withRawSocket(to: endpoint) { raw in
                // Too small for an answer: what comes back is the answer to the second.
                try await raw.send(initial(version: 0x1A2A_3A4A, destination: 1, size: 1199))
                try await raw.send(initial(version: 0x1A2A_3A4A, destination: 2, size: 1200))
                let answer = try await raw.next()
                #expect(answer[0] & 0x80 != 0)
                #expect(answer[1..<5].allSatisfy { $0 == 0 })
                // Our source is its destination, our destination its source.
                #expect(answer[5] == 4 && Array(answer[6..<10]) == [9, 9, 9, 9])
                #expect(answer[10] == 8 && answer[11..<19].allSatisfy { $0 == 2 })
                let versions = stride(from: 19, to: answer.count, by: 4).map { Array(answer[$0..<$0 + 4]) }
                #expect(versions.contains([0, 0, 0, 1]))
            }
        }
    }

    @Test func `a packet of a connection long gone is answered with a shorter reset`() async throws {
        try await withEndpoint { endpoint in
            try await withRawSocket(to: endpoint) { raw in
                let packet = [0x40] + [UInt8](repeating: 7, count: 199)
                try await raw.send(packet)
                let answer = try await raw.next()
                #expect(answer[0] & 0xC0 == 0x40)
                #expect(answer.count < packet.count && answer.count >= 21)
                // The token belongs to the connection id: the same packet gets the same one.
                try await raw.send(packet)
                #expect(try await raw.next().suffix(16) == answer.suffix(16))
            }
        }
    }

    @Test func `noise does no harm`() async throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        try await withPair { pair in
            let server = pair.server
            try await withRawSocket(to: server) { raw in
                var random = SplitMix(seed: seed)
                for _ in 0..<2000 {
                    let size = Int.random(in: 0...1500, using: &random)
                    var noise = random.bytes(size)
                    // Half of it looks like version 1, which takes the longest way through.
                    if Bool.random(using: &random), size >= 7 {
                        noise.replaceSubrange(0..<6, with: [0xC3, 0, 0, 0, 1, 8])
                    }
                    try await raw.send(noise)
                }
            }
            let (near, far) = try await pair.stream()
            try await near.finish()
            #expect(try await far.readAll().isEmpty)
        }
    }

    @Test func `an endpoint nobody holds closes its connections`() async throws {
        try await withEndpoint { server in
            try await connectAndLetGo(to: server)
            let connection = try await next(server.established)
            #expect(await connection.closed().origin == .remote)
        }
    }

    private func connectAndLetGo(to server: Endpoint) async throws {
        var options = Endpoint.Options()
        options.bindAddresses = [Family.v4.loopback]
        let client = try await Endpoint.bind(key: DeviceKey(), options: options, logger: .init(label: "test"))
        _ = try await client.connect(to: server.id, at: server.localAddresses)
    }

    private func initial(version: UInt32, destination: UInt8, size: Int) -> [UInt8] {
        var packet: [UInt8] = [0xC0]
        packet += (0..<4).map { UInt8(truncatingIfNeeded: version >> (24 - 8 * $0)) }
        packet += [8] + [UInt8](repeating: destination, count: 8) + [4, 9, 9, 9, 9]
        return packet + [UInt8](repeating: 0, count: size - packet.count)
    }
}
