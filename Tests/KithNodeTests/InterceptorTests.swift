import KithAPI
import KithIdentity
import KithNode
import KithWire
import Testing

/// Notes what passes it, and refuses what it is told to.
private final class Notebook: CallInterceptor, ClientInterceptor {
    private let name: String
    private let lines: Locked<[String]>
    private let refusal: KithError?

    init(_ name: String, _ lines: Locked<[String]>, refusing refusal: KithError? = nil) {
        (self.name, self.lines, self.refusal) = (name, lines, refusal)
    }

    private func note(_ line: String) { lines.set(lines.value + ["\(name) \(line)"]) }

    private func around(_ what: String, _ body: () async throws -> Void) async throws {
        note("begins \(what)")
        if let refusal { throw refusal }
        do {
            try await body()
        } catch {
            note("sees \((error as? KithError)?.code.rawValue ?? "\(type(of: error))")")
            throw error
        }
        note("ends \(what)")
    }

    func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws {
        try await around("serving \(call.method)") { try await next(call) }
    }

    func make(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
        try await around("making \(call.method)") { try await next(call) }
    }

    func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
        try await around("asking \(call.method)") { try await next(call) }
    }

    func refused(_ method: String?, from device: DeviceID, _ error: KithError) {
        note("hears of \(method ?? "nothing") and \(error.code.rawValue)")
    }
}

@Suite(.timeLimit(.minutes(4))) struct `Interceptors` {
    @Test func `stand around calls in their order, at both ends`() async throws {
        let lines = Locked<[String]>([])
        let friends = try Friends(grants: [], interceptors: [Notebook("outer", lines), Notebook("inner", lines)])
        let client = friends.phone.client.intercepted(by: [Notebook("first", lines), Notebook("second", lines)])
        #expect(try await client.call(Ask.self, "hi", on: "laptop") == "hi!")
        #expect(
            lines.value == [
                "first begins asking test.ask", "second begins asking test.ask", "outer begins making test.ask",
                "inner begins making test.ask", "outer begins serving test.ask", "inner begins serving test.ask",
                "inner ends serving test.ask", "outer ends serving test.ask", "inner ends making test.ask",
                "outer ends making test.ask", "second ends asking test.ask", "first ends asking test.ask",
            ])
    }

    @Test func `see a stream to its end where it is served, and to its acceptance where it is asked for`() async throws
    {
        let lines = Locked<[String]>([])
        let friends = try Friends(grants: [.shell], interceptors: [Notebook("it", lines)])
        let stream = try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop").stream
        #expect(lines.value.contains("it ends making test.pour"))
        #expect(!lines.value.contains("it ends serving test.pour"))
        try await stream.write([1, 2, 3])
        try await stream.finish()
        while try await stream.read(upTo: 16) != nil {}
        while !lines.value.contains("it ends serving test.pour") { await Task.yield() }
    }

    @Test func `refuse what they like, and hear of what never came to them`() async throws {
        let lines = Locked<[String]>([])
        let friends = try Friends(
            grants: [], interceptors: [Notebook("it", lines, refusing: KithError(.conflict, "Not today."))])
        // Of the owner, too, and before anything is sent.
        await #expect(throws: KithError(.conflict, "Not today.")) {
            try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        }
        await #expect(throws: KithError(.conflict, "Not today.")) {
            try await friends.laptop.client.call(Ask.self, "hi")
        }
        #expect(lines.value == ["it begins making test.ask", "it begins serving test.ask"])

        let heard = Locked<[String]>([])
        let guarded = try Friends(grants: [], interceptors: [Notebook("it", heard)])
        await #expect(throws: KithError(.denied, "")) {
            try await guarded.phone.client.call(Guarded.self, .init(rule: .shell), on: "laptop")
        }
        #expect(heard.value.contains("it hears of test.guarded and denied"))
        #expect(!heard.value.contains("it begins serving test.guarded"))
    }

    @Test func `are cancelled with their call`() async throws {
        let lines = Locked<[String]>([])
        let friends = try Friends(grants: [], interceptors: [Notebook("it", lines)])
        let call = Task { try await friends.phone.client.call(Hang.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        call.cancel()
        await #expect(throws: KithError(.cancelled, "")) { try await call.value }
        while lines.value.count(where: { $0.hasPrefix("it sees") }) < 2 { await Task.yield() }
        #expect(!lines.value.contains { $0.hasPrefix("it ends") })
    }

    @Test func `make a call once, or refuse it`() async throws {
        struct Doubting: ClientInterceptor {
            var times: Int
            func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
                for _ in 0..<times { try await next(call) }
            }
        }
        let friends = try Friends(grants: [])
        for times in [0, 2] {
            await #expect(throws: KithError(.internal, "")) {
                try await friends.laptop.client.intercepted(by: [Doubting(times: times)]).call(Ask.self, "hi")
            }
        }
        #expect(try await friends.laptop.client.intercepted(by: [Doubting(times: 1)]).call(Ask.self, "hi") == "hi!")
    }

    @Test func `change what a caller asks for`() async throws {
        struct Trace: ClientInterceptor {
            var trace: TraceContext
            func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
                var call = call
                call.options.trace = trace
                try await next(call)
            }
        }
        let trace = try #require(
            TraceContext(traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
        let friends = try Friends(grants: [])
        _ = try await friends.phone.client.intercepted(by: [Trace(trace: trace)]).call(Ask.self, "hi", on: "laptop")
        let context = try #require(friends.service.lastContext.value)
        #expect(context.trace == trace)
        // Whatever the service calls belongs to the same.
        #expect(context.client.trace == trace)
    }
}
