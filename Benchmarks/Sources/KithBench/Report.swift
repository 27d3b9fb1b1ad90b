import Foundation

/// What was measured, with the goals of the issue beside it.
struct Report: Encodable {
    /// One number.
    struct Line: Encodable {
        var name: String
        var value: Double
        var unit: String
        /// What it should be at least, or at most.
        var goal: String?
        /// Whether it is; nil without a goal.
        var met: Bool?
    }

    var lines: [Line] = []

    mutating func add(_ name: String, _ value: Double, _ unit: String) {
        lines.append(Line(name: name, value: value, unit: unit))
    }

    mutating func add(_ name: String, _ value: Double, _ unit: String, atLeast goal: Double) {
        lines.append(Line(name: name, value: value, unit: unit, goal: "≥ \(Self.text(goal))", met: value >= goal))
    }

    mutating func add(_ name: String, _ value: Double, _ unit: String, atMost goal: Double?) {
        guard let goal else { return add(name, value, unit) }
        lines.append(Line(name: name, value: value, unit: unit, goal: "≤ \(Self.text(goal))", met: value <= goal))
    }

    /// The table a person reads.
    var table: String {
        lines.map { line in
            let name = line.name.padding(toLength: 50, withPad: " ", startingAt: 0)
            let value = Self.text(line.value)
            let padded = String(repeating: " ", count: max(0, 10 - value.count)) + value
            let verdict = line.met.map { $0 ? "met" : "missed" } ?? ""
            return "\(name)\(padded) \(line.unit.padding(toLength: 12, withPad: " ", startingAt: 0)) "
                + "\((line.goal ?? "").padding(toLength: 10, withPad: " ", startingAt: 0)) \(verdict)"
        }.joined(separator: "\n")
    }

    private static func text(_ value: Double) -> String {
        let places = abs(value) >= 100 ? 0 : abs(value) >= 10 ? 1 : 3
        return String(format: "%.\(places)f", value)
    }
}
