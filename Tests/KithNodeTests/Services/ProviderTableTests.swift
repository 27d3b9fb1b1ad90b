import KithAPI
import KithIdentity
@testable import KithNode
import KithTesting
import KithWire
import Testing

private let path = "math.add"

private func devices(_ count: UInt8) throws -> [DeviceID?] { try (1...count).map { try Friends.id($0) } }

@Suite struct `The choice of a provider` {
    private let now = ContinuousClock.now

    /// Asks many times; every provider takes the time `latency` says.
    private func shares(
        of devices: [DeviceID?], rounds: Int = 1_000, by policy: RequestPolicy, latency: (DeviceID?) -> Duration
    ) throws -> [DeviceID?: Int] {
        var table = ProviderTable()
        var random = SeededRandom(seed: 7)
        var counts: [DeviceID?: Int] = [:]
        for _ in 0..<rounds {
            guard
                case .ask(let device) = table.choose(path, among: devices, by: policy, at: now, using: &random)
            else { throw KithError(.internal, "none was chosen") }
            counts[device, default: 0] += 1
            table.ended(path, device, .answered(latency(device)), by: policy, at: now)
        }
        return counts
    }

    @Test func `round robin asks one after the other`() throws {
        let all = try devices(3)
        var policy = RequestPolicy()
        policy.strategy = .roundRobin
        let counts = try shares(of: all, rounds: 300, by: policy) { _ in .milliseconds(1) }
        #expect(counts == [all[0]: 100, all[1]: 100, all[2]: 100])
    }

    @Test func `of two choices the faster is preferred`() throws {
        let all = try devices(3)
        let counts = try shares(of: all, by: RequestPolicy()) { $0 == all[1] ? .microseconds(100) : .milliseconds(10) }
        // It is drawn in two thirds of the choices, and wins each.
        #expect((counts[all[1]] ?? 0) > 600, "\(counts)")
        #expect((counts[all[0]] ?? 0) > 50 && (counts[all[2]] ?? 0) > 50, "\(counts)")
    }

    @Test func `one that has much to do is slower`() throws {
        let all = try devices(2)
        var table = ProviderTable()
        var random = SeededRandom(seed: 1)
        let policy = RequestPolicy()
        for device in all {
            _ = table.choose(path, among: [device], by: policy, at: now, using: &random)
            table.ended(path, device, .answered(.milliseconds(1)), by: policy, at: now)
        }
        for _ in 0..<5 { _ = table.choose(path, among: [all[0]], by: policy, at: now, using: &random) }
        for _ in 0..<5 {
            #expect(table.choose(path, among: all, by: policy, at: now, using: &random) == .ask(all[1]))
        }
        #expect(table.record(path, all[1]).running == 5)
    }

    @Test func `sticky asks the same for a key, and moves only the keys of one that goes`() throws {
        let all = try devices(5)
        var homes: [String: DeviceID?] = [:]
        for number in 0..<200 {
            var policy = RequestPolicy()
            policy.strategy = .sticky("key \(number)")
            let counts = try shares(of: all, rounds: 5, by: policy) { _ in .milliseconds(1) }
            #expect(counts.count == 1)
            homes["key \(number)"] = counts.keys.first
        }
        for device in all { #expect(homes.values.count { $0 == device } > 15) }
        for (key, home) in homes {
            var policy = RequestPolicy()
            policy.strategy = .sticky(key)
            let rest = try shares(of: Array(all.dropFirst()), rounds: 1, by: policy) { _ in .milliseconds(1) }
            if home != all[0] { #expect(rest.keys.first == home) }
        }
    }

    @Test func `this device is preferred, unless the policy says otherwise`() throws {
        let all = try devices(2) + [nil]
        var policy = RequestPolicy()
        #expect(try shares(of: all, rounds: 50, by: policy) { _ in .milliseconds(9) } == [DeviceID?.none: 50])
        policy.prefersThisDevice = false
        policy.strategy = .roundRobin
        #expect(try shares(of: all, rounds: 30, by: policy) { _ in .milliseconds(9) }.count == 3)
    }

    @Test func `a breaker opens after failures in a row, lets one try, and closes when that succeeds`() throws {
        let all = try devices(1)
        var policy = RequestPolicy()
        (policy.breakerFailures, policy.breakerPause, policy.outlierShare) = (3, 1_000, 0)
        var table = ProviderTable()
        var random = SeededRandom(seed: 1)
        func choose(_ time: Duration) -> ProviderTable.Choice {
            table.choose(path, among: all, by: policy, at: now + time, using: &random)
        }
        for _ in 0..<2 {
            #expect(choose(.zero) == .ask(all[0]))
            table.ended(path, all[0], .failed, by: policy, at: now)
        }
        // A success in between begins the row anew.
        #expect(choose(.zero) == .ask(all[0]))
        table.ended(path, all[0], .answered(.zero), by: policy, at: now)
        for _ in 0..<3 {
            #expect(choose(.zero) == .ask(all[0]))
            table.ended(path, all[0], .failed, by: policy, at: now)
        }
        #expect(choose(.milliseconds(999)) == .allBroken)
        #expect(choose(.milliseconds(1_000)) == .ask(all[0]))
        // Only one tries.
        #expect(choose(.milliseconds(1_000)) == .allBroken)
        table.ended(path, all[0], .failed, by: policy, at: now + .milliseconds(1_001))
        #expect(choose(.milliseconds(2_000)) == .allBroken)
        #expect(choose(.milliseconds(2_001)) == .ask(all[0]))
        table.ended(path, all[0], .answered(.zero), by: policy, at: now + .milliseconds(2_002))
        #expect(choose(.milliseconds(2_002)) == .ask(all[0]))
        #expect(choose(.milliseconds(2_002)) == .ask(all[0]))
    }

    @Test func `a try that is called off decides nothing`() throws {
        let all = try devices(1)
        var policy = RequestPolicy()
        (policy.breakerFailures, policy.breakerPause) = (1, 1_000)
        var table = ProviderTable()
        var random = SeededRandom(seed: 1)
        _ = table.choose(path, among: all, by: policy, at: now, using: &random)
        table.ended(path, all[0], .failed, by: policy, at: now)
        #expect(table.choose(path, among: all, by: policy, at: now + .seconds(1), using: &random) == .ask(all[0]))
        table.ended(path, all[0], .nothing, by: policy, at: now + .seconds(1))
        #expect(table.choose(path, among: all, by: policy, at: now + .seconds(1), using: &random) == .ask(all[0]))
    }

    @Test func `one that fails often is left out while others do not`() throws {
        let all = try devices(2)
        var policy = RequestPolicy()
        (policy.breakerFailures, policy.outlierShare) = (0, 50)
        var table = ProviderTable()
        var random = SeededRandom(seed: 3)
        for _ in 0..<10 {
            _ = table.choose(path, among: [all[0]], by: policy, at: now, using: &random)
            table.ended(path, all[0], .failed, by: policy, at: now)
        }
        for _ in 0..<50 {
            #expect(table.choose(path, among: all, by: policy, at: now, using: &random) == .ask(all[1]))
            table.ended(path, all[1], .answered(.seconds(1)), by: policy, at: now)
        }
        #expect(table.choose(path, among: [all[0]], by: policy, at: now, using: &random) == .ask(all[0]))
    }

    @Test func `no provider gets more at once than it may, and none that was tried is asked again`() throws {
        let all = try devices(2)
        var policy = RequestPolicy()
        policy.concurrency = 2
        var table = ProviderTable()
        var random = SeededRandom(seed: 3)
        var asked: [DeviceID?: Int] = [:]
        for _ in 0..<4 {
            guard case .ask(let device) = table.choose(path, among: all, by: policy, at: now, using: &random) else {
                continue
            }
            asked[device, default: 0] += 1
        }
        #expect(asked == [all[0]: 2, all[1]: 2])
        #expect(table.choose(path, among: all, by: policy, at: now, using: &random) == .allBusy)
        policy.concurrency = nil
        #expect(
            table.choose(path, among: all, except: [all[0]], by: policy, at: now, using: &random) == .ask(all[1]))
        #expect(table.choose(path, among: all, except: Set(all), by: policy, at: now, using: &random) == .none)
    }

    @Test func `the wait before a try doubles, within its limit, and is random`() {
        var policy = RequestPolicy()
        (policy.retryDelay, policy.longestRetryDelay) = (100, 450)
        var random = SeededRandom(seed: 5)
        for (tries, longest) in [(0, 100), (1, 200), (2, 400), (3, 450), (40, 450)] {
            let waits = (0..<200).map { _ in ProviderTable.delay(after: UInt32(tries), policy, using: &random) }
            #expect(waits.allSatisfy { $0 >= .zero && $0 <= .milliseconds(longest) })
            #expect(
                waits.contains { $0 > .milliseconds(longest * 3 / 4) }
                    && waits.contains { $0 < .milliseconds(longest / 4) })
        }
    }

    @Test func `the table stays small`() throws {
        var table = ProviderTable()
        var random = SeededRandom(seed: 5)
        let device = try Friends.id(1)
        for number in 0..<10_000 {
            _ = table.choose("a.\(number)", among: [device], by: RequestPolicy(), at: now, using: &random)
            table.ended("a.\(number)", device, .failed, by: RequestPolicy(), at: now)
        }
        #expect(table.all.count <= ProviderTable.limit)
        table.forget(device)
        #expect(table.all.isEmpty)
    }
}

@Suite struct `What is announced` {
    private func service(_ path: String, _ actions: [String], _ state: ServiceState = .running) -> Registry.Service {
        Registry.Service(
            path: path, network: "default", name: path, version: "", description: "", state: state,
            actions: actions.map { Registry.Action(name: $0, kind: .query, summary: "", isIdempotent: true) })
    }

    @Test func `is first all, then the difference, then nothing`() {
        var announcement = ServiceAnnouncement()
        let (a, b) = (service("a", ["a.x"]), service("b", ["b.x"]))
        #expect(
            announcement.update(to: [a, b], version: 1)
                == [Services.Change(version: 1, isWhole: true, changed: [a, b], removed: [])])
        #expect(announcement.update(to: [a, b], version: 2) == [])
        let more = service("a", ["a.x", "a.y"])
        #expect(
            announcement.update(to: [more], version: 3)
                == [Services.Change(version: 3, isWhole: false, changed: [more], removed: ["b"])])
        var empty = ServiceAnnouncement()
        #expect(empty.update(to: [], version: 9).map(\.isWhole) == [true])
    }

    @Test func `is found by its paths, and is bounded`() throws {
        var peers = PeerServices()
        let (one, two) = (try Friends.id(1), try Friends.id(2))
        func ask(_ text: String) throws -> [DeviceID] { try peers.providers(of: TopicPath(method: text)).map(\.device) }
        peers.receive(
            Services.Change(
                version: 1, isWhole: true, changed: [service("a", ["a.x", "a/{id}/y", "b.foreign", "a/*"])], removed: []
            ),
            from: one, over: 1)
        peers.receive(
            Services.Change(version: 1, isWhole: true, changed: [service("a", ["a/x"])], removed: []), from: two,
            over: 2)
        #expect(try ask("a/x").count == 2)
        #expect(try ask("a.x").count == 2)
        #expect(try ask("a/7/y") == [one])
        #expect(try ask("b/foreign") == [])
        // A paused one is known, and not asked.
        peers.receive(
            Services.Change(version: 2, isWhole: false, changed: [service("a", ["a.x"], .paused)], removed: []),
            from: one, over: 1)
        #expect(try ask("a/x") == [two])
        #expect(peers.all.count == 2)
        peers.receive(
            Services.Change(
                version: 3, isWhole: false, changed: [service("$registry", ["$registry/x"])], removed: ["a"]),
            from: two,
            over: 2)
        #expect(try ask("a/x") == [])
        #expect(try ask("$registry/x") == [])
        let many = (0..<3_000).map { service("s\($0)", ["s\($0).x"]) }
        peers.receive(Services.Change(version: 4, isWhole: true, changed: many, removed: []), from: two, over: 2)
        #expect(peers.all.count { $0.device == two } == PeerServices.serviceLimit)
        // However many services they belong to.
        let busy = ["r", "s", "t"].map { name in service(name, (0..<2_000).map { "\(name).x\($0)" }) }
        peers.receive(Services.Change(version: 5, isWhole: true, changed: busy + busy, removed: []), from: two, over: 2)
        #expect(peers.all.reduce(0) { $0 + ($1.device == two ? $1.actions.count : 0) } == PeerServices.actionLimit)
        #expect(try ask("r.x1999") == [two])
        // A change leaves the rest as it was, in the same order.
        let rest = [service("c", ["c.x", "c/{id}/y"]), service("d", ["d.x", "d/{id}/y"])]
        for device in [two, one] {
            peers.receive(
                Services.Change(version: 6, isWhole: true, changed: rest, removed: []), from: device,
                over: device == one ? 1 : 2)
        }
        peers.receive(
            Services.Change(version: 7, isWhole: false, changed: [], removed: ["c", "c", "e"]), from: one, over: 1)
        peers.receive(Services.Change(version: 8, isWhole: false, changed: [], removed: []), from: one, over: 1)
        #expect(try ask("c/x") == [two] && ask("c/1/y") == [two])
        #expect(try ask("d/x") == [one, two].sorted() && ask("d/1/y") == [one, two].sorted())
        peers.remove(two, over: 2)
        #expect(!peers.all.contains { $0.device == two })
    }

    @Test func `what was said on the newest connection counts, and what was said on another comes back`() throws {
        var peers = PeerServices()
        let device = try Friends.id(1)
        func ask(_ text: String) throws -> Bool { try !peers.providers(of: TopicPath(method: text)).isEmpty }
        func say(_ version: UInt64, _ changed: [String], removed: [String] = [], isWhole: Bool, over number: UInt64) {
            let services = changed.map { service($0, ["\($0).x"]) }
            let change = Services.Change(version: version, isWhole: isWhole, changed: services, removed: removed)
            peers.receive(change, from: device, over: number)
        }
        say(9, ["old", "both"], isWhole: true, over: 3)
        #expect(try ask("old.x"))
        // Its program was started again: its versions begin anew.
        var first = Services.Change(version: 1, isWhole: true, changed: [service("new", ["new.x"])], removed: [])
        first.hasMore = true
        peers.receive(first, from: device, over: 4)
        #expect(try ask("old.x") && !ask("new.x"))
        say(1, ["both"], isWhole: false, over: 4)
        #expect(try !ask("old.x") && ask("new.x") && ask("both.x"))
        #expect(peers.version(of: device) == 1)
        // What comes late on the connection before changes nothing of that.
        say(10, ["late"], removed: ["both"], isWhole: false, over: 3)
        say(11, ["old"], isWhole: true, over: 3)
        #expect(try !ask("old.x") && !ask("late.x") && ask("both.x"))
        #expect(peers.all.map(\.path) == ["both", "new"])
        let first4 = peers.remove(device, over: 4)
        #expect(try ask("old.x") && !ask("new.x") && !ask("both.x"))
        let again4 = peers.remove(device, over: 4)
        let first3 = peers.remove(device, over: 3)
        #expect([first4, again4, first3] == [true, false, true])
        #expect(try !ask("old.x") && peers.all.isEmpty && peers.version(of: device) == nil)
    }
}
