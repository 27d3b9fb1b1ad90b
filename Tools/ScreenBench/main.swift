// The screen of another device beside VNC servers in one run: what a person waits for, and what it costs.
//
//   kith-screen-bench KITH [--json FILE]     KITH is the command to measure
//                     --host-space PATH      the hosts are in this network namespace, at 10.7.0.2
//                     --line NAME            what the table calls what is between
//                     --goal ROW=NUMBER      what is to be reached there
//
// The same terminal stands on each screen of 1280 × 800. Kith's connection is encrypted and goes through QUIC, the
// others' are plain TCP.
import Foundation
import KithAPI

/// One number of each contestant.
struct Row: Encodable {
    var name: String
    var unit: String
    var values: [String: Double]
    /// What it should be at most, or at least.
    var goal: Double?
}

func percentile(_ part: Double, of samples: [Double]) -> Double {
    let sorted = samples.sorted()
    return sorted.isEmpty ? .nan : sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
}

let film = FilmMeasurement()

/// What is measured at one seat, by the names of the rows.
func measure(_ seat: any Seat) async throws -> [String: Double] {
    var result: [String: Double] = [:]
    func milliseconds(_ duration: Duration) -> Double { duration / .milliseconds(1) }

    // A session's first picture: all of the screen.
    try seat.desktop.show(.echo)
    var firsts: [Double] = []
    for _ in 0..<5 {
        let arrivals = Arrivals()
        let start = ContinuousClock.now
        try await seat.connect { arrivals.add($0) }
        let whole = await arrivals.first(since: start) { $0.area > 1_000_000 }
        if let whole { firsts.append(milliseconds(whole.time - start)) }
        await seat.disconnect()
        try await Task.sleep(for: .milliseconds(200))
    }
    result["first"] = percentile(0.5, of: firsts)

    // A key, and the letter it draws.
    let arrivals = Arrivals()
    try await seat.connect { arrivals.add($0) }
    try await arrivals.settle(for: .seconds(1))
    var (delays, exact): ([Double], [Double]) = ([], [])
    for number in 0..<300 {
        let start = ContinuousClock.now
        try await seat.type(number % 100 == 99 ? 0xFF0D : UInt32(0x61 + number % 26))
        guard let drawn = await arrivals.first(since: start, where: { _ in true }) else { continue }
        delays.append(milliseconds(drawn.time - start))
        if let last = await arrivals.first(since: start, where: \.isExact) {
            exact.append(milliseconds(last.time - start))
        }
        // Not in step with anything that the server does at intervals.
        try await Task.sleep(for: .milliseconds(Int.random(in: 25...60)))
    }
    result["key"] = percentile(0.5, of: delays)
    result["key95"] = percentile(0.95, of: delays)
    result["exact"] = percentile(0.95, of: exact)

    // Nothing happens.
    try await arrivals.settle(for: .seconds(1))
    let (bytes, time) = (arrivals.last?.bytes ?? 0, seat.host.processorTime)
    try await Task.sleep(for: .seconds(10))
    result["idle"] = Double((arrivals.last?.bytes ?? 0) - bytes)
    result["idleCPU"] = (seat.host.processorTime - time) * 10
    await seat.disconnect()

    // A line more, and all others one up.
    try seat.desktop.show(.scroll)
    let scrolled = Arrivals()
    try await seat.connect { scrolled.add($0) }
    try await scrolled.settle(for: .seconds(1))
    let before = scrolled.last?.bytes ?? 0
    let steps = 60
    for _ in 0..<steps {
        let start = ContinuousClock.now
        try await seat.type(0xFF0D)
        _ = await scrolled.first(since: start, where: { _ in true })
        try await scrolled.settle(for: .milliseconds(60))
    }
    result["scroll"] = Double((scrolled.last?.bytes ?? 0) - before) / Double(steps) / 1_000
    await seat.disconnect()

    try await film.measure(seat, into: &result)
    try await film.measureTyping(seat, into: &result)
    result["memory"] = seat.host.peakMegabytes
    result["ownMemory"] = seat.host.ownMegabytes
    return result
}

let arguments = CommandLine.arguments
guard arguments.count >= 2 else {
    print("usage: kith-screen-bench KITH [--json FILE] [--host-space PATH] [--line NAME] [--goal ROW=NUMBER]...")
    exit(64)
}
for program in ["Xvfb", "xterm", "xdotool", "x11vnc", "Xtigervnc"]
where !FileManager.default.isExecutableFile(atPath: "/usr/bin/\(program)") {
    print("no screen: \(program) is not installed (scripts/bootstrap --test installs it)")
    exit(0)
}
signal(SIGPIPE, SIG_IGN)
let line = Line(arguments)

var results: [(name: String, values: [String: Double])] = []
do {
    let desktop = try Desktop.virtual("1280x800")
    let seat = try await KithSeat(arguments[1], desktop, line)
    results.append(("kith", try await measure(seat)))
    seat.host.end()
    desktop.end()
}
do {
    let desktop = try Desktop.virtual("1280x800")
    let host = try Program(
        line.space, "/usr/bin/x11vnc",
        [
            "-display", desktop.display, "-listen", line.address, "-rfbport", "5971", "-forever", "-shared", "-nopw",
            "-quiet",
        ])
    results.append(("x11vnc", try await measure(VNCSeat(host, desktop, at: line.host, port: 5_971))))
    host.end()
    desktop.end()
}
do {
    let host = try Program(
        line.space, "/usr/bin/Xtigervnc",
        [
            ":72", "-geometry", "1280x800", "-depth", "24", "-SecurityTypes", "None", "-interface", line.address,
            "-rfbport", "5972", "-AlwaysShared",
        ])
    usleep(1_000_000)
    let desktop = Desktop(server: host, display: ":72")
    results.append(("Xtigervnc", try await measure(VNCSeat(host, desktop, at: line.host, port: 5_972))))
    desktop.end()
}

// A picture of a film may have 40 kB of 1,920 × 1,080 pixels; of these, half as many.
let rows: [(key: String, name: String, unit: String, goal: Double?)] = [
    ("first", "first picture, p50", "ms", 300), ("key", "key to pixels, p50", "ms", 3),
    ("key95", "key to pixels, p95", "ms", 12), ("exact", "key to the exact picture, p95", "ms", 1_000),
    ("scroll", "a line more in a terminal", "kB", 5), ("film", "pictures of a film, a second", "", 30),
    ("filmBytes", "bytes of each", "kB", 20), ("filmNearness", "how near they are, p50", "dB", 35),
    ("filmPause", "longest time without one", "ms", nil), ("typed", "key to pixels beside a film, p50", "ms", nil),
    ("typed95", "key to pixels beside a film, p95", "ms", nil),
    ("idle", "bytes in 10 s without a change", "B", 0),
    ("idleCPU", "processor of the host meanwhile", "%", 1), ("memory", "memory of the host, at most", "MB", 60),
    ("ownMemory", "of it no program's pages, at the end", "MB", nil),
]
func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
}
print("the screen of another device, 1280 × 800, over \(line.name); the same terminal on each")
print("".padding(toLength: 36, withPad: " ", startingAt: 0) + results.map { padded($0.name, 11) }.joined() + "   goal")
for row in rows {
    let values = results.map { padded(String(format: "%.2f", $0.values[row.key] ?? .nan), 11) }.joined()
    let own = results.first?.values[row.key] ?? .nan
    let wanted = line.space == nil ? row.goal : line.goals[row.key]
    let goal =
        wanted.map { goal in
            let isLeast = ["film", "filmNearness"].contains(row.key)
            let isMet = isLeast ? own >= goal : own <= goal
            return "   \(isLeast ? "≥" : "≤") \(String(format: "%g", goal))  \(isMet ? "met" : "missed")"
        } ?? ""
    let name = row.unit.isEmpty ? row.name : "\(row.name), \(row.unit)"
    print(name.padding(toLength: 36, withPad: " ", startingAt: 0) + values + goal)
}
print("Xtigervnc is the X server as well: its memory is that of both.")
if let place = arguments.firstIndex(of: "--json"), place + 1 < arguments.count {
    let report = rows.map { row in
        Row(
            name: row.name, unit: row.unit,
            values: Dictionary(uniqueKeysWithValues: results.map { ($0.name, $0.values[row.key] ?? .nan) }),
            goal: line.space == nil ? row.goal : line.goals[row.key])
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    encoder.nonConformingFloatEncodingStrategy = .convertToString(
        positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
    try encoder.encode(report).write(to: URL(fileURLWithPath: arguments[place + 1]))
}
exit(0)
