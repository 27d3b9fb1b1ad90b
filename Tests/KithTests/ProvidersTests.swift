import Kith
import KithSocket
import KithTesting
import Synchronization
import Testing

/// Says which device answers, and how often it was asked.
private final class WhoService: Service {
    let name: String
    let asked = Atomic(0)
    let gate = Mutex<(@Sendable () async throws -> Void)?>(nil)

    init(_ name: String) { self.name = name }

    let info = ServiceInfo("who", version: "2.1.0", "Says who answers.")

    var handlers: [Handler] {
        [
            .query("answers") { _ in
                self.asked.add(1, ordering: .relaxed)
                if let gate = self.gate.withLock({ $0 }) { try await gate() }
                return self.name
            },
            .action("once") { _ in
                self.asked.add(1, ordering: .relaxed)
                if let gate = self.gate.withLock({ $0 }) { try await gate() }
                return self.name
            },
            .query("hidden") { _ in self.name },
        ]
    }
}

private let grants: [Grant] = [.node(pattern: "who/answers"), .node(pattern: "who/once")]

@Suite(.timeLimit(.minutes(3))) struct `Providers of a path` {
    /// A phone, and two devices on which it may ask who answers.
    private func withDevices(
        _ body: (_ phone: Device, _ devices: [Device], _ services: [WhoService], _ folder: String) async throws -> Void
    ) async throws {
        let folders = [try TemporaryFolder(), try TemporaryFolder(), try TemporaryFolder()]
        let services = [WhoService("a"), WhoService("b")]
        var devices: [Device] = []
        for (index, service) in services.enumerated() {
            var options = onLoopback
            options.name = service.name
            options.services = .only([service])
            devices.append(try await Device.open(directory: folders[index].path, options: options))
        }
        var options = onLoopback
        options.services = .only([])
        let phone = try await Device.open(directory: folders[2].path, options: options)
        try await devices[0].whileRunning {
            try await devices[1].whileRunning {
                try await phone.whileRunning {
                    for device in devices { try await pair(phone, with: device, grants: grants) }
                    try await eventually {
                        phone.announcedServices.filter { $0.path == "who" && $0.actions.count == 2 }.count == 2
                    }
                    try await body(phone, devices, services, folders[2].path)
                }
            }
        }
    }

    @Test func `are asked by the same line of code, in process and at the socket`() async throws {
        try await withDevices { phone, devices, services, folder in
            let name: String = try await phone.request("who/answers")
            #expect(["a", "b"].contains(name))
            let socket = try #require(try await SocketCarrier.connect(directory: folder))
            defer { socket.close() }
            #expect(["a", "b"].contains(try await Client(socket).call(named: "who/answers", on: "*")))
            #expect(["a", "b"].contains(try await Client(socket).request("who.answers", as: String.self)))
            await #expect(throws: KithError(.unsupported, "")) { try await Client(socket).call(named: "who/answers") }
            await #expect(throws: KithError(.unsupported, "")) {
                try await phone.request("who/answers", from: .thisDevice, as: String.self)
            }
            await #expect(throws: KithError(.unsupported, "")) { try await phone.request("who/else", as: String.self) }
            // What is not granted is not announced.
            await #expect(throws: KithError(.unsupported, "")) {
                try await phone.request("who/hidden", as: String.self)
            }
            #expect(
                phone.announcedServices.allSatisfy { $0.version == "2.1.0" && $0.description == "Says who answers." })
            // Its own comes first.
            let own = WhoService("own")
            try phone.add(own)
            for _ in 0..<5 { #expect(try await phone.request("who/answers", as: String.self) == "own") }
            try phone.pause("who")
            #expect(["a", "b"].contains(try await phone.request("who/answers", as: String.self)))
            #expect(["a", "b"].contains(try await phone.request("who/once", as: String.self)))
        }
    }

    @Test func `appear and vanish with services, their state and grants`() async throws {
        try await withDevices { phone, devices, services, _ in
            func known(_ device: Device) -> [Registry.Action]? {
                phone.announcedServices.first { $0.device == device.id && $0.path == "who" && $0.state == .running }?
                    .actions
            }
            try devices[0].pause("who")
            try await eventually { known(devices[0]) == nil }
            for _ in 0..<5 { #expect(try await phone.request("who/answers", as: String.self) == "b") }
            try devices[0].resume("who")
            try await eventually { known(devices[0]) != nil }
            _ = try await devices[1].client.call(
                Devices.ChangeGrants.self,
                .init(device: phone.id.description, add: [.node(pattern: "who/hidden")], remove: grants))
            try await eventually { known(devices[1])?.map(\.name) == ["who.hidden"] }
            for _ in 0..<5 { #expect(try await phone.request("who/answers", as: String.self) == "a") }
            struct More: Service {
                let info = ServiceInfo("more")
                var handlers: [Handler] { [.query("x", access: .paired) { _ in 7 }] }
            }
            let more = try devices[0].add(More())
            try await phone.waitUntilServed("more/x")
            #expect(try await phone.request("more/x", as: Int.self) == 7)
            await devices[0].remove(more)
            try await eventually { !phone.announcedServices.contains { $0.path == "more" } }
            await #expect(throws: KithError(.unsupported, "")) { try await phone.request("more/x", as: Int.self) }
            _ = try await devices[0].client.call(Devices.Forget.self, .init(device: phone.id.description))
            try await eventually { !phone.announcedServices.contains { $0.device == devices[0].id } }
        }
    }

    @Test func `a provider that is stopped under load loses no request that may be repeated`() async throws {
        try await withDevices { phone, devices, services, _ in
            let answers = Mutex<[String: Int]>([:])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<16 {
                    group.addTask { @Sendable in
                        // Until the first is gone and the other has answered for it a while.
                        var after = 0
                        while after < 20 {
                            let name: String = try await phone.request("who/answers")
                            answers.withLock { $0[name, default: 0] += 1 }
                            if !phone.announcedServices.contains(where: { $0.device == devices[0].id }) { after += 1 }
                        }
                    }
                }
                try await eventually { (answers.withLock { $0["a"] } ?? 0) > 50 }
                devices[0].beginGracefulShutdown()
                try await group.waitForAll()
            }
            #expect(answers.withLock { $0["b"] ?? 0 } > 0)
        }
    }

    /// `a` and `c` are not paired; any paired device may call what is served here, so nothing but the rule keeps `b` from
    /// telling `c` what `a` has.
    @Test func `that a device has learned of it does not announce, before and after a reconnection or a change`()
        async throws
    {
        struct Named: Service {
            let info: ServiceInfo
            init(_ path: String) { info = ServiceInfo(path) }
            var handlers: [Handler] { [.query("x", access: .paired) { _ in 7 }] }
        }
        let folders = [try TemporaryFolder(), try TemporaryFolder(), try TemporaryFolder()]
        var devices: [Device] = []
        for (folder, name) in zip(folders, ["a", "b", "c"]) {
            var options = onLoopback
            options.name = name
            options.services = .only([Named("of-\(name)")])
            devices.append(try await Device.open(directory: folder.path, options: options))
        }
        let (a, b, c) = (devices[0], devices[1], devices[2])
        try await a.whileRunning {
            try await b.whileRunning {
                try await pair(b, with: a, grants: [])
                for round in 1...3 {
                    try await c.whileRunning {
                        if round == 1 { try await pair(c, with: b, grants: []) }
                        #expect(try await c.request("of-b/x", from: .device("b"), as: Int.self) == 7)
                        // What comes to c after b has learned more shows that it was not told.
                        try a.add(Named("later\(round)"))
                        try await b.waitUntilServed("later\(round)/x")
                        #expect(try await b.request("later\(round)/x", as: Int.self) == 7)
                        try b.add(Named("fence\(round)"))
                        try await c.waitUntilServed("fence\(round)/x")
                        try await a.waitUntilServed("fence\(round)/x")
                        #expect(c.announcedServices.allSatisfy { $0.device == b.id })
                        #expect(
                            Set(c.announcedServices.map(\.path))
                                == Set((1...round).map { "fence\($0)" } + ["of-b"]))
                        #expect(a.announcedServices.allSatisfy { $0.device == b.id && $0.path != "of-c" })
                        for path in ["of-a/x", "later\(round)/x"] {
                            await #expect(throws: KithError(.unsupported, "")) {
                                try await c.request(path, as: Int.self)
                            }
                            await #expect(throws: KithError(.unsupported, "")) {
                                try await c.request(path, from: .device("b"), as: Int.self)
                            }
                        }
                    }
                }
            }
        }
    }

    @Test func `an action is asked once, and a query again`() async throws {
        try await withDevices { phone, devices, services, _ in
            for service in services { service.gate.withLock { $0 = { throw KithError(.internal, "broken") } } }
            await #expect(throws: KithError(.internal, "")) { try await phone.request("who/once", as: String.self) }
            #expect(services.map { $0.asked.load(ordering: .relaxed) }.reduce(0, +) == 1)
            var policy = RequestPolicy()
            (policy.retries, policy.retryDelay, policy.breakerFailures) = (1, 1, 0)
            try phone.setPolicy(policy, for: "who/*")
            await #expect(throws: KithError(.internal, "")) { try await phone.request("who/answers", as: String.self) }
            #expect(services.map { $0.asked.load(ordering: .relaxed) }.reduce(0, +) == 5)
            // One that recovers answers.
            services[1].gate.withLock { $0 = nil }
            for _ in 0..<5 { #expect(try await phone.request("who/answers", as: String.self) == "b") }
        }
    }

    @Test func `one that never returns is left for another, and hears of it`() async throws {
        try await withDevices { phone, devices, services, _ in
            let cancelled = Atomic(0)
            for service in services {
                service.gate.withLock {
                    $0 = {
                        do {
                            try await untilCancelled()
                        } catch {
                            cancelled.add(1, ordering: .relaxed)
                            throw error
                        }
                    }
                }
            }
            var policy = RequestPolicy()
            (policy.tryTimeout, policy.timeout, policy.retries) = (50, 60_000, 0)
            await #expect(throws: KithError(.timedOut, "")) {
                try await phone.request("who/answers", as: String.self, options: CallOptions(policy: policy))
            }
            try await eventually { cancelled.load(ordering: .relaxed) == 2 }
            // The whole has a limit, too; and the caller may give up.
            (policy.tryTimeout, policy.timeout) = (nil, 50)
            await #expect(throws: KithError(.timedOut, "")) {
                try await phone.request("who/answers", as: String.self, options: CallOptions(policy: policy))
            }
            let asked = services.map { $0.asked.load(ordering: .relaxed) }.reduce(0, +)
            let call = Task { try await phone.request("who/answers", as: String.self) }
            try await eventually { services.map { $0.asked.load(ordering: .relaxed) }.reduce(0, +) > asked }
            call.cancel()
            await #expect(throws: KithError(.cancelled, "")) { try await call.value }
        }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `The services of the device itself` {
    @Test func `describe, count, pause and resume, for its own person`() async throws {
        struct Adding: Service {
            struct Sum: Codable, Sendable { var a, b: Double }
            let info = ServiceInfo("math", name: "Mathematics", version: "1.0.0", "Adds numbers.")
            var handlers: [Handler] {
                [
                    .action("add", isIdempotent: true, "Adds.") { (input: Sum, _) in
                        guard input.a < 100 else { throw KithError(.conflict, "Too much.") }
                        return input.a + input.b
                    }
                ]
            }
        }
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.services = .only([Adding()])
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            for _ in 0..<3 { _ = try await device.request("math/add", Adding.Sum(a: 5, b: 3), as: Double.self) }
            _ = try? await device.request("math/add", Adding.Sum(a: 500, b: 3), as: Double.self)
            let list: Registry.Services = try await device.request("$registry/services/list")
            let math = try #require(list.services.first { $0.path == "math" })
            #expect(math.name == "Mathematics" && math.version == "1.0.0" && math.description == "Adds numbers.")
            #expect(math.network == "default" && math.state == .running && math.startedAt != nil && math.device == nil)
            let action = try #require(math.actions.first)
            #expect(action.name == "math.add" && action.kind == .action && action.isIdempotent)
            #expect(action.access == "grant node:math.add")
            #expect(action.input?.required == ["a", "b"] && action.input?.properties["a"]?["type"] == "number")
            #expect(action.output?["type"] == "number")
            let one: Registry.Service = try await device.request("$registry/services/math")
            #expect(one == math)
            #expect(
                list.services.contains { $0.path == "$registry" } && list.services.contains { $0.path == "devices" })
            let statistics: Registry.Statistics = try await device.request("$registry/services/math/stats")
            let counts = try #require(statistics.actions["math.add"])
            #expect(counts.calls == 4 && counts.errors == 1 && counts.running == 0)
            #expect(counts.lastError?.code == .conflict && counts.lastError?.message == "Too much.")
            #expect(counts.latency.buckets.reduce(0, +) == 4 && counts.latency.microseconds(at: 0.5) != nil)
            let all: Registry.AllStatistics = try await device.request("$registry/stats")
            #expect(all.services["math"] == statistics)

            let states = try device.subscribe(
                "$registry/services/math/state", as: String.self, lookBack: .seconds(3_600))
            var events = states.makeAsyncIterator()
            // What became of it before is there, too.
            for state in ["created", "starting", "running"] { #expect(try await events.next()?.message == state) }
            let paused: Registry.State = try await device.request("$registry/services/math/pause")
            #expect(try await events.next()?.message == "paused")
            #expect(paused.state == .paused)
            let health: Registry.Health = try await device.request("$health/status")
            #expect(!health.isHealthy && health.services["math"] == .paused)
            let state: Registry.State = try await device.request("$registry/services/math/state")
            #expect(state.state == .paused)
            let resumed: Registry.State = try await device.request("$registry/services/math/resume")
            #expect(resumed.state == .running)
            let whole: Registry.Health = try await device.request("$health/status")
            #expect(whole.isHealthy)
            let none: Registry.State = try await device.request("$registry/services/nobody/state")
            #expect(none.state == nil)
            await #expect(throws: KithError(.notFound, "")) {
                try await device.request("$registry/services/nobody", as: Registry.Service.self)
            }
            await #expect(throws: KithError(.invalid, "")) {
                try await device.request("$registry/services/$registry/pause", as: Registry.State.self)
            }
        }
    }

    @Test func `are closed to other devices, and opened by a grant that names them`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "*"), .node(pattern: ">")])
                for path in [
                    "$registry/services/list", "$registry/services/shell", "$registry/services/shell/state",
                    "$registry/services/shell/pause", "$registry/stats", "$health/status", "$keys/list", "$keys/ensure",
                    "$keys/network", "$keys/profile",
                ] {
                    await #expect(throws: KithError(.denied, ""), "\(path)") {
                        try await phone.request(
                            path, Keys.Label(label: "backup"), from: .device("laptop"), as: Nothing.self)
                    }
                }
                _ = try await laptop.client.call(
                    Devices.ChangeGrants.self,
                    .init(
                        device: phone.id.description, add: [.node(pattern: "$registry/services/*/state")], remove: []))
                let state: Registry.State = try await phone.request(
                    "$registry/services/shell/state", from: .device("laptop"))
                #expect(state.state == .running)
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(named: "$registry/services/shell/pause", on: "laptop")
                }
                #expect(laptop.state(of: "shell") == .running)
                // Keys are given to the device's own person, and to whom that person names.
                let own: Keys.Secret = try await laptop.request("$keys/ensure", Keys.Label(label: "backup"))
                _ = try await laptop.client.call(
                    Devices.ChangeGrants.self,
                    .init(device: phone.id.description, add: [.node(pattern: "$keys/ensure")], remove: []))
                let given: Keys.Secret = try await phone.request(
                    "$keys/ensure", Keys.Label(label: "backup"), from: .device("laptop"))
                #expect(own.key.bytes.count == 32 && given == own)
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(named: "$keys/list", on: "laptop")
                }
            }
        }
    }
}
