import KithAPI
import KithNode
import KithWire
import Synchronization

/// Publishes what happens to a library, as events of the device's own topics `$library/ID/…`.
///
/// Until somebody first asks for events it costs next to nothing; from then on the last ones are remembered for those who
/// come back.
final class LibraryTopics: Sendable {
    private let hub: EventHub
    /// The library's id, by which topics name it.
    private let library: String
    private let isWanted = Atomic(false)

    init(_ hub: EventHub, library: String) {
        self.hub = hub
        self.library = library
    }

    /// Publishes from now on; returns true the first time.
    func want() -> Bool {
        hub.remember()
        return !isWanted.exchange(true, ordering: .sequentiallyConsistent)
    }

    /// True when somebody has asked for events.
    var areWanted: Bool { isWanted.load(ordering: .sequentiallyConsistent) }

    /// Publishes an event, if somebody has asked for any.
    func publish(_ event: LibraryEvent) {
        guard areWanted else { return }
        let name: String
        switch event {
        case .files: name = "files"
        case .locationAdded, .locationRemoved, .locationChanged, .scanBegan, .scanEnded: name = "locations"
        case .scanProgressed(let scan): name = "scans/\(scan.place.location)"
        case .tags: name = "tags"
        case .annotations: name = "annotations"
        default: name = "other"
        }
        Self.publish(event, to: "$library/\(library)/\(name)", in: hub)
    }

    /// Publishes an event at a topic of the device's own.
    static func publish(_ event: LibraryEvent, to topic: String, in hub: EventHub?) {
        let kind: EventHub.OwnEvent =
            switch event {
            case .scanProgressed, .jobProgressed: .state
            default: .remembered
            }
        // Within their bounds, events of our own can be published; if one could not, nobody could do anything about it.
        guard let topic = try? TopicPath(topic), let message = try? Events.Message(event) else { return }
        _ = try? hub?.publish(message, value: event, to: topic, isOwn: true, as: kind)
    }

    /// The events of all libraries of this device, or of one; for its own person those of the device, too.
    ///
    /// The latter's topics have one part less: what another device follows has no place for them.
    static func follow(
        _ library: String?, in hub: EventHub, isOwner: Bool, buffer: Int, after position: LibraryEvents.Position?
    ) throws(KithError) -> Subscription<LibraryEvent> {
        let pattern =
            if let library { "$library/\(library)/>" } else { isOwner ? "$library/>" : "$library/*/>" }
        return try hub.follow(TopicPath(pattern), as: LibraryEvent.self, buffer: buffer, after: position)
    }
}
