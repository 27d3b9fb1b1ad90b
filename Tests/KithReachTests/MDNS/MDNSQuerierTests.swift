import KithReach
import KithTesting
import KithWire
import Testing

/// How services are looked for, and what is remembered of them; no socket, no clock.
@Suite struct MDNSQuerierTests {
    private static let type = "_kith._udp.local"

    private func link() throws -> MDNSLink {
        var link = MDNSLink()
        link.add { $0.hasPrefix("wanted") }
        return link
    }

    private func name(_ text: String) throws -> DNSName { try #require(DNSName(text)) }
    private func pointer(_ service: String, _ lifetime: UInt32 = 4_500) throws -> DNSRecord {
        DNSRecord(try name(Self.type), timeToLive: lifetime, .pointer(try name("\(service).\(Self.type)")))
    }
    private func text(_ text: String, of service: String, _ lifetime: UInt32 = 4_500, flushes: Bool = true) throws
        -> DNSRecord
    {
        DNSRecord(
            try name("\(service).\(Self.type)"), recordClass: flushes ? 0x8001 : 1, timeToLive: lifetime,
            .text([Array(text.utf8)]))
    }
    private func questions(_ sent: [MDNSLink.Sent], _ type: DNSType) -> [ContinuousClock.Instant] {
        sent.filter { $0.message.questions.contains { $0.type == type } }.map(\.at)
    }

    @Test func `services are asked for after a moment, then less and less often, once an hour in the end`() throws {
        var link = try link()
        let start = link.now
        try link.run(.seconds(36_000))
        let times = questions(link.takeLog(), .ptr)
        let first = try #require(times.first) - start
        #expect(first >= .milliseconds(20) && first <= .milliseconds(120))
        let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
        let doubling: [Duration] = (0..<12).map { Duration.seconds(Int64(1) << Int64($0)) }
        #expect(Array(pauses.prefix(12)) == doubling)
        #expect(pauses.dropFirst(12).allSatisfy { $0 == .seconds(3_600) } && pauses.count > 16)
    }

    @Test func `what a wanted service says is asked for, thrice at most, and is news once`() throws {
        var link = try link()
        try link.run(.seconds(1))
        _ = link.takeLog()
        try link.send(response(try pointer("wanted"), try pointer("other")))
        try link.run(.seconds(60))
        let asked = link.takeLog().filter { $0.message.questions.contains { $0.type == .txt } }
        #expect(asked.count == 3)
        #expect(
            asked.allSatisfy {
                $0.message.questions.filter { $0.type == .txt }.allSatisfy {
                    $0.name == (try? name("wanted.\(Self.type)"))
                }
            })
        try link.send(response(try text("one", of: "wanted"), try text("two", of: "other")))
        #expect(link.heard[0] == ["wanted": [Array("one".utf8)]])
        try link.send(response(try text("one", of: "wanted")))
        #expect(link.hosts[0].cached == 1)
        // It comes with the pointer: nothing is asked.
        try link.send(response(try pointer("wanted2"), try text("three", of: "wanted2")))
        try link.run(.seconds(60))
        #expect(questions(link.takeLog(), .txt).isEmpty && link.heard[0]["wanted2"] == [Array("three".utf8)])
    }

    @Test func `what is known is said with a question, in as many messages as it takes`() throws {
        var link = try link()
        try link.run(.seconds(2))
        for number in 0..<100 {
            try link.send(response(try pointer("wanted\(number)"), try text("x", of: "wanted\(number)")))
        }
        _ = link.takeLog()
        try link.run(.seconds(2))
        let sent = link.takeLog()
        #expect(sent.count > 1)
        #expect(sent.dropLast().allSatisfy(\.message.isTruncated) && sent.last?.message.isTruncated == false)
        #expect(sent.first?.message.questions.count == 1 && sent.dropFirst().allSatisfy(\.message.questions.isEmpty))
        #expect(sent.flatMap(\.message.answers).count == 100)
        for message in sent.map(\.message) { #expect(try message.encoded().count <= 1_440) }
        // What holds for less than half of its time is asked about.
        try link.run(.seconds(2_400))
        try link.send(response(try pointer("wanted100"), try text("x", of: "wanted100")))
        _ = link.takeLog()
        link.hosts[0].examine(at: link.now)
        try link.run(.seconds(1))
        #expect(link.takeLog().flatMap(\.message.answers).count == 1)
    }

    @Test func `what another has just asked is not asked again, unless it knows more`() throws {
        for (known, isAsked) in [([], false), ([try pointer("wanted")], true)] as [([DNSRecord], Bool)] {
            var link = try link()
            // The next question is due in a second.
            try link.run(.milliseconds(500))
            _ = link.takeLog()
            try link.send(try query(Self.type, .ptr, known: known))
            try link.run(.milliseconds(700))
            #expect(questions(link.takeLog(), .ptr).isEmpty != isAsked)
        }
    }

    @Test func `a record is asked about at 80, 85, 90 and 95 percent of its time, and then it ends`() throws {
        var link = try link()
        try link.run(.seconds(5_000))
        _ = link.takeLog()
        let start = link.now
        try link.send(response(try text("x", of: "wanted", 1_000)))
        try link.run(.seconds(999))
        let times = questions(link.takeLog(), .txt).map { ($0 - start) / .seconds(1) }
        #expect(times.count == 4)
        for (time, percent) in zip(times, [80, 85, 90, 95]) {
            #expect(time >= Double(percent * 10) && time <= Double(percent * 10 + 20), "\(time)")
        }
        #expect(link.hosts[0].cached == 1)
        try link.run(.seconds(2))
        #expect(link.hosts[0].cached == 0)
    }

    @Test func `a goodbye holds for a second, in which it can be contradicted`() throws {
        var link = try link()
        for isContradicted in [false, true] {
            try link.send(response(try pointer("wanted"), try text("x", of: "wanted")))
            #expect(link.hosts[0].cached == 2)
            try link.send(response(try pointer("wanted", 0), try text("x", of: "wanted", 0)))
            try link.run(.milliseconds(900))
            #expect(link.hosts[0].cached == 2)
            if isContradicted { try link.send(response(try pointer("wanted"), try text("x", of: "wanted"))) }
            try link.run(.milliseconds(200))
            #expect(link.hosts[0].cached == (isContradicted ? 2 : 0))
        }
        // What was never there does not begin by ending.
        try link.send(response(try pointer("wanted9", 0)))
        #expect(link.hosts[0].cached == 2)
    }

    @Test func `a record that replaces others ends those of more than a second ago, a second later`() throws {
        var link = try link()
        try link.send(response(try text("old", of: "wanted", flushes: false)))
        try link.run(.milliseconds(1_500))
        try link.send(response(try text("same packet", of: "wanted"), try text("new", of: "wanted")))
        #expect(link.hosts[0].cached == 3)
        try link.run(.milliseconds(999))
        #expect(link.hosts[0].cached == 3)
        try link.run(.milliseconds(2))
        #expect(link.hosts[0].cached == 2)
    }

    @Test func `a flood of services fills nothing, and does not hide the one that is wanted`() throws {
        var link = try link()
        for number in 0..<5_000 {
            try link.send(response(try pointer("other\(number)"), try text("x", of: "other\(number)")))
            if number.isMultiple(of: 200) { try link.run(.seconds(1)) }
        }
        #expect(link.hosts[0].cached == 0)
        // In its own name, with all the texts there are.
        for number in 0..<300 {
            try link.send(response(try text("false \(number)", of: "wanted", .max, flushes: false)))
        }
        #expect(link.hosts[0].cached == 4)
        try link.run(.seconds(1))
        try link.send(response(try text("true", of: "wanted")))
        #expect(link.heard[0]["wanted"] == [Array("true".utf8)])
        // Names without end that might be wanted.
        for number in 0..<3_000 {
            try link.send(response(try pointer("wanted\(number)", .max)))
            if number.isMultiple(of: 200) { try link.run(.seconds(1)) }
        }
        #expect(link.hosts[0].cached <= 512)
        _ = link.takeLog()
        try link.run(.seconds(600))
        #expect(link.takeLog().count < 1_000)
    }

    @Test func `more datagrams than are read in a second are dropped`() throws {
        var link = try link()
        for _ in 0..<1_000 { try link.send(response(try pointer("other"))) }
        #expect(link.hosts[0].refused[.tooMany] == 700)
        try link.run(.seconds(1))
        try link.send(response(try pointer("wanted"), try text("x", of: "wanted")))
        #expect(link.heard[0].count == 1)
    }

    @Test func `what is no message, or another kind of one, is dropped`() throws {
        var link = try link()
        let now = link.now
        var other = try query(Self.type, .ptr)
        other.operation = 4
        var failed = response(try pointer("wanted"))
        failed.code = .refused
        // A pointer that leads to itself, and a count of what is not there.
        let loop: [UInt8] = [0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xC0, 12, 0, 12, 0, 1, 0, 0, 0, 9, 0, 2, 0xC0, 12]
        let missing: [UInt8] = [0, 0, 0x84, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]
        let inputs = [
            try other.encoded(), try failed.encoded(), loop, missing, [], [UInt8](repeating: 0, count: 9_001),
        ]
        for bytes in inputs { link.hosts[0].receive(bytes, from: MDNSLink.address(9), isUnicast: false, at: now) }
        #expect(link.hosts[0].refused[.malformed] == inputs.count && link.hosts[0].cached == 0)
    }
}

/// Many devices on one link, which loses some of what they say.
@Suite struct MDNSSimulationTests {
    @Test(arguments: [0, 0.2]) func `all hear all, by the names of this hour and of the next`(loss: Double) throws {
        var link = MDNSLink(seed: 7)
        link.loss = loss
        let count = 20
        for _ in 0..<count { link.add() }
        for hour in 0..<2 {
            for index in 0..<count {
                link.hosts[index].offer([try MDNSLink.service("d\(index)h\(hour)")], at: link.now)
                link.hosts[index].examine(at: link.now)
            }
            try link.run(.seconds(60))
            for index in 0..<count {
                let missing = (0..<count).filter { $0 != index && link.heard[index]["d\($0)h\(hour)"] == nil }
                #expect(missing.isEmpty, "host \(index), hour \(hour), \(link.random)")
            }
            // Nobody has two names, and none was taken from anybody.
            #expect(link.hosts.indices.allSatisfy { link.hosts[$0].names == ["d\($0)h\(hour)._kith._udp.local"] })
            // Probes, announcements and questions of twenty devices, and answers to them.
            #expect(link.takeLog().count < 200 * count)
        }
        // An idle hour.
        try link.run(.seconds(3_600))
        #expect(link.takeLog().count < 60 * count)
    }

    @Test func `one goes without a word, comes back with the same names, and says something else`() throws {
        var link = MDNSLink(seed: 8)
        link.loss = 0.2
        for _ in 0..<3 { link.add() }
        for index in 0..<3 { link.hosts[index].offer([try MDNSLink.service("d\(index)")], at: link.now) }
        try link.run(.seconds(60))
        // The others remember its text of before, and do not defend it.
        link.hosts[0] = MDNSEngine(
            type: "_kith._udp", networks: [MDNSLink.network], random: link.random.fork(), at: link.now
        ) { _ in true }
        link.hosts[0].offer([try MDNSLink.service("d0", text: "again")], at: link.now)
        try link.run(.seconds(60))
        #expect(link.hosts[0].names == ["d0._kith._udp.local"])
        #expect(link.heard[1]["d0"] == [Array("again".utf8)] && link.heard[2]["d0"] == [Array("again".utf8)])
    }
}
