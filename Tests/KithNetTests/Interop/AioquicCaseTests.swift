import KithQUIC
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// What aioquic can be asked for by name, at either end, over loopback: the rest of the handshake.
///
/// The peer and its words are those of the cases over an emulated link (`aioquic_link.py`); these need no root.
@Suite(.serialized, .timeLimit(.minutes(4))) struct AioquicCaseTests {
    private struct Listening: Decodable { var port: UInt16 }
    private struct Judged: Decodable { var verdict: String }

    private func options(_ name: String, port: UInt16 = 0) -> String {
        """
        {"host":"127.0.0.1","port":\(port),"case":"\(name)","up":20000,"down":20000,"streams":2,"connections":1}
        """
    }

    private var foreign: Endpoint.Options {
        var options = Endpoint.Options()
        options.foreign = .acceptCertificates
        return options
    }

    // MARK: - aioquic dials

    /// The peer judges by itself: whether the session was resumed, the early data taken, the version and cipher right.
    @Test(
        .enabled(if: PythonPeer.isInstalled("aioquic")),
        arguments: ["resumption", "zerortt", "retry", "keyupdate", "chacha20", "v2"])
    func `aioquic dials us and is content`(_ name: String) async throws {
        var options = foreign
        if name == "retry" { options.retryAbove = 0 }
        if name == "v2" {
            options.adjust = {
                $0.prefersOwnVersion = true; $0.versions = [.two, .one]
            }
        }
        try await withEndpoint(.v4, options) { endpoint in
            try await PythonPeer.run("aioquic_link.py", ["dial", self.options(name, port: endpoint.port)]) { peer in
                let serving = Task {
                    await withDiscardingTaskGroup { group in
                        for await connection in endpoint.established {
                            group.addTask { await serve(connection) }
                        }
                    }
                }
                let verdict = try await peer.next(Judged.self).verdict
                #expect(verdict == "ok")
                let retries = await endpoint.retriesSent()
                #expect((retries > 0) == (name == "retry"))
                serving.cancel()
            }
        }
    }

    private func serve(_ connection: Connection) async {
        await withDiscardingTaskGroup { group in
            for await stream in connection.incomingStreams {
                // The peer's verdict says whether all went well.
                group.addTask { try? await Exchange.answer(stream) }
            }
        }
    }

    // MARK: - We dial aioquic

    @Test(
        .enabled(if: PythonPeer.isInstalled("aioquic")),
        arguments: ["resumption", "zerortt", "retry", "keyupdate", "chacha20", "v2"])
    func `aioquic is dialed`(_ name: String) async throws {
        try await PythonPeer.run("aioquic_link.py", ["serve", options(name)]) { peer in
            let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: try await peer.next(Listening.self).port)
            var options = foreign
            if name == "keyupdate" { options.adjust = { $0.packetsPerKey = 10 } }
            if name == "v2" { options.adjust = { $0.versions = [.two, .one] } }
            if name == "chacha20" { options.cipherPreference = .chaCha20Only }
            try await withEndpoint(.v4, options) { endpoint in
                let isTwice = name == "resumption" || name == "zerortt"
                for round in 0..<(isTwice ? 2 : 1) {
                    let isEarly = round == 1 && name == "zerortt"
                    let connection = try await endpoint.connectForeign(
                        at: [address], serverName: "localhost", isEarly: isEarly)
                    try await Exchange.ask(connection, count: 200_000)
                    let statistics = await connection.statistics()
                    #expect(statistics.isResumed == (round == 1))
                    #expect(statistics.isEarlyDataAccepted == isEarly)
                    // aioquic's tickets come behind the handshake, and the next round needs one.
                    connection.close()
                    _ = await connection.closed()
                }
            }
        }
    }
}
