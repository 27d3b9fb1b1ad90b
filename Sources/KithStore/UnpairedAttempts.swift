public import KithIdentity
public import KithWire

/// One thing an unpaired device tried.
public struct UnpairedAttempt: Hashable, Sendable {
    /// The key it proved.
    public var device: DeviceID
    /// Where it came from.
    public var address: NetworkAddress?
    /// What it called; `connect` for nothing but that.
    public var method: String
    /// Why it got nothing.
    public var detail: String

    /// Describes an attempt.
    public init(device: DeviceID, address: NetworkAddress?, method: String, detail: String) {
        self.device = device
        self.address = address
        self.method = method
        self.detail = detail
    }
}

/// What unpaired devices try, counted: a line for each of the first keys of an hour, and one for all others.
///
/// A pure state machine. A key costs its maker nothing: neither what is held here nor what is written grows with how many
/// there are, or how often they try.
struct UnpairedAttempts {
    /// How many keys get a line of their own in an hour.
    static let keysPerHour = 16
    /// The name of the line of all others.
    static let others = "other unpaired devices"

    /// A line of the log, as it is to be written.
    struct Line: Hashable {
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

    private var hour = Int64.min
    /// By the key; `nil` stands for all others.
    private var entries: [DeviceID?: Entry] = [:]
    /// Of hours that are over, still to be written.
    private var over: [Line] = []

    /// Counts an attempt, at `now` in seconds since 1970.
    mutating func count(_ attempt: UnpairedAttempt, at now: Int64) {
        if now / 3_600 != hour {
            // Should nothing be written for hours, the newest of them are kept.
            over = Array((over + changed()).suffix(Self.keysPerHour + 1))
            entries = [:]
            hour = now / 3_600
        }
        let isOwn = entries[attempt.device] != nil || entries.count < Self.keysPerHour
        let key = isOwn ? attempt.device : nil
        var entry =
            entries[key]
            ?? Entry(
                line: Line(
                    device: isOwn ? attempt.device.description : Self.others, method: "", detail: "", first: now,
                    last: now, count: 0))
        let origin = attempt.address.map { address in
            // Its port says nothing to a person.
            let text = address.description
            return "; from \(text[..<(text.lastIndex(of: ":") ?? text.endIndex)])\(isOwn ? "" : ", the last of them")"
        }
        entry.line.method = attempt.method
        entry.line.detail = attempt.detail + (origin ?? "")
        entry.line.last = max(entry.line.last, now)
        entry.line.count += 1
        entry.isChanged = true
        entries[key] = entry
    }

    /// Takes out the lines to be written; ``written(_:as:)`` follows for new ones of this hour.
    mutating func take() -> [Line] {
        defer {
            over = []
            for key in entries.keys { entries[key]?.isChanged = false }
        }
        return over + changed()
    }

    /// Notes the number a line got.
    mutating func written(_ line: Line, as number: Int64) {
        for (key, entry) in entries where entry.line.device == line.device && entry.line.first == line.first {
            entries[key]?.line.number = number
        }
    }

    private func changed() -> [Line] {
        entries.values.filter(\.isChanged).map(\.line).sorted { ($0.first, $0.device) < ($1.first, $1.device) }
    }
}
