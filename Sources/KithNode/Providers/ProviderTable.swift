import KithAPI
import KithIdentity
import KithWire

/// Decides which provider gets a request, by what became of those before.
///
/// A pure engine: time and random numbers come in. Of each provider of each path it keeps the expected latency, the
/// requests that run, and a breaker:
///
///     closed ──failures──▶ open ──pause is over──▶ half open ──success──▶ closed
///                            ▲                         │
///                            └───────── failure ───────┘
struct ProviderTable {
    /// A device that has a path; `nil` is this one.
    typealias Device = DeviceID?

    /// The state of a breaker.
    enum Breaker: Hashable {
        /// Requests pass.
        case closed
        /// None passes before this time.
        case open(until: ContinuousClock.Instant)
        /// One passes, to see.
        case halfOpen
    }

    /// What a provider is known for.
    struct Record: Hashable {
        var running: UInt32 = 0
        var calls: UInt64 = 0
        var errors: UInt64 = 0
        /// The moving average of the latency, in microseconds; `nil` before the first answer.
        var latency: Double?
        /// The moving average of failures, 0…1.
        var failureShare = 0.0
        var failuresInRow: UInt32 = 0
        var breaker = Breaker.closed
    }

    /// What comes of a choice.
    enum Choice: Hashable {
        /// Ask this one; ``ended(_:_:_:at:)`` follows.
        case ask(Device)
        /// All have failed lately.
        case allBroken
        /// All have as many requests as they may.
        case allBusy
        /// There is none.
        case none
    }

    /// The outcome of a request.
    enum Outcome: Hashable {
        /// It was answered, be it by an error of the service's own.
        case answered(Duration)
        /// The provider failed.
        case failed
        /// Nothing is learned from it: the caller called it off.
        case nothing
    }

    private struct Key: Hashable {
        var path: String
        var device: Device
    }

    /// The most records that are kept.
    static let limit = 4_096

    private var records: [Key: Record] = [:]
    private var turns: [String: UInt64] = [:]

    init() {}

    /// What is known of a provider.
    func record(_ path: String, _ device: Device) -> Record { records[Key(path: path, device: device)] ?? Record() }

    /// Everything that is known.
    var all: [(path: String, device: Device, record: Record)] {
        records.map { ($0.key.path, $0.key.device, $0.value) }
    }

    /// Chooses one of `candidates` for a request, and counts it as running there.
    mutating func choose(
        _ path: String, among candidates: [Device], except tried: Set<Device> = [], by policy: RequestPolicy,
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) -> Choice {
        let left = candidates.filter { !tried.contains($0) }
        guard !left.isEmpty else { return .none }
        let whole = left.filter { passes(path, $0, policy, at: now) }
        guard !whole.isEmpty else { return .allBroken }
        let free = whole.filter { device in policy.concurrency.map { self.record(path, device).running < $0 } ?? true }
        guard !free.isEmpty else { return .allBusy }
        let sound = withoutOutliers(free, of: path, policy)
        let device: Device
        // One that may show that it has recovered does so first.
        if let tested = sound.first(where: { isHalfOpen(path, $0, at: now) }) {
            device = tested
        } else if policy.prefersThisDevice, sound.contains(Device.none) {
            device = Device.none
        } else {
            device = pick(path, sound, policy, &random)
        }
        let key = Key(path: path, device: device)
        if records[key] == nil, records.count >= Self.limit { records = records.filter { $0.value.running > 0 } }
        var record = records[key] ?? Record()
        if case .open = record.breaker { record.breaker = .halfOpen }
        record.running += 1
        records[key] = record
        return .ask(device)
    }

    /// Takes the outcome of a request.
    mutating func ended(
        _ path: String, _ device: Device, _ outcome: Outcome, by policy: RequestPolicy, at now: ContinuousClock.Instant
    ) {
        let key = Key(path: path, device: device)
        guard var record = records[key] else { return }
        record.running -= min(1, record.running)
        switch outcome {
        case .answered(let latency):
            let microseconds = latency / .microseconds(1)
            record.latency = record.latency.map { $0 + 0.2 * (microseconds - $0) } ?? microseconds
            record.failureShare *= 0.9
            record.calls += 1
            record.failuresInRow = 0
            record.breaker = .closed
        case .failed:
            record.calls += 1
            record.errors += 1
            record.failureShare += 0.1 * (1 - record.failureShare)
            record.failuresInRow = min(record.failuresInRow + 1, 1 << 20)
            let isDue = policy.breakerFailures > 0 && record.failuresInRow >= policy.breakerFailures
            if record.breaker == .halfOpen || isDue {
                record.breaker = .open(until: now + .milliseconds(policy.breakerPause))
            }
        case .nothing:
            // Whoever was to show that it has recovered has not.
            if record.breaker == .halfOpen { record.breaker = .open(until: now) }
        }
        records[key] = record
    }

    /// Forgets a device that is gone, except what runs.
    mutating func forget(_ device: DeviceID) {
        records = records.filter { $0.key.device != device || $0.value.running > 0 }
    }

    /// The wait before a request is tried again, after `tries` rounds: a random part of what doubles each time.
    static func delay(
        after tries: UInt32, _ policy: RequestPolicy, using random: inout some RandomNumberGenerator
    ) -> Duration {
        let doubled = UInt64(policy.retryDelay) << UInt64(min(tries, 20))
        let longest = min(doubled, UInt64(policy.longestRetryDelay))
        return .microseconds(Int64(random.next(upperBound: longest * 1_000 + 1)))
    }

    // MARK: - Choosing

    private func passes(
        _ path: String, _ device: Device, _ policy: RequestPolicy, at now: ContinuousClock.Instant
    ) -> Bool {
        switch record(path, device).breaker {
        case .closed: true
        case .open(let time): time <= now
        case .halfOpen: false
        }
    }

    private func isHalfOpen(_ path: String, _ device: Device, at now: ContinuousClock.Instant) -> Bool {
        if case .open(let time) = record(path, device).breaker { time <= now } else { false }
    }

    /// Leaves out those that fail often, if others do not.
    private func withoutOutliers(_ devices: [Device], of path: String, _ policy: RequestPolicy) -> [Device] {
        guard policy.outlierShare > 0 else { return devices }
        let limit = Double(policy.outlierShare) / 100
        let sound = devices.filter { record(path, $0).failureShare < limit }
        return sound.isEmpty ? devices : sound
    }

    private mutating func pick(
        _ path: String, _ devices: [Device], _ policy: RequestPolicy, _ random: inout some RandomNumberGenerator
    ) -> Device {
        switch policy.strategy {
        case .roundRobin:
            if turns.count >= Self.limit { turns = [:] }
            let turn = turns[path, default: 0]
            turns[path] = turn &+ 1
            let sorted = devices.sorted(by: Self.isBefore)
            return sorted[Int(turn % UInt64(sorted.count))]
        case .sticky(let key):
            // The highest weight wins: of those that go, only theirs moves.
            return devices.max { Self.weight(key, $0) < Self.weight(key, $1) } ?? nil
        default:
            guard devices.count > 1 else { return devices[0] }
            let first = Int(random.next(upperBound: UInt64(devices.count)))
            var second = Int(random.next(upperBound: UInt64(devices.count - 1)))
            if second >= first { second += 1 }
            let (left, right) = (devices[first], devices[second])
            return cost(path, right) < cost(path, left) ? right : left
        }
    }

    /// The time that one more request is expected to take; one that is unknown is tried first.
    private func cost(_ path: String, _ device: Device) -> Double {
        let record = record(path, device)
        return (record.latency ?? 0) * Double(record.running + 1)
    }

    private static func isBefore(_ left: Device, _ right: Device) -> Bool {
        guard let left else { return right != nil }
        guard let right else { return false }
        return left.description < right.description
    }

    /// A number for a key and a device: the same in every process (FNV-1a, then MurmurHash3's finalizer).
    private static func weight(_ key: String, _ device: Device) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in Array(key.utf8) + [0xFF] + (device?.bytes ?? []) {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        hash = (hash ^ hash >> 33) &* 0xff51_afd7_ed55_8ccd
        hash = (hash ^ hash >> 33) &* 0xc4ce_b9fe_1a85_ec53
        return hash ^ hash >> 33
    }
}
