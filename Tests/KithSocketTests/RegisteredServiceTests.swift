import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithSocket

extension RawPeer {
    fileprivate func say(_ json: String) async { await send(json + "\n") }

    /// Says hello and registers the service `weather`; gives the answer to that.
    fileprivate func register(
        _ service: String = "weather",
        methods: String = #"[{"name":"now","kind":"query"},{"name":"ticks","kind":"stream","#
            + #""upstream":{"form":"messages"},"downstream":{"form":"messages"}}]"#
    ) async -> String {
        await say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"#)
        _ = await line()
        await say(
            #"{"jsonrpc":"2.0","id":1,"method":"rpc.register","params":{"service":"\#(service)","methods":\#(methods)}}"#
        )
        return await line()
    }

    fileprivate func answer(_ number: Int, _ result: String = "{}") async {
        await say(#"{"jsonrpc":"2.0","id":"$\#(number)","result":\#(result)}"#)
    }

    fileprivate func notice(_ method: String, _ number: Int, _ more: String = "") async {
        await say(#"{"jsonrpc":"2.0","method":"\#(method)","params":{"id":"$\#(number)"\#(more)}}"#)
    }

    /// Calls the device, and so knows that it has taken all that was said before.
    fileprivate func echo() async {
        await say(#"{"jsonrpc":"2.0","id":9,"method":"test.echo","params":{"text":"hi"}}"#)
        #expect(await line() == #"{"jsonrpc":"2.0","id":9,"result":{"text":"hi"}}"#)
    }
}

extension FakeDispatcher {
    /// The service that was registered.
    fileprivate func service() throws -> RegisteredService {
        try #require(registered.value as? RegisteredService)
    }
}

extension RegisteredService {
    private func asked(_ name: String, _ input: String = "{}", timeout: Duration? = nil) throws -> ExternalCall {
        let method = try #require(methods.first { $0.name == name })
        return ExternalCall(
            method: method, input: try JSONText(Array(input.utf8)), caller: nil,
            options: CallOptions(timeout: timeout))
    }

    fileprivate func now(_ input: String = "{}", timeout: Duration? = nil) async throws -> String {
        let call = try asked("weather/now", input, timeout: timeout)
        return try await withDeadline(timeout) { try await self.call(call) }.description
    }

    /// Opens `weather/ticks`; the task lasts as long as the stream.
    fileprivate func ticks() throws -> (stream: TranscodedStream, serving: Task<Void, any Error>) {
        let pipe = Pipe()
        let (near, far) = (pipe.left, pipe.right)
        let call = try asked("weather/ticks")
        let serving = Task {
            do { try await serve(call) { _ in far } } catch {
                far.abort((error as? KithError)?.code ?? .cancelled)
                throw error
            }
        }
        return (TranscodedStream(near, incoming: .messages(), outgoing: .messages()), serving)
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A service that a program registers` {
    /// A server, and a program that has registered `weather`.
    private func withService(_ body: @Sendable (RawPeer, RegisteredService) async throws -> Void) async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            #expect(
                await peer.register()
                    == #"{"jsonrpc":"2.0","id":1,"result":{"methods":["weather/now","weather/ticks"]}}"#)
            try await body(peer, try dispatcher.service())
        }
    }

    @Test func `is asked in the other direction, while the program calls as well`() async throws {
        try await withService { peer, service in
            let answer = Task { try await service.now(#"{"place":"Graz"}"#, timeout: .seconds(100)) }
            #expect(
                await peer.line()
                    == #"{"jsonrpc":"2.0","id":"$1","method":"weather/now","timeout":100000,"params":{"place":"Graz"}}"#
            )
            await peer.echo()
            await peer.answer(1, #"{"degrees":18446744073709551615}"#)
            let degrees = try await answer.value
            #expect(degrees == #"{"degrees":18446744073709551615}"#)
            let refused = Task { try await service.now() }
            _ = await peer.line()
            await peer.say(#"{"jsonrpc":"2.0","id":"$2","error":{"code":-32001,"message":"No such place."}}"#)
            await #expect(throws: KithError(.notFound, "")) { try await refused.value }
        }
    }

    @Test func `carries streams both ways, each with its credit`() async throws {
        try await withService { peer, service in
            let (stream, serving) = try service.ticks()
            #expect(await peer.line().contains(#""method":"weather/ticks","credit":16"#))
            await peer.answer(1)
            try await stream.send(Array(#"{"every":3}"#.utf8))
            #expect(await peer.line().contains(#""params":{"id":"$1","message":{"every":3}}"#))
            for value in 0..<16 { await peer.notice("$/message", 1, #","message":\#(value)"#) }
            for value in 0..<16 { #expect(try await stream.receive() == .message(Array("\(value)".utf8))) }
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/credit","params":{"id":"$1","messages":8}}"#)
            #expect(await peer.line().contains("$/credit"))
            // More than the 32 that may come to the program before it gives credit.
            let sending = Task { for value in 0..<40 { try await stream.send(Array("\(value)".utf8)) } }
            for value in 0..<31 { #expect(await peer.line().contains(#""message":\#(value)}"#)) }
            await peer.echo()
            await peer.notice("$/credit", 1, #","messages":9"#)
            for value in 31..<40 { #expect(await peer.line().contains(#""message":\#(value)}"#)) }
            try await sending.value
            try await stream.finish()
            #expect(await peer.line().contains("$/finish"))
            await peer.notice("$/finish", 1)
            #expect(try await stream.receive() == nil)
            await peer.notice("$/end", 1)
            try await serving.value
            #expect(service.isIdle)
        }
    }

    @Test func `that answers twice, or what was not asked, changes nothing`() async throws {
        try await withService { peer, service in
            await peer.answer(1, "0")
            await peer.answer(18_446_744, "0")
            await peer.say(#"{"jsonrpc":"2.0","id":"$x","result":0}"#)
            await peer.say(#"{"jsonrpc":"2.0","id":7,"result":0}"#)
            await peer.say(#"[{"jsonrpc":"2.0","id":"$1","result":0}]"#)
            await peer.notice("$/message", 1, #","message":1"#)
            await peer.notice("$/end", 99)
            await peer.echo()
            for number in 1...2 {
                let answer = Task { try await service.now() }
                _ = await peer.line()
                await peer.answer(number, "\(number)")
                await peer.answer(number, "-1")
                let first = try await answer.value
                #expect(first == "\(number)")
            }
        }
    }

    @Test func `that does not answer, or read, keeps nobody`() async throws {
        try await withService { peer, service in
            let call = Task { try await service.now() }
            #expect(await peer.line().contains("weather/now"))
            call.cancel()
            await #expect(throws: CancellationError.self) { try await call.value }
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":"$1"}}"#)
            // Too late.
            await peer.answer(1)
            await #expect(throws: KithError(.timedOut, "")) { try await service.now(timeout: .milliseconds(10)) }
            #expect(service.isIdle)
            // Far more than the socket takes.
            let long = "\"\(String(repeating: "x", count: 1 << 20))\""
            await withTaskGroup(of: KithError.Code?.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        do {
                            _ = try await service.now(long, timeout: .milliseconds(200))
                            return nil
                        } catch { return (error as? KithError)?.code }
                    }
                }
                let codes = await group.reduce(into: [KithError.Code?]()) { $0.append($1) }
                #expect(Set(codes) == [.timedOut, .exhausted], "\(codes)")
            }
            #expect(service.isIdle)
        }
    }

    @Test func `has so many calls to answer at once`() async throws {
        try await withService { peer, service in
            await withTaskGroup(of: KithError.Code?.self) { group in
                for _ in 0..<RegisteredService.callLimit {
                    group.addTask {
                        do { return try await service.now() == "{}" ? nil : .corrupt } catch {
                            return (error as? KithError)?.code ?? .internal
                        }
                    }
                }
                for _ in 0..<RegisteredService.callLimit { #expect(await peer.line().contains("weather/now")) }
                await #expect(throws: KithError(.exhausted, "")) { try await service.now() }
                for number in 1...RegisteredService.callLimit { await peer.answer(number) }
                for await code in group { #expect(code == nil) }
            }
        }
    }

    @Test func `that sends a line that is too long ends, and its calls with it`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            _ = await peer.register()
            let service = try dispatcher.service()
            let answer = Task { try await service.now() }
            #expect(await peer.line().contains("weather/now"))
            await peer.answer(1, "\"\(String(repeating: "x", count: 5 << 20))\"")
            await #expect(throws: KithError(.closed, "")) { try await answer.value }
            await #expect(throws: KithError(.closed, "")) { try await service.now() }
            await dispatcher.removed.wait()
        }
    }

    @Test(arguments: [
        // A message that is too long, one of the other form, one after the last, more than was asked for.
        (#"$/message"#, #","message":"\#(String(repeating: "x", count: 1 << 20))""#, 1, KithError.Code.invalid),
        ("$/message", #","bytes":"AAAA""#, 1, .invalid),
        ("$/finish", "", 2, .invalid),
        ("$/message", #","message":"\#(String(repeating: "x", count: 16 << 10))""#, 100, .exhausted),
        ("$/end", #","error":{"code":-32003,"message":"Enough."}"#, 1, .denied),
    ])
    func `ends a stream of which it sends what it must not`(
        method: String, more: String, count: Int, code: KithError.Code
    ) async throws {
        try await withService { peer, service in
            let (stream, serving) = try service.ticks()
            _ = await peer.line()
            await peer.answer(1)
            for _ in 0..<count { await peer.notice(method, 1, more) }
            do {
                while try await stream.receive() != nil {}
                // What came to its end before has.
                #expect(method == "$/finish")
            } catch {
                #expect(error as? KithError == KithError(code, ""))
            }
            await #expect(throws: KithError(code, "")) { try await serving.value }
            let answer = Task { try await service.now() }
            while await peer.line().contains("weather/now") == false {}
            await peer.answer(2, "true")
            #expect(try await answer.value == "true")
        }
    }

    @Test func `that goes away ends its streams with the reason, and is removed`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            _ = await peer.register()
            let service = try dispatcher.service()
            let (stream, serving) = try service.ticks()
            let answer = Task { try await service.now() }
            _ = (await peer.line(), await peer.line())
            await peer.answer(1)
            await peer.answer(2)
            await peer.echo()
            peer.hangUp()
            await dispatcher.removed.wait()
            await #expect(throws: KithError.self) { try await serving.value }
            await #expect(throws: KithError.self) { while try await stream.receive() != nil {} }
            _ = try? await answer.value
        }
    }

    @Test func `that ends its direction has ended, for it cannot answer`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            _ = await peer.register()
            let service = try dispatcher.service()
            peer.endSending()
            await dispatcher.removed.wait()
            await #expect(throws: KithError(.closed, "")) { try await service.now() }
        }
    }

    @Test func `whose caller hangs up is told so`() async throws {
        try await withService { peer, service in
            let (stream, serving) = try service.ticks()
            _ = await peer.line()
            await peer.answer(1)
            await peer.notice("$/message", 1, #","message":0"#)
            #expect(try await stream.receive() == .message(Array("0".utf8)))
            stream.cancel()
            await #expect(throws: KithError(.cancelled, "")) { try await serving.value }
            #expect(await peer.line() == #"{"jsonrpc":"2.0","method":"$/cancel","params":{"id":"$1"}}"#)
        }
    }

    @Test func `is answered before it is asked, and its connection is closed only when it is idle`() async throws {
        let folder = try TemporaryFolder()
        let dispatcher = FakeDispatcher()
        let server = try SocketServer(directory: folder.path, dispatcher: dispatcher, logger: .quiet)
        let running = Task { try await server.run() }
        let peer = try RawPeer(folder.path)
        _ = await peer.register()
        let service = try dispatcher.service()
        let answer = Task { try await service.now() }
        _ = await peer.line()
        server.beginGracefulShutdown()
        await peer.answer(1, "1")
        #expect(try await answer.value == "1")
        try await running.value
    }

    @Test(
        arguments: [
            // Before hello, and after one of another kind.
            (nil, "weather", "[]", -32601), (#"{"protocol":1}"#, "weather", "[]", -32601),
            (#"["protocol",2]"#, "weather", "[]", -32601),
            (#"{"protocol":2}"#, "weather", "[]", -32008),
            (#"{"protocol":2}"#, "", "[]", -32602), (#"{"protocol":2}"#, "$", "[]", -32602),
            (#"{"protocol":2}"#, "Weather", "[]", -32602), (#"{"protocol":2}"#, "a/b", "[]", -32602),
            (#"{"protocol":2}"#, "../files", "[]", -32602), (#"{"protocol":2}"#, "w", "7", -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x/y","kind":"query"}]"#, -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x","kind":"subscription"}]"#, -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x","kind":"query","access":"anyone"}]"#, -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x","kind":"query","summary":"a\nb"}]"#, -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x","kind":"query","upstream":{"form":"bytes"}}]"#, -32602),
            (#"{"protocol":2}"#, "w", #"[{"name":"x","kind":"query","input":7}]"#, -32602),
        ] as [(String?, String, String, Int)])
    func `is refused when it is not one`(hello: String?, service: String, methods: String, code: Int) async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            if let hello {
                await peer.say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":\#(hello)}"#)
                #expect(await peer.line().contains(#""protocol":2"#))
            }
            await peer.say(
                #"{"jsonrpc":"2.0","id":1,"method":"rpc.register","#
                    + #""params":{"service":"\#(service)","methods":\#(methods)}}"#)
            let answer = await peer.line()
            #expect(answer.contains(#""code":\#(code),"#), "\(answer)")
            #expect(dispatcher.registered.value == nil)
            await peer.echo()
        }
    }

    @Test func `has so many methods, and bytes to declare them`() async throws {
        try await withServer { directory, dispatcher in
            let peer = try RawPeer(directory)
            for (count, refusal) in [(65, "1 to 64 methods; weather wants 65"), (10_000, "at most 64 KiB")] {
                let many = (0..<count).map { #"{"name":"m\#($0)","kind":"query"}"# }.joined(separator: ",")
                #expect(await peer.register(methods: "[\(many)]").contains(refusal))
            }
            let long =
                #"{"name":"x","kind":"query","input":{"description":"\#(String(repeating: "x", count: 1 << 20))"}}"#
            #expect(await peer.register(methods: "[\(long)]").contains("at most 64 KiB"))
            #expect(dispatcher.registered.value == nil)
            #expect(await peer.register().contains("weather/now"))
            // One a connection.
            #expect(await peer.register("other").contains("This connection has registered weather"))
            await peer.say(#"{"jsonrpc":"2.0","id":"$1","method":"test.echo","params":{"text":"a"}}"#)
            #expect(await peer.line().contains("begin with “$”"))
        }
    }
}
