import Foundation

/// Values as a person reads them.
package enum Wording {
    /// Text that came from elsewhere, with everything a terminal might obey made visible.
    package static func printable(_ text: String) -> String {
        // What most names are needs no looking up.
        if text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if isPrintable(scalar) {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// Tells whether a terminal shows a character, and does nothing else with it.
    package static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: false
        default: true
        }
    }

    /// `1.4 GB`.
    package static func size(_ bytes: UInt64) -> String {
        let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
        var value = Double(bytes)
        var unit = 0
        while value >= 999.5, unit < units.count - 1 {
            value /= 1_000
            unit += 1
        }
        return unit == 0 ? "\(bytes) B" : String(format: value < 9.95 ? "%.1f %@" : "%.0f %@", value, units[unit])
    }

    /// `1.4 MB/s`.
    package static func rate(_ bytesPerSecond: Double) -> String {
        size(bytesPerSecond.isNaN ? 0 : UInt64(min(max(bytesPerSecond, 0), 1e18))) + "/s"
    }

    /// The part in hundredths of a whole, at most 100.
    package static func percent(_ part: UInt64, of whole: UInt64) -> Int {
        whole == 0 ? 100 : percent(Double(part) / Double(whole))
    }

    /// A share as whole percent, 0 to 100.
    package static func percent(_ share: Double) -> Int { share.isNaN ? 0 : Int(min(max(share, 0), 1) * 100) }

    /// `3 min ago`, `in 2 h`: a point in time, in seconds since 1970, as a person says it.
    ///
    /// Another device may say any number.
    package static func relative(_ seconds: Int64, now: Int64) -> String {
        let (difference, isOver) = seconds.subtractingReportingOverflow(now)
        let distance = isOver ? UInt64(Int64.max) : difference.magnitude
        let words =
            switch distance {
            case ..<5: "now"
            case ..<120: "\(distance) s"
            case ..<7_200: "\(distance / 60) min"
            case ..<172_800: "\(distance / 3_600) h"
            default: "\(distance / 86_400) days"
            }
        if words == "now" { return words }
        return seconds <= now ? "\(words) ago" : "in \(words)"
    }

    /// `1:05`, `12 s`.
    package static func duration(_ seconds: Double) -> String {
        if seconds < 9.95 { return String(format: "%.1f s", seconds) }
        let whole = seconds.isNaN ? 0 : Int(min(seconds.rounded(), 359_999))
        if whole < 60 { return "\(whole) s" }
        let minutes = String(format: "%02d:%02d", whole / 60 % 60, whole % 60)
        return whole < 3_600 ? minutes : "\(whole / 3_600):\(minutes)"
    }

    /// `1 file`, `12,034 files`.
    package static func count(_ number: Int, _ one: String, _ many: String) -> String {
        number == 1 ? "1 \(one)" : "\(grouped(number)) \(many)"
    }

    /// `12,034`.
    package static func grouped(_ number: Int) -> String {
        var groups: [String] = []
        var rest = Substring(String(number.magnitude))
        while rest.count > 3 {
            groups.insert(String(rest.suffix(3)), at: 0)
            rest = rest.dropLast(3)
        }
        return (number < 0 ? "-" : "") + ([String(rest)] + groups).joined(separator: ",")
    }
}

/// The rate of a transfer over the last second or so, so that the number can be read.
package struct TransferRate: Hashable, Sendable {
    /// Bytes a second; `nil` before there are two measurements.
    package private(set) var bytesPerSecond: Double?
    private var previous: Measurement?

    private struct Measurement: Hashable {
        var bytes: UInt64
        var time: ContinuousClock.Instant
    }

    package init() {}

    /// So many bytes are done by now.
    package mutating func note(_ bytes: UInt64, at now: ContinuousClock.Instant) {
        if let previous {
            let seconds = max((now - previous.time) / .seconds(1), 0.001)
            let current = Double(bytes - min(previous.bytes, bytes)) / seconds
            bytesPerSecond = bytesPerSecond.map { $0 + (current - $0) * min(1, seconds) } ?? current
        }
        previous = Measurement(bytes: bytes, time: now)
    }

    /// The seconds that so many bytes will take; `nil` when nobody can tell.
    package func seconds(for bytes: UInt64) -> Double? {
        guard let bytesPerSecond, bytesPerSecond > 1, bytes > 0 else { return nil }
        return Double(bytes) / bytesPerSecond
    }
}
