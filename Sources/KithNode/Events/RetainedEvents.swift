import KithAPI
import KithWire

/// The events that are kept for those who subscribe later, each until its time is up.
///
/// At most 16 of a topic, 4,096 topics and 16 MiB: what is one too many goes, of one topic the oldest, of all the one
/// whose time is up first.
struct RetainedEvents {
    static let perTopic = 16
    static let topicLimit = 4_096
    static let byteLimit = 16 << 20

    private struct Kept {
        let event: SharedEvent
        let number: UInt64
        let end: ContinuousClock.Instant
        let time: ContinuousClock.Instant
    }

    private var topics = TopicTree<[Kept]>()
    private var ids: [TopicPath: TopicTree<[Kept]>.ID] = [:]
    /// When each is over; also of some that are gone already.
    private var ends: [(time: ContinuousClock.Instant, number: UInt64, topic: TopicPath)] = []
    private var lastNumber: UInt64 = 0
    private(set) var count = 0
    private(set) var bytes = 0

    /// The number of topics.
    var topicCount: Int { ids.count }
    /// For tests of what removal leaves.
    var nodeCount: Int { topics.nodeCount }
    var endCount: Int { ends.count }

    /// The time at which the first is over; `nil`: there are none.
    var nextEnd: ContinuousClock.Instant? { ends.first?.time }

    /// Keeps an event until `end`.
    mutating func retain(_ event: SharedEvent, until end: ContinuousClock.Instant, at now: ContinuousClock.Instant) {
        guard end > now else { return }
        expire(at: now)
        lastNumber += 1
        let kept = Kept(event: event, number: lastNumber, end: end, time: now)
        if let id = ids[event.topic] {
            let dropped = topics.change(id) { list -> Kept? in
                list.append(kept)
                return list.count > Self.perTopic ? list.removeFirst() : nil
            }
            if case let dropped?? = dropped { forget(dropped) }
        } else {
            ids[event.topic] = topics.insert([kept], at: event.topic)
        }
        count += 1
        bytes += event.size
        push((end, kept.number, event.topic))
        while bytes > Self.byteLimit || ids.count > Self.topicLimit, let first = ends.first {
            pop()
            remove(first.number, of: first.topic)
        }
        // Those displaced by newer ones of their topic leave their ends behind.
        if ends.count > 64, ends.count > 2 * count { rebuild() }
    }

    /// Drops what is over.
    mutating func expire(at now: ContinuousClock.Instant) {
        while let first = ends.first, first.time <= now {
            pop()
            remove(first.number, of: first.topic)
        }
    }

    /// The events at the topics that `pattern` stands for, no older than `age`, in the order of their publication; of
    /// each topic the newest `perTopic`.
    func events(
        for pattern: TopicPath, within age: Duration, perTopic: Int, at now: ContinuousClock.Instant
    ) -> [SharedEvent] {
        let lists =
            pattern.isConcrete
            ? topics.entries(at: pattern)
            : topics.entries(matching: pattern).filter { pattern.includes($0.path) }
        return lists.flatMap { $0.value.filter { $0.end > now && now - $0.time <= age }.suffix(max(0, perTopic)) }
            .sorted { $0.number < $1.number }.map(\.event)
    }

    /// Drops the events at the topics that `pattern` stands for; returns how many.
    mutating func removeAll(for pattern: TopicPath) -> Int {
        let before = count
        let lists = pattern.isConcrete ? topics.entries(at: pattern) : topics.entries(matching: pattern)
        for entry in lists where pattern.includes(entry.path) {
            for kept in entry.value { forget(kept) }
            topics.remove(entry.id)
            ids[entry.path] = nil
        }
        rebuild()
        return before - count
    }

    private mutating func remove(_ number: UInt64, of topic: TopicPath) {
        guard let id = ids[topic] else { return }
        let removed = topics.change(id) { list -> Kept? in
            guard let place = list.firstIndex(where: { $0.number == number }) else { return nil }
            return list.remove(at: place)
        }
        guard case let kept?? = removed else { return }
        forget(kept)
        if topics[id]?.isEmpty ?? true {
            topics.remove(id)
            ids[topic] = nil
        }
    }

    private mutating func forget(_ kept: Kept) {
        count -= 1
        bytes -= kept.event.size
    }

    // MARK: - The heap of ends

    private mutating func push(_ end: (time: ContinuousClock.Instant, number: UInt64, topic: TopicPath)) {
        ends.append(end)
        var index = ends.count - 1
        while index > 0, ends[index].time < ends[(index - 1) / 2].time {
            ends.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private mutating func pop() {
        ends.swapAt(0, ends.count - 1)
        ends.removeLast()
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < ends.count && ends[child].time < ends[least].time { least = child }
            if least == index { return }
            ends.swapAt(index, least)
            index = least
        }
    }

    private mutating func rebuild() {
        var live: Set<UInt64> = []
        for id in ids.values { for kept in topics[id] ?? [] { live.insert(kept.number) } }
        ends.removeAll { !live.contains($0.number) }
        // What is in order is a heap.
        ends.sort { $0.time < $1.time }
    }
}

extension TopicPath {
    /// Tells whether a subscription to this path includes a topic that it matches: a wildcard in the first place does
    /// not stand for a device's own topics, which begin with `$`.
    func includes(_ topic: TopicPath) -> Bool { !topic.isReserved || isReserved }
}
