import KithAPI
import KithSocket
import KithTesting
import KithWire
import Testing

/// Runs a daemon on `directory` as long as `body` takes; it goes without a word to those who wait.
private func withDaemon(
    _ directory: String, _ body: @Sendable (FakeDispatcher) async throws -> Void
) async throws { try await withServer(in: directory) { _, dispatcher in try await body(dispatcher) } }

@Suite(.timeLimit(.minutes(4))) struct `A client that reconnects` {
    @Test func `asks a query again that was under way when the daemon was restarted`() async throws {
        let folder = try TemporaryFolder()
        let client = Client(ReconnectingCarrier(directory: folder.path))
        let answer = Locked<Task<Nothing, any Error>?>(nil)
        try await withDaemon(folder.path) { dispatcher in
            answer.set(Task { try await client.call(Wait.self, Nothing()) })
            await dispatcher.started.wait()
        }
        try await withDaemon(folder.path) { dispatcher in
            await dispatcher.started.wait()
            dispatcher.proceed.open()
            _ = try await answer.value?.value
        }
    }

    @Test func `does not repeat an action, and says that it may have been done`() async throws {
        let folder = try TemporaryFolder()
        let client = Client(ReconnectingCarrier(directory: folder.path))
        let answer = Locked<Task<Nothing, any Error>?>(nil)
        try await withDaemon(folder.path) { dispatcher in
            answer.set(Task { try await client.call(Act.self, Nothing()) })
            await dispatcher.started.wait()
        }
        let error = await #expect(throws: KithError.self) { try await answer.value?.value }
        #expect(error?.code == .closed)
        #expect(error?.message.contains("test.act may have been done, or not") == true)
        // The next one goes to the next daemon.
        try await withDaemon(folder.path) { dispatcher in
            let next = Task { try await client.call(Act.self, Nothing()) }
            await dispatcher.started.wait()
            next.cancel()
            _ = await next.result
        }
    }

    @Test func `makes an action wait that begins while no daemon is there`() async throws {
        let folder = try TemporaryFolder()
        let isWaiting = Signal()
        var patient = ReconnectingCarrier.Options()
        patient.patience = .seconds(1_000_000)
        let client = Client(
            ReconnectingCarrier(directory: folder.path, options: patient) { _ in
                isWaiting.open()
                await Task.yield()
            })
        let call = Task { try await client.call(Echo.self, .init(text: "there?")) }
        await isWaiting.wait()
        try await withDaemon(folder.path) { _ in
            let text = try await call.value.text
            #expect(text == "there?")
        }
    }

    @Test func `looks for a daemon ever less often, and gives up`() async throws {
        let folder = try TemporaryFolder()
        let waits = Locked<[Duration]>([])
        var options = ReconnectingCarrier.Options()
        (options.firstWait, options.longestWait, options.patience) = (.seconds(1), .seconds(5), .seconds(20))
        let client = Client(
            ReconnectingCarrier(directory: folder.path, options: options) { waits.set(waits.value + [$0]) })
        await #expect(throws: KithError(.unreachable, "")) { try await client.call(Echo.self, .init(text: "hi")) }
        #expect(waits.value == [1, 2, 4, 5, 5, 3].map { .seconds($0) })
    }

    @Test func `gives up when its caller's time is up`() async throws {
        let folder = try TemporaryFolder()
        let client = Client(
            ReconnectingCarrier(directory: folder.path, options: .init()) { _ in try await untilCancelled() })
        await #expect(throws: KithError(.timedOut, "")) {
            try await client.call(Echo.self, .init(text: "hi"), options: CallOptions(timeout: .milliseconds(1)))
        }
    }

    @Test func `ends a stream whose daemon goes, and opens the next one at the next`() async throws {
        let folder = try TemporaryFolder()
        let client = Client(ReconnectingCarrier(directory: folder.path))
        let stream = Locked<(any ByteStream)?>(nil)
        try await withDaemon(folder.path) { _ in
            let opened = try await client.open(Idle.self, Nothing())
            #expect(try await opened.stream.read(upTo: 1) == [1])
            stream.set(opened.stream.bytes)
        }
        await #expect(throws: KithError.self) { try await stream.value?.read(upTo: 1) }
        try await withDaemon(folder.path) { _ in
            let opened = try await client.open(Loop.self, Nothing())
            try await opened.stream.write([7])
            #expect(try await opened.stream.read(upTo: 1) == [7])
            opened.stream.abort(.cancelled)
        }
    }
}
