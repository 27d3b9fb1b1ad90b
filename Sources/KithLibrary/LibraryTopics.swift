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
        var kind = EventHub.OwnEvent.remembered
        let name: String
        switch event {
        case .files: name = "files"
        case .locationAdded, .locationRemoved, .scanBegan, .scanEnded: name = "locations"
        case .scanProgressed(let scan): (name, kind) = ("scans/\(scan.place.location)", .state)
        case .tags: name = "tags"
        default: name = "other"
        }
        // Within their bounds, events of our own can be published; if one could not, nobody could do anything about it.
        guard let topic = try? TopicPath("$library/\(library)/\(name)"), let message = try? Events.Message(event)
        else { return }
        _ = try? hub.publish(message, value: event, to: topic, isOwn: true, as: kind)
    }

    /// The events of all libraries of this device, or of one.
    static func follow(
        _ library: String?, in hub: EventHub, buffer: Int, after position: LibraryEvents.Position?
    ) throws(KithError) -> Subscription<LibraryEvent> {
        try hub.follow(
            TopicPath("$library/\(library ?? "*")/>"), as: LibraryEvent.self, buffer: buffer, after: position)
    }
}
