import KithAPI
import KithIO
import KithIdentity

/// The events that a subscriber has not taken yet, and what it will never get.
///
/// Holds a number of events, and of bytes; a full one drops as it was told to, and puts a gap in the place. Of a topic that
/// has a state it holds the last one only.
struct EventMailbox {
    /// What is taken out.
    enum Item {
        /// An event; with a number, one of the past that the request of that number asked for.
        case event(SharedEvent, lookBack: UInt64?, EventReceipt?)
        case gap(Events.Gap)
    }

    /// The most bytes that wait.
    static let byteLimit = 8 << 20

    private let capacity: Int
    private let overflow: Events.Overflow
    private var items = Ring<(number: UInt64, item: Item)>()
    /// Of the topics that have a state, the one that is not taken yet, in the order in which they came.
    private var states: [(number: UInt64, event: SharedEvent)] = []
    /// The number of what comes next.
    private var number: UInt64 = 0
    /// The number of events among the items.
    private(set) var count = 0
    private(set) var bytes = 0
    /// What is missing before the first item.
    private var missing: Events.Gap?
    /// The number of events lost so far.
    private(set) var lostCount: UInt64 = 0

    init(capacity: Int, overflow: Events.Overflow) {
        self.capacity = max(1, capacity)
        self.overflow = overflow
    }

    /// The most topics whose states wait; the oldest makes room without a word, a newer one of it comes.
    static let stateLimit = 256

    var isEmpty: Bool { items.isEmpty && missing == nil && states.isEmpty }

    /// Adds an event, or drops one.
    mutating func put(_ event: SharedEvent, lookBack: UInt64? = nil, receipt: EventReceipt? = nil) {
        number += 1
        if event.isState {
            if let old = states.firstIndex(where: { $0.event.topic == event.topic }) {
                states.remove(at: old)
            } else if states.count >= Self.stateLimit {
                states.removeFirst()
            }
            return states.append((number, event))
        }
        let size = event.size
        func isFull() -> Bool { count > 0 && (count >= capacity || bytes + size > Self.byteLimit) }
        if overflow == .dropNewest, isFull() {
            receipt?.fail()
            return append(lost: event.event.publisher)
        }
        while isFull(), let first = items.popFirst() {
            switch first.item {
            case .gap(let gap): missing = missing.map { $0.joined(with: gap) } ?? gap
            case .event(let dropped, _, let receipt):
                receipt?.fail()
                count -= 1
                bytes -= dropped.size
                lostCount += 1
                let gap = Events.Gap(count: 1, publisher: dropped.event.publisher, reason: .slow)
                missing = missing.map { $0.joined(with: gap) } ?? gap
            }
        }
        items.append((number, .event(event, lookBack: lookBack, receipt)))
        count += 1
        bytes += size
    }

    /// Adds that events are missing behind those that are there.
    mutating func put(_ gap: Events.Gap) {
        number += 1
        guard case .gap(let last)? = items.last?.item else { return items.append((number, .gap(gap))) }
        _ = items.popLast()
        items.append((number, .gap(last.joined(with: gap))))
    }

    private mutating func append(lost publisher: DeviceID) {
        lostCount += 1
        put(Events.Gap(count: 1, publisher: publisher, reason: .slow))
    }

    /// Takes what is first.
    mutating func take() -> Item? {
        if let gap = missing.take() { return .gap(gap) }
        if let state = states.first, items.first.map({ state.number < $0.number }) ?? true {
            states.removeFirst()
            return .event(state.event, lookBack: nil, nil)
        }
        guard let item = items.popFirst()?.item else { return nil }
        if case .event(let event, _, _) = item {
            count -= 1
            bytes -= event.size
        }
        return item
    }

    /// Drops everything: nobody takes any more.
    mutating func removeAll() {
        while let item = take() { if case .event(_, _, let receipt?) = item { receipt.fail() } }
    }
}

extension Events.Gap {
    /// The two as one: of both publishers' events, and as many as both.
    func joined(with other: Events.Gap) -> Events.Gap {
        var gap = self
        if let own = count, let others = other.count {
            let (sum, isTooMany) = own.addingReportingOverflow(others)
            gap.count = isTooMany ? nil : sum
        } else {
            gap.count = nil
        }
        if other.publisher != publisher { gap.publisher = nil }
        // The connection says more than the pace: what it lost nobody counted.
        if reason == .slow { gap.reason = other.reason }
        return gap
    }
}
