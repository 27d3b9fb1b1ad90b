import KithAPI
import KithIdentity
import KithNet
import KithTesting
import KithWire
import Testing

@testable import KithNode

@Suite struct `Who may call what` {
    static let id = DeviceID(text: 9)
    static let unpaired = Caller.device(id, name: "x", paired: false)
    static let paired = Caller.device(id, name: "x", paired: true)
    static let read = Access.granted(.files(.read, root: "/srv/a"))
    static let files = Access.holding(.files)
    static let anyPaired = Access.paired

    /// Who, holding what, wants what, and is refused how.
    static let matrix: [(Caller, [Grant], Access, KithError.Code?)] = [
        (.owner, [], .anyone, nil), (.owner, [], anyPaired, nil), (.owner, [], .owner, nil),
        (.owner, [], .granted(.shell), nil), (.owner, [], files, nil),
        (unpaired, [], .anyone, nil), (unpaired, [], anyPaired, .unpaired), (unpaired, [], .owner, .unpaired),
        (unpaired, [], .granted(.shell), .unpaired), (unpaired, [], files, .unpaired),
        // Grants of a device that is not paired are worth nothing, should there be any.
        (unpaired, [.shell], .granted(.shell), .unpaired),
        (paired, [], .anyone, nil), (paired, [], anyPaired, nil), (paired, [], .owner, .denied),
        (paired, [.shell, .forward, .library], .owner, .denied),
        (paired, [], .granted(.shell), .denied), (paired, [.shell], .granted(.shell), nil),
        (paired, [.files(.write, root: "/")], .granted(.shell), .denied),
        (paired, [], read, .denied), (paired, [.files(.read, root: "/srv")], read, nil),
        (paired, [.files(.write, root: "/srv/a")], read, nil), (paired, [.files(.read, root: "/srv/b")], read, .denied),
        (paired, [.files(.read, root: "/srv/ab")], read, .denied),
        (paired, [.files(.read, root: "/srv")], .granted(.files(.write, root: "/srv/a")), .denied),
        (paired, [], files, .denied), (paired, [.shell], files, .denied),
        (paired, [.files(.read, root: "/x")], files, nil),
    ]

    @Test(arguments: matrix.indices)
    func `each caller gets what it may and nothing else`(index: Int) {
        let (caller, grants, access, code) = Self.matrix[index]
        #expect(access.refusal(of: caller, holding: grants)?.code == code)
    }
}

extension DeviceID {
    fileprivate init(text number: UInt8) {
        guard let id = try? DeviceID(publicKey: [UInt8](repeating: number, count: 32)) else { fatalError("32 bytes") }
        self = id
    }
}

@Suite struct `Calls to another device` {
    @Test func `a query is answered`() async throws {
        let friends = try Friends(grants: [])
        #expect(try await friends.phone.client.call(Ask.self, "hi", on: "laptop") == "hi!")
        #expect(friends.service.lastContext.value?.caller == .device(friends.phoneID, name: "phone", paired: true))
        #expect(friends.dialer.dials == 1)
        #expect(try await friends.phone.client.call(Ask.self, "again", on: "lap") == "again!")
        #expect(friends.dialer.dials == 1)
    }

    @Test(arguments: [
        (Guarded.Input.Rule.owner, KithError.Code.denied), (.shell, .denied), (.read, .denied), (.holding, .denied),
    ])
    func `a missing grant is refused before any side effect, and audited`(
        rule: Guarded.Input.Rule, code: KithError.Code
    ) async throws {
        let friends = try Friends(grants: [.forward])
        await #expect(throws: KithError(code, "")) {
            try await friends.phone.client.call(Guarded.self, .init(rule: rule), on: "laptop")
        }
        #expect(friends.service.served.value == 0)
        #expect(friends.laptopDirectory.audit.map(\.isAllowed) == [false])
        #expect(friends.laptopDirectory.audit.map(\.method) == [Guarded.name])
    }

    /// A copy, what a person types, and anything else.
    private struct Traffics: Service {
        enum Copy: StreamMethod {
            typealias Input = Nothing
            typealias Output = Nothing
            typealias Upstream = RawBytes
            typealias Downstream = RawBytes
            static let header = MethodHeader.stream("test.copy", by: .paired, carrying: .bulk, "Copies.")
        }

        enum Keys: StreamMethod {
            typealias Input = Nothing
            typealias Output = Nothing
            typealias Upstream = RawBytes
            typealias Downstream = RawBytes
            static let header = MethodHeader.stream("test.keys", by: .paired, carrying: .input, "Types.")
        }

        var handlers: [Handler] {
            [
                .stream(Copy.self) { _, _, pending in try await pending.accept().finish() },
                .stream(Keys.self) { _, _, pending in try await pending.accept().finish() },
            ]
        }
    }

    @Test func `files wait for what else a connection carries, and everything for what a person types`() async throws {
        let friends = try Friends(grants: [.shell])
        try friends.laptop.add(Traffics())
        let client = friends.phone.client
        _ = try await client.open(Pour.self, Nothing(), on: "laptop")
        let near = try #require(friends.dialer.link(to: friends.laptopID))
        let far = try #require(near.other)
        #expect(near.priorities.value.isEmpty && far.priorities.value.isEmpty)
        for begins in [false, true] {
            near.priorities.set([])
            far.priorities.set([])
            func open<M: StreamMethod>(_ method: M.Type) async throws where M.Input == Nothing, M.Output == Nothing {
                guard begins else {
                    _ = try await client.open(method, Nothing(), on: "laptop")
                    return
                }
                _ = try await client.begin(method, Nothing(), on: "laptop").read(upTo: 1)
            }
            try await open(Traffics.Copy.self)
            #expect(near.priorities.value == [StreamPriority.bulk] && far.priorities.value == [StreamPriority.bulk])
            // What keys bring about is traffic like any other.
            try await open(Traffics.Keys.self)
            #expect(near.priorities.value == [StreamPriority.bulk, StreamPriority.input])
            #expect(far.priorities.value == [StreamPriority.bulk])
        }
        #expect(Files.Push.header.traffic == .bulk && Screen.Control.header.traffic == .input)
        // A pipe into a shell is not typed.
        #expect(Shell.Open.header.traffic == .ordinary)
    }

    @Test func `a service that is removed ends its calls from another device, and is stopped when they have ended`()
        async throws
    {
        let friends = try Friends(grants: [.shell])
        let service = Pausing()
        let id = try friends.laptop.add(service)
        #expect(throws: KithError(.conflict, "")) { try friends.laptop.add(Pausing()) }
        let call = Task { try await friends.phone.client.call(Pausing.Pause.self, Nothing(), on: "laptop") }
        let stream = try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop").stream
        await service.begun.wait()
        await friends.laptop.remove(id)
        #expect(service.course.value == ["begun", "ended", "stopped"])
        await #expect(throws: KithError(.unsupported, "")) { try await call.value }
        await #expect(throws: KithError(.unsupported, "")) {
            try await friends.phone.client.call(Pausing.Pause.self, Nothing(), on: "laptop")
        }
        // Those of other services go on.
        try await stream.write([7])
        #expect(try await stream.read(upTo: 1) == [7])
        try await stream.finish()
        // The name is free again.
        let again = try friends.laptop.add(Pausing())
        #expect(again != id)
    }

    @Test func `an action that is allowed is audited, a query is not`() async throws {
        let friends = try Friends(grants: [.shell])
        _ = try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        _ = try await friends.phone.client.call(Guarded.self, .init(rule: .shell), on: "laptop")
        // The refusal is written at once, and everything before it.
        _ = try? await friends.phone.client.call(Guarded.self, .init(rule: .owner), on: "laptop")
        #expect(friends.laptopDirectory.audit.map(\.isAllowed) == [true, false])
        #expect(friends.laptopDirectory.audit.first?.detail == "shell")
        #expect(friends.laptopDirectory.audit.first?.name == "phone")
    }

    @Test func `the trace, the deadline and the grants reach the handler`() async throws {
        let friends = try Friends(grants: [.shell])
        let trace = TraceContext(traceID: Array(1...16), spanID: Array(1...8), flags: 1)
        _ = try await friends.phone.client.call(
            Ask.self, "hi", on: "laptop", options: CallOptions(timeout: .seconds(60), trace: trace))
        let context = try #require(friends.service.lastContext.value)
        #expect(context.trace == trace)
        #expect(context.grants == [.shell])
        let deadline = try #require(context.deadline)
        #expect(deadline > .now && deadline <= .now + .seconds(60))
        #expect(try await context.exportKeyingMaterial?("l", [1]) == [0x6C, 1])
    }

    @Test func `a deadline ends the work there and the wait here`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [], clock: clock)
        let call = Task {
            try await friends.phone.client.call(
                Hang.self, Nothing(), on: "laptop", options: CallOptions(timeout: .seconds(3_600)))
        }
        await friends.service.started.wait()
        clock.advance(by: .seconds(3_600))
        await #expect(throws: KithError(.timedOut, "")) { try await call.value }
        await friends.service.cancelled.wait()
    }

    @Test func `cancelling the call cancels the handler there`() async throws {
        let friends = try Friends(grants: [])
        let call = Task { try await friends.phone.client.call(Hang.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        call.cancel()
        await friends.service.cancelled.wait()
        await #expect(throws: KithError(.cancelled, "")) { try await call.value }
    }

    @Test func `a connection that ends cancels the handler`() async throws {
        let friends = try Friends(grants: [])
        let call = Task {
            try await friends.phone.client.call(
                Hang.self, Nothing(), on: "laptop")
        }
        await friends.service.started.wait()
        friends.dialer.link(to: friends.laptopID)?.close(.closed, reason: "gone")
        await friends.service.cancelled.wait()
        // A query is asked once more; that one is ended for good.
        await friends.service.started.wait()
        call.cancel()
        _ = await call.result
        #expect(friends.dialer.dials == 2)
    }

    @Test func `an action cut off is not repeated`() async throws {
        let friends = try Friends(grants: [])
        friends.service.onDies.set { friends.dialer.link(to: friends.laptopID)?.close(.closed, reason: "gone") }
        await #expect(throws: KithError(.closed, "")) {
            try await friends.phone.client.call(Dies.self, Nothing(), on: "laptop")
        }
        #expect(friends.service.served.value == 1)
    }

    @Test func `what is idempotent is asked for once more when it is cut off`() async throws {
        let friends = try Friends(grants: [])
        let service = friends.service
        service.onDies.set {
            // Each on its first time only.
            if service.served.value % 2 == 1 {
                friends.dialer.link(to: friends.laptopID)?.close(.closed, reason: "gone")
            }
        }
        _ = try await friends.phone.client.call(Revives.self, Nothing(), on: "laptop")
        #expect(service.served.value == 2)
        _ = try await friends.phone.client.open(Reopens.self, Nothing(), on: "laptop")
        #expect(service.served.value == 4)
    }

    @Test func `a method nobody serves is unsupported`() async throws {
        let friends = try Friends(grants: [])
        friends.laptop.remove([Ask.name])
        await #expect(throws: KithError(.unsupported, "")) {
            try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        }
    }

    @Test func `the table describes itself`() async throws {
        let friends = try Friends(grants: [])
        let table = try await friends.phone.client.call(API.Describe.self, Nothing(), on: "laptop")
        #expect(table.methods.contains(.init(name: Ask.name, kind: .query, summary: "Answers.")))
        #expect(table.methods.map(\.name) == table.methods.map(\.name).sorted())
    }

    @Test func `names that fit none or several are explained`() async throws {
        let friends = try Friends(grants: [])
        await #expect(throws: KithError(.notFound, "")) {
            try await friends.phone.client.call(Ask.self, "hi", on: "desktop")
        }
        let devices = [
            KnownDevice(id: try Friends.id(1), name: "lap", grants: [], addresses: []),
            KnownDevice(id: try Friends.id(2), name: "laptop", grants: [], addresses: []),
            KnownDevice(id: try Friends.id(3), name: "lapis", grants: [], addresses: []),
        ]
        #expect(try devices.resolve("lap").name == "lap")
        #expect(try devices.resolve("lapt").name == "laptop")
        #expect(try devices.resolve(try Friends.id(3).description).name == "lapis")
        #expect(try devices.resolve(String(try Friends.id(3).description.prefix(9))).name == "lapis")
        #expect(throws: KithError(.invalid, "")) { try devices.resolve("la") }
        #expect(throws: KithError(.notFound, "")) { try devices.resolve("") }
        let mistyped = #expect(throws: KithError.self) { try devices.resolve("latpop") }
        #expect(mistyped?.message == "There is no device named latpop. Did you mean laptop?")
    }

    @Test func `a device's id wins over another's name`() throws {
        let (one, two) = (try Friends.id(1), try Friends.id(2))
        for name in [
            String(one.description.prefix(30)), one.short, String(one.description.filter { $0 != "-" }.prefix(12)),
        ] {
            let devices = [
                KnownDevice(id: one, name: "laptop", grants: [], addresses: []),
                // As an earlier version would have let it be called.
                KnownDevice(id: two, name: name, grants: [], addresses: []),
            ]
            #expect(try devices.resolve(name).id == one)
            #expect(try devices.resolve(one.description).id == one)
        }
        // A name is one, though an id begins like it: keys can be tried until theirs does.
        let short = String(one.description.prefix(4))
        let named = [
            KnownDevice(id: one, name: "tv", grants: [], addresses: []),
            KnownDevice(id: two, name: short, grants: [], addresses: []),
        ]
        #expect(try named.resolve(short).id == two)
        // An id of nobody is not a name's beginning.
        #expect(throws: KithError(.notFound, "")) { try named.resolve(Friends.id(3).description) }
    }

    @Test func `a service is added whole or not at all`() throws {
        let friends = try Friends(grants: [])
        #expect(throws: KithError(.conflict, "")) { try friends.laptop.add(TestService()) }
    }
}

@Suite struct `Streams to another device` {
    @Test func `bytes pass both ways and both ends`() async throws {
        let friends = try Friends(grants: [.shell])
        let opened = try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop")
        #expect(opened.output == "ready")
        try await opened.stream.write([1, 2, 3])
        #expect(try await opened.stream.read(upTo: 10) == [1, 2, 3])
        try await opened.stream.finish()
        #expect(try await opened.stream.read(upTo: 10) == nil)
    }

    @Test func `a refusal and a failure carry their codes`() async throws {
        let friends = try Friends(grants: [])
        await #expect(throws: KithError(.denied, "")) {
            try await friends.phone.client.open(Pour.self, Nothing(), on: "laptop")
        }
        await #expect(throws: KithError(.conflict, "")) {
            try await friends.phone.client.open(Fails.self, .init(code: .conflict, accepts: false), on: "laptop")
        }
        // The abort may overtake the acceptance: either way the caller learns the code.
        await #expect(throws: KithError(.corrupt, "")) {
            let opened = try await friends.phone.client.open(
                Fails.self, .init(code: .corrupt, accepts: true), on: "laptop")
            _ = try await opened.stream.read(upTo: 1)
        }
    }

    @Test func `giving up before the acceptance cancels the handler`() async throws {
        let friends = try Friends(grants: [])
        let opening = Task { try await friends.phone.client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        opening.cancel()
        await friends.service.cancelled.wait()
    }

    @Test func `the deadline is for the acceptance`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [.shell], clock: clock)
        let opening = Task {
            try await friends.phone.client.open(
                Slow.self, Nothing(), on: "laptop", options: CallOptions(timeout: .seconds(3_600)))
        }
        await friends.service.started.wait()
        clock.advance(by: .seconds(3_600))
        await #expect(throws: KithError(.timedOut, "")) { try await opening.value }
        await friends.service.cancelled.wait()
    }

    @Test func `a grant taken away ends the stream that needed it`() async throws {
        let friends = try Friends(grants: [.shell])
        let opened = try await friends.phone.client.open(Stall.self, Nothing(), on: "laptop")
        #expect(try await opened.stream.read(upTo: 1) == [1])
        friends.laptopDirectory.setGrants([.forward], of: friends.phoneID)
        friends.laptop.grantsChanged(for: friends.phoneID)
        await friends.service.cancelled.wait()
        await #expect(throws: KithError(.denied, "")) { try await opened.stream.read(upTo: 1) }
        // The connection and whatever needs no such grant go on.
        #expect(try await friends.phone.client.call(Ask.self, "hi", on: "laptop") == "hi!")
        #expect(friends.dialer.dials == 1)
    }

    @Test func `a forgotten device is cut off at once`() async throws {
        let friends = try Friends(grants: [.shell])
        let opened = try await friends.phone.client.open(Stall.self, Nothing(), on: "laptop")
        #expect(try await opened.stream.read(upTo: 1) == [1])
        let link = friends.dialer.link(to: friends.laptopID)
        friends.laptopDirectory.forget(friends.phoneID)
        friends.laptop.revoke(friends.phoneID)
        await friends.service.cancelled.wait()
        await #expect(throws: KithError.self) { try await opened.stream.read(upTo: 1) }
        #expect(link?.isOpen == false)
        #expect(link?.reason?.code == .unpaired)
        await #expect(throws: KithError(.unpaired, "")) {
            try await friends.phone.client.call(Guarded.self, .init(rule: .paired), on: "laptop")
        }
    }
}

@Suite struct `The calls of one device` {
    @Test func `are bounded over all its connections`() async throws {
        var options = Node.Options()
        options.callsPerDevice = 1
        let friends = try Friends(grants: [.shell], options: options)
        let opening = Task { try await friends.phone.client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        // Another connection of the same device.
        let dialer = PipeDialer(friends.phoneID, peers: [friends.laptopID: friends.laptop])
        friends.phone.use(dialer)
        await #expect(throws: KithError(.exhausted, "")) {
            try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        }
        #expect(dialer.dials == 1)
        opening.cancel()
        await friends.service.cancelled.wait()
        // The place is free again a moment later.
        while true {
            do {
                #expect(try await friends.phone.client.call(Ask.self, "hi", on: "laptop") == "hi!")
                break
            } catch let error as KithError where error.code == .exhausted {
                await Task.yield()
            }
        }
    }

    @Test func `are bounded by method where one costs much`() throws {
        let calls = DeviceCalls()
        let (one, two) = (try Friends.id(1), try Friends.id(2))
        for _ in 0..<2 { try calls.enter(one, "files.find", perMethod: 2, total: 4) }
        #expect(throws: KithError(.exhausted, "")) { try calls.enter(one, "files.find", perMethod: 2, total: 4) }
        try calls.enter(two, "files.find", perMethod: 2, total: 4)
        for _ in 0..<2 { try calls.enter(one, "files.stat", perMethod: nil, total: 4) }
        #expect(throws: KithError(.exhausted, "")) { try calls.enter(one, "files.stat", perMethod: nil, total: 4) }
        calls.leave(one, "files.find")
        try calls.enter(one, "files.find", perMethod: 2, total: 4)
        // What never came in changes nothing when it leaves.
        calls.leave(two, "files.stat")
        calls.leave(two, "files.find")
        calls.leave(two, "files.find")
        for _ in 0..<2 { try calls.enter(two, "files.find", perMethod: 2, total: 4) }
    }
}

@Suite struct `A device that is not paired` {
    @Test func `may do only what anyone may`() async throws {
        let friends = try Friends(grants: nil)
        #expect(try await friends.phone.client.call(Guarded.self, .init(rule: .anyone), on: "laptop") == "done")
        await #expect(throws: KithError(.unpaired, "")) {
            try await friends.phone.client.call(Guarded.self, .init(rule: .paired), on: "laptop")
        }
        #expect(friends.service.served.value == 1)
    }

    @Test func `learns nothing of what is served`() async throws {
        let friends = try Friends(grants: nil)
        friends.laptop.remove([Ask.name])
        await #expect(throws: KithError(.unpaired, "")) {
            try await friends.phone.client.call(Ask.self, "x", on: "laptop")
        }
    }

    @Test func `is shown the door after a refusal`() async throws {
        let friends = try Friends(grants: nil)
        await #expect(throws: KithError(.unpaired, "")) {
            try await friends.phone.client.call(Hang.self, Nothing(), on: "laptop")
        }
        // The next call finds the connection closed and makes another.
        await #expect(throws: KithError(.unpaired, "")) {
            while friends.dialer.dials < 2 {
                do {
                    _ = try await friends.phone.client.call(Hang.self, Nothing(), on: "laptop")
                } catch let error as KithError where error.code == .closed {}
            }
        }
    }

    @Test func `may not do much at once`() async throws {
        let friends = try Friends(grants: nil)
        let client = friends.phone.client
        let first = Task { try await client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        let second = Task { try await client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        await #expect(throws: KithError(.exhausted, "")) { try await client.open(Slow.self, Nothing(), on: "laptop") }
        first.cancel()
        second.cancel()
    }

    @Test func `cannot stay`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: nil, clock: clock)
        let call = Task { try await friends.phone.client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        let link = try #require(friends.dialer.link(to: friends.laptopID))
        // Not as long as it does something and its time is not up.
        clock.advance(by: friends.laptop.options.unpairedLifetime - .seconds(1))
        #expect(link.isOpen)
        clock.advance(by: .seconds(1))
        await #expect(throws: KithError.self) { try await call.value }
        #expect(!link.isOpen)
    }

    @Test func `is one of a few`() async throws {
        var options = Node.Options()
        options.unpairedConnections = 1
        let friends = try Friends(grants: nil, options: options)
        let opening = Task { try await friends.phone.client.open(Slow.self, Nothing(), on: "laptop") }
        await friends.service.started.wait()
        let (_, far) = PipeLink.pair(try Friends.id(3), friends.laptopID)
        await friends.laptop.serve(link: far)
        #expect(far.reason?.code == .exhausted)
        opening.cancel()
    }

    @Test func `that becomes paired goes on, on the same connection`() async throws {
        let friends = try Friends(grants: nil)
        _ = try await friends.phone.client.call(Guarded.self, .init(rule: .anyone), on: "laptop")
        friends.laptopDirectory.set(
            KnownDevice(id: friends.phoneID, name: "phone", grants: [.shell], addresses: []))
        friends.laptop.paired(friends.phoneID)
        #expect(try await friends.phone.client.call(Guarded.self, .init(rule: .shell), on: "laptop") == "done")
        #expect(friends.dialer.dials == 1)
        #expect(friends.laptop.onlineDevices == [friends.phoneID])
    }
}

@Suite struct `Hostile streams` {
    private func exchange(_ bytes: [UInt8], with friends: Friends) async throws -> ResponseHead? {
        let link = try await friends.dialer.dial(friends.laptopID, at: [], isEarly: false, timeout: .seconds(1))
        let stream = try await link.openStream()
        try await stream.write(bytes)
        try? await stream.finish()  // the answer may be there already, and nobody listening
        var answer: [UInt8] = []
        while let more = try await stream.read(upTo: 4096) { answer += more }
        return try ResponseHead.parse(answer)?.head
    }

    @Test(arguments: [
        ([2] as [UInt8], KithError.Code.unsupported), ([1, 0], .invalid), ([1, 0x41, 0], .invalid),
        ([1, 8, 0x74], .closed), ([1, 1, 0x61, 0, 9, 0], .invalid),
    ])
    func `a malformed header is answered, not served`(bytes: [UInt8], code: KithError.Code) async throws {
        let friends = try Friends(grants: [.shell])
        guard case .failure(code, _, _)? = try await exchange(bytes, with: friends) else {
            Issue.record("another answer")
            return
        }
    }

    @Test func `an input that is not the method's is invalid`() async throws {
        let friends = try Friends(grants: [.shell])
        for input: [UInt8] in [[], [0xFF], [0x01], [0xA1, 0x61, 0x61]] {
            let header = try StreamHeader(method: Guarded.name, input: input).encoded()
            guard case .failure(.invalid, _, _)? = try await exchange(header, with: friends) else {
                Issue.record("another answer")
                return
            }
        }
        #expect(friends.service.served.value == 0)
    }

    @Test func `a header that never comes is given up`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [.shell], clock: clock)
        let link = try await friends.dialer.dial(friends.laptopID, at: [], isEarly: false, timeout: .seconds(1))
        let stream = try await link.openStream()
        try await stream.write([1, 4])
        let answer = try await clock.advance(by: friends.laptop.options.headerTimeout) {
            var answer: [UInt8] = []
            while let more = try await stream.read(upTo: 4096) { answer += more }
            return answer
        }
        guard case .failure(.timedOut, _, _)? = try ResponseHead.parse(answer)?.head else {
            Issue.record("another answer")
            return
        }
    }
}

@Suite struct `Calls of the owner` {
    @Test func `a call runs here`() async throws {
        let friends = try Friends(grants: nil)
        #expect(try await friends.laptop.client.call(Ask.self, "hi") == "hi!")
        #expect(try await friends.laptop.client.call(Guarded.self, .init(rule: .owner)) == "done")
        #expect(friends.service.lastContext.value?.caller == .owner)
        #expect(friends.laptopDirectory.audit.isEmpty)
    }

    @Test func `a stream runs here`() async throws {
        let friends = try Friends(grants: nil)
        let opened = try await friends.laptop.client.open(Pour.self, Nothing())
        try await opened.stream.write([1])
        #expect(try await opened.stream.read(upTo: 5) == [1])
        try await opened.stream.finish()
        #expect(try await opened.stream.read(upTo: 5) == nil)
    }

    @Test func `errors, deadlines and cancellation work as anywhere`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: nil, clock: clock)
        let client = friends.laptop.client
        await #expect(throws: KithError(.conflict, "")) {
            try await client.open(Fails.self, .init(code: .conflict, accepts: false))
        }
        let opened = try await client.open(Fails.self, .init(code: .corrupt, accepts: true))
        await #expect(throws: KithError(.corrupt, "")) { try await opened.stream.read(upTo: 1) }
        await #expect(throws: KithError(.timedOut, "")) {
            try await clock.advance(by: .seconds(3_600)) {
                try await client.call(Hang.self, Nothing(), options: CallOptions(timeout: .seconds(3_600)))
            }
        }
        let call = Task { try await client.call(Hang.self, Nothing()) }
        call.cancel()
        await #expect(throws: KithError(.cancelled, "")) { try await call.value }
        await #expect(throws: KithError(.timedOut, "")) {
            try await clock.advance(by: .seconds(3_600)) {
                try await client.open(Slow.self, Nothing(), options: CallOptions(timeout: .seconds(3_600)))
            }
        }
        await #expect(throws: KithError(.unsupported, "")) { try await friends.phone.client.call(Ask.self, "") }
    }

    @Test func `JSON from a door reaches another device`() async throws {
        let friends = try Friends(grants: [.shell])
        let call = IncomingCall(method: Ask.name, input: .json(Array("\"hi\"".utf8)), device: "laptop")
        guard case .json(let output) = try await friends.phone.dispatch(call) else { return }
        #expect(String(decoding: output, as: UTF8.self) == "\"hi!\"")

        let pipe = Pipe()
        let answer = Locked<Payload?>(nil)
        let stream = IncomingCall(method: Pour.name, input: .json(Array("{}".utf8)), device: "laptop")
        let near = pipe.right
        async let serving: Void = friends.phone.dispatch(stream: stream) { output in
            answer.set(output)
            return near
        }
        try await pipe.left.write([1, 2])
        #expect(try await pipe.left.read(upTo: 5) == [1, 2])
        try await pipe.left.finish()
        #expect(try await pipe.left.read(upTo: 5) == nil)
        try await serving
        guard case .json(let output)? = answer.value else { return }
        #expect(String(decoding: output, as: UTF8.self) == "\"ready\"")
    }
}

@Suite struct `Shutting down` {
    @Test func `softly, running calls end on their own and new ones are refused`() async throws {
        let friends = try Friends(grants: [.shell])
        let opened = try await friends.laptop.client.open(Pour.self, Nothing())
        let stop = Signal()
        let serving = Task { await friends.laptop.serve { _ in await stop.wait() } }
        friends.laptop.beginGracefulShutdown()
        await #expect(throws: KithError(.closed, "")) { try await friends.laptop.client.call(Ask.self, "hi") }
        try await opened.stream.write([1])
        #expect(try await opened.stream.read(upTo: 5) == [1])
        try await opened.stream.finish()
        #expect(try await opened.stream.read(upTo: 5) == nil)
        stop.open()
        await serving.value
    }

    /// Tells for ever, to who asked for it.
    private struct Telling: Service {
        enum Tell: StreamMethod {
            typealias Input = Nothing
            typealias Output = Nothing
            typealias Upstream = RawBytes
            typealias Downstream = RawBytes
            static let header = MethodHeader.stream("test.tell", by: .grant(.shell), "Tells for ever.")
            static func access(for input: Input) -> Access { .granted(.shell) }
        }

        var handlers: [Handler] {
            [
                .stream(Tell.self) { _, _, pending in
                    let stream = try await pending.accept()
                    try await stream.write([1])
                    try await untilCancelled()
                }.endingAtShutdown()
            ]
        }
    }

    @Test func `softly, a stream that only tells ends at once, and says why`() async throws {
        let friends = try Friends(grants: [.shell])
        try friends.laptop.add(Telling())
        let streams = [
            try await friends.laptop.client.open(Telling.Tell.self, Nothing()).stream,
            try await friends.phone.client.open(Telling.Tell.self, Nothing(), on: "laptop").stream,
        ]
        for stream in streams { #expect(try await stream.read(upTo: 1) == [1]) }
        let stop = Signal()
        let serving = Task { await friends.laptop.serve { _ in await stop.wait() } }
        friends.laptop.beginGracefulShutdown()
        for stream in streams {
            await #expect(throws: KithError(.closed, "")) { _ = try await stream.read(upTo: 1) }
        }
        await #expect(throws: KithError(.closed, "")) {
            _ = try await friends.laptop.client.open(Telling.Tell.self, Nothing())
        }
        stop.open()
        await serving.value
    }

    @Test func `hard, everything is cancelled`() async throws {
        let friends = try Friends(grants: [.shell])
        let call = Task { try await friends.laptop.client.call(Hang.self, Nothing()) }
        await friends.service.started.wait()
        let serving = Task { await friends.laptop.serve { _ in await Signal().wait() } }
        serving.cancel()
        await serving.value
        await friends.service.cancelled.wait()
        await #expect(throws: KithError(.closed, "")) { try await call.value }
    }
}
