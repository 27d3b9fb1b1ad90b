import Dispatch
import Foundation
import Kith
import KithTesting
import Testing

/// Does everything on the main actor, so it comes to an end only while nothing keeps that.
private struct MainService: Service {
    let info = ServiceInfo("main")

    var handlers: [Handler] {
        [.query("echo") { (number: Int, _) in await MainActor.run { number } }]
    }

    func start(_ context: StartContext) async throws { await MainActor.run {} }
    func stop() async { await MainActor.run {} }
}

/// Says how urgent it is to whoever calls.
private struct UrgencyService: Service {
    let info = ServiceInfo("urgency")
    /// Yields when a call has begun that waits to become urgent.
    let waiting = AsyncStream.makeStream(of: Void.self)

    var handlers: [Handler] {
        [
            .query("now") { (_: Int, _) in Task.currentPriority.rawValue },
            .query("raised") { (least: UInt8, _) in
                waiting.continuation.yield()
                while Task.currentPriority.rawValue < least {
                    try Task.checkCancellation()
                    await Task.yield()
                }
                return Task.currentPriority.rawValue
            },
        ]
    }
}

/// Keeps the main thread, until it is let go.
private final class HeldMainThread: Sendable {
    private let end = DispatchSemaphore(value: 0)

    /// Returns once nothing else runs there.
    init() async {
        let (held, holds) = AsyncStream.makeStream(of: Void.self)
        Task { @MainActor [end] in
            holds.finish()
            Self.wait(for: end)
        }
        for await _ in held {}
    }

    private static func wait(for end: DispatchSemaphore) { end.wait() }

    func letGo() { end.signal() }
}

@Suite(.timeLimit(.minutes(4))) struct `The caller of a device` {
    @MainActor @Test(arguments: [Provider.thisDevice, .device("laptop")])
    func `on the main actor starts, asks a thousand times at once and stops, and is kept by none of it`(
        provider: Provider
    ) async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.services = .only([MainService()])
        let device = try await Device.open(directory: here.path, options: options)
        options.name = "laptop"
        let laptop = try await Device.open(directory: there.path, options: options)
        let runs = [laptop, device].map { device in Task { @MainActor in try await device.run() } }
        try await laptop.waitUntilServed("main/echo")
        if case .device = provider { try await pair(device, with: laptop, grants: [.node(pattern: "main/*")]) }
        // Whatever else an app does there.
        var beats = 0
        let heart = Task { @MainActor in
            while !Task.isCancelled {
                beats += 1
                await Task.yield()
            }
        }
        let calls = (0..<1_000).map { number in
            Task { @MainActor in
                let before = beats
                try await device.waitUntilServed("main/echo")
                let echo = try await device.request("main/echo", number, from: provider, as: Int.self)
                return (echo, beats - before)
            }
        }
        for (number, call) in calls.enumerated() {
            let (echo, beats) = try await call.value
            #expect(echo == number && beats > 0)
        }
        let before = beats
        for device in [device, laptop] { device.beginGracefulShutdown() }
        for run in runs { try await run.value }
        #expect(device.state(of: "main") == .stopped && beats > before)
        heart.cancel()
    }

    @Test func `needs no main thread, whatever it does`() async {
        let turn = await ExitTestTurn.take()
        defer { turn.end() }
        // A process of its own: others need theirs.
        await #expect(processExitsWith: .success) {
            let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
            let held = await HeldMainThread()
            var options = onLoopback
            options.name = "laptop"
            options.services.own = [MathService()]
            let laptop = try await Device.open(directory: there.path, options: options)
            let phone = try await Device.open(directory: here.path, options: onLoopback)
            for round in 0..<2 {
                try await laptop.whileRunning {
                    try await phone.whileRunning {
                        if round == 0 { try await pair(phone, with: laptop, grants: [.node(pattern: "*")]) }
                        for number in 0..<100 {
                            let sum = try await phone.client.call(Math.Add.self, .init(a: 2, b: number), on: "laptop")
                            let own = try await laptop.request("math/add", Math.Pair(a: 2, b: number), as: Int.self)
                            try #require(sum == 2 + number && own == sum)
                        }
                        let sums = try await phone.client.open(Math.Running.self, Nothing(), on: "laptop").stream
                        try await sums.send(Math.Number(value: 1))
                        try #require(try await sums.receive() == Math.Number(value: 1))
                        let events = try phone.subscribe("weather/*", as: Int.self)
                        try phone.publish(20, to: "weather/here")
                        for try await event in events {
                            try #require(event.message == 20)
                            break
                        }
                    }
                }
            }
            held.letGo()
        }
    }

    @Test func `has its urgency on this device, from the first moment`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.services = .only([UrgencyService()])
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            for urgency in [TaskPriority.background, .utility, .medium, .high] {
                let anywhere = Task(priority: urgency) {
                    try await device.request("urgency/now", 0, as: UInt8.self)
                }
                let main = Task(priority: urgency) { @MainActor in
                    try await device.request("urgency/now", 0, as: UInt8.self)
                }
                // Whoever waits for them may raise them.
                let (seen, seenByMain) = (try await anywhere.value, try await main.value)
                #expect(seen >= urgency.rawValue && seenByMain >= urgency.rawValue)
            }
        }
    }

    @Test func `that is waited for by one more urgent becomes as urgent, and so does what runs for it`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        let service = UrgencyService()
        options.services = .only([service])
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let least = TaskPriority.high.rawValue
            let call = Task(priority: .low) { try await device.request("urgency/raised", least, as: UInt8.self) }
            for await _ in service.waiting.stream { break }
            let waiter = Task(priority: .high) { try await call.value }
            // Nobody else waits for the call meanwhile.
            let raised = try await waiter.value
            #expect(raised >= least)
        }
    }
}
