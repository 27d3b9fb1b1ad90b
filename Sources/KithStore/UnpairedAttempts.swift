public import KithIdentity
public import KithWire

/// One thing an unpaired device tried.
public struct UnpairedAttempt: Hashable, Sendable {
    /// The key it proved.
    public var device: DeviceID
    /// The address it came from.
    public var address: NetworkAddress?
    /// The method it called; `connect` for nothing but that.
    public var method: String
    /// The reason it got nothing.
    public var detail: String

    /// Describes an attempt.
    public init(device: DeviceID, address: NetworkAddress?, method: String, detail: String) {
        self.device = device
        self.address = address
        self.method = method
        self.detail = detail
    }
}

/// The attempts of unpaired devices, counted: a line for each of the first keys of an hour, and one for all others.
///
/// A pure state machine. A key costs its maker nothing: neither what is held here nor what is written grows with how many
/// there are, or how often they try.
struct UnpairedAttempts {
    /// The number of keys that get a line of their own in an hour.
    static let keysPerHour = 16
    /// The name of the line of all others.
    static let others = "other unpaired devices"

    /// The lines by key; `nil` stands for all others.
    typealias Lines = HourlyLines<DeviceID?>

    private var lines = Lines(overLimit: keysPerHour + 1)

    /// Counts an attempt, at `now` in seconds since 1970.
    mutating func count(_ attempt: UnpairedAttempt, at now: Int64) {
        _ = lines.begin(at: now)
        let isOwn = lines.holds(attempt.device) || lines.lineCount < Self.keysPerHour
        let origin = attempt.address.map { address in
            // Its port means nothing to a person.
            let text = address.description
            return "; from \(text[..<(text.lastIndex(of: ":") ?? text.endIndex)])\(isOwn ? "" : ", the last of them")"
        }
        _ = lines.count(
            isOwn ? attempt.device : nil, device: isOwn ? attempt.device.description : Self.others,
            method: attempt.method, detail: attempt.detail + (origin ?? ""), at: now)
    }

    /// Takes out the lines to be written; ``written(_:as:)`` follows.
    mutating func take() -> [Lines.Line] { lines.take() }

    /// Notes the number a line got.
    mutating func written(_ line: Lines.Line, as number: Int64) { lines.written(line, as: number) }
}
