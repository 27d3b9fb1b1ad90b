import Foundation
import KithAPI
import KithIO
import KithRPC
import KithSocket
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

@Suite struct `Calls through the socket` {
    @Test func `a call is answered`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "hé\n\"")).text == "hé\n\"")
        }
    }

    @Test func `many calls run at once on one connection`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        try await client.call(Echo.self, Echo.Payload(text: "\(number)")).text == "\(number)"
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
        }
    }

    @Test func `a large input and answer pass`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            let text = String(repeating: "x", count: 2 << 20)
            #expect(try await client.call(Echo.self, Echo.Payload(text: text)).text == text)
        }
    }

    @Test func `an error keeps its code and message`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            do {
                _ = try await client.call(Fail.self, Fail.Input(code: .denied))
                Issue.record("no error")
            } catch let error as KithError {
                #expect(error.code == .denied)
                #expect(error.message == "As asked.")
            }
        }
    }

    @Test func `the device and the timeout reach the dispatcher`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            let trace = TraceContext(
                traceID: Array(1...16), spanID: Array(1...8), flags: 1)
            _ = try await client.call(
                Echo.self, Echo.Payload(text: "a"), on: "laptop",
                options: CallOptions(timeout: .seconds(300), trace: trace))
            let call = try #require(dispatcher.last.value)
            #expect(call.device == "laptop")
            #expect(call.options.timeout == .seconds(300))
            #expect(call.options.trace == trace)
            guard case .json(let input) = call.input else { return }
            #expect(String(decoding: input, as: UTF8.self) == #"{"text":"a"}"#)
        }
    }

    @Test func `cancelling a call cancels its handler`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            let call = Task { try await client.call(Hang.self, Nothing()) }
            await dispatcher.started.wait()
            call.cancel()
            await dispatcher.cancelled.wait()
            await #expect(throws: KithError(.cancelled, "")) { try await call.value }
            #expect(try await client.call(Echo.self, Echo.Payload(text: "still")).text == "still")
        }
    }

    @Test func `a caller that goes away cancels its handlers`() async throws {
        try await withServer { directory, dispatcher in
            let carrier = try #require(try await SocketCarrier.connect(directory: directory))
            let call = Task { try await Client(carrier).call(Hang.self, Nothing()) }
            await dispatcher.started.wait()
            carrier.close()
            await dispatcher.cancelled.wait()
            await #expect(throws: KithError(.closed, "")) { try await call.value }
        }
    }

    @Test func `a server that stops fails the calls that wait`() async throws {
        let folder = try TemporaryFolder()
        let directory = folder.path
        let dispatcher = FakeDispatcher()
        let server = try SocketServer(directory: directory, dispatcher: dispatcher, logger: .quiet)
        let running = Task { try await server.run() }
        let client = try await connected(directory)
        let call = Task { try await client.call(Hang.self, Nothing()) }
        await dispatcher.started.wait()
        running.cancel()
        await #expect(throws: KithError.self) { try await call.value }
        _ = await running.result
        #expect(try await SocketCarrier.connect(directory: directory) == nil)
    }

    @Test func `a graceful shutdown lets calls end`() async throws {
        let folder = try TemporaryFolder()
        let directory = folder.path
        let dispatcher = FakeDispatcher()
        let server = try SocketServer(directory: directory, dispatcher: dispatcher, logger: .quiet)
        let running = Task { try await server.run() }
        let client = try await connected(directory)
        let call = Task { try await client.call(Wait.self, Nothing()) }
        await dispatcher.started.wait()
        server.beginGracefulShutdown()
        dispatcher.proceed.open()
        _ = try await call.value
        try await running.value
    }

    @Test func `nobody there is nil, not an error`() async throws {
        let folder = try TemporaryFolder()
        #expect(try await SocketCarrier.connect(directory: folder.path) == nil)
        #expect(try await SocketCarrier.connect(directory: "/nowhere") == nil)
    }

    @Test func `a socket left behind is replaced, a living one is not`() async throws {
        try await withServer { directory, dispatcher in
            #expect(throws: KithError(.conflict, "")) {
                try SocketServer(directory: directory, dispatcher: dispatcher, logger: .quiet)
            }
            _ = try await connected(directory)
        }
        let folder = try TemporaryFolder()
        let directory = folder.path
        do { _ = try SocketServer(directory: directory, dispatcher: FakeDispatcher(), logger: .quiet) }
        #expect(access(directory + "/kith.sock", F_OK) == 0)
        _ = try SocketServer(directory: directory, dispatcher: FakeDispatcher(), logger: .quiet)
    }

    @Test func `only this user may use it`() async throws {
        try await withServer { directory, _ in
            var status = stat()
            #expect(stat(directory + "/kith.sock", &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
        }
    }

    #if os(Linux)
    @Test(.enabled(if: geteuid() == 0, "needs root: becomes another user"))
    func `another user whom the file system lets in is hung up on`() async throws {
        try await withServer { directory, _ in
            #expect(chmod(directory, 0o755) == 0 && chmod(directory + "/kith.sock", 0o666) == 0)
            let script = """
                use Socket;
                $SIG{PIPE} = "IGNORE";
                socket(S, AF_UNIX, SOCK_STREAM, 0);
                connect(S, sockaddr_un($ARGV[0])) or exit 3;
                syswrite(S, "{}\\n");
                exit(sysread(S, $answer, 1) ? 4 : 5);
                """
            for (user, outcome) in [("65534", 5), ("0", 4)] as [(String, Int32)] {
                let words = ["--reuid=\(user)", "--clear-groups", "perl", "-e", script, directory + "/kith.sock"]
                let status = try await status(of: "/usr/bin/setpriv", words)
                #expect(status == outcome, "user \(user)")
            }
        }
    }

    private func status(of program: String, _ arguments: [String]) async throws -> Int32 {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        let status = Promise<Int32>()
        process.terminationHandler = { status.fulfil($0.terminationStatus) }
        try process.run()
        return try await withDeadline(.seconds(30)) { try await status.valueUnlessCancelled() }
    }
    #endif

    @Test func `a directory too deep for a socket works all the same`() async throws {
        let folder = try TemporaryFolder()
        let deep = folder.path + "/" + String(repeating: "d", count: 120)
        mkdir(deep, 0o700)
        try await withServer(in: deep) { directory, _ in
            let client = try await connected(directory)
            #expect(try await client.call(Echo.self, Echo.Payload(text: "deep")).text == "deep")
        }
        #expect(try await SocketCarrier.connect(directory: deep) == nil)
    }
}

/// A number for the thread that asks.
private func threadNumber() -> UInt {
    #if canImport(Darwin)
    UInt(pthread_mach_thread_np(pthread_self()))
    #else
    UInt(pthread_self())
    #endif
}

@Suite struct `Streams through the socket` {
    @Test func `fifty megabytes pass both ways`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            let opened = try await client.open(Loop.self, Nothing())
            #expect(opened.output == "ready")
            let chunk = (0..<65536).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            let count = 800
            async let writing: Void = {
                for _ in 0..<count { try await opened.stream.write(chunk) }
                try await opened.stream.finish()
            }()
            var received = 0
            var isRight = true
            while let bytes = try await opened.stream.read(upTo: 256 << 10) {
                let start = received % chunk.count
                isRight =
                    isRight && bytes[0] == chunk[start]
                    && bytes[bytes.count - 1] == chunk[(received + bytes.count - 1) % chunk.count]
                received += bytes.count
            }
            try await writing
            #expect(isRight)
            #expect(received == chunk.count * count)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `tasks that prefer a stream's executor share one thread, and end when the stream has gone`() async throws {
        let kept = Mutex<(any TaskExecutor)?>(nil)
        try await withServer { directory, _ in
            let client = try await connected(directory)
            let opened = try await client.open(Loop.self, Nothing())
            let executor = opened.stream.bytes.executor
            kept.withLock { $0 = executor }
            let threads = await withTaskGroup(of: UInt.self) { group in
                for _ in 0..<50 {
                    group.addTask(executorPreference: executor) {
                        await Task.yield()
                        return threadNumber()
                    }
                }
                return await group.reduce(into: Set<UInt>()) { $0.insert($1) }
            }
            #expect(executor != nil && threads.count == 1)
            opened.stream.abort(.cancelled)
        }
        let executor = kept.withLock { $0 }
        #expect(await Task(executorPreference: executor) { 7 }.value == 7)
    }

    @Test func `odd sizes arrive whole`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        try await withServer { directory, _ in
            let client = try await connected(directory)
            let opened = try await client.open(Loop.self, Nothing())
            let sent = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
            async let writing: Void = {
                var random = SplitMix(state: seed)
                var rest = sent[...]
                while !rest.isEmpty {
                    let piece = rest.prefix(Int.random(in: 1..<3000, using: &random))
                    try await opened.stream.write(Array(piece))
                    rest = rest.dropFirst(piece.count)
                }
                try await opened.stream.finish()
            }()
            var random = SplitMix(state: seed &+ 1)
            var received: [UInt8] = []
            while let bytes = try await opened.stream.read(upTo: Int.random(in: 1..<2000, using: &random)) {
                received += bytes
            }
            try await writing
            #expect(received == sent)
        }
    }

    @Test func `a refusal is an error of the call`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            await #expect(throws: KithError(.denied, "")) { try await client.open(Refuse.self, Nothing()) }
        }
    }

    @Test func `an abort carries its code to the caller`() async throws {
        try await withServer { directory, _ in
            let client = try await connected(directory)
            let opened = try await client.open(AbortLater.self, Nothing())
            #expect(try await opened.stream.read(upTo: 10) == [1, 2, 3])
            await #expect(throws: KithError(.unpaired, "")) { try await opened.stream.read(upTo: 10) }
        }
    }

    @Test func `an abort carries its code to the service`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            let opened = try await client.open(Listen.self, Nothing())
            opened.stream.abort(.exhausted)
            await dispatcher.cancelled.wait()
            #expect(dispatcher.failure.value == .exhausted)
        }
    }

    @Test func `a caller that vanishes cancels the service, even one that does not read`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            do {
                let opened = try await client.open(Idle.self, Nothing())
                #expect(try await opened.stream.read(upTo: 1) == [1])
            }
            await dispatcher.cancelled.wait()
        }
    }

    @Test func `cancelling the opening cancels the service`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            let opening = Task { try await client.open(NeverAccept.self, Nothing()) }
            await dispatcher.started.wait()
            opening.cancel()
            await dispatcher.cancelled.wait()
            await #expect(throws: KithError(.cancelled, "")) { try await opening.value }
        }
    }

    @Test func `a slow reader stops the writer`() async throws {
        try await withServer { directory, dispatcher in
            let client = try await connected(directory)
            let opened = try await client.open(Flood.self, Nothing())
            // The flood is larger than any buffer between us: only reading lets it end.
            var received = 0
            while let bytes = try await opened.stream.read(upTo: 64 << 10) { received += bytes.count }
            #expect(received == FakeDispatcher.floodSize)
        }
    }
}

@Suite struct `The bare socket` {
    /// All connections share a thread, which one that is always ready could keep to itself.
    @Test func `a connection that never pauses keeps nobody waiting`() async throws {
        try await withServer { directory, _ in
            let talker = try RawPeer(directory)
            let notice = #"{"jsonrpc":"2.0","method":"$/message","params":{"id":77,"message":1}}"# + "\n"
            let notices = String(repeating: notice, count: 1_000)
            let (begun, talking) = AsyncStream.makeStream(of: Void.self)
            let talk = Task {
                while !Task.isCancelled {
                    await talker.send(notices)
                    talking.yield()
                }
            }
            defer { talk.cancel() }
            var chunks = begun.makeAsyncIterator()
            for _ in 0..<3 { await chunks.next() }
            let client = try await connected(directory)
            for number in 0..<20 {
                let answer = try await client.call(
                    Echo.self, Echo.Payload(text: "\(number)"), options: CallOptions(timeout: .seconds(20)))
                #expect(answer.text == "\(number)")
            }
        }
    }

    @Test func `JSON-RPC by hand works`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.send(#"{"jsonrpc":"2.0","id":"a","method":"test.echo","params":{"text":"hi"}}"# + "\n")
            #expect(await peer.line() == #"{"jsonrpc":"2.0","id":"a","result":{"text":"hi"}}"#)
        }
    }

    @Test(arguments: [
        ("garbage\n", -32700), ("[]\n", -32600), ("{}\n", -32600), ("\"\\ud800\"\n", -32700), ("\u{0}\u{1}\n", -32700),
        (#"{"jsonrpc":"2.0","id":1,"method":"no.such"}"# + "\n", -32601),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.echo"}"# + "\n", -32602),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.echo","params":[1]}"# + "\n", -32602),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.echo","on":1,"params":{"text":"a"}}"# + "\n", -32602),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.echo","timeout":0,"params":{"text":"a"}}"# + "\n", -32602),
        (
            #"{"jsonrpc":"2.0","id":1,"method":"test.echo","timeout":4503599627370497,"params":{"text":"a"}}"# + "\n",
            -32602
        ),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.count","credit":0}"# + "\n", -32602),
        (#"{"jsonrpc":"2.0","id":1,"method":"test.count","raw":1}"# + "\n", -32602),
    ])
    func `garbage is answered and the connection goes on`(text: String, code: Int) async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.send(text)
            let answer = await peer.line()
            #expect(answer.contains("\"code\":\(code)"), "\(answer)")
            await peer.send(#"{"jsonrpc":"2.0","id":2,"method":"test.echo","params":{"text":"hi"}}"# + "\n")
            #expect(await peer.line().contains("hi"))
        }
    }

    @Test func `a huge line is refused and the connection ended`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            // Beyond the limit the server stops listening: not everything may get out.
            await peer.send(String(repeating: "x", count: (4 << 20) + 100_000))
            #expect(await peer.line().contains("-32600"))
            #expect(await peer.line() == "")
        }
    }

    @Test func `a batch is answered together`() async throws {
        try await withServer { directory, _ in
            let peer = try RawPeer(directory)
            await peer.send(
                #"[{"jsonrpc":"2.0","id":1,"method":"test.echo","params":{"text":"a"}},7,"#
                    + #"{"jsonrpc":"2.0","method":"test.echo","params":{"text":"silent"}},"#
                    + #"{"jsonrpc":"2.0","id":2,"method":"test.loop"}]"# + "\n")
            guard case .batch(let messages) = RPCPacket(parsing: Array(await peer.line().utf8)) else {
                Issue.record("no batch")
                return
            }
            #expect(messages.count == 3)
        }
    }

    @Test func `answers come after the caller has ended its direction`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            await peer.send(#"{"jsonrpc":"2.0","id":1,"method":"test.wait"}"# + "\n")
            peer.endSending()
            await dispatcher.started.wait()
            dispatcher.proceed.open()
            #expect(await peer.line().contains("\"id\":1"))
        }
    }
}
