import KithAPI
import KithIO
import KithIdentity
import KithWire
import Synchronization

/// Another device that follows this one: the patterns it wants, what it may have, and what waits to be sent to it.
final class Follower: Sendable {
    /// The most events that wait for a device.
    static let capacity = 1_024

    let device: DeviceID
    let box = EventBox(capacity: capacity, overflow: .dropOldest)
    private let state: Mutex<State>

    private struct State {
        var patterns: [TopicPath: EventHub.FollowedPattern?]
        var grants: [Grant]
        /// What the grants say of topics that were asked for.
        var decisions: [TopicPath: Bool] = [:]
        /// The last event put into the box.
        var last: UInt64 = 0

        mutating func mayHave(_ topic: TopicPath) -> Bool {
            if let known = decisions[topic] { return known }
            let decision = !topic.isReserved && grants.allows(.node(pattern: topic.grantName))
            if decisions.count >= 1_024 { decisions = [:] }
            decisions[topic] = decision
            return decision
        }
    }

    init(_ device: DeviceID, patterns: [TopicPath], grants: [Grant]) {
        self.device = device
        state = Mutex(State(patterns: Dictionary(patterns.map { ($0, nil) }) { first, _ in first }, grants: grants))
    }

    var patterns: [TopicPath] { state.withLock { Array($0.patterns.keys) } }

    /// Notes a pattern; false when it is wanted already.
    func add(_ pattern: TopicPath) -> Bool {
        state.withLock { state in
            guard state.patterns[pattern] == nil else { return false }
            state.patterns.updateValue(nil, forKey: pattern)
            return true
        }
    }

    /// Notes where the hub has a pattern.
    func set(_ followed: EventHub.FollowedPattern, for pattern: TopicPath) {
        state.withLock { _ = $0.patterns.updateValue(followed, forKey: pattern) }
    }

    /// Forgets a pattern; returns where the hub has it.
    func remove(_ pattern: TopicPath) -> EventHub.FollowedPattern? {
        state.withLock { $0.patterns.removeValue(forKey: pattern) ?? nil }
    }

    /// What the device may have from now on.
    func setGrants(_ grants: [Grant]) {
        state.withLock { state in
            state.grants = grants
            state.decisions = [:]
        }
    }

    /// Tells whether the device may have events of a topic.
    func mayHave(_ topic: TopicPath) -> Bool { state.withLock { $0.mayHave(topic) } }

    /// Tells whether one of its patterns stands for a topic.
    func wants(_ topic: TopicPath) -> Bool { patterns.contains { $0.matches(topic) } }

    /// Puts an event into the box, once however many of the patterns stand for it, if the device may have it.
    func offer(_ event: SharedEvent) -> (isNew: Bool, waiter: Waiter<Void>?) {
        let isNew = state.withLock { state in
            guard state.last < event.event.sequence, state.mayHave(event.topic) else { return false }
            state.last = event.event.sequence
            return true
        }
        return isNew ? (true, box.put(event)) : (false, nil)
    }
}
