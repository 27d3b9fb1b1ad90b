import KithIdentity
import KithWire

/// Decides when this device announces itself on its network, and what to believe of what it hears there.
///
/// A value: it does no I/O and reads no clock. It believes only what a paired device has signed, lately, and after all
/// that it has heard of that device before; everything it keeps is bounded by the number of paired devices.
///
///     unknown ──announcement──▶ heard ──goodbye, or its time is over──▶ gone
///                                 ▲                                       │ newer announcement
///                                 └───────────────────────────────────────┘
///
/// A gone device's number is kept as long as an older announcement could still be taken for a new one.
struct DiscoveryEngine {
    /// What became of a datagram.
    enum Reception: Hashable {
        /// A paired device was heard for the first time, or again after it was gone.
        case found(DeviceID, [NetworkAddress])
        /// It listens at other addresses than before.
        case moved(DeviceID, [NetworkAddress])
        /// It is still there.
        case renewed(DeviceID)
        /// It says that it is leaving.
        case left(DeviceID)
        /// Nothing was learned from it.
        case refused(Refusal)
    }

    /// Why a datagram was refused.
    enum Refusal: Hashable, CaseIterable {
        /// It is this device's own.
        case own
        /// It is of no device that is paired with this one.
        case unpaired
        /// It is a repetition, or older than one that was heard.
        case old
        /// Its time is more than a day from this device's.
        case otherTime
        /// None of its addresses is of the network it was heard on.
        case otherNetwork
        /// More signatures were to be checked than are.
        case tooMany
        /// The device it names did not sign it.
        case forged
    }

    /// A device that is there now.
    struct Heard: Hashable {
        let id: DeviceID
        let addresses: [NetworkAddress]
        /// When it was heard last.
        let at: ContinuousClock.Instant
    }

    private struct Entry {
        /// The largest number heard.
        var number: UInt64
        var isGone = false
        /// The addresses in announcements with that number.
        var addresses: [NetworkAddress] = []
        /// Those in the ones before: the rest of the new ones may be on its way, by another interface.
        var before: [NetworkAddress] = []
        var heardAt: ContinuousClock.Instant
        /// When what it said holds no more.
        var end: ContinuousClock.Instant

        /// Both, the newer first.
        var all: [NetworkAddress] { DiscoveryEngine.merged(before, into: addresses) }

        mutating func leave() {
            isGone = true
            (addresses, before) = ([], [])
        }
    }

    /// The most devices that are kept.
    static let maxDevices = 1_024
    /// How far the clocks of two devices may be apart, in milliseconds.
    static let tolerance: UInt64 = 86_400_000
    /// How long changes of this device's addresses are waited for: one change of network is several.
    static let debounce = Duration.milliseconds(50)

    private let id: DeviceID
    private let interval: Duration
    private var schedule: AnnouncementSchedule
    private var budget: SignatureBudget
    private var entries: [DeviceID: Entry] = [:]
    /// That of the last announcement of this device.
    private(set) var lastNumber: UInt64
    private var random: any RandomNumberGenerator
    /// Datagrams that were refused, by reason.
    private(set) var refused: [Refusal: Int] = [:]

    /// Begins, with an announcement that is due now.
    ///
    /// `lastNumber` is that of the last announcement the device made before, in an earlier life.
    init(
        id: DeviceID, interval: Duration, lastNumber: UInt64, random: any RandomNumberGenerator,
        at now: ContinuousClock.Instant
    ) {
        self.id = id
        self.lastNumber = lastNumber
        self.random = random
        self.interval = interval
        schedule = AnnouncementSchedule(interval: interval, at: now)
        budget = SignatureBudget(at: now)
    }

    // MARK: - This device

    /// The time at which ``timedOut(at:time:)`` is to be called.
    var nextDeadline: ContinuousClock.Instant {
        entries.values.lazy.filter { !$0.isGone }.map(\.end).min().map { min($0, schedule.deadline) }
            ?? schedule.deadline
    }

    /// Notes that the device listens at other addresses, or on another network.
    mutating func addressesChanged(at now: ContinuousClock.Instant) {
        schedule.restart(after: Self.debounce, at: now)
    }

    /// Announces the device a quarter as often, or as often as ever.
    mutating func reduce(_ isReduced: Bool, at now: ContinuousClock.Instant) {
        schedule.stretch = isReduced ? 4 : 1
        // What is said from now on holds for longer, or is said more often.
        schedule.hasten(to: now)
    }

    /// The seconds an announcement holds: two may be lost before the device counts as gone.
    private var lifetime: UInt32 {
        let limit = Int64(LocalAnnouncement.maxLifetime)
        return UInt32(clamping: min(max(interval.components.seconds, 1), limit) * 3 * Int64(schedule.stretch))
    }

    /// The number of announcements to the group for one that is kept by a responder, which answers in between.
    private static let keptFactor = 10

    /// The time after which a kept announcement is made anew.
    var keptInterval: Duration { interval * (Self.keptFactor * schedule.stretch) }

    /// Returns an announcement that is kept by a responder, and holds for longer.
    func keptAnnouncement(_ number: UInt64, addresses: [NetworkAddress]) -> LocalAnnouncement {
        LocalAnnouncement(
            id: id, number: number, lifetime: lifetime * UInt32(Self.keptFactor), addresses: addresses)
    }

    /// The outcome of a time that has come.
    struct Due: Hashable {
        /// The number of the announcement to send now, one for all interfaces; `nil` for none.
        var announcement: UInt64?
        /// The devices whose announcements hold no longer.
        var gone: [DeviceID] = []
    }

    /// Does what is due; `time` is milliseconds since 1970.
    mutating func timedOut(at now: ContinuousClock.Instant, time: UInt64) -> Due {
        var due = Due()
        for (device, entry) in entries {
            if !entry.isGone, entry.end <= now {
                entries[device]?.leave()
                due.gone.append(device)
            }
            // An announcement from before is older than the tolerance by then.
            if entry.heardAt + .milliseconds(2 * Int64(Self.tolerance)) <= now { entries[device] = nil }
        }
        due.gone.sort()
        let jitter = Double(random.next() >> 11) / Double(1 << 53)
        if schedule.take(at: now, jitter: jitter) { due.announcement = nextNumber(time) }
        return due
    }

    /// Returns the number of a goodbye, or of an announcement out of turn.
    mutating func nextNumber(_ time: UInt64) -> UInt64 {
        // A number far ahead of the clock is of a clock that was wrong: nobody would believe those after it.
        let isUsable = lastNumber < time.saturatingAdding(Self.tolerance / 2)
        lastNumber = isUsable ? max(time, lastNumber.saturatingAdding(1)) : time
        return lastNumber
    }

    /// Returns an announcement of the device with that number.
    func announcement(_ number: UInt64, addresses: [NetworkAddress]) -> LocalAnnouncement {
        LocalAnnouncement(id: id, number: number, lifetime: lifetime, addresses: addresses)
    }

    /// Returns its goodbye.
    func goodbye(_ number: UInt64) -> LocalAnnouncement {
        LocalAnnouncement(id: id, number: number, lifetime: 0, addresses: [])
    }

    // MARK: - Other devices

    /// Takes a datagram in.
    ///
    /// `isKnown` says whether the device it names is paired with this one, `isFromHere` whether it came from this
    /// machine's loopback interface; `networks` are those that it may name addresses of, `nil`: any; `time` is milliseconds
    /// since 1970.
    mutating func receive(
        _ announcement: ReceivedAnnouncement, isKnown: Bool, isFromHere: Bool, networks: [NetworkPrefix]? = nil,
        at now: ContinuousClock.Instant, time: UInt64
    ) -> Reception {
        let claim = announcement.claim
        func refuse(_ reason: Refusal) -> Reception {
            self.refuse(reason)
            return .refused(reason)
        }
        // Whatever costs nothing comes before the signature, which anybody can make us check.
        guard claim.id != id else { return refuse(.own) }
        guard isKnown else { return refuse(.unpaired) }
        let distance = claim.number > time ? claim.number - time : time - claim.number
        guard distance <= Self.tolerance else { return refuse(.otherTime) }
        let addresses = Self.usable(claim.addresses, isFromHere: isFromHere).filter { address in
            networks?.contains { $0.contains(address) } ?? true
        }
        guard claim.isGoodbye || networks == nil || !addresses.isEmpty else { return refuse(.otherNetwork) }
        let known = entries[claim.id]
        // One device announces itself on several interfaces with one number: together they say where it is.
        let isSame = known?.number == claim.number
        if let known {
            guard claim.number >= known.number else { return refuse(.old) }
            let isNews = !claim.isGoodbye && !known.isGone && addresses.contains { !known.addresses.contains($0) }
            guard !isSame || isNews else { return refuse(.old) }
        }
        guard known != nil || entries.count < Self.maxDevices else { return refuse(.tooMany) }
        guard budget.take(for: claim.id, at: now) else { return refuse(.tooMany) }
        guard announcement.isGenuine else { return refuse(.forged) }

        var entry = known ?? Entry(number: claim.number, isGone: true, heardAt: now, end: now)
        let (wasGone, before) = (entry.isGone, entry.all)
        entry.number = claim.number
        entry.heardAt = now
        entry.end = now + .seconds(Int64(claim.lifetime))
        entry.isGone = false
        if claim.isGoodbye {
            entry.leave()
        } else if isSame {
            entry.addresses = Self.merged(addresses, into: entry.addresses)
        } else {
            (entry.addresses, entry.before) = (addresses, entry.addresses)
        }
        entries[claim.id] = entry
        if claim.isGoodbye { return wasGone ? .renewed(claim.id) : .left(claim.id) }
        let hasMoved = addresses.contains { !before.contains($0) }
        if wasGone || hasMoved { answer(at: now) }
        if wasGone { return .found(claim.id, entry.all) }
        return hasMoved ? .moved(claim.id, entry.all) : .renewed(claim.id)
    }

    /// Counts a datagram that was refused.
    mutating func refuse(_ reason: Refusal) { refused[reason, default: 0].saturatingAdd(1) }

    /// Announces this device soon, for one that has just come and cannot have heard it; those that hear the same do not
    /// all answer at once.
    private mutating func answer(at now: ContinuousClock.Instant) {
        schedule.hasten(to: now + .milliseconds(Int64.random(in: 20...120, using: &random)))
    }

    /// Forgets a device: it is not paired any more.
    mutating func forget(_ device: DeviceID) { entries[device] = nil }

    /// The addresses at which a device was heard to listen, best first; none when it was not, or is gone.
    func addresses(of device: DeviceID) -> [NetworkAddress] { entries[device]?.all ?? [] }

    /// The devices that are there now, in the order of their keys.
    var heard: [Heard] {
        entries.filter { !$0.value.isGone }
            .map { Heard(id: $0.key, addresses: $0.value.all, at: $0.value.heardAt) }
            .sorted { $0.id < $1.id }
    }

    private static func merged(_ more: [NetworkAddress], into some: [NetworkAddress]) -> [NetworkAddress] {
        Array((some + more.filter { !some.contains($0) }).prefix(LocalAnnouncement.maxAddresses))
    }

    /// The addresses that may be dialed: one machine's loopback is another device on another.
    private static func usable(_ addresses: [NetworkAddress], isFromHere: Bool) -> [NetworkAddress] {
        addresses.filter { address in
            address.port != 0 && !address.isUnspecified && !address.isMulticast
                && !(address.isIPv6 && address.isLinkLocal) && (isFromHere || !address.isLoopback)
        }
    }
}

/// The limit on the signatures that are checked: whoever can send to the group can make any number of them.
///
/// 200 a second in all, and 20 for one device: whoever claims to be one of them leaves time for the others.
struct SignatureBudget {
    static let perSecond = 200
    static let perDevice = 20
    private var began: ContinuousClock.Instant
    private var counts: [DeviceID: Int] = [:]
    private var total = 0

    init(at now: ContinuousClock.Instant) { began = now }

    /// Counts one check; false when there were too many in this second.
    mutating func take(for device: DeviceID, at now: ContinuousClock.Instant) -> Bool {
        if now >= began + .seconds(1) {
            (began, counts, total) = (now, [:], 0)
        }
        guard total < Self.perSecond, counts[device, default: 0] < Self.perDevice else { return false }
        total += 1
        counts[device, default: 0] += 1
        return true
    }
}
