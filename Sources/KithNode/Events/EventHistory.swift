import KithAPI

/// The last events published here, for devices whose connection was lost for a while.
///
/// At most 1,024 events and 4 MiB.
struct EventHistory {
    static let limit = 1_024
    static let byteLimit = 4 << 20

    private var events: [SharedEvent] = []
    private var start = 0
    private var bytes = 0
    /// The number of the last event that is not among them.
    private(set) var forgotten: UInt64

    /// Begins behind the event `sequence`.
    init(after sequence: UInt64) { forgotten = sequence }

    /// The number of events.
    var count: Int { events.count - start }

    /// Adds an event.
    mutating func append(_ event: SharedEvent) {
        events.append(event)
        bytes += event.size
        while count > 1, count > Self.limit || bytes > Self.byteLimit {
            bytes -= events[start].size
            forgotten = events[start].event.sequence
            start += 1
        }
        if start > Self.limit {
            events.removeFirst(start)
            start = 0
        }
    }

    /// The events behind `sequence`, and whether none of them is forgotten.
    func events(after sequence: UInt64) -> (events: ArraySlice<SharedEvent>, isComplete: Bool) {
        // They are in order.
        let first = events[start...].firstIndex { $0.event.sequence > sequence } ?? events.count
        return (events[first...], sequence >= forgotten)
    }
}
