import Foundation
import Kith
import KithTesting
import Synchronization
import Testing

/// An app whose platform is this test.
@Suite(.timeLimit(.minutes(4))) struct `A device whose app comes and goes` {
    private struct App {
        let device: Device
        let runner: LifecycleRunner
        let platform: AsyncStream<LifecycleEvent>.Continuation
        let running: Task<Void, Never>

        init(_ device: Device, _ options: LifecycleRunner.Options = LifecycleRunner.Options()) {
            self.device = device
            let runner = LifecycleRunner(device, options: options)
            let (events, platform) = AsyncStream.makeStream(of: LifecycleEvent.self)
            (self.runner, self.platform) = (runner, platform)
            running = Task { await runner.run(events) }
        }

        func become(_ state: LifecycleMachine.State, by event: LifecycleEvent...) async throws {
            for event in event { platform.yield(event) }
            try await eventually { runner.deviceState == state }
        }
    }

    @Test func `is the same in the foreground, with its services, and reaches its devices again by itself`()
        async throws
    {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.services.own = [MathService()]
        let laptop = try await Device.open(directory: there.path, options: options)
        let device = try await Device.open(directory: here.path, options: onLoopback)
        let (id, client) = (device.id, device.client)
        let service = MathService()
        try device.add(service)
        try await laptop.whileRunning {
            let app = App(device)
            try await app.become(.running)
            try await pair(device, with: laptop, grants: [.node(pattern: "*")])
            #expect(try await client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop") == 5)
            try await eventually { device.onlineDevices == [laptop.id] && laptop.onlineDevices == [id] }
            for round in 1...3 {
                try await app.become(.stopped, by: .resignActive, .background)
                #expect(service.stops.load(ordering: .relaxed) == round)
                #expect(!Device.isRunning(directory: here.path))
                await #expect(throws: KithError(.closed, "")) {
                    try await client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop")
                }
                try await eventually { laptop.onlineDevices.isEmpty }
                try await app.become(.running, by: .foreground, .becomeActive)
                // Nobody calls anybody.
                try await eventually { laptop.onlineDevices == [id] }
                #expect(device.id == id && app.runner.failure == nil)
                #expect(try await client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop") == 5)
                #expect(try await client.call(Math.Add.self, .init(a: round, b: 3)) == round + 3)
            }
            app.platform.yield(.terminate)
            await app.running.value
            #expect(app.runner.deviceState == .finished && !Device.isRunning(directory: here.path))
        }
    }

    @Test func `takes a service while it is in the background, and lets one go`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let app = App(device)
        try await app.become(.running)
        try await app.become(.stopped, by: .background)
        let id = try device.add(MathService())
        #expect(throws: KithError(.conflict, "")) { try device.add(MathService()) }
        await device.remove(id)
        try device.add(MathService())
        try await app.become(.running, by: .foreground)
        #expect(try await device.client.call(Math.Add.self, .init(a: 2, b: 3)) == 5)
        app.running.cancel()
        await app.running.value
        #expect(!Device.isRunning(directory: folder.path))
    }

    @Test func `comes to rest as it was last wanted, however fast its app changes its mind`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let app = App(device)
        for _ in 0..<10 {
            for _ in 0..<5 {
                for event in [LifecycleEvent.background, .foreground, .background] { app.platform.yield(event) }
            }
            app.platform.yield(.foreground)
            app.platform.yield(.memoryWarning)
            try await eventually { (try? await device.client.call(ThisDevice.Status.self, Nothing())) != nil }
        }
        app.platform.yield(.background)
        app.platform.finish()
        await app.running.value
        #expect(!Device.isRunning(directory: folder.path))
    }

    @Test func `tries again when it cannot start, and says why meanwhile`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let app = App(device)
        try await app.become(.running)
        try await app.become(.stopped, by: .background)
        let other = try await Device.open(directory: folder.path, options: onLoopback)
        app.platform.yield(.foreground)
        try await eventually { (app.runner.failure as? KithError)?.code == .conflict }
        other.beginGracefulShutdown()
        try await other.run()
        try await eventually { app.runner.deviceState == .running }
        #expect(app.runner.failure == nil)
        app.running.cancel()
        await app.running.value
    }

    @Test func `stops hard before the platform's limit when a call does not end`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.node.drain = .seconds(86_400)
        options.services.own = [MathService()]
        let device = try await Device.open(directory: folder.path, options: options)
        var limits = LifecycleRunner.Options()
        limits.limits.budget = .milliseconds(50)
        let app = App(device, limits)
        try await app.become(.running)
        let stream = try await device.client.open(Math.Running.self, Nothing()).stream
        try await app.become(.stopped, by: .background)
        await #expect(throws: (any Error).self) { try await stream.receive() }
        #expect(!Device.isRunning(directory: folder.path))
        app.running.cancel()
        await app.running.value
    }

    #if os(Linux)
    @Test func `leaves no socket, no thread and no task in the background, however often it came and went`() async {
        let turn = await ExitTestTurn.take()
        defer { turn.end() }
        // A process of its own: nobody else opens anything there.
        await #expect(processExitsWith: .success) {
            let before = try Remains.now
            let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
            var options = onLoopback
            var discovery = LocalDiscovery.Options()
            discovery.group.port = .random(in: 40_000..<50_000)
            options.discovery = discovery
            options.name = "laptop"
            options.services.own = [MathService()]
            let device = try await Device.open(directory: here.path, options: options)
            let other = try await Device.open(directory: there.path, options: options)
            // What the process has anyway is there from the first time on.
            let app = App(device)
            try await app.become(.running)
            try await other.whileRunning { try await pair(device, with: other, grants: [.node(pattern: "*")]) }
            try await app.become(.stopped, by: .background)
            var base = try Remains.now
            func settle() async throws {
                try await eventually {
                    let now = try Remains.now
                    base.threads = min(base.threads, now.threads)
                    base.descriptors = min(base.descriptors, now.descriptors)
                    return now.sockets <= before.sockets
                }
            }
            try await settle()
            let cycles = Remains.cycles
            var memory = 0
            for cycle in 0..<cycles {
                try await app.become(.running, by: .foreground)
                let up = try Remains.now
                precondition(up.sockets > before.sockets, "it listens: \(up)")
                let sum = try await device.client.call(Math.Add.self, .init(a: 2, b: 3))
                precondition(sum == 5)
                try await app.become(.stopped, by: .background)
                if cycle == min(cycles / 2, 100) { memory = try Remains.memory }
            }
            // Threads of the system's pools come and go by themselves.
            try await eventually {
                let now = try Remains.now
                return now.sockets <= before.sockets && now.descriptors <= base.descriptors
                    && now.threads <= base.threads + 2
            }
            let (end, grown) = (try Remains.now, try Remains.memory - memory)
            print("after \(cycles) times: \(end), before: \(base); memory: \(memory) KiB and \(grown)")
            if cycles >= 200 { precondition(grown < Remains.memoryLimit, "memory does not grow") }
            app.running.cancel()
            await app.running.value
        }
    }
    #endif
}
