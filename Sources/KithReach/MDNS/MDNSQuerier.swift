/// Looks for services of one type on one link, and asks what those say that are wanted (RFC 6762 §§5, 7, 10; RFC 6763 §4).
///
/// It keeps nothing of services that are not wanted: nobody fills its cache by inventing them.
struct MDNSQuerier {
    private struct Resolution {
        var asked = 0
        var next: ContinuousClock.Instant
    }

    /// The most services that are asked about at a time.
    static let maxOpen = 256
    /// The pauses between questions about one service; after the last it is given up.
    private static let pauses: [Duration] = [.seconds(1), .seconds(3), .seconds(9)]
    /// The longest time between two questions for services: others announce themselves.
    private static let longest = Duration.seconds(3_600)

    private let type: DNSName
    private let isWanted: @Sendable (DNSName) -> Bool
    private(set) var cache = MDNSCache()
    private var next: ContinuousClock.Instant
    private var interval = Duration.seconds(1)
    private var open: [DNSName: Resolution] = [:]
    /// The texts that are new, by the names of their services.
    private var texts: [(DNSName, [[UInt8]])] = []

    /// Begins to look for services of a type, `type` with its domain; the first question is at `start`.
    init(_ type: DNSName, from start: ContinuousClock.Instant, isWanted: @escaping @Sendable (DNSName) -> Bool) {
        (self.type, self.isWanted, next) = (type, isWanted, start)
    }

    /// Asks again, often at first: others may be there now, or wanted.
    mutating func restart(from start: ContinuousClock.Instant) {
        next = min(next, start)
        interval = .seconds(1)
    }

    mutating func takeTexts() -> [(DNSName, [[UInt8]])] {
        defer { texts = [] }
        return texts
    }

    // MARK: - Answers

    /// Takes a record in.
    mutating func heard(
        _ record: DNSRecord, at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        guard record.plain.recordClass == DNSRecord.internet else { return }
        let jitter = Int.random(in: 0...2, using: &random)
        switch record.content {
        case .pointer(let service) where record.name == type:
            guard isService(service) else { return }
            let insertion = cache.insert(record, isList: true, jitter: jitter, at: now)
            guard insertion != .full, record.timeToLive > 0 else { return }
            resolve(service, at: now + .milliseconds(Int.random(in: 20...120, using: &random)), now)
        case .text(let strings) where record.name != type:
            guard isService(record.name) else { return }
            let isNew = cache.insert(record, jitter: jitter, at: now) != .renewed
            guard record.timeToLive > 0 else { return }
            open[record.name] = nil
            if isNew { texts.append((record.name, strings)) }
        default: break
        }
    }

    /// True for the name of a wanted service of the type.
    private func isService(_ name: DNSName) -> Bool {
        name.labels.count == type.labels.count + 1 && name.removing(type) != nil && isWanted(name)
    }

    private mutating func resolve(
        _ service: DNSName, at start: ContinuousClock.Instant, _ now: ContinuousClock.Instant
    ) {
        guard open[service] == nil, open.count < Self.maxOpen, cache.records(service, .txt, at: now).isEmpty else {
            return
        }
        open[service] = Resolution(next: start)
    }

    // MARK: - Questions of others

    /// Notes that another has asked the group: what this device would ask in a second need not be asked again (§7.3).
    mutating func heardQuery(_ query: DNSMessage, at now: ContinuousClock.Instant) {
        guard !query.isTruncated, query.authorities.isEmpty, next > now, next <= now + .seconds(1),
            query.questions.contains(where: {
                $0.name == type && $0.type == .ptr && !$0.wantsUnicast && $0.plainClass == DNSRecord.internet
            })
        else { return }
        // Whatever the other knows is not said again: only where this device knows it, too.
        let known = cache.known(type, .ptr, at: now)
        guard query.answers.allSatisfy({ answer in known.contains { $0.saysTheSame(as: answer) } }) else { return }
        hasAsked(at: now)
    }

    private mutating func hasAsked(at now: ContinuousClock.Instant) {
        next = now + interval
        interval = min(interval * 2, Self.longest)
    }

    // MARK: - Time

    var nextDeadline: ContinuousClock.Instant {
        let others = [cache.nextDeadline, open.values.map(\.next).min()].compactMap(\.self)
        return others.reduce(next) { min($0, $1) }
    }

    /// Returns what is to be asked now.
    mutating func timedOut(
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) -> [[UInt8]] {
        cache.expire(at: now)
        var questions = cache.takeRefreshes(jitter: Int.random(in: 0...2, using: &random), at: now)
        if next <= now {
            hasAsked(at: now)
            questions.append(DNSMessage.Question(type, .ptr))
            // Those that were given up, or whose text has ended.
            for case .pointer(let service) in cache.records(type, .ptr, at: now).map(\.content) {
                resolve(service, at: now + .seconds(1), now)
            }
        }
        for (service, resolution) in open where resolution.next <= now {
            guard resolution.asked < Self.pauses.count else {
                open[service] = nil
                // It is there when somebody says so again.
                cache.remove(type, .ptr, like: DNSRecord(type, timeToLive: 0, .pointer(service)))
                continue
            }
            open[service] = Resolution(asked: resolution.asked + 1, next: now + Self.pauses[resolution.asked])
            questions.append(DNSMessage.Question(service, .txt))
        }
        questions = questions.reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
        guard !questions.isEmpty else { return [] }
        let isList = questions.contains { $0.name == type }
        return MDNSMessages.queries(
            questions.sorted { $0.type.rawValue < $1.type.rawValue },
            known: isList ? cache.known(type, .ptr, at: now) : [])
    }
}
