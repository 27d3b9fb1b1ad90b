import KithIdentity
import KithNet
import KithWire
import Logging
import Testing

/// What an endpoint gives devices it does not know well.
@Suite struct AdmissionTests {
    private func limited() -> Endpoint.Options {
        var options = Endpoint.Options()
        options.admit = { _, _ in .limited }
        return options
    }

    @Test(.timeLimit(.minutes(4))) func `a limited device sends little ahead, until it may send as much as any`()
        async throws
    {
        try await withPair(serverOptions: limited()) { pair in
            // Nobody reads: what is sent stays in the windows and the streams' inboxes.
            let bytes = [UInt8](repeating: 7, count: 1 << 20)
            let writing = Task {
                let stream = try await pair.outgoing.openStream()
                try await stream.write(bytes)
                try await stream.finish()
            }
            let far = try await next(pair.incoming.incomingStreams)
            var before: UInt64 = 0
            while true {
                let now = await pair.outgoing.statistics().bytesSent
                if now == before { break }
                before = now
                try await Task.sleep(for: .milliseconds(100))  // Real time: what moves is not blocked.
            }
            #expect(before < 128 << 10)
            pair.incoming.liftLimits()
            #expect(try await far.readAll().count == bytes.count)
            try await writing.value
        }
    }

    @Test(.timeLimit(.minutes(4))) func `a limited device opens few streams`() async throws {
        try await withPair(serverOptions: limited()) { pair in
            var streams: [QUICStream] = []
            for _ in 0..<8 { streams.append(try await pair.outgoing.openStream()) }
            let another = Task { try await pair.outgoing.openStream() }
            for stream in streams { try await stream.write([1]) }
            for _ in 0..<8 { _ = try await next(pair.incoming.incomingStreams) }
            pair.incoming.liftLimits()
            _ = try await another.value
        }
    }

    @Test(.timeLimit(.minutes(4))) func `a device has a few connections at once, and the oldest give way`() async throws
    {
        let key = DeviceKey()
        try await withEndpoint { server in
            var endpoints: [Endpoint] = []
            for _ in 0..<12 {
                let endpoint = try await Endpoint.bind(key: key, logger: Logger(label: "test"))
                _ = try await endpoint.connect(to: server.id, at: server.localAddresses)
                endpoints.append(endpoint)
            }
            var connections = server.established.makeAsyncIterator()
            var all: [Connection] = []
            for _ in 0..<12 { all.append(try #require(await connections.next())) }
            for old in all.prefix(4) { #expect(await old.closed().code == .exhausted) }
            #expect(all.suffix(8).allSatisfy { $0.isOpen })
            for endpoint in endpoints { await endpoint.shutdown() }
        }
    }
}
