import KithAPI
import KithIO
import KithIdentity
@testable import KithNode
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(1))) struct `A device that has fallen silent` {
    private func hang(_ friends: Friends, _ options: CallOptions = CallOptions()) async -> Task<Nothing, any Error> {
        let call = Task { try await friends.phone.client.call(Hang.self, Nothing(), on: "laptop", options: options) }
        await friends.service.started.wait()
        return call
    }

    @Test func `ends a call without a time limit after half a minute, and is named`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [], clock: clock)
        let call = await hang(friends)
        let link = try #require(friends.dialer.link(to: friends.laptopID))
        func look(after time: Duration) async throws {
            let looks = link.silenceLooks
            clock.advance(by: time)
            // It has looked, and said when it looks again.
            try await eventually { link.silenceLooks == looks + 1 && friends.phone.timers.count == 1 }
        }
        // Heard now and then: whoever only works is waited for.
        try await look(after: .seconds(10))
        for _ in 0..<5 { try await look(after: .seconds(30)) }
        link.setSilence(.seconds(29))
        try await look(after: .seconds(30))
        link.setSilence(.seconds(60))
        // The timer is late, as after a suspension of this process: it looks once more.
        try await look(after: .seconds(31))
        clock.advance(by: .seconds(1))
        let error = await #expect(throws: KithError.self) { try await call.value }
        #expect(error?.code == .timedOut)
        #expect(error?.message.hasPrefix("laptop does not answer") == true, "\(error?.message ?? "")")
        await friends.service.cancelled.wait()
    }

    @Test func `leaves a call its own time limit, and a stream its patience`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [.shell], clock: clock)
        let call = await hang(friends, CallOptions(timeout: .seconds(300)))
        let link = try #require(friends.dialer.link(to: friends.laptopID))
        link.setSilence(.seconds(200))
        let isDone = Locked(false)
        let stream = Task {
            defer { isDone.set(true) }
            _ = try await friends.phone.client.open(Slow.self, Nothing(), on: "laptop")
        }
        await friends.service.started.wait()
        clock.advance(by: .seconds(299))
        #expect(friends.phone.timers.count == 1)
        clock.advance(by: .seconds(1))
        await #expect(throws: KithError(.timedOut, "")) { try await call.value }
        #expect(friends.phone.timers.count == 0)
        #expect(!isDone.value)
        stream.cancel()
        _ = await stream.result
    }

    @Test func `is replaced by the next provider after a heartbeat`() async throws {
        let clock = ManualClock()
        let phone = try Friends.id(9)
        let ids = [try Friends.id(1), try Friends.id(2)]
        let directory = MemoryDirectory()
        var laptops: [DeviceID: Node] = [:]
        for id in ids {
            let friends = MemoryDirectory(KnownDevice(id: phone, name: "phone", grants: [], addresses: []))
            laptops[id] = Node(id: id, directory: friends, clock: clock, logger: .quiet)
            directory.set(
                KnownDevice(
                    id: id, name: id.short, grants: [], addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 1)]))
        }
        let asked = Locked<[DeviceID]>([])
        for (id, laptop) in laptops {
            let service = Answering {
                asked.set(asked.value + [id])
                // The first that is asked never answers.
                if asked.value.count == 1 { try await untilCancelled() }
            }
            try laptop.add(service)
        }
        let node = Node(id: phone, directory: directory, clock: clock, logger: .quiet)
        let dialer = PipeDialer(phone, peers: laptops)
        node.use(dialer)
        for id in ids {
            let service = Registry.Service(
                path: "slow", network: "default", name: "slow", version: "", description: "", state: .running,
                actions: [Registry.Action(name: "slow.answer", kind: .query, summary: "", isIdempotent: true)])
            node.providers.receive(
                Services.Change(version: 1, isWhole: true, changed: [service], removed: []), from: id, over: 1)
        }
        let call = Task { try await node.client.request("slow/answer", as: Int.self) }
        try await eventually { asked.value.count == 1 }
        dialer.link(to: asked.value[0])?.setSilence(.seconds(10))
        clock.advance(by: .seconds(10))
        #expect(try await call.value == 1)
        #expect(asked.value.count == 2)
    }
}

/// Answers when it may.
private struct Answering: Service {
    let info = ServiceInfo("slow")
    let wait: @Sendable () async throws -> Void

    init(_ wait: @escaping @Sendable () async throws -> Void) { self.wait = wait }

    var handlers: [Handler] {
        [
            .query("answer", access: .paired) { _ in
                try await wait()
                return 1
            }
        ]
    }
}
