import KithAPI
import KithIdentity
import KithWire

/// An event on its way: one for all its subscribers.
final class SharedEvent: Sendable {
    /// The event as it is delivered at doors.
    let event: Events.Event
    let topic: TopicPath
    /// The value that was published, for subscribers of the same type; `nil` when it came from elsewhere.
    let value: (any Sendable)?
    /// True to keep it on this device.
    let isLocal: Bool
    /// True when it replaces the one before of its topic, for whoever has not taken that yet.
    let isState: Bool

    init(
        _ event: Events.Event, topic: TopicPath, value: (any Sendable)? = nil, isLocal: Bool = false,
        isState: Bool = false
    ) {
        self.event = event
        self.topic = topic
        self.value = value
        self.isLocal = isLocal
        self.isState = isState
    }

    /// The memory it is counted with.
    var size: Int { event.message.bytes.count + event.topic.utf8.count + 256 }
}

/// The end of a guaranteed event's delivery: told once, when the last subscriber that got it has let go of it.
///
/// A subscriber that fails, or that has no room for it, says so before.
final class EventReceipt: Sendable {
    /// The number of the delivery.
    let number: UInt64
    private let hasFailed = Locked(false)
    private let done: @Sendable (_ isDelivered: Bool) -> Void

    init(number: UInt64, _ done: @escaping @Sendable (_ isDelivered: Bool) -> Void) {
        self.number = number
        self.done = done
    }

    /// A subscriber could not take it.
    func fail() { hasFailed.set(true) }

    deinit { done(!hasFailed.value) }
}
