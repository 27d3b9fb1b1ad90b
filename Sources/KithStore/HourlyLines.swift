/// Lines of the log that each stand for all of the same within an hour: written again with their number, not another one.
///
/// A pure state machine. What is written grows with the number of keys, not with how often each is counted.
struct HourlyLines<Key: Hashable & Sendable> {
    /// A line of the log, as it is to be written.
    struct Line: Hashable {
        var key: Key
        /// Its number in the table; `nil` while it has none.
        var number: Int64?
        var device: String
        var method: String
        var detail: String
        var first: Int64
        var last: Int64
        var count: Int64
    }

    private struct Entry {
        var line: Line
        var isChanged = true
    }

    /// The number of lines of past hours that are kept for writing.
    private let overLimit: Int
    private var hour = Int64.min
    private var entries: [Key: Entry] = [:]
    /// The lines of past hours, still to be written.
    private var over: [Line] = []

    init(overLimit: Int) { self.overLimit = overLimit }

    /// The number of lines this hour has.
    var lineCount: Int { entries.count }

    /// Tells whether this hour has a line for a key.
    func holds(_ key: Key) -> Bool { entries[key] != nil }

    /// Begins the hour of `now`, in seconds since 1970; returns whether it is another than before.
    mutating func begin(at now: Int64) -> Bool {
        guard now / 3_600 != hour else { return false }
        // Should nothing be written for hours, the newest of them are kept.
        over = Array((over + changed()).suffix(overLimit))
        entries = [:]
        hour = now / 3_600
        return true
    }

    /// Counts one more of a key, whose line gets this method and detail; returns the line.
    mutating func count(_ key: Key, device: String, method: String, detail: String, at now: Int64) -> Line {
        var line =
            entries[key]?.line
            ?? Line(key: key, device: device, method: method, detail: detail, first: now, last: now, count: 0)
        line.method = method
        line.detail = detail
        line.last = max(line.last, now)
        line.count += 1
        entries[key] = Entry(line: line)
        return line
    }

    /// Takes out the lines to be written; ``written(_:as:)`` follows.
    mutating func take() -> [Line] {
        defer {
            over = []
            for key in entries.keys { entries[key]?.isChanged = false }
        }
        return over + changed()
    }

    /// Notes that a line was written, and the number it got.
    mutating func written(_ line: Line, as number: Int64) {
        guard var entry = entries[line.key], entry.line.first == line.first else { return }
        entry.line.number = number
        if entry.line.count == line.count { entry.isChanged = false }
        entries[line.key] = entry
    }

    private func changed() -> [Line] {
        entries.values.filter(\.isChanged).map(\.line).sorted { ($0.first, $0.device) < ($1.first, $1.device) }
    }
}
