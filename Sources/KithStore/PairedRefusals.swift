import KithWire

/// The refusals of paired devices, counted: in an hour, each device has a line for each of the first different
/// refusals, and beyond those one for each method.
///
/// A pure state machine. Asking again and again for what is not granted fills neither memory nor the log.
struct PairedRefusals {
    /// The number of different refusals of one device that get a line of their own in an hour.
    static let ownPerHour = 16
    /// The length in bytes up to which refusals are told apart.
    private static let detailLimit = 400

    /// One refusal; without a detail: all others of the method.
    struct Key: Hashable {
        var device: String
        var method: String
        var detail: String?
    }

    typealias Lines = HourlyLines<Key>

    private var lines = Lines(overLimit: 1_024)
    private var own: [String: Int] = [:]

    /// Counts a refusal; returns the line it is the first of, if it is, which is to be written at once.
    mutating func count(_ entry: AuditEntry) -> Lines.Line? {
        if lines.begin(at: entry.time) { own = [:] }
        let detail = entry.detail.prefix(bytes: Self.detailLimit)
        var key = Key(device: entry.device, method: entry.method, detail: detail)
        let isKnown = lines.holds(key)
        let isOwn = isKnown || own[entry.device, default: 0] < Self.ownPerHour
        if isOwn, !isKnown { own[entry.device, default: 0] += 1 }
        if !isOwn { key.detail = nil }
        let line = lines.count(
            key, device: entry.device, method: entry.method, detail: isOwn ? detail : detail + ", the last of several",
            at: entry.time)
        return line.count == 1 ? line : nil
    }

    /// Takes out the lines to be written; ``written(_:as:)`` follows.
    mutating func take() -> [Lines.Line] { lines.take() }

    /// Notes that a line was written, and the number it got.
    mutating func written(_ line: Lines.Line, as number: Int64) { lines.written(line, as: number) }
}
