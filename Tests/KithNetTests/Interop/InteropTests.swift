import KithIdentity
import KithNet
import KithTesting
import KithWire
import Testing

/// Conversations with implementations that are not ours; the words of the exchange are in `Tests/Interop/exchange.py`.
@Suite(.serialized) struct InteropTests {
    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")))
    func `aioquic as server exchanges ten megabytes both ways`() async throws {
        try await PythonPeer.run("aioquic_peer.py", ["serve", "kith/1"]) { peer in
            struct Listening: Decodable { var port: UInt16 }
            let port = try await peer.next(Listening.self).port
            try await withEndpoint(.v4, foreignOptions) { endpoint in
                let connection = try await endpoint.connectForeign(
                    at: [NetworkAddress(ipv4: (127, 0, 0, 1), port: port)], serverName: "localhost")
                guard case .certificates(let chain) = connection.peer else {
                    throw TestError("aioquic has no device key")
                }
                #expect(chain.count == 1)
                try await Exchange.ask(connection, count: 10_000_000)
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")))
    func `aioquic as client exchanges ten megabytes both ways`() async throws {
        try await withEndpoint(.v4, foreignOptions) { endpoint in
            let arguments = ["dial", "kith/1", "127.0.0.1", "\(endpoint.port)", "10000000"]
            try await PythonPeer.run("aioquic_peer.py", arguments) { peer in
                let connection = try await next(endpoint.established)
                #expect(connection.peerID == nil)
                try await Exchange.answer(next(connection.incomingStreams))
                struct Judged: Decodable { var verdict: String }
                #expect(try await peer.next(Judged.self).verdict == "ok")
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")), .timeLimit(.minutes(4)))
    func `aioquic as server sends datagrams back`() async throws {
        try await PythonPeer.run("aioquic_peer.py", ["echo", "kith/1"]) { peer in
            struct Listening: Decodable { var port: UInt16 }
            let port = try await peer.next(Listening.self).port
            try await withEndpoint(.v4, foreignOptions) { endpoint in
                let connection = try await endpoint.connectForeign(
                    at: [NetworkAddress(ipv4: (127, 0, 0, 1), port: port)], serverName: "localhost")
                var answers = connection.datagrams.makeAsyncIterator()
                var random = SplitMix(seed: 9)
                for number in 0..<100 {
                    let bytes = random.bytes(number * 11)
                    try connection.sendDatagram(bytes)
                    #expect(await answers.next() == bytes)
                }
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")), .timeLimit(.minutes(4)))
    func `aioquic as client gets its datagrams back`() async throws {
        try await withEndpoint(.v4, foreignOptions) { endpoint in
            let arguments = ["throw", "kith/1", "127.0.0.1", "\(endpoint.port)", "100"]
            try await PythonPeer.run("aioquic_peer.py", arguments) { peer in
                let connection = try await next(endpoint.established)
                let echo = Task { for await datagram in connection.datagrams { try connection.sendDatagram(datagram) } }
                struct Judged: Decodable { var verdict: String }
                #expect(try await peer.next(Judged.self).verdict == "ok")
                echo.cancel()
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("iroh")))
    func `iroh is dialed by its key and exchanges a hundred megabytes both ways`() async throws {
        try await PythonPeer.run("iroh_peer.py", ["serve", "kith/1"]) { peer in
            let listening = try await peer.next(IrohListening.self)
            let address = try #require(listening.addresses.lazy.compactMap { NetworkAddress($0) }.first)
            try await withEndpoint { endpoint in
                let id = try DeviceID(publicKey: try #require(Hex.decode(listening.id)))
                let connection = try await endpoint.connect(to: id, at: [address])
                #expect(connection.peerID == id)
                try await Exchange.ask(connection, count: 100_000_000)
                #expect(try await peer.next(IrohRemote.self).remote == Hex.encode(endpoint.id.bytes))
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("iroh")))
    func `iroh dials us by our key and exchanges a hundred megabytes both ways`() async throws {
        try await withEndpoint { endpoint in
            let arguments = [
                "dial", "kith/1", Hex.encode(endpoint.id.bytes), "127.0.0.1:\(endpoint.port)", "100000000",
            ]
            try await PythonPeer.run("iroh_peer.py", arguments) { peer in
                let connection = try await next(endpoint.established)
                try await Exchange.answer(next(connection.incomingStreams))
                let remote = try await peer.next(IrohRemote.self)
                #expect(remote.remote == Hex.encode(endpoint.id.bytes))
                #expect(connection.peerID.map { Hex.encode($0.bytes) } == remote.id)
                struct Judged: Decodable { var verdict: String }
                #expect(try await peer.next(Judged.self).verdict == "ok")
            }
        }
    }

    private struct IrohListening: Decodable {
        var id: String
        var addresses: [String]
    }

    private struct IrohRemote: Decodable {
        var id: String?
        var remote: String
    }

    private var foreignOptions: Endpoint.Options {
        var options = Endpoint.Options()
        options.foreign = .acceptCertificates
        return options
    }
}
