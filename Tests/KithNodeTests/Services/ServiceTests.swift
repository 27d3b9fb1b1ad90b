import KithAPI
import KithIO
import KithIdentity
@testable import KithNode
import KithTesting
import KithWire
import Testing

struct Sum: Codable, Sendable {
    var a: Double
    var b: Double
}

struct MathService: Service {
    let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
    var handlers: [Handler] {
        [.action("add") { (input: Sum, _) in input.a + input.b }]
    }
}

/// Says what is sent to it, to whom, and how much.
private struct UserService: Service {
    struct Greeting: Codable, Sendable, Equatable { var word: String }

    let info = ServiceInfo("users", "Knows users.")
    var handlers: [Handler] {
        [
            .query("{id}") { context in "user \(context.parameters["id"] ?? "")" },
            .query("{id}/friends/{friend}") { context in [context.parameters["id"], context.parameters["friend"]] },
            .query("me") { _ in "myself" },
            .action("greet") { (greeting: Greeting?, _) in greeting?.word ?? "nothing" },
            .action("greet/twice") { (greeting: Greeting, context) in
                try await context.client.request("users/greet", greeting, as: String.self) + " twice"
            },
            .action("fail", access: .paired) { _ -> Int in throw KithError(.conflict, "As asked.") },
        ]
    }
}

private struct CountService: Service {
    let info = ServiceInfo("count")
    var handlers: [Handler] {
        [
            .stream("to") { (end: Int, _) in
                AsyncStream { continuation in
                    for number in 1...end { continuation.yield(number) }
                    continuation.finish()
                }
            },
            .stream("sums") { (_: Nothing, _, stream: ValueStream<Int, Int>) in
                var sum = 0
                for try await number in stream.messages {
                    sum += number
                    try await stream.send(sum)
                }
            },
        ]
    }
}

/// Starts and stops when it is told to.
final class ManualService: Service {
    let info: ServiceInfo
    let startBegan = AsyncEvent()
    let mayStart = AsyncEvent()
    let events = Locked<[String]>([])
    let failure = Locked<KithError?>(nil)

    init(_ path: String = "manual") { info = ServiceInfo(path) }

    func note(_ event: String) { events.set(events.value + [event]) }

    var handlers: [Handler] { [.query("ask") { _ in "answer" }] }

    func start(_ context: StartContext) async throws {
        note("start \(context.path.service)")
        startBegan.happen()
        guard await mayStart.wait() else {
            note("cancelled")
            throw CancellationError()
        }
        if let failure = failure.value { throw failure }
    }

    func stop() async { note("stop") }
}

private func node() throws -> Node {
    try Node(id: Friends.id(1), directory: MemoryDirectory(), logger: .quiet)
}

@Suite(.timeLimit(.minutes(4))) struct `A service declared by its closures` {
    @Test func `math adds, by path and by name, with the caller's own types`() async throws {
        struct Terms: Codable, Sendable { var a, b: Double }
        let node = try node()
        try node.add(MathService())
        let eight: Double = try await node.client.request("math/add", Sum(a: 5, b: 3))
        #expect(eight == 8.0)
        for path in ["math/add", "math.add", "default:math/add", "/math//add/"] {
            #expect(try await node.client.request(path, Terms(a: 5, b: 3), as: Double.self) == 8)
            #expect(try await node.client.call(named: path, ["a": 5, "b": 3]) == 8)
        }
        #expect(try await node.client.call(API.Describe.self, Nothing()).methods.map(\.name).contains("math.add"))
    }

    @Test func `a missing or wrong member of the input is named`() async throws {
        let node = try node()
        try node.add(MathService())
        let missing = await #expect(throws: KithError.self) {
            try await node.client.request("math/add", ["a": 5.0], as: Double.self)
        }
        #expect(missing?.code == .invalid && missing?.message.contains("`b`") == true, "\(missing?.message ?? "")")
        let wrong = await #expect(throws: KithError.self) {
            try await node.client.call(named: "math/add", ["a": "five", "b": 3])
        }
        #expect(wrong?.code == .invalid && wrong?.message.contains("`a`") == true, "\(wrong?.message ?? "")")
        await #expect(throws: KithError(.invalid, "")) { try await node.client.request("math/add", as: Double.self) }
        await #expect(throws: KithError(.unsupported, "")) {
            try await node.client.request("math/sub", as: Double.self)
        }
        await #expect(throws: KithError(.corrupt, "")) {
            try await node.client.request("math/add", Sum(a: 1, b: 2), as: [String].self)
        }
    }

    @Test func `templates give their values, and what is spelled out comes first`() async throws {
        let node = try node()
        try node.add(UserService())
        #expect(try await node.client.request("users/42", as: String.self) == "user 42")
        #expect(try await node.client.request("users.42", as: String.self) == "user 42")
        #expect(try await node.client.request("users/me", as: String.self) == "myself")
        #expect(try await node.client.request("users/1/friends/2", as: [String].self) == ["1", "2"])
        #expect(try await node.client.call(named: "users/1/friends/2") == ["1", "2"])
        await #expect(throws: KithError(.unsupported, "")) {
            try await node.client.request("users/1/friends", as: String.self)
        }
        await #expect(throws: KithError(.unsupported, "")) {
            try await node.client.request("users/*", as: String.self)
        }
    }

    @Test func `an input may be optional, a handler may call others, and errors keep their code`() async throws {
        let node = try node()
        try node.add(UserService())
        let client = node.client
        #expect(try await client.request("users/greet", as: String.self) == "nothing")
        #expect(try await client.call(named: "users/greet") == "nothing")
        #expect(try await client.request("users/greet", UserService.Greeting(word: "Hi"), as: String.self) == "Hi")
        #expect(try await client.call(named: "users/greet/twice", ["word": "Ho"]) == "Ho twice")
        await #expect(throws: KithError(.conflict, "")) { try await client.request("users/fail", as: Int.self) }
    }

    @Test func `streams carry any values both ways`() async throws {
        let friends = try Friends(grants: [.node(pattern: "count/*")])
        try friends.laptop.add(CountService())
        for (client, provider) in [
            (friends.laptop.client, Provider.any), (friends.phone.client, .device("laptop")),
        ] {
            let counted: ValueStream<Int, Nothing> = try await client.open("count/to", 5, from: provider)
            var numbers: [Int] = []
            for try await number in counted.messages { numbers.append(number) }
            #expect(numbers == [1, 2, 3, 4, 5])
            let sums: ValueStream<Int, Int> = try await client.open("count/sums", Nothing(), from: provider)
            for (number, sum) in [(1, 1), (2, 3), (3, 6)] {
                try await sums.send(number)
                #expect(try await sums.receive() == sum)
            }
            try await sums.finish()
            #expect(try await sums.receive() == nil)
        }
        let named = try await friends.laptop.client.open(named: "count/to", 2)
        #expect(try await named.next() == 1)
        #expect(try await named.next() == 2)
        #expect(try await named.next() == nil)
    }

    @Test(arguments: ["math/add", "math.add", "math/*", "math.*", "*/add", ">", "*", "default:math/add"])
    func `another device calls it with a grant of its path, and not with another`(grant: String) async throws {
        let friends = try Friends(grants: [.node(pattern: "math/sub")])
        try friends.laptop.add(MathService())
        let ask = {
            try await friends.phone.client.request(
                "math/add", Sum(a: 5, b: 3), from: .device("laptop"), as: Double.self)
        }
        await #expect(throws: KithError(.denied, "")) { try await ask() }
        friends.laptopDirectory.setGrants([.node(pattern: grant)], of: friends.phoneID)
        friends.laptop.grantsChanged(for: friends.phoneID)
        #expect(try await ask() == 8)
        #expect(try await friends.phone.client.call(named: "math.add", ["a": 5, "b": 3], on: "laptop") == 8)
    }

    @Test func `a template is granted by the path that is called`() async throws {
        let friends = try Friends(grants: [.node(pattern: "users/42")])
        try friends.laptop.add(UserService())
        let client = friends.phone.client
        #expect(try await client.request("users/42", from: .device("laptop"), as: String.self) == "user 42")
        await #expect(throws: KithError(.denied, "")) {
            try await client.request("users/43", from: .device("laptop"), as: String.self)
        }
        await #expect(throws: KithError(.denied, "")) {
            try await client.request("users/42/friends/1", from: .device("laptop"), as: [String].self)
        }
    }

    @Test func `a path or a method that is there already is refused, and nothing is added`() async throws {
        struct Other: Service {
            let info: ServiceInfo
            let names: [String]
            var handlers: [Handler] { names.map { .query($0) { _ in 1 } } }
        }
        struct Spelled: Service {
            let method: String
            var handlers: [Handler] {
                [.call(DynamicMethod(.query(method, by: .owner, ""))) { _, _ in 1 }]
            }
        }
        let node = try node()
        try node.add(MathService())
        try node.add(UserService())
        for refused: any Service in [
            MathService(), Other(info: ServiceInfo("math"), names: ["sub"]),
            Other(info: ServiceInfo("twice"), names: ["a", "a"]),
            Other(info: ServiceInfo("twice"), names: ["{a}", "{b}"]), Spelled(method: "math/add"),
            Spelled(method: "math.add"), Spelled(method: "users/{name}"),
        ] {
            #expect(throws: KithError(.conflict, "")) { try node.add(refused) }
        }
        for refused: any Service in [
            Other(info: ServiceInfo("a/b"), names: ["x"]), Other(info: ServiceInfo(""), names: ["x"]),
            Other(info: ServiceInfo("c"), names: ["*"]), Other(info: ServiceInfo("c"), names: ["a:b"]),
            Other(info: ServiceInfo("c"), names: [""]),
        ] {
            #expect(throws: KithError(.invalid, "")) { try node.add(refused) }
        }
        #expect(node.state(of: "twice") == nil)
        // In another network the same path is another.
        try node.add(Other(info: ServiceInfo("math", network: "work"), names: ["add"]))
        #expect(try await node.client.request("work:math/add", as: Int.self) == 1)
        #expect(try await node.client.request("math/add", Sum(a: 1, b: 1), as: Double.self) == 2)
    }

    @Test func `it is removed and added again while the node runs`() async throws {
        let node = try node()
        for _ in 0..<10 {
            let id = try node.add(UserService())
            #expect(try await node.client.request("users/7", as: String.self) == "user 7")
            await node.remove(id)
            await #expect(throws: KithError(.unsupported, "")) {
                try await node.client.request("users/7", as: String.self)
            }
            await #expect(throws: KithError(.unsupported, "")) { try await node.client.call(named: "users/me") }
            #expect(node.state(of: "users") == nil)
        }
    }

    @Test func `many calls run at once, and each ends when its caller goes away`() async throws {
        struct Waiting: Service {
            let info = ServiceInfo("waiting")
            let begun = Locked(0)
            let ended = Locked(0)
            let all = AsyncEvent()
            var handlers: [Handler] {
                [
                    .query("long") { (_: Nothing, _) -> Int in
                        // All are here before one ends.
                        if begun.increment() == 64 { all.happen() }
                        do {
                            try await untilCancelled()
                        } catch {
                            ended.increment()
                            throw error
                        }
                        return 0
                    }
                ]
            }
        }
        let friends = try Friends(grants: [.node(pattern: "waiting/>")])
        let service = Waiting()
        try friends.laptop.add(service)
        let calls = (0..<64).map { _ in
            Task {
                try await friends.phone.client.request("waiting/long", from: .device("laptop"), as: Int.self)
            }
        }
        await service.all.wait()
        for call in calls { call.cancel() }
        for call in calls { await #expect(throws: KithError(.cancelled, "")) { try await call.value } }
        while service.ended.value < 64 { await Task.yield() }
    }
}

extension Locked where Value == Int {
    /// Adds one; returns the sum.
    @discardableResult func increment() -> Int {
        change {
            $0 += 1; return $0
        }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `The life of a service` {
    @Test func `calls wait for its start, and it stops when it is removed`() async throws {
        let node = try node()
        let service = ManualService()
        let id = try node.add(service)
        await service.startBegan.wait()
        #expect(node.state(of: "manual") == .starting)
        async let answer: String = node.client.request("manual/ask")
        service.mayStart.happen()
        #expect(try await answer == "answer")
        #expect(node.state(of: "manual") == .running)
        await node.remove(id)
        #expect(service.events.value == ["start manual", "stop"])
        #expect(node.state(of: "manual") == nil)
    }

    @Test func `one that is ready at once runs when it has been added`() throws {
        let node = try node()
        try node.add(MathService())
        #expect(node.state(of: "math") == .running)
    }

    @Test func `a start that fails refuses calls with its reason`() async throws {
        let node = try node()
        let service = ManualService()
        service.failure.set(KithError(.notFound, "The lamp is not plugged in."))
        service.mayStart.happen()
        try node.add(service)
        let refused = await #expect(throws: KithError.self) {
            try await node.client.request("manual/ask", as: String.self)
        }
        #expect(refused?.code == .unreachable && refused?.message.contains("not plugged in") == true)
        #expect(node.state(of: "manual") == .failed("The lamp is not plugged in."))
    }

    @Test func `a start that takes too long has failed`() async throws {
        let clock = ManualClock()
        let node = try Node(id: Friends.id(1), directory: MemoryDirectory(), clock: clock, logger: .quiet)
        let service = ManualService()
        try node.add(service)
        await service.startBegan.wait()
        let call = Task { try await node.client.request("manual/ask", as: String.self) }
        clock.advance(by: .seconds(31))
        await #expect(throws: KithError(.unreachable, "")) { try await call.value }
    }

    @Test func `removing one that starts cancels the start`() async throws {
        let node = try node()
        let service = ManualService()
        let id = try node.add(service)
        await service.startBegan.wait()
        let call = Task { try await node.client.request("manual/ask", as: String.self) }
        await node.remove(id)
        await #expect(throws: KithError.self) { try await call.value }
        #expect(service.events.value == ["start manual", "cancelled", "stop"])
    }

    @Test func `services stop in the reverse order, and start again when the node serves again`() async throws {
        let node = try node()
        let order = Locked<[String]>([])
        struct Noting: Service {
            let info: ServiceInfo
            let order: Locked<[String]>
            var handlers: [Handler] { [.query("ask") { _ in 1 }] }
            func start(_ context: StartContext) async throws { order.set(order.value + ["+\(info.path)"]) }
            func stop() async { order.set(order.value + ["-\(info.path)"]) }
        }
        for path in ["a", "b", "c"] { try node.add(Noting(info: ServiceInfo(path), order: order)) }
        for _ in 0..<3 {
            await node.serve { _ in }
            #expect(node.state(of: "b") == .stopped)
            await #expect(throws: KithError(.closed, "")) { try await node.client.request("b/ask", as: Int.self) }
        }
        let once = ["+a", "+b", "+c", "-c", "-b", "-a"]
        #expect(order.value == once + once + once)
    }

    @Test func `a paused one answers nobody, and answers again when it is resumed`() async throws {
        let friends = try Friends(grants: [.node(pattern: "math/>")])
        try friends.laptop.add(MathService())
        let asks = [
            { try await friends.laptop.client.request("math/add", Sum(a: 1, b: 1), as: Double.self) },
            {
                try await friends.phone.client.request(
                    "math/add", Sum(a: 1, b: 1), from: .device("laptop"), as: Double.self)
            },
        ]
        for ask in asks { #expect(try await ask() == 2) }
        try friends.laptop.pause("math")
        try friends.laptop.pause("math")
        #expect(friends.laptop.state(of: "math") == .paused)
        for ask in asks {
            let refused = await #expect(throws: KithError.self) { try await ask() }
            #expect(refused?.code == .unreachable && refused?.message.contains("is paused") == true)
            #expect(refused?.detail?.code == "service.paused")
        }
        try friends.laptop.resume("math")
        for ask in asks { #expect(try await ask() == 2) }
        #expect(throws: KithError(.notFound, "")) { try friends.laptop.pause("maths") }
    }

    @Test func `a call that runs when it is paused goes on`() async throws {
        struct Gate: Service {
            let info = ServiceInfo("gate")
            let begun = AsyncEvent()
            let open = AsyncEvent()
            var handlers: [Handler] {
                [
                    .query("pass") { _ in
                        begun.happen()
                        await open.wait()
                        return "through"
                    }
                ]
            }
        }
        let node = try node()
        let gate = Gate()
        try node.add(gate)
        async let answer: String = node.client.request("gate/pass")
        await gate.begun.wait()
        try node.pause("gate")
        gate.open.happen()
        #expect(try await answer == "through")
    }

    @Test func `what cannot be paused or resumed says why`() async throws {
        let node = try node()
        let service = ManualService()
        try node.add(service)
        await service.startBegan.wait()
        #expect(throws: KithError(.conflict, "")) { try node.pause("manual") }
        #expect(throws: KithError(.conflict, "")) { try node.resume("manual") }
        service.mayStart.happen()
        _ = try await node.client.request("manual/ask", as: String.self)
        try node.resume("manual")
        #expect(node.state(of: "manual") == .running)
    }
}
