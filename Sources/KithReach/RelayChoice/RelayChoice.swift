/// Decides at which relays this device is to be found: its home, and the standby that takes over when that is gone.
///
/// A value: the driver measures relays, connects to those it is told to, and says what came of it. Only a relay that let
/// the device in becomes its home, whatever its latency. The standby is connected before it is needed.
///
///     known ──attach──▶ attaching ──let in──▶ attached (home, standby) ──lost──▶ known
///                          │ refused                                               ▲
///                          ▼                                                       │
///                       refused ───────────────── after a while ──────────────────┘
package struct RelayChoice: Sendable {
    /// How relays are chosen.
    package struct Limits: Hashable, Sendable {
        /// How long a latency counts.
        package var window = Duration.seconds(300)
        /// The part of the home's latency below which another relay must be.
        package var factor = 2.0 / 3
        /// How much shorter it must be besides.
        package var margin = Duration.milliseconds(10)
        /// How long a relay that refused is left alone; it doubles.
        package var firstRefusal = Duration.seconds(60)
        /// The longest of that.
        package var longestRefusal = Duration.seconds(3_600)
        /// How long a relay that was lost is left alone; it doubles until it lets in again.
        package var firstLoss = Duration.seconds(1)
        /// The longest of that.
        package var longestLoss = Duration.seconds(16)
        /// How long a relay may take to let in before another is tried beside it.
        package var patience = Duration.seconds(3)
        /// The most relays.
        package var relays = 16
        /// Latencies kept of each.
        package var samples = 32
        /// False on a phone's battery: one link alone.
        package var keepsStandby = true

        /// The documented values.
        package init() {}
    }

    /// What the driver does next.
    package enum Action: Hashable, Sendable {
        /// Connect to a relay, then say ``RelayChoice/letIn(by:at:)``, ``RelayChoice/refused(by:at:)`` or
        /// ``RelayChoice/lost(_:at:)``.
        case attach(RelayAddress)
        /// Leave a relay: nobody is told of it any more.
        case detach(RelayAddress)
        /// Tell peers, and publish, where the device is to be found.
        case announce(home: RelayAddress?, standby: RelayAddress?)
    }

    private enum State: Hashable {
        case known
        case attaching(since: ContinuousClock.Instant)
        case attached
        case waiting(until: ContinuousClock.Instant)

        /// True while the driver has or makes a link.
        var isUsed: Bool {
            switch self {
            case .attached, .attaching: true
            case .known, .waiting: false
            }
        }
    }

    private struct Relay {
        var state = State.known
        var latencies: [(at: ContinuousClock.Instant, roundTrip: Duration)] = []
        var refusals = 0
        var losses = 0
    }

    private let limits: Limits
    private var order: [RelayAddress] = []
    private var relays: [RelayAddress: Relay] = [:]
    private var actions: [Action] = []
    /// The relay at which the device is to be found.
    package private(set) var home: RelayAddress?
    /// The one that takes over.
    package private(set) var standby: RelayAddress?

    /// Starts with relays in the order in which a person named them, the first preferred while nothing is measured.
    package init(_ relays: [RelayAddress], limits: Limits = Limits(), at now: ContinuousClock.Instant) {
        self.limits = limits
        set(relays, at: now)
    }

    // MARK: - What happens

    /// Sets the relays that may be used; those no longer among them are left.
    package mutating func set(_ addresses: [RelayAddress], at now: ContinuousClock.Instant) {
        var seen: Set<RelayAddress> = []
        order = Array(addresses.filter { seen.insert($0).inserted }.prefix(limits.relays))
        for gone in relays.keys.filter({ !order.contains($0) }).sorted(by: { $0.description < $1.description }) {
            if relays[gone]?.state.isUsed == true { actions.append(.detach(gone)) }
            relays[gone] = nil
        }
        for address in order where relays[address] == nil { relays[address] = Relay() }
        choose(at: now)
    }

    /// Notes a latency: of a ping to a relay, whether the device is connected there or not.
    package mutating func measured(_ relay: RelayAddress, roundTrip: Duration, at now: ContinuousClock.Instant) {
        guard relays[relay] != nil, roundTrip >= .zero else { return }
        relays[relay]?.latencies.append((now, roundTrip))
        if relays[relay]?.latencies.count ?? 0 > limits.samples { relays[relay]?.latencies.removeFirst() }
        choose(at: now)
    }

    /// Notes that a relay let the device in.
    package mutating func letIn(by relay: RelayAddress, at now: ContinuousClock.Instant) {
        // One that was lost may be back before its wait is over.
        guard var entry = relays[relay], entry.state != .known else { return }
        (entry.state, entry.refusals, entry.losses) = (.attached, 0, 0)
        relays[relay] = entry
        choose(at: now)
    }

    /// Notes that a relay does not let the device in: it is asked again after a minute, later after an hour.
    package mutating func refused(by relay: RelayAddress, at now: ContinuousClock.Instant) {
        guard var entry = relays[relay] else { return }
        let wait = min(limits.firstRefusal * (1 << min(entry.refusals, 16)), limits.longestRefusal)
        entry.refusals = min(entry.refusals + 1, 16)
        entry.state = .waiting(until: now + wait)
        relays[relay] = entry
        choose(at: now)
    }

    /// Notes that the link to a relay ended, or could not be made.
    package mutating func lost(_ relay: RelayAddress, at now: ContinuousClock.Instant) {
        guard var entry = relays[relay] else { return }
        let wait = min(limits.firstLoss * (1 << min(entry.losses, 16)), limits.longestLoss)
        entry.losses = min(entry.losses + 1, 16)
        entry.state = .waiting(until: now + wait)
        relays[relay] = entry
        choose(at: now)
    }

    /// Notes that the device woke or is on another network: every relay may be tried at once, and all is measured anew.
    package mutating func networkChanged(at now: ContinuousClock.Instant) {
        for address in order {
            relays[address]?.latencies = []
            relays[address]?.losses = 0
            if case .waiting = relays[address]?.state { relays[address]?.state = .known }
        }
        choose(at: now)
    }

    // MARK: - Time

    /// The next thing to do; `nil` for nothing until something happens.
    package mutating func nextAction() -> Action? { actions.isEmpty ? nil : actions.removeFirst() }

    /// The time at which ``timedOut(at:)`` is to be called; `nil` for never.
    package func nextDeadline(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        relays.values.compactMap { relay -> ContinuousClock.Instant? in
            switch relay.state {
            case .waiting(let until): until
            case .attaching(let since): since + limits.patience
            case .known, .attached: nil
            }
        }.filter { $0 > now }.min()
    }

    /// Tries relays whose wait is over.
    package mutating func timedOut(at now: ContinuousClock.Instant) { choose(at: now) }

    // MARK: - Choice

    /// The shortest latency that still counts.
    package func latency(of relay: RelayAddress, at now: ContinuousClock.Instant) -> Duration? {
        relays[relay]?.latencies.filter { now - $0.at <= limits.window }.map(\.roundTrip).min()
    }

    /// Relays from the best to the worst: measured ones by latency, then the others as they were named.
    private func ranked(at now: ContinuousClock.Instant) -> [RelayAddress] {
        let measured = order.enumerated().map { place, address in
            (latency: latency(of: address, at: now) ?? .seconds(3_600), place: place, address: address)
        }
        return measured.sorted { ($0.latency, $0.place) < ($1.latency, $1.place) }.map(\.address)
    }

    private func isClearlyBetter(
        _ relay: RelayAddress, than other: RelayAddress, at now: ContinuousClock.Instant
    ) -> Bool {
        guard let new = latency(of: relay, at: now) else { return false }
        // What was not measured for so long does not answer.
        guard let old = latency(of: other, at: now) else { return true }
        return new < old * limits.factor && old - new >= limits.margin
    }

    private mutating func choose(at now: ContinuousClock.Instant) {
        let before = (home, standby)
        func isAttached(_ relay: RelayAddress?) -> Bool { relay.map { relays[$0]?.state == .attached } ?? false }
        let ranked = ranked(at: now)
        let attached = ranked.filter { isAttached($0) }
        if !isAttached(home) {
            // The standby was told to peers: it takes over, whatever else is connected.
            home = isAttached(standby) ? standby : attached.first
        } else if let old = home, let best = attached.first, best != old, isClearlyBetter(best, than: old, at: now) {
            // Peers still look for the device at the old one.
            (home, standby) = (best, old)
        }
        if standby == home || !isAttached(standby) { standby = nil }
        if limits.keepsStandby {
            let best = attached.first { $0 != home }
            if let old = standby, let best, best != old, isClearlyBetter(best, than: old, at: now) { standby = best }
            standby = standby ?? best
        }
        if before != (home, standby) { actions.append(.announce(home: home, standby: standby)) }
        attachWanted(ranked, at: now)
        detachUnwanted(at: now)
    }

    private mutating func attachWanted(_ ranked: [RelayAddress], at now: ContinuousClock.Instant) {
        // One that hangs does not keep another from being tried.
        let inUse = relays.values.count { relay in
            if case .attaching(let since) = relay.state { return now - since < limits.patience }
            return relay.state == .attached
        }
        var wanted = (limits.keepsStandby ? 2 : 1) - inUse
        for address in ranked {
            switch relays[address]?.state {
            case .known: break
            case .waiting(let until) where until <= now: break
            case .waiting, .attaching, .attached, nil: continue
            }
            // Beside a full set only one that would take a place, and one at a time.
            let isBetter = [home, standby].contains { place in
                place.map { isClearlyBetter(address, than: $0, at: now) } ?? false
            }
            guard wanted > 0 || wanted == 0 && isBetter else { continue }
            relays[address]?.state = .attaching(since: now)
            actions.append(.attach(address))
            wanted -= 1
        }
    }

    private mutating func detachUnwanted(at now: ContinuousClock.Instant) {
        for address in order where address != home && address != standby && home != nil {
            guard relays[address]?.state == .attached else { continue }
            relays[address]?.state = .known
            actions.append(.detach(address))
        }
    }
}
