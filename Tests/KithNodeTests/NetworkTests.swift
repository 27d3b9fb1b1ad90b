import KithAPI
import KithIdentity
import KithNet
@testable import KithNode
import KithStore
import KithTesting
import KithWire
import Logging
import Testing

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// A node with a store and an endpoint of its own, on this machine.
private struct Machine {
    let folder: TemporaryFolder
    let key: DeviceKey
    let store: Store
    let endpoint: Endpoint
    let node: Node
    let service = TestService()

    init(options: Node.Options = Node.Options(), at addresses: [NetworkAddress] = []) async throws {
        key = DeviceKey()
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
        var endpointOptions = Endpoint.Options()
        endpointOptions.bindAddresses = addresses
        endpoint = try await Endpoint.bind(key: key, options: endpointOptions, logger: .quiet)
        node = Node(
            id: key.id, store: store, methods: TestService().handlers.map(\.method), options: options, logger: .quiet)
        try node.add(service)
    }

    func befriend(_ other: Machine, as name: String, grants: [Grant]) throws {
        _ = try store.add(
            PairedDevice(
                id: other.key.id, name: name, addresses: other.endpoint.localAddresses, grants: grants, pairedAt: 0))
    }
}

/// Two machines, the phone calling the laptop; both end with the body.
private func withMachines(
    grants: [Grant]?, options: Node.Options = Node.Options(), at addresses: [NetworkAddress] = [],
    _ body: (_ laptop: Machine, _ phone: Machine) async throws -> Void
) async throws {
    let laptop = try await Machine(options: options, at: addresses)
    let phone = try await Machine(at: addresses)
    if let grants { try laptop.befriend(phone, as: "phone", grants: grants) }
    try phone.befriend(laptop, as: "laptop", grants: [])
    let serving = [laptop, phone].map { machine in Task { await machine.node.serve(machine.endpoint) } }
    // `serve` tells the node its endpoint first thing.
    while !phone.node.isOnNetwork { await Task.yield() }
    do {
        try await body(laptop, phone)
    } catch {
        Issue.record(error)
    }
    for task in serving { task.cancel() }
    for task in serving { await task.value }
    await laptop.endpoint.shutdown()
    await phone.endpoint.shutdown()
}

@Suite(.timeLimit(.minutes(4))) struct `Two nodes over QUIC` {
    @Test func `a call is answered`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            #expect(try await phone.node.client.call(Ask.self, "hi", on: "laptop") == "hi!")
            #expect(laptop.service.lastContext.value?.caller == .device(phone.key.id, name: "phone", paired: true))
            #expect(phone.node.onlineDevices == [laptop.key.id])
            let status = try #require(await phone.node.link(to: laptop.key.id))
            #expect(status.address?.port == laptop.endpoint.port)
            #expect(try await phone.node.client.call(Ask.self, "more", on: "laptop") == "more!")
        }
    }

    @Test func `both ends export the same keying material`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            let (opened, export) = try await phone.node.open(
                Export.self, Nothing(), at: laptop.key.id, addresses: laptop.endpoint.localAddresses)
            var there: [UInt8] = []
            while let bytes = try await opened.stream.read(upTo: 64) { there += bytes }
            #expect(there.count == 32)
            #expect(try await export("label", [1, 2]) == there)
        }
    }

    @Test func `an error keeps its code`() async throws {
        try await withMachines(grants: []) { _, phone in
            await #expect(throws: KithError(.denied, "")) {
                try await phone.node.client.call(Guarded.self, .init(rule: .shell), on: "laptop")
            }
            await #expect(throws: KithError(.conflict, "")) {
                try await phone.node.client.open(Fails.self, .init(code: .conflict, accepts: false), on: "laptop")
            }
        }
    }

    @Test func `a device that does not take the reason for the end of a stream gets its code`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            // These serve no `reach.failed`, as devices before it do not.
            for _ in 0..<2 {
                let stream = try await phone.node.client.open(
                    Fails.self, .init(code: .conflict, accepts: true), on: "laptop"
                ).stream
                await #expect(throws: KithError(.conflict, "")) { try await stream.read(upTo: 10) }
                // Nor does one that says so.
                laptop.node.learn(Reach.Hello(version: "0.1.0", protocol: 1, capabilities: []), from: phone.key.id)
            }
        }
    }

    @Test func `a stream carries bytes both ways`() async throws {
        try await withMachines(grants: [.shell]) { _, phone in
            let opened = try await phone.node.client.open(Pour.self, Nothing(), on: "laptop")
            let chunk = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            let stream = opened.stream
            let writing = Task {
                for _ in 0..<40 { try await stream.write(chunk) }
                try await stream.finish()
            }
            var received = 0
            while let bytes = try await stream.read(upTo: 64 << 10) {
                #expect(bytes[0] == chunk[received % chunk.count])
                received += bytes.count
            }
            try await writing.value
            #expect(received == 40 * chunk.count)
        }
    }

    @Test func `what is written before the answer arrives, and nothing of it where the stream is refused`() async throws
    {
        try await withMachines(grants: [.shell]) { laptop, phone in
            let client = phone.node.client
            let chunk = [UInt8](repeating: 5, count: 100_000)
            let poured = try await client.begin(Pour.self, Nothing(), on: "laptop")
            try await poured.write(chunk)
            try await poured.finish()
            var received = 0
            while let bytes = try await poured.read(upTo: 64 << 10) { received += bytes.count }
            #expect(received == chunk.count)
            #expect(try await poured.answer() == "ready")
            // This one never answers: it is begun all the same, and given up by its caller.
            let slow = try await client.begin(Slow.self, Nothing(), on: "laptop")
            try await slow.write([5])
            await laptop.service.started.wait()
            slow.abort(.cancelled)
            await laptop.service.cancelled.wait()
            let refused = try await client.begin(Fails.self, .init(code: .conflict, accepts: false), on: "laptop")
            try await refused.write(chunk)
            await #expect(throws: KithError(.conflict, "")) { try await refused.read(upTo: 1) }
            #expect(refused.refusal?.message == "As asked.")
            try laptop.store.setGrants([], of: phone.key.id)
            laptop.node.grantsChanged(for: phone.key.id)
            let denied = try await client.begin(Pour.self, Nothing(), on: "laptop")
            await #expect(throws: KithError(.denied, "")) { try await denied.answer() }
        }
    }

    @Test func `cancelling a call cancels the handler there`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            let client = phone.node.client
            let call = Task { try await client.call(Hang.self, Nothing(), on: "laptop") }
            await laptop.service.started.wait()
            call.cancel()
            await laptop.service.cancelled.wait()
            await #expect(throws: KithError(.cancelled, "")) { try await call.value }
        }
    }

    @Test func `a forgotten device is cut off in the middle of a stream`() async throws {
        try await withMachines(grants: [.shell]) { laptop, phone in
            let opened = try await phone.node.client.open(Stall.self, Nothing(), on: "laptop")
            #expect(try await opened.stream.read(upTo: 1) == [1])
            #expect(try laptop.store.forget(phone.key.id))
            laptop.node.revoke(phone.key.id)
            await laptop.service.cancelled.wait()
            await #expect(throws: KithError.self) { try await opened.stream.read(upTo: 1) }
            await #expect(throws: KithError(.unpaired, "")) {
                try await phone.node.client.call(Ask.self, "hi", on: "laptop")
            }
        }
    }

    @Test func `a grant taken away ends the stream, with its code`() async throws {
        try await withMachines(grants: [.shell]) { laptop, phone in
            let opened = try await phone.node.client.open(Stall.self, Nothing(), on: "laptop")
            #expect(try await opened.stream.read(upTo: 1) == [1])
            try laptop.store.setGrants([], of: phone.key.id)
            laptop.node.grantsChanged(for: phone.key.id)
            await laptop.service.cancelled.wait()
            await #expect(throws: KithError(.denied, "")) { try await opened.stream.read(upTo: 1) }
            #expect(try await phone.node.client.call(Ask.self, "hi", on: "laptop") == "hi!")
        }
    }

    @Test(.timeLimit(.minutes(4))) func `a device that is not paired is refused, and audited`() async throws {
        try await withMachines(grants: nil) { laptop, phone in
            #expect(try await phone.node.client.call(Guarded.self, .init(rule: .anyone), on: "laptop") == "done")
            // Long enough for another action to make sure first that the other end is there.
            let link = try #require(phone.endpoint.connection(to: laptop.key.id))
            try await eventually { await link.statistics().quiet > .milliseconds(100) }
            #expect(try await phone.node.client.call(Guarded.self, .init(rule: .anyone), on: "laptop") == "done")
            await #expect(throws: KithError(.unpaired, "")) {
                try await phone.node.client.call(Guarded.self, .init(rule: .shell), on: "laptop")
            }
            #expect(laptop.service.served.value == 2)
            // It is written down behind the call.
            try await eventually {
                try laptop.store.audit(limit: 10).contains {
                    $0.decision == .denied && $0.device == phone.key.id.description
                }
            }
        }
    }

    @Test func `a connection that was closed is made again`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            let one = try await phone.node.client.call(Ask.self, "one", on: "laptop")
            #expect(one == "one!")
            for connection in laptop.endpoint.connections { connection.close(code: .closed, reason: "test") }
            let two = try await phone.node.client.call(Ask.self, "two", on: "laptop")
            #expect(two == "two!")
        }
    }

    @Test func `the store remembers where a device was seen`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            _ = try await phone.node.client.call(Ask.self, "hi", on: "laptop")
            while try laptop.store.device(phone.key.id)?.lastSeen == nil { await Task.yield() }
            let device = try #require(try laptop.store.device(phone.key.id))
            #expect(device.addresses.first?.port == phone.endpoint.port)
        }
    }

    @Test func `nobody there is unreachable`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            await laptop.endpoint.shutdown()
            await #expect(throws: KithError(.unreachable, "")) {
                try await phone.node.client.call(
                    Ask.self, "hi", on: "laptop", options: CallOptions(timeout: .seconds(20)))
            }
        }
    }

    @Test func `the store remembers where a connected device has moved to, at both ends`() async throws {
        let here = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)
        try await withMachines(grants: [], at: [here]) { laptop, phone in
            _ = try await phone.node.client.call(Ask.self, "hi", on: "laptop")
            let there = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)
            for (moving, other) in [(phone, laptop), (laptop, phone)] {
                try await moving.endpoint.rebind(to: [there])
                let address = try #require(moving.endpoint.localAddresses.first)
                try await eventually {
                    // What is sent shows where it comes from.
                    _ = try await phone.node.client.call(Ask.self, "hi", on: "laptop")
                    return try other.store.device(moving.key.id)?.addresses.first == address
                }
                let entry = try #require(try other.store.addressBook(of: moving.key.id).entries.first)
                #expect(entry.lastGood != nil)
            }
        }
    }

    @Test func `a device that refuses the handshake, or the connection, has forgotten this one`() async throws {
        try await withMachines(grants: []) { _, phone in
            for verdict in [Endpoint.Admission.refused, .full] {
                let key = DeviceKey()
                var options = Endpoint.Options()
                options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
                options.admit = { _, _ in verdict }
                let other = try await Endpoint.bind(key: key, options: options, logger: .quiet)
                _ = try phone.store.add(
                    PairedDevice(
                        id: key.id, name: "desk", addresses: other.localAddresses, grants: [], pairedAt: 0))
                let closing = Task {
                    for await connection in other.established { connection.close(code: .unpaired, reason: "Gone.") }
                }
                let error = await #expect(throws: KithError(.unpaired, "")) {
                    try await phone.node.client.call(Ask.self, "hi", on: key.id.description)
                }
                #expect(error?.message.contains("not paired with this device any more") == true, "\(verdict)")
                #expect(try phone.store.standing(at: key.id)?.isForgotten == true, "\(verdict)")
                _ = try phone.store.forget(key.id)
                await other.shutdown()
                await closing.value
            }
        }
    }

    @Test func `a device without Kith is said to be there without it`() async throws {
        try await withMachines(grants: []) { laptop, phone in
            await laptop.endpoint.shutdown()
            let error = await #expect(throws: KithError(.unreachable, "")) {
                try await phone.node.client.call(Ask.self, "hi", on: "laptop")
            }
            #expect(error?.message.hasPrefix("laptop's machine answers, but no Kith is running there.") == true)
        }
    }
}

@Suite struct `How often a disk hears of a device` {
    @Test func `at once, and a path that flaps not each second`() {
        var budget = WriteBudget()
        let start = ContinuousClock.now
        #expect((0..<8).allSatisfy { _ in budget.take(at: start) == nil })
        let next = budget.take(at: start)
        #expect(next == start + .seconds(15))
        // An hour of news each second.
        var writes = 0
        for second in 0..<3_600 where budget.take(at: start + .seconds(second)) == nil { writes += 1 }
        #expect(writes == 239)
        // And whole again after a while.
        #expect((0..<8).allSatisfy { _ in budget.take(at: start + .seconds(7_200)) == nil })
    }
}

@Suite struct `Standings` {
    @Test func `what an earlier version says and hears of standings is still understood`() throws {
        let now = AnyMethod(Reach.Standing.self)
        let before = AnyMethod(FormerStanding.self)
        func passed(_ value: any Sendable, from: AnyMethod.Coding, to: AnyMethod.Coding) throws -> any Sendable {
            try to.decode(try from.encode(value, .cbor))
        }
        let address = NetworkAddress(ipv4: (192, 0, 2, 1), port: 7)
        #expect(try passed(Nothing(), from: before.input, to: now.input) as? Reach.Standing.Input == .init())
        #expect(
            try passed(
                Reach.Standing.Input(addresses: [address], hello: .own(version: "0.1.0")), from: now.input,
                to: before.input) is Nothing)
        let old = FormerStanding.Output(grants: [.shell], version: "0.1.0", time: 5)
        #expect(
            try passed(old, from: before.output, to: now.output) as? Reach.Standing.Output
                == .init(grants: [.shell], version: "0.1.0", time: 5))
        let new = Reach.Standing.Output(
            grants: [.shell], version: "0.1.0", time: 5, addresses: [address], hello: .own(version: "0.1.0"))
        #expect(try passed(new, from: now.output, to: before.output) as? FormerStanding.Output == old)
    }
}

/// `reach.standing` as it was before devices told each other where they listen.
private enum FormerStanding: Method {
    typealias Input = Nothing
    struct Output: Codable, Hashable, Sendable {
        var grants: [Grant]
        var version: String
        var time: Int64
    }
    static let header = Reach.Standing.header
}
