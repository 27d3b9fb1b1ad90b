import KithReach
import KithWire
import Testing

@Suite("Network report") struct NetworkReporterTests {
    let start = ContinuousClock.now
    let own = NetworkAddress(ipv4: (192, 168, 1, 20), port: 4_433)
    let first = NetworkAddress(ipv4: (192, 0, 2, 1), port: 3_478)
    let second = NetworkAddress(ipv4: (198, 51, 100, 1), port: 3_478)
    let outside = NetworkAddress(ipv4: (203, 0, 113, 7), port: 0)

    /// A reporter to which servers have answered in turn with these outside ports.
    private func reporter(_ answers: [(server: NetworkAddress, port: UInt16)]) -> NetworkReporter {
        var reporter = NetworkReporter(localAddresses: [own])
        for (server, _) in answers { reporter.asked(server, at: start) }
        // The answers may overtake each other: what counts is the order of the questions.
        for (server, port) in answers.reversed() { reporter.answered(server, mapped: outside.with(port: port)) }
        return reporter
    }

    @Test func `one mapping for all servers is independent`() {
        #expect(reporter([(first, 1_000)]).report(at: start).nat.mapping == .unknown)
        #expect(reporter([(first, 1_000), (first.with(port: 9), 1_000)]).report(at: start).nat.mapping == .unknown)
        let report = reporter([(first, 1_000), (second, 1_000)]).report(at: start)
        #expect(report.nat.mapping == .independent && !report.nat.isHard)
        #expect(report.udp == .works && report.publicIPv4 == outside.with(port: 1_000))
        #expect(reporter([(first, 4_433), (second, 4_433)]).report(at: start).nat.ports == .preserved)
    }

    @Test func `two ports of a server tell what the mapping depends on`() {
        let worst = reporter([(first, 1_000), (second, 7_000)]).report(at: start).nat
        #expect(worst.mapping == .addressAndPortDependent && worst.isHard)
        let address = reporter([(first, 1_000), (first.with(port: 9), 1_000), (second, 7_000)])
        #expect(address.report(at: start).nat.mapping == .addressDependent)
        let port = reporter([(first, 1_000), (first.with(port: 9), 2_000), (second, 7_000)])
        #expect(port.report(at: start).nat.mapping == .addressAndPortDependent)
    }

    @Test func `another port is asked of the only server, and shows a mapping that depends on it`() {
        var alone = reporter([(first, 1_000)])
        #expect(alone.wantsOtherPort(of: first, at: start))
        let port = first.with(port: 7_842)
        alone.asked(port, at: start)
        alone.answered(port, mapped: outside.with(port: 2_000))
        #expect(alone.report(at: start).nat.mapping == .addressAndPortDependent && alone.wantsNewMapping)
        #expect(!alone.wantsOtherPort(of: first, at: start))
        #expect(!reporter([(first, 1_000), (second, 1_000)]).wantsOtherPort(of: first, at: start))
        // The other server may yet answer; one that is down does not.
        var waiting = NetworkReporter(localAddresses: [own])
        waiting.asked(first, at: start)
        waiting.asked(second, at: start)
        waiting.answered(first, mapped: outside.with(port: 1_000))
        #expect(!waiting.wantsOtherPort(of: first, at: start))
        #expect(waiting.wantsOtherPort(of: first, at: start + .seconds(2)))
        // Without a NAT there is nothing to ask about.
        var open = NetworkReporter(localAddresses: [outside.with(port: 5)])
        open.asked(first, at: start)
        open.answered(first, mapped: outside.with(port: 5))
        #expect(!open.wantsOtherPort(of: first, at: start))
    }

    @Test func `an answer from before the NAT forgot the socket does not make it a hard one`() {
        let port = first.with(port: 7_842)
        var reporter = reporter([(first, 1_000), (port, 1_000)])
        let later = start + .seconds(100)
        reporter.asked(first, at: later)
        reporter.answered(first, mapped: outside.with(port: 3_000))
        #expect(reporter.report(at: later).nat.mapping == .unknown)
        #expect(reporter.wantsOtherPort(of: first, at: later))
        // Of the same round it counts, whichever comes first.
        var both = self.reporter([(first, 1_000), (second, 1_000)])
        both.asked(first, at: later)
        both.asked(second, at: later)
        both.answered(second, mapped: outside.with(port: 3_000))
        both.answered(first, mapped: outside.with(port: 3_000))
        #expect(both.report(at: later).nat.mapping == .independent)
    }

    @Test func `a port that is asked no more does not show that UDP works`() {
        let port = first.with(port: 7_842)
        var reporter = reporter([(first, 1_000), (port, 1_000)])
        let later = start + .seconds(100)
        reporter.asked(first, at: later)
        #expect(reporter.report(at: later + .seconds(3)).udp == .blocked)
        // And one that never answered does not show that it is blocked.
        var other = self.reporter([(first, 1_000)])
        other.asked(port, at: start)
        #expect(other.report(at: later).udp == .works)
    }

    @Test func `a device whose own address is seen has no NAT`() {
        var reporter = NetworkReporter(localAddresses: [outside.with(port: 5)])
        reporter.asked(first, at: start)
        reporter.answered(first, mapped: outside.with(port: 5))
        #expect(reporter.report(at: start).nat.mapping == .none)
    }

    @Test(
        arguments: [
            ([40_000, 40_001, 40_002], NATKind.Ports.sequential(step: 1)),
            ([40_000, 40_002, 40_008], .sequential(step: 2)),
            ([40_008, 40_006, 40_004], .sequential(step: -2)),
            ([40_000, 40_001], .unknown),
            ([40_960, 40_999, 40_970], .block(size: 64)),
            ([1_024, 60_000, 30_000], .random),
            // Steps that are no multiples of the least: no counter, but close together.
            ([2_050, 2_052, 2_055], .block(size: 16)),
        ] as [([UInt16], NATKind.Ports)])
    func `three new mappings tell how a NAT counts`(ports: [UInt16], expected: NATKind.Ports) {
        let servers = [first, second, first.with(port: 9)]
        let report = reporter(Array(zip(servers, ports))).report(at: start)
        #expect(report.nat.ports == expected)
        #expect(report.lastPort == ports.last)
    }

    @Test func `a socket opened to look moves the count on`() {
        var reporter = reporter([(first, 40_000), (second, 40_001)])
        reporter.observedNewMapping(outside.with(port: 40_002))
        let report = reporter.report(at: start)
        #expect(report.nat.ports == .sequential(step: 1) && report.lastPort == 40_002)
    }

    @Test func `no answer in a second means that UDP is blocked, until one comes`() {
        var reporter = NetworkReporter(localAddresses: [own])
        #expect(reporter.report(at: start).udp == .unknown && reporter.nextDeadline(after: start) == nil)
        reporter.asked(first, at: start)
        let deadline = start + .seconds(1)
        #expect(reporter.nextDeadline(after: start) == deadline)
        #expect(reporter.report(at: deadline - .milliseconds(1)).udp == .unknown)
        #expect(reporter.report(at: deadline).udp == .blocked)
        reporter.answered(first, mapped: outside.with(port: 1))
        #expect(reporter.report(at: deadline).udp == .works)
    }

    @Test func `a server that no longer answers does not show that UDP works`() {
        var reporter = reporter([(first, 1), (second, 1)])
        let later = start + .seconds(100)
        #expect(reporter.report(at: later).udp == .works && !reporter.awaitsAnswers(at: later))
        reporter.asked(first, at: later)
        reporter.asked(second, at: later)
        #expect(reporter.awaitsAnswers(at: later) && reporter.nextDeadline(after: later) == later + .seconds(3))
        #expect(reporter.report(at: later + .seconds(2)).udp == .works)
        #expect(reporter.report(at: later + .seconds(3)).udp == .blocked)
        #expect(!reporter.awaitsAnswers(at: later + .seconds(3)))
        // It is asked again and again, and the silence is none of a moment.
        reporter.asked(first, at: later + .seconds(5))
        #expect(reporter.report(at: later + .seconds(5)).udp == .blocked)
        #expect(reporter.awaitsAnswers(at: later + .seconds(5)))
        reporter.answered(first, mapped: outside.with(port: 1))
        #expect(reporter.report(at: later + .seconds(5)).udp == .works)
    }

    @Test func `servers that are left are forgotten, and the next have their time`() {
        var reporter = reporter([(first, 1_000), (first.with(port: 9), 2_000)])
        #expect(reporter.hasHeard(of: [first.with(port: 7)]) && !reporter.hasHeard(of: [second]))
        reporter.keep([first])
        #expect(reporter.report(at: start).nat.mapping == .addressAndPortDependent)
        let later = start + .seconds(100)
        reporter.keep([second])
        reporter.asked(second, at: later)
        #expect(reporter.report(at: later).udp == .unknown && reporter.report(at: later).publicIPv4 == nil)
        reporter.answered(second, mapped: outside.with(port: 3_000))
        #expect(reporter.report(at: later).udp == .works && reporter.report(at: later).nat.mapping == .unknown)
    }

    @Test func `IPv6 works beside an IPv4 that is silent`() throws {
        let server = NetworkAddress(ipv6: 0x2001_0DB8 << 32, 1, port: 3_478)
        let mapped = NetworkAddress(ipv6: 0x2001_0DB8 << 32 | 7, 9, port: 4_433)
        var reporter = NetworkReporter(localAddresses: [own, mapped])
        reporter.asked(first, at: start)
        reporter.asked(server, at: start)
        #expect(reporter.report(at: start + .seconds(1)).ipv6 == .no)
        reporter.answered(server, mapped: mapped)
        let report = reporter.report(at: start + .seconds(1))
        #expect(report.ipv6 == .yes && report.udp == .works && report.publicIPv6 == mapped)
        #expect(report.nat.mapping == .unknown)
    }

    @Test func `answers from elsewhere tell what is let in`() {
        var reporter = reporter([(first, 1_000), (second, 1_000)])
        #expect(reporter.report(at: start).nat.filtering == .unknown)
        reporter.finished(.otherAddress, isAnswered: false)
        reporter.finished(.otherPort, isAnswered: false)
        #expect(reporter.report(at: start).nat.filtering == .addressAndPortDependent)
        reporter.receivedUninvited(fromKnownIP: true)
        #expect(reporter.report(at: start).nat.filtering == .addressDependent)
        reporter.finished(.otherAddress, isAnswered: true)
        #expect(reporter.report(at: start).nat.filtering == .independent)
    }

    @Test(arguments: [
        ("203.0.113.7:4433", NetworkReport.Finding.no), ("100.64.3.2:4433", .yes), ("192.168.100.2:1", .yes),
        ("198.51.100.9:4433", .yes),
    ])
    func `a mapping that is not where servers see the device tells of a double NAT`(
        external: String, expected: NetworkReport.Finding
    ) {
        var reporter = reporter([(first, 1_000), (second, 1_000)])
        reporter.mapped(to: NetworkAddress(external))
        #expect(reporter.report(at: start).doubleNAT == expected)
        reporter.mapped(to: nil)
        #expect(reporter.report(at: start).doubleNAT == .unknown)
    }

    @Test func `what changed between two reports is named`() {
        let before = reporter([(first, 1_000), (second, 1_000)]).report(at: start)
        #expect(before.changes(since: before).isEmpty)
        #expect(before.changes(since: NetworkReport()) == [.udp, .publicIPv4, .nat])
        var after = before
        after.hairpin = .yes
        after.portMapping = outside.with(port: 4_433)
        after.publicIPv4 = outside.with(port: 1_001)
        #expect(after.changes(since: before) == [.publicIPv4, .portMapping, .hairpin])
        // A hard NAT shows each server another port: that is no news.
        var hard = before
        hard.nat = NATKind(mapping: .addressAndPortDependent)
        var harder = hard
        harder.publicIPv4 = outside.with(port: 2_000)
        #expect(harder.changes(since: hard).isEmpty)
    }

    @Test func `a person reads whole sentences`() {
        var report = reporter([(first, 1_000), (second, 1_000)]).report(at: start)
        (report.ipv6, report.doubleNAT) = (.no, .yes)
        #expect(
            report.sentences == [
                "UDP works, behind easy NAT: most devices can connect directly.",
                "There is a double NAT: the port that the router passes on cannot be reached from outside.",
                "IPv6 does not reach the internet.",
            ])
        for mapping in NATKind.Mapping.allCases {
            for ports in [NATKind.Ports.unknown, .random, .sequential(step: 1)] {
                #expect(!NATKind(mapping: mapping, ports: ports).description.isEmpty)
            }
        }
    }

    @Test func `what is kept is bounded`() {
        var reporter = NetworkReporter(localAddresses: [own])
        for number in 0..<1_000 {
            let server = NetworkAddress(ipv4: UInt32(0x0808_0000 + number), port: 3_478)
            reporter.asked(server, at: start)
            reporter.answered(server, mapped: outside.with(port: UInt16(1_024 + number)))
        }
        #expect(reporter.report(at: start).lastPort == 2_023)
    }
}
