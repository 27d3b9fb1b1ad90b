import KithReach
import KithTesting
import Testing

/// Two ends whose paths come and go without a word, and the datagrams that they carry.
struct PathSimulation {
    /// One path, in its two directions.
    struct Link {
        let kind: PathPolicy<Int>.Kind
        let delay: Duration
        /// When it turns from working to silent and back, beginning with working.
        let turns: [ContinuousClock.Instant]

        func works(at now: ContinuousClock.Instant) -> Bool { turns.prefix { $0 <= now }.count % 2 == 0 }

        func worked(from: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Bool {
            works(at: from) && !turns.contains { $0 > from && $0 <= end }
        }
    }

    private struct End {
        var policy = PathPolicy<Int>()
        /// By path: when the oldest packet that is not acknowledged was sent, and how often its time-out has passed.
        var waiting: [Int: (since: ContinuousClock.Instant, count: Int)] = [:]
        var unacknowledged: [Int: ContinuousClock.Instant] = [:]
        var received: Set<Int> = []
        var lastReceived: ContinuousClock.Instant
        var next = 0
    }

    private enum Event {
        case data(Int, path: Int, to: Int)
        case acknowledgement(Int, path: Int, to: Int)
        case challenge(path: Int, to: Int)
        case answer(path: Int, to: Int)
    }

    let start: ContinuousClock.Instant
    let links: [Link]
    /// The longest time in which nothing came although one path worked all the time.
    var longestSilence = Duration.zero
    var switches = 0
    var copies = 0
    var sendings = 0
    private var ends: [End]
    private var events: [(at: ContinuousClock.Instant, event: Event)] = []
    private var now: ContinuousClock.Instant

    init(links: [Link], at start: ContinuousClock.Instant) {
        (self.start, self.links, now) = (start, links, start)
        ends = [End(lastReceived: start), End(lastReceived: start)]
        for end in ends.indices {
            for (id, link) in links.enumerated() {
                ends[end].policy.opened(id, link.kind, at: start)
                ends[end].policy.measured(id, roundTrip: link.delay * 2, at: start)
            }
        }
    }

    private mutating func carry(_ event: Event, over path: Int) {
        guard links[path].works(at: now) else { return }
        let at = now + links[path].delay
        events.insert((at, event), at: events.lastIndex { $0.at <= at }.map { $0 + 1 } ?? 0)
    }

    private mutating func send(_ number: Int, from end: Int) {
        let use = ends[end].policy.use
        (copies, sendings) = (max(copies, use.count), sendings + 1)
        for path in use {
            if ends[end].waiting[path] == nil { ends[end].waiting[path] = (now, 0) }
            carry(.data(number, path: path, to: 1 - end), over: path)
        }
        ends[end].unacknowledged[number] = now
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .data(let number, let path, let end):
            // Silence counts only where one path worked throughout, and its signs had the time to come.
            let since = ends[end].lastReceived
            if links.contains(where: { $0.worked(from: since - .seconds(1), to: now) }) {
                longestSilence = max(longestSilence, now - since)
            }
            ends[end].lastReceived = now
            ends[end].received.insert(number)
            // Acknowledged on what this end sends on.
            for back in ends[end].policy.use { carry(.acknowledgement(number, path: path, to: 1 - end), over: back) }
        case .acknowledgement(let number, let path, let end):
            ends[end].unacknowledged[number] = nil
            ends[end].waiting[path] = nil
            ends[end].policy.acknowledged(path, at: now)
        case .challenge(let path, let end): carry(.answer(path: path, to: 1 - end), over: path)
        case .answer(let path, let end): ends[end].policy.acknowledged(path, at: now)
        }
    }

    /// Runs in steps of five milliseconds, a datagram each 20 each way, and then until all have come.
    mutating func run(for length: Duration) -> Bool {
        let end = start + length
        while now < end + .seconds(30) {
            now += .milliseconds(5)
            while let first = events.first, first.at <= now {
                events.removeFirst()
                handle(first.event)
            }
            let step = Int(((now - start) / .milliseconds(5)).rounded())
            for index in ends.indices {
                if step % 4 == 0, now < end {
                    send(ends[index].next, from: index)
                    ends[index].next += 1
                }
                for (path, wait) in ends[index].waiting {
                    let patience = (links[path].delay * 3 + .milliseconds(25)) * (1 << min(wait.count, 6))
                    guard now - wait.since >= patience else { continue }
                    ends[index].waiting[path] = (now, wait.count + 1)
                    ends[index].policy.timedOut(path, at: now)
                }
                // What was lost is sent anew, as streams do.
                let overdue =
                    step % 12 == 0 ? ends[index].unacknowledged.filter { now - $0.value >= .milliseconds(300) } : [:]
                for number in overdue.keys.sorted().prefix(32) { send(number, from: index) }
                if let deadline = ends[index].policy.nextDeadline, deadline <= now {
                    ends[index].policy.timedOut(at: now)
                }
                while let action = ends[index].policy.nextAction() {
                    switch action {
                    case .use(let paths):
                        switches += 1
                        ends[index].waiting = ends[index].waiting.filter { paths.contains($0.key) }
                    case .challenge(let path): carry(.challenge(path: path, to: 1 - index), over: path)
                    }
                }
            }
            if now >= end, ends.allSatisfy(\.unacknowledged.isEmpty) { break }
        }
        return ends.indices.allSatisfy { ends[$0].received.count == ends[1 - $0].next }
    }

    /// The paths in use at the end.
    var use: [[Int]] { ends.map(\.policy.use) }
}

@Suite("Paths, simulated") struct PathSimulationTests {
    let start = ContinuousClock.now

    @Test func `when direct dies the silence is short, and direct is back when it works again`() {
        let direct = PathSimulation.Link(
            kind: .ipv4, delay: .milliseconds(15), turns: [start + .seconds(5), start + .seconds(12)])
        let relay = PathSimulation.Link(kind: .relay, delay: .milliseconds(30), turns: [])
        var simulation = PathSimulation(links: [relay, direct], at: start)
        let isComplete = simulation.run(for: .seconds(25))
        #expect(isComplete)
        print("direct dies: \(simulation.longestSilence / .milliseconds(1)) ms of silence")
        #expect(simulation.longestSilence <= .milliseconds(600))
        #expect(simulation.use == [[1], [1]])
        #expect(simulation.switches <= 2 * 4 + 2)
    }

    @Test func `no schedule loses a datagram, sends more than two copies, or makes paths take turns`() {
        var random = SeededRandom.fromEnvironment()
        let count = environment("KITH_PATHS").flatMap { Int($0) } ?? 12
        var longest = Duration.zero
        for _ in 0..<count {
            let length = 20
            var links: [PathSimulation.Link] = []
            let kinds: [PathPolicy<Int>.Kind] = [.relay, .ipv4, .ipv6, .relay]
            for kind in kinds.prefix(Int.random(in: 1...4, using: &random)) {
                var turns: [ContinuousClock.Instant] = []
                var time = Double.random(in: 0...20, using: &random)
                while time < Double(length), kind != .relay || links.contains(where: { $0.kind == .relay }) {
                    turns.append(start + .seconds(time))
                    time += Double.random(in: 0.5...8, using: &random)
                }
                // In the end everything works.
                if turns.count % 2 == 1 { turns.append(start + .seconds(length)) }
                links.append(
                    PathSimulation.Link(
                        kind: kind, delay: .milliseconds(Int.random(in: 5...60, using: &random)), turns: turns))
            }
            let failures = links.reduce(0) { $0 + $1.turns.count / 2 }
            var simulation = PathSimulation(links: links, at: start)
            let isComplete = simulation.run(for: .seconds(length))
            #expect(isComplete, "\(random)")
            #expect(simulation.copies <= 2, "\(random)")
            // To both, to the other, and back, at two ends; and once at the beginning.
            #expect(simulation.switches <= 2 * (failures * 4 + 3), "\(random)")
            longest = max(longest, simulation.longestSilence)
        }
        print("of \(count) schedules the longest silence beside a working path: \(longest / .milliseconds(1)) ms")
        // Several may die at once, and the one that works be tried last.
        #expect(longest <= .seconds(2), "\(random)")
    }
}
