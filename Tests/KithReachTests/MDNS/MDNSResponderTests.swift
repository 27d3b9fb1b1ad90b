import KithReach
import KithTesting
import KithWire
import Testing

/// How a service is probed for, announced, defended and answered for; no socket, no clock.
@Suite struct MDNSResponderTests {
    private static let type = "_kith._udp.local"

    /// A link with one host, which offers "a" if it is to.
    private func link(offering: Bool = true, settled: Bool = true) throws -> MDNSLink {
        var link = MDNSLink()
        link.add()
        if offering { link.hosts[0].offer([try MDNSLink.service("a")], at: link.now) }
        if settled {
            try link.run(.seconds(20))
            _ = link.takeLog()
        }
        return link
    }

    private func name(_ text: String) throws -> DNSName { try #require(DNSName(text)) }
    private func pointer(_ service: String = "a", _ lifetime: UInt32 = 4_500) throws -> DNSRecord {
        DNSRecord(try name(Self.type), timeToLive: lifetime, .pointer(try name("\(service).\(Self.type)")))
    }
    private func text(_ text: String, of service: String = "a", _ lifetime: UInt32 = 4_500) throws -> DNSRecord {
        DNSRecord(
            try name("\(service).\(Self.type)"), recordClass: 0x8001, timeToLive: lifetime, .text([Array(text.utf8)]))
    }

    /// The answers among what was sent, without questions.
    private func answers(_ sent: [MDNSLink.Sent]) -> [MDNSLink.Sent] { sent.filter(\.message.isResponse) }

    @Test func `three probes a quarter of a second apart, then announcements a second and two apart`() throws {
        var link = try link(settled: false)
        try link.run(.seconds(20))
        let log = link.takeLog().filter { !$0.message.authorities.isEmpty || $0.message.isResponse }
        #expect(log.count == 6)
        let pauses = zip(log, log.dropFirst()).map { $1.at - $0.at }
        #expect(pauses == [.milliseconds(250), .milliseconds(250), .milliseconds(250), .seconds(1), .seconds(2)])
        for probe in log.prefix(3).map(\.message) {
            #expect(
                probe.questions.map(\.type) == [.any, .any] && probe.questions.allSatisfy { $0.questionClass == 1 })
            #expect(Set(probe.authorities.map(\.type)) == [.srv, .txt, .a])
            // A claim replaces nothing yet.
            #expect(probe.authorities.allSatisfy { $0.recordClass == 1 })
        }
        for announcement in log.suffix(3).map(\.message) {
            #expect(announcement.id == 0 && announcement.isAuthoritative && announcement.questions.isEmpty)
            for record in announcement.answers {
                #expect((record.recordClass == 0x8001) == (record.type != .ptr), "\(record)")
            }
            #expect(
                announcement.answers.filter { $0.type == .srv || $0.type == .a }.allSatisfy { $0.timeToLive == 120 })
            #expect(announcement.answers.filter { $0.type == .ptr }.count == 2)
        }
        #expect(link.hosts[0].isRegistered && link.hosts[0].names == ["a.\(Self.type)"])
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func `of two that begin at once with one name, one takes the next`(
        seed: UInt64
    ) throws {
        var link = MDNSLink(seed: seed)
        for text in ["one", "two"] {
            link.add()
            link.hosts[link.hosts.count - 1].offer([try MDNSLink.service("a", text: text)], at: link.now)
        }
        try link.run(.seconds(30))
        #expect(link.hosts.allSatisfy { $0.isRegistered })
        #expect(Set(link.hosts.flatMap(\.names)) == ["a.\(Self.type)", "a-2.\(Self.type)"])
    }

    @Test func `whoever comes later takes the next name, and the first is not disturbed`() throws {
        var link = try link()
        link.add()
        link.hosts[1].offer([try MDNSLink.service("a", text: "later")], at: link.now)
        try link.run(.seconds(30))
        #expect(link.hosts.map(\.names) == [["a.\(Self.type)"], ["a-2.\(Self.type)"]])
        // The same service again, as another interface's host, is no conflict.
        link.add()
        link.hosts[2].offer([try MDNSLink.service("a")], at: link.now)
        try link.run(.seconds(30))
        #expect(link.hosts[2].names == ["a.\(Self.type)"] && link.hosts[0].names == ["a.\(Self.type)"])
    }

    @Test func `a tie goes to the later data, byte by byte`() throws {
        for (theirs, wins) in [("a", false), ("b", true), ("zz", true), ("aaaaaa", true), ("", false)] {
            var link = try link(settled: false)
            // Its first probe is out.
            while link.log.allSatisfy({ $0.message.authorities.isEmpty }) { try link.run(.milliseconds(1)) }
            var probe = try query("a.\(Self.type)", .any)
            // Equal but for the text, which is as long as it says.
            probe.authorities = link.log.flatMap(\.message.authorities).filter { $0.type != .txt }
            probe.authorities.append(try text(theirs))
            _ = link.takeLog()
            try link.send(probe)
            try link.run(.milliseconds(900))
            let isDelayed = link.takeLog().allSatisfy { $0.message.authorities.isEmpty }
            #expect(isDelayed == wins, "\(theirs)")
            // Whoever went first did not go on: the name is free.
            try link.run(.seconds(10))
            #expect(link.hosts[0].names == ["a.\(Self.type)"] && link.hosts[0].isRegistered)
        }
    }

    @Test func `one that claims every name for ever is given up on, and hears no more of it`() throws {
        var link = try link(settled: false)
        for _ in 0..<400 {
            try link.run(.milliseconds(250))
            for sent in link.takeLog() where !sent.message.authorities.isEmpty {
                for question in sent.message.questions {
                    try link.send(
                        response(DNSRecord(question.name, recordClass: 0x8001, timeToLive: 120, .text([[1]]))))
                }
            }
        }
        #expect(link.hosts[0].hasFailed && !link.hosts[0].isRegistered)
        _ = link.takeLog()
        try link.run(.seconds(600))
        #expect(link.takeLog().allSatisfy { $0.message.authorities.isEmpty && !$0.message.isResponse })
        // With other names, in the next hour, it is back.
        link.hosts[0].offer([try MDNSLink.service("b")], at: link.now)
        try link.run(.seconds(5))
        #expect(link.hosts[0].isRegistered)
    }

    @Test func `a name that is claimed is defended once, then given up`() throws {
        var link = try link()
        try link.send(response(try text("mine")))
        #expect(!link.hosts[0].isRegistered)
        try link.run(.seconds(5))
        #expect(link.hosts[0].isRegistered && link.hosts[0].names == ["a.\(Self.type)"])
        try link.send(response(try text("mine")))
        try link.run(.seconds(5))
        #expect(link.hosts[0].isRegistered && link.hosts[0].names == ["a-2.\(Self.type)"])
    }

    @Test func `ties that are lost for ever are given up, too`() throws {
        var link = try link(settled: false)
        for _ in 0..<800 {
            try link.run(.milliseconds(125))
            for sent in link.takeLog() where !sent.message.authorities.isEmpty {
                var probe = sent.message
                probe.authorities = probe.questions.map {
                    DNSRecord($0.name, timeToLive: 120, .other(DNSType(rawValue: 65_000), [255]))
                }
                try link.send(probe)
            }
        }
        #expect(link.hosts[0].hasFailed)
    }

    @Test func `shared records are answered after 20 to 120 ms, own ones at once, none twice in a second`() throws {
        var link = try link()
        let asked = link.now
        try link.send(try query(Self.type, .ptr))
        try link.run(.seconds(1))
        let sent = answers(link.takeLog())
        #expect(sent.count == 1)
        let delay = try #require(sent.first).at - asked
        #expect(delay >= .milliseconds(20) && delay <= .milliseconds(120))
        #expect(sent.first?.message.answers.map(\.type) == [.ptr])
        // What is asked for next comes with it.
        #expect(Set(sent.first?.message.additional.map(\.type) ?? []) == [.srv, .txt, .a, .nsec])
        try link.run(.seconds(5))
        for _ in 0..<5 {
            try link.send(try query("a.\(Self.type)", .txt))
            try link.run(.milliseconds(100))
        }
        let times = answers(link.takeLog()).map(\.at)
        #expect(times.first == asked + .seconds(6))
        #expect(times.count == 1)
        try link.run(.seconds(2))
        // Whoever asked in that second is answered after it.
        #expect(answers(link.takeLog()).map(\.at) == [asked + .seconds(7)])
    }

    @Test func `a claim by another is answered within a quarter of a second`() throws {
        var link = try link()
        try link.send(try query("a.\(Self.type)", .txt))
        try link.run(.milliseconds(100))
        #expect(answers(link.takeLog()).count == 1)
        var probe = try query("a.\(Self.type)", .any)
        probe.authorities = [try text("another")]
        try link.send(probe)
        try link.run(.milliseconds(150))
        #expect(Set(answers(link.takeLog()).flatMap { $0.message.answers.map(\.type) }) == [.srv, .txt])
        #expect(link.hosts[0].isRegistered)
    }

    @Test func `what the asker knows is not said, unless it holds for less than half of its time`() throws {
        for (lifetime, isAnswered) in [(4_500, false), (2_250, false), (2_249, true), (0, true)] as [(UInt32, Bool)] {
            var link = try link()
            try link.send(try query(Self.type, .ptr, known: [try pointer("a", lifetime)]))
            try link.run(.seconds(1))
            #expect(answers(link.takeLog()).isEmpty != isAnswered, "\(lifetime)")
        }
    }

    @Test func `what another has just answered is not said again`() throws {
        var link = try link()
        try link.send(try query(Self.type, .ptr))
        try link.send(response(try pointer()))
        try link.run(.seconds(1))
        #expect(answers(link.takeLog()).isEmpty)
    }

    @Test func `questions that go on are answered after 400 to 500 ms, with all that is known left out`() throws {
        for isKnown in [false, true] {
            var link = try link()
            let asked = link.now
            var first = try query(Self.type, .ptr)
            first.isTruncated = true
            first.answers = [try pointer("b")]
            try link.send(first)
            try link.run(.milliseconds(200))
            var second = DNSMessage()
            second.answers = isKnown ? [try pointer()] : [try pointer("c")]
            try link.send(second)
            // Of another asker, it says nothing about this one.
            second.answers = [try pointer()]
            try link.send(second, from: MDNSLink.address(98))
            try link.run(.milliseconds(199))
            #expect(answers(link.takeLog()).isEmpty)
            try link.run(.milliseconds(101))
            let sent = answers(link.takeLog())
            #expect(sent.count == (isKnown ? 0 : 1))
            #expect(sent.allSatisfy { $0.at >= asked + .milliseconds(400) })
        }
    }

    @Test func `several questions are answered in one message, for any type and class`() throws {
        var link = try link()
        var message = try query("a.\(Self.type)", .any)
        message.questions.append(DNSMessage.Question(try name("HA.local"), .a, questionClass: 255))
        message.questions.append(DNSMessage.Question(try name("ha.local"), .a, questionClass: 3))
        message.questions.append(DNSMessage.Question(try name("other.local"), .a))
        try link.send(message)
        try link.run(.milliseconds(1))
        let sent = answers(link.takeLog())
        #expect(sent.count == 1 && Set(sent.flatMap { $0.message.answers.map(\.type) }) == [.srv, .txt, .a])
    }

    @Test func `types of services are listed, and a type that a name has not is denied`() throws {
        var link = try link()
        try link.send(try query("_services._dns-sd._udp.local", .ptr))
        try link.run(.milliseconds(200))
        #expect(answers(link.takeLog()).flatMap(\.message.answers).map(\.content) == [.pointer(try name(Self.type))])
        try link.send(try query("ha.local", .aaaa))
        try link.run(.milliseconds(1))
        let denial = answers(link.takeLog()).flatMap(\.message.answers)
        #expect(denial.map(\.content) == [.denial(next: try name("ha.local"), types: [.a])])
        #expect(denial.first?.recordClass == 0x8001)
    }

    @Test func `an asker that wants it gets an answer alone, where the group has heard it lately`() throws {
        var link = try link()
        try link.send(try query("a.\(Self.type)", .txt, unicast: true))
        try link.run(.milliseconds(1))
        #expect(answers(link.takeLog()).map(\.destination) == [MDNSLink.address(99)])
        try link.send(try query("a.\(Self.type)", .txt), isUnicast: true)
        try link.run(.milliseconds(1))
        #expect(answers(link.takeLog()).map(\.destination) == [MDNSLink.address(99)])
        // A quarter of its time later, the group is told.
        try link.run(.seconds(1_200))
        _ = link.takeLog()
        try link.send(try query("a.\(Self.type)", .txt, unicast: true))
        try link.run(.milliseconds(1))
        #expect(answers(link.takeLog()).map(\.destination) == [nil])
    }

    @Test func `one who asks as ordinary DNS does gets its number, its question, and ten seconds`() throws {
        var link = try link()
        var message = try query(Self.type, .ptr)
        message.id = 0x1234
        var asker = MDNSLink.address(99)
        asker.port = 40_000
        try link.send(message, from: asker)
        let sent = answers(link.takeLog())
        #expect(sent.map(\.destination) == [asker])
        let answer = try #require(sent.first?.message)
        #expect(answer.id == 0x1234 && answer.questions == message.questions)
        #expect((answer.answers + answer.additional).allSatisfy { $0.timeToLive <= 10 && $0.recordClass == 1 })
        #expect(answer.answers.map(\.type) == [.ptr] && Set(answer.additional.map(\.type)) == [.srv, .txt, .a])
        // What it knows does not count, and nobody asks for answers without end.
        for _ in 0..<200 { try link.send(message, from: asker) }
        #expect(answers(link.takeLog()).count < 60)
    }

    @Test func `nothing from another link is answered or believed`() throws {
        let elsewhere = NetworkAddress(ipv4: (198, 51, 100, 7), port: 5_353)
        var link = try link()
        try link.send(try query("a.\(Self.type)", .txt), from: elsewhere, isUnicast: true)
        try link.send(response(try text("mine")), from: elsewhere, isUnicast: true)
        // An answer from another port than that of multicast DNS.
        var other = MDNSLink.address(99)
        other.port = 5_354
        try link.send(response(try text("mine")), from: other)
        #expect(link.hosts[0].refused[.otherLink] == 3)
        // A false source on the link's group: no datagram goes to it.
        try link.send(try query("a.\(Self.type)", .txt, unicast: true), from: elsewhere)
        var legacy = elsewhere
        legacy.port = 53
        try link.send(try query("a.\(Self.type)", .txt), from: legacy)
        try link.run(.seconds(1))
        #expect(link.takeLog().allSatisfy { $0.destination == nil })
        #expect(link.hosts[0].isRegistered)
    }

    @Test func `a goodbye takes everything back but the list of types; the last words come before`() throws {
        var link = try link()
        link.hosts[0].leave([try MDNSLink.service("a", text: "farewell")], at: link.now)
        try link.run(.seconds(10))
        let sent = answers(link.takeLog()).map(\.message)
        #expect(sent.count == 2)
        #expect(sent.first?.answers.contains { $0.content == .text([Array("farewell".utf8)]) } == true)
        #expect(sent.last?.answers.map(\.type) == [.ptr, .srv, .txt, .a])
        #expect(sent.last?.answers.allSatisfy { $0.timeToLive == 0 } == true)
        try link.send(try query(Self.type, .ptr))
        try link.run(.seconds(1))
        #expect(answers(link.takeLog()).isEmpty)
    }

    @Test func `a goodbye in this device's name is contradicted, and an end that comes early`() throws {
        for lifetime in [0, 59] as [UInt32] {
            var link = try link()
            try link.send(response(try pointer("a", lifetime)))
            try link.run(.milliseconds(121))
            #expect(answers(link.takeLog()).flatMap(\.message.answers).map(\.type) == [.ptr])
            // However often it is said, once a second.
            for _ in 0..<50 {
                try link.send(response(try pointer("a", lifetime)))
                try link.run(.milliseconds(20))
            }
            #expect(answers(link.takeLog()).count <= 2)
        }
    }

    @Test func `what is said anew is announced, other names are probed for after a goodbye to the old`() throws {
        var link = try link()
        link.hosts[0].offer([try MDNSLink.service("a", text: "new")], at: link.now)
        try link.run(.seconds(5))
        let news = link.takeLog()
        #expect(news.allSatisfy { $0.message.authorities.isEmpty } && answers(news).count == 3)
        // The same once more is no news.
        link.hosts[0].offer([try MDNSLink.service("a", text: "new")], at: link.now)
        try link.run(.seconds(5))
        #expect(answers(link.takeLog()).isEmpty)
        link.hosts[0].offer([try MDNSLink.service("b")], at: link.now)
        try link.run(.seconds(5))
        let renamed = link.takeLog()
        #expect(answers(renamed).first?.message.answers.allSatisfy { $0.timeToLive == 0 } == true)
        #expect(renamed.filter { !$0.message.authorities.isEmpty }.count == 3)
        #expect(link.hosts[0].names == ["b.\(Self.type)"])
        // On another link everything begins again.
        link.hosts[0].restart(networks: [MDNSLink.network], at: link.now)
        try link.run(.seconds(5))
        #expect(link.takeLog().filter { !$0.message.authorities.isEmpty }.count == 3)
    }

    @Test func `more than a frame holds goes in several messages`() throws {
        var link = try link(offering: false)
        let addresses = (0..<200).map { NetworkAddress(ipv4: (10, 9, 0, $0), port: 0) }
        link.hosts[0].offer([try MDNSLink.service("a", addresses: addresses)], at: link.now)
        try link.run(.seconds(2))
        let announced = answers(link.takeLog())
        #expect(announced.count > 2)
        #expect(Set(announced.flatMap(\.message.answers)).filter { $0.type == .a }.count == 200)
        for sent in announced { #expect(try sent.message.encoded().count <= 1_440) }
    }

    @Test func `two services of one device are offered side by side`() throws {
        var link = try link(offering: false)
        let other = try #require(
            MDNSService(
                type: "_irohv1._udp", identities: [.init(instance: "key", host: "key", text: [[]])], port: 1,
                addresses: [NetworkAddress(ipv4: (10, 9, 0, 77), port: 0)]))
        link.hosts[0].offer([try MDNSLink.service("a"), other], at: link.now)
        try link.run(.seconds(20))
        #expect(link.hosts[0].names == ["a.\(Self.type)", "key._irohv1._udp.local"])
        _ = link.takeLog()
        link.hosts[0].offer([try MDNSLink.service("a")], at: link.now)
        try link.run(.seconds(2))
        let gone = answers(link.takeLog()).flatMap(\.message.answers)
        #expect(!gone.isEmpty && gone.allSatisfy { $0.timeToLive == 0 })
        #expect(gone.first?.name == (try name("_irohv1._udp.local")))
    }
}
