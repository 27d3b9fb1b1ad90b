/// How bad a link is: the nine levels of the requirements, and none.
///
/// Rate, round trip, jitter, loss, and how many packets are lost in a row.
struct Level {
    let options: [String]

    static let count = 9

    /// Makes a level, 1…9; nil for another number.
    init?(_ number: Int) {
        let levels: [(rate: String, roundTrip: Double, jitter: String, loss: String, burst: Int)] = [
            ("100mbit", 16, "0ms", "0.1%", 1), ("25mbit", 40, "12ms", "1%", 6), ("8mbit", 90, "15ms", "2%", 8),
            ("3mbit", 200, "30ms", "3%", 10), ("1.5mbit", 300, "40ms", "5%", 12), ("0.8mbit", 450, "60ms", "8%", 20),
            ("25mbit", 600, "40ms", "1.5%", 6), ("0.5mbit", 450, "80ms", "12%", 25),
            ("0.256mbit", 800, "150ms", "25%", 40),
        ]
        guard levels.indices.contains(number - 1) else { return nil }
        let level = levels[number - 1]
        options = [
            "--rate", level.rate, "--delay", "\(level.roundTrip / 2)ms", "--jitter", level.jitter, "--loss", level.loss,
            "--burst", "\(level.burst)", "--queue", "200ms",
        ]
    }
}
