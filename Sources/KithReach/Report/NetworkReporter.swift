package import KithWire

/// Makes a report of what STUN servers, routers and probes say of this device's network.
///
/// A value: the driver says what was asked and answered and when, always of the one socket per family that QUIC uses,
/// and takes ``report(at:)``. Servers at two IP addresses tell whether the NAT is hard; two ports of one of them
/// (RFC 5780) tell what the mapping depends on; three new mappings in a row tell how it counts. Bounded: the last
/// ``maxObservations`` answers of each family are kept.
package struct NetworkReporter: Sendable {
    /// A filtering test of RFC 5780: from where a server was asked to answer.
    package enum FilteringTest: Hashable, Sendable {
        /// From its other IP address and port.
        case otherAddress
        /// From its other port.
        case otherPort
    }

    private struct Observation: Hashable {
        let server: NetworkAddress
        let mapped: NetworkAddress
        /// The place of the question among all that were asked: NATs count in that order.
        let order: UInt64
        /// The time at which the server was asked.
        let asked: ContinuousClock.Instant?
    }

    /// How long no answer means that UDP is blocked.
    package static let patience = Duration.seconds(1)
    /// How long no answer means that a server is gone that has answered before: a packet or two may be lost.
    package static let doubt = Duration.seconds(3)
    /// The most answers kept of a family.
    package static let maxObservations = 16
    /// The widest step of a NAT that counts.
    package static let widestStep = 16
    /// The widest block of ports that is told from chance.
    package static let widestBlock = 2_048

    private var localAddresses: Set<NetworkAddress> = []
    private var observations4: [Observation] = []
    private var observations6: [Observation] = []
    /// New mappings: ports that were seen for the first time, of the socket itself or of one opened to look.
    private var newPorts: [(order: UInt64, port: UInt16)] = []
    private var firstAsked4: ContinuousClock.Instant?
    private var firstAsked6: ContinuousClock.Instant?
    /// The servers that have not answered since they were asked, and the first and the last time they were.
    private var unanswered: [NetworkAddress: (first: ContinuousClock.Instant, last: ContinuousClock.Instant)] = [:]
    private static let maxUnanswered = 64
    private var questions: UInt64 = 0
    private var orders: [NetworkAddress: UInt64] = [:]
    private var filtering: [FilteringTest: Bool] = [:]
    private var portMapping: NetworkAddress?
    private var hairpin = NetworkReport.Finding.unknown

    /// Starts on a network, with the addresses that the device has there, with the port of the socket.
    package init(localAddresses: [NetworkAddress]) { self.localAddresses = Set(localAddresses) }

    // MARK: - What happens

    /// Notes that a server is asked now, from the socket that QUIC uses; by a NAT64, one of IPv4 is.
    package mutating func asked(_ server: NetworkAddress, byNAT64: Bool = false, at now: ContinuousClock.Instant) {
        questions += 1
        if let first = unanswered[server]?.first {
            unanswered[server] = (first, now)
        } else if unanswered.count < Self.maxUnanswered {
            unanswered[server] = (now, now)
        }
        if orders.count < 64 || orders[server] != nil { orders[server] = orders[server] ?? questions }
        if server.isIPv6, !byNAT64 { firstAsked6 = firstAsked6 ?? now } else { firstAsked4 = firstAsked4 ?? now }
    }

    /// Notes what a server that was asked has answered.
    package mutating func answered(_ server: NetworkAddress, mapped: NetworkAddress) {
        let asked = unanswered.removeValue(forKey: server)?.last
        let observation = Observation(
            server: server, mapped: mapped, order: orders[server] ?? questions, asked: asked)
        func keep(in list: inout [Observation]) {
            if let asked, let before = list.first(where: { $0.server == server }), before.mapped != mapped {
                // The NAT has forgotten the socket: what others saw before is no longer so.
                list.removeAll { $0.asked.map { $0 < asked } ?? false }
            }
            list.removeAll { $0.server == server }
            list.append(observation)
            if list.count > Self.maxObservations { list.removeFirst() }
        }
        if mapped.isIPv6 {
            keep(in: &observations6)
        } else {
            if !observations4.contains(where: { $0.mapped == mapped }) { keepNew(mapped.port, at: observation.order) }
            keep(in: &observations4)
        }
    }

    /// Indicates whether one of those servers has answered, at whatever port.
    package func hasHeard(of servers: some Collection<NetworkAddress>) -> Bool {
        (observations4 + observations6).contains { seen in servers.contains { $0.hasSameIP(as: seen.server) } }
    }

    /// Forgets what servers have answered that are not among those, and are not asked any more.
    package mutating func keep(_ servers: some Collection<NetworkAddress>) {
        func isKept(_ server: NetworkAddress) -> Bool { servers.contains { $0.hasSameIP(as: server) } }
        guard (observations4 + observations6).contains(where: { !isKept($0.server) }) else { return }
        observations4.removeAll { !isKept($0.server) }
        observations6.removeAll { !isKept($0.server) }
        unanswered = unanswered.filter { isKept($0.key) }
        // Whoever is asked from now on has time to answer.
        if observations4.isEmpty { firstAsked4 = nil }
        if observations6.isEmpty { firstAsked6 = nil }
    }

    /// Notes the outside port of a socket that was opened to see which one is next.
    package mutating func observedNewMapping(_ mapped: NetworkAddress) {
        guard !mapped.isIPv6 else { return }
        questions += 1
        keepNew(mapped.port, at: questions)
    }

    /// Notes whether the answer to a filtering test came.
    package mutating func finished(_ test: FilteringTest, isAnswered: Bool) { filtering[test] = isAnswered }

    /// Notes that a datagram came from somewhere that the socket had never sent to.
    ///
    /// A hint only: another IP address shows that filtering is independent, another port that it is not of ports.
    package mutating func receivedUninvited(fromKnownIP isKnownIP: Bool) {
        filtering[isKnownIP ? .otherPort : .otherAddress] = true
    }

    /// Notes the outside address that a router passes on to this device; `nil` when it no longer does.
    package mutating func mapped(to external: NetworkAddress?) { portMapping = external }

    /// Notes whether a probe from this device to its own outside address came back.
    package mutating func finishedHairpin(isAnswered: Bool) { hairpin = isAnswered ? .yes : .no }

    // MARK: - The report

    /// What is known now.
    package func report(at now: ContinuousClock.Instant) -> NetworkReport {
        var report = NetworkReport()
        report.udp = udp(at: now)
        report.publicIPv4 = observations4.last?.mapped
        report.publicIPv6 = observations6.last?.mapped
        report.ipv6 =
            if !observations6.isEmpty { .yes } else if isSilent(since: firstAsked6, at: now) { .no } else { .unknown }
        report.nat = NATKind(mapping: mapping, filtering: filteringKind, ports: ports)
        report.lastPort = newPorts.last?.port
        report.portMapping = portMapping
        report.hairpin = hairpin
        report.doubleNAT = doubleNAT
        return report
    }

    /// True when another new mapping is needed to tell how a hard NAT counts: a socket is to be opened to look.
    package var wantsNewMapping: Bool {
        (mapping == .addressDependent || mapping == .addressAndPortDependent) && newPorts.count < 3
    }

    /// True when another port of a server that has answered is to be asked: it is the only one of IPv4 that does, so only
    /// that can show a mapping that depends on the port.
    package func wantsOtherPort(of server: NetworkAddress, at now: ContinuousClock.Instant) -> Bool {
        guard observations4.count == 1, observations4.first?.server == server, mapping == .unknown else { return false }
        // One at another address shows more, if it answers.
        return !unanswered.contains { !$0.hasSameIP(as: server) && now - $1.first < Self.patience }
    }

    /// The time at which silence begins to mean something; `nil` when it does already, or nothing was asked.
    package func nextDeadline(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        let silence = [firstAsked4, firstAsked6].compactMap { $0.map { $0 + Self.patience } }
        let doubts = unanswered.flatMap { [$1.first + patience(with: $0), $1.last + patience(with: $0)] }
        return (silence + doubts).filter { $0 > now }.min()
    }

    private func patience(with server: NetworkAddress) -> Duration {
        (observations4 + observations6).contains { $0.server == server } ? Self.doubt : Self.patience
    }

    /// True while a server that was asked a moment ago may yet answer.
    package func awaitsAnswers(at now: ContinuousClock.Instant) -> Bool {
        unanswered.contains { now - $1.last < patience(with: $0) }
    }

    private mutating func keepNew(_ port: UInt16, at order: UInt64) {
        newPorts.append((order, port))
        newPorts.sort { $0.order < $1.order }
        if newPorts.count > 8 { newPorts.removeFirst() }
    }

    private func isSilent(since asked: ContinuousClock.Instant?, at now: ContinuousClock.Instant) -> Bool {
        asked.map { now - $0 >= Self.patience } ?? false
    }

    private func udp(at now: ContinuousClock.Instant) -> NetworkReport.UDP {
        // One that no longer answers says nothing of now, whichever of its ports is not asked any more.
        let all = observations4 + observations6
        let isHeard = all.contains { observation in
            !all.contains { other in
                guard other.server.hasSameIP(as: observation.server), let silence = unanswered[other.server],
                    now - silence.first >= Self.doubt
                else { return false }
                return observation.asked.map { $0 < silence.first } ?? true
            }
        }
        if isHeard { return .works }
        let asked = [firstAsked4, firstAsked6].compactMap(\.self)
        guard !asked.isEmpty, asked.allSatisfy({ isSilent(since: $0, at: now) }) else { return .unknown }
        return .blocked
    }

    private var mapping: NATKind.Mapping {
        guard !observations4.isEmpty else { return .unknown }
        if observations4.contains(where: { localAddresses.contains($0.mapped) }) { return .none }
        let distinct = Set(observations4.map(\.mapped))
        guard distinct.count > 1 else {
            // One server, or several ports of one, cannot tell.
            return Set(observations4.map(\.server.ip)).count > 1 ? .independent : .unknown
        }
        let byServer = Dictionary(grouping: observations4, by: \.server.ip).values
        let severalPorts = byServer.filter { $0.count > 1 }
        guard !severalPorts.isEmpty, severalPorts.allSatisfy({ Set($0.map(\.mapped)).count == 1 }) else {
            // The worst is believed until two ports of a server show better.
            return .addressAndPortDependent
        }
        return .addressDependent
    }

    private var filteringKind: NATKind.Filtering {
        if filtering[.otherAddress] == true { return .independent }
        if filtering[.otherPort] == true { return .addressDependent }
        return filtering[.otherAddress] == false && filtering[.otherPort] == false ? .addressAndPortDependent : .unknown
    }

    private var ports: NATKind.Ports {
        let own = Set(localAddresses.filter { !$0.isIPv6 }.map(\.port))
        if !observations4.isEmpty, observations4.allSatisfy({ own.contains($0.mapped.port) }) { return .preserved }
        let last = newPorts.suffix(5).map { Int($0.port) }
        guard last.count >= 3, let least = last.min(), let most = last.max() else { return .unknown }
        let steps = zip(last, last.dropFirst()).map { $1 - $0 }
        // Others behind the NAT take ports between: the smallest step is the NAT's own.
        if steps.allSatisfy({ $0 > 0 }) || steps.allSatisfy({ $0 < 0 }),
            let step = steps.min(by: { abs($0) < abs($1) }),
            steps.allSatisfy({ abs($0) <= Self.widestStep && $0 % step == 0 })
        {
            return .sequential(step: Int16(step))
        }
        var size = 16
        while size <= Self.widestBlock {
            if least / size == most / size { return .block(size: UInt16(size)) }
            size *= 2
        }
        return .random
    }

    private var doubleNAT: NetworkReport.Finding {
        guard let portMapping, !portMapping.isIPv6 else { return .unknown }
        if portMapping.isPrivate || portMapping.isLinkLocal { return .yes }
        guard let seen = observations4.last else { return .unknown }
        return seen.mapped.ip == portMapping.ip ? .no : .yes
    }
}
