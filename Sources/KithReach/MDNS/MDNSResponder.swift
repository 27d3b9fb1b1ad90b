import KithWire

/// Answers for the services of this device on one link (RFC 6762 §§6 to 10).
///
/// Everything it keeps is bounded: by its own records, and by 32 askers whose lists of what they know have not ended.
struct MDNSResponder {
    /// A question that goes on in further messages (§7.2).
    private struct Gathering {
        var answers: [DNSRecord]
        var unicast: [DNSRecord]
        var known: [DNSRecord]
        let due: ContinuousClock.Instant
    }

    static let maxGatherings = 32
    /// The most records that one asker may say to know.
    static let maxKnown = 1_024
    /// The answers to one asker alone in a second.
    static let unicastPerSecond = 50
    /// The questions of a message that are answered.
    private static let maxQuestions = 64

    private(set) var registrations: [MDNSRegistration] = []
    /// What is to be sent to the group, and when.
    private var pending: [DNSRecord: ContinuousClock.Instant] = [:]
    /// When it was sent to the group last.
    private var lastSent: [DNSRecord: ContinuousClock.Instant] = [:]
    private var gatherings: [NetworkAddress: Gathering] = [:]
    private var unicastBudget: TokenBucket
    private var outbox: [MDNSDatagram] = []

    init(at now: ContinuousClock.Instant) {
        unicastBudget = TokenBucket(
            perSecond: Double(Self.unicastPerSecond), burst: Double(Self.unicastPerSecond), at: now)
    }

    // MARK: - This device

    /// Offers these services, in place of those before: one that is not among them says goodbye.
    mutating func offer(
        _ services: [MDNSService], at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        for registration in registrations
        where !services.contains(where: { $0.hasSameNames(as: registration.service) }) {
            sayGoodbye(registration)
        }
        registrations = services.map { service in
            if var old = registrations.first(where: { $0.service.hasSameNames(as: service) }) {
                old.update(service, at: now)
                return old
            }
            return MDNSRegistration(service, from: now + Self.jitter(0...250, using: &random))
        }
        let own = Set(registrations.flatMap(\.records.all))
        pending = pending.filter { own.contains($0.key) }
        lastSent = lastSent.filter { own.contains($0.key) }
    }

    /// Probes for all names again: the link may be another.
    mutating func restart(at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator) {
        for index in registrations.indices {
            registrations[index].restart(from: now + Self.jitter(0...250, using: &random))
        }
        (pending, gatherings) = ([:], [:])
    }

    /// Says these last words by the names of the services, and goodbye.
    mutating func leave(_ services: [MDNSService], at now: ContinuousClock.Instant) {
        for var registration in registrations where registration.answers {
            if let service = services.first(where: { $0.hasSameNames(as: registration.service) }) {
                registration.update(service, at: now)
                announce(registration, at: now)
            }
            sayGoodbye(registration)
        }
        (registrations, pending, gatherings) = ([], [:], [:])
    }

    private mutating func sayGoodbye(_ registration: MDNSRegistration) {
        guard registration.answers else { return }
        let records = registration.records
        // The list of types is of all devices.
        let ended = ([records.shared[0]] + records.unique).map { records.sent($0).holding(0) }
        send(MDNSMessages.answers(ended))
    }

    private mutating func announce(_ registration: MDNSRegistration, at now: ContinuousClock.Instant) {
        let records = registration.records
        for record in records.all { (lastSent[record], pending[record]) = (now, nil) }
        send(
            MDNSMessages.answers(
                (records.shared + records.unique).map(records.sent), additional: records.denials.map(records.sent)))
    }

    private mutating func probe(_ registration: MDNSRegistration) {
        let records = registration.records
        var message = DNSMessage()
        message.questions = [records.instance, records.host].map { DNSMessage.Question($0, .any) }
        message.authorities = records.unique
        // Texts and addresses of an announcement, which has a bound: they fit.
        if let bytes = try? message.encoded(limit: MDNS.maxLength) { send([bytes]) }
    }

    private mutating func send(_ messages: [[UInt8]], to asker: NetworkAddress? = nil) {
        outbox += messages.map { MDNSDatagram(bytes: $0, destination: asker) }
    }

    /// Takes what is to be sent.
    mutating func takeDatagrams() -> [MDNSDatagram] {
        defer { outbox = [] }
        return outbox
    }

    // MARK: - Time

    var nextDeadline: ContinuousClock.Instant? {
        (registrations.compactMap(\.nextDeadline) + pending.values + gatherings.values.map(\.due)).min()
    }

    mutating func timedOut(at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator) {
        for index in registrations.indices {
            switch registrations[index].timedOut(at: now) {
            case .probe: probe(registrations[index])
            case .announce: announce(registrations[index], at: now)
            case .nothing: break
            }
        }
        for (asker, gathering) in gatherings where gathering.due <= now {
            gatherings[asker] = nil
            answer(gathering, to: asker, delay: .zero, at: now)
        }
        let due = pending.filter { $0.value <= now }.keys
        guard !due.isEmpty else { return }
        var (answers, additional): ([DNSRecord], [DNSRecord]) = ([], [])
        for records in registrations.filter(\.answers).map(\.records) {
            let own = records.all.filter { due.contains($0) && !answers.contains($0) }
            answers += own
            // What was said in this second is known.
            additional += records.additional(to: own).filter { !wasSent($0, within: .seconds(1), at: now) }
        }
        additional.removeAll { answers.contains($0) }
        for record in due { pending[record] = nil }
        for record in answers + additional { lastSent[record] = now }
        guard !answers.isEmpty else { return }
        send(MDNSMessages.answers(answers.map(sent), additional: additional.map(sent)))
    }

    private func sent(_ record: DNSRecord) -> DNSRecord {
        registrations.contains { $0.records.owns(record.name) } ? record.flushing : record
    }

    private func wasSent(_ record: DNSRecord, within time: Duration, at now: ContinuousClock.Instant) -> Bool {
        lastSent[record].map { now < $0 + time } ?? false
    }

    private static func jitter(
        _ range: ClosedRange<Int>, using random: inout some RandomNumberGenerator
    ) -> Duration { .milliseconds(Int.random(in: range, using: &random)) }

    // MARK: - Questions

    /// Takes a question in.
    ///
    /// `isUnicast`: it came to this device alone. `isOnLink`: its sender has an address of this link, so that an answer
    /// to it alone stays there.
    mutating func received(
        _ query: DNSMessage, from asker: NetworkAddress, isUnicast: Bool, isOnLink: Bool,
        at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        breakTies(query, at: now)
        let isLegacy = asker.port != MDNS.port
        if query.questions.isEmpty {
            guard !isLegacy, var gathering = gatherings[asker] else { return }
            gathering.known += query.answers.prefix(max(0, Self.maxKnown - gathering.known.count))
            gatherings[asker] = gathering
            return
        }
        let active = registrations.filter(\.answers).map(\.records)
        var gathering = Gathering(answers: [], unicast: [], known: [], due: now)
        var isShared = false
        for question in query.questions.prefix(Self.maxQuestions) {
            for records in active {
                for record in records.answers(to: question) {
                    isShared = isShared || records.shared.contains(record)
                    if isLegacy || ((isUnicast || question.wantsUnicast) && isOnLink) {
                        gathering.unicast.append(record)
                    } else {
                        gathering.answers.append(record)
                    }
                }
            }
        }
        guard !gathering.answers.isEmpty || !gathering.unicast.isEmpty else { return }
        if isLegacy {
            guard isOnLink else { return }
            return answerLegacy(query, gathering.unicast, to: asker, at: now)
        }
        gathering.known = Array(query.answers.prefix(Self.maxKnown))
        if query.isTruncated, gatherings[asker] == nil, gatherings.count < Self.maxGatherings {
            let due = now + Self.jitter(400...500, using: &random)
            gatherings[asker] = Gathering(
                answers: gathering.answers, unicast: gathering.unicast, known: gathering.known, due: due)
            return
        }
        // A claim to a name is answered at once, and more often than others (§6).
        let isProbe = !query.authorities.isEmpty
        let delay = isShared ? Self.jitter(20...120, using: &random) : .zero
        answer(gathering, to: asker, delay: delay, isDefence: isProbe, at: now)
    }

    private mutating func answer(
        _ gathering: Gathering, to asker: NetworkAddress, delay: Duration, isDefence: Bool = false,
        at now: ContinuousClock.Instant
    ) {
        func isKnown(_ record: DNSRecord) -> Bool {
            // Half of its time is left at least (§7.1).
            gathering.known.contains {
                $0.saysTheSame(as: record) && UInt64($0.timeToLive) * 2 >= UInt64(record.timeToLive)
            }
        }
        var toGroup = gathering.answers.filter { !isKnown($0) }
        var toAsker: [DNSRecord] = []
        for record in gathering.unicast where !isKnown(record) && !toAsker.contains(record) {
            // The group has not heard it for a quarter of its time: it may, too (§5.4).
            if wasSent(record, within: .seconds(Int64(record.timeToLive / 4)), at: now) {
                toAsker.append(record)
            } else {
                toGroup.append(record)
            }
        }
        let pause = isDefence ? MDNSRegistration.probePause : .seconds(1)
        for record in toGroup {
            let due = max(now + delay, lastSent[record].map { $0 + pause } ?? now)
            pending[record] = pending[record].map { min($0, due) } ?? due
        }
        guard !toAsker.isEmpty, unicastBudget.takeIfThere(at: now) else { return }
        let additional = registrations.filter(\.answers).flatMap { $0.records.additional(to: toAsker) }
        send(
            MDNSMessages.answers(toAsker.map(sent), additional: additional.filter { !toAsker.contains($0) }.map(sent)),
            to: asker)
    }

    /// Answers one who asks as ordinary DNS does: with its number and question, for a short time (§6.7).
    private mutating func answerLegacy(
        _ query: DNSMessage, _ answers: [DNSRecord], to asker: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        guard unicastBudget.takeIfThere(at: now) else { return }
        func short(_ record: DNSRecord) -> DNSRecord {
            record.holding(min(record.timeToLive, MDNS.legacyLifetime))
        }
        var message = DNSMessage(id: query.id)
        (message.isResponse, message.isAuthoritative) = (true, true)
        message.questions = query.questions
        message.answers = answers.reduce(into: [DNSRecord]()) { if !$0.contains($1) { $0.append($1) } }.map(short)
        let additional = registrations.filter(\.answers).flatMap { $0.records.additional(to: answers) }
        message.additional = additional.filter { !answers.contains($0) && $0.type != .nsec }.map(short)
        // Too long with what helps: without it.
        if (try? message.encoded(limit: MDNS.usualLength)) == nil { message.additional = [] }
        guard let bytes = try? message.encoded(limit: MDNS.usualLength) else { return }
        send([bytes], to: asker)
    }

    /// Gives way where another probes for the same name, and its records come later in order (§8.2).
    private mutating func breakTies(_ query: DNSMessage, at now: ContinuousClock.Instant) {
        guard !query.authorities.isEmpty else { return }
        for index in registrations.indices where registrations[index].isProbing {
            let records = registrations[index].records
            let hasLost = [records.instance, records.host].contains { name in
                let theirs = query.authorities.filter { $0.name == name }
                guard !theirs.isEmpty, query.questions.contains(where: { $0.name == name }) else { return false }
                let ours = records.unique.filter { $0.name == name }
                return Self.sorted(ours).lexicographicallyPrecedes(Self.sorted(theirs)) {
                    $0.lexicographicallyPrecedes($1)
                }
            }
            if hasLost { registrations[index].lostTie(at: now) }
        }
    }

    /// Records as the bytes of class, type and data, in order.
    private static func sorted(_ records: [DNSRecord]) -> [[UInt8]] {
        records.map { record in
            let (recordClass, type) = (record.plain.recordClass, record.type.rawValue)
            return [
                UInt8(recordClass >> 8), UInt8(recordClass & 0xFF), UInt8(type >> 8), UInt8(type & 0xFF),
            ] + record.content.uncompressed
        }.sorted { $0.lexicographicallyPrecedes($1) }
    }

    // MARK: - Answers of others

    /// Takes a record in that another has sent to the group.
    mutating func heard(
        _ record: DNSRecord, at now: ContinuousClock.Instant, using random: inout some RandomNumberGenerator
    ) {
        for index in registrations.indices {
            let registration = registrations[index]
            let records = registration.records
            if let own = records.all.first(where: { $0.saysTheSame(as: record) }) {
                guard registration.answers, own.type != .nsec else { continue }
                if UInt64(record.timeToLive) * 2 < UInt64(own.timeToLive) {
                    // It would end too early, or now, for all who heard that (§6.6).
                    let due = max(
                        now + Self.jitter(20...120, using: &random), lastSent[own].map { $0 + .seconds(1) } ?? now)
                    pending[own] = pending[own].map { min($0, due) } ?? due
                } else if record.timeToLive >= own.timeToLive {
                    // All have heard it (§7.4).
                    pending[own] = nil
                }
                continue
            }
            guard records.owns(record.name), record.type != .nsec, record.timeToLive > 0,
                record.plain.recordClass == DNSRecord.internet
            else { continue }
            // Once the name is this device's, another type of record contradicts nothing.
            guard
                !registration.answers
                    || records.unique.contains(where: { $0.name == record.name && $0.type == record.type })
            else { continue }
            registrations[index].conflicted(at: now, jitter: Self.jitter(0...250, using: &random))
            // What is still to be said was said by a name that may be another's.
            let own = Set(records.all)
            pending = pending.filter { !own.contains($0.key) }
        }
    }
}
