import ArgumentParser
import KithAPI

/// A part of the week as it is typed: `mon-fri:09:00-17:30`, `sat,sun:10:00-12:00`, `always`.
struct WeekHours {
    /// The windows; none for `always`.
    let windows: [ScreenSessions.Rules.Window]

    private static let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

    init(_ text: String) throws {
        if text == "always" {
            windows = []
            return
        }
        let wrong = ValidationError(
            "“\(text)” is not a part of the week. Write mon-fri:09:00-17:30, sat,sun:10:00-12:00, or always.")
        guard let colon = text.firstIndex(of: ":"), let days = Self.days(text[..<colon].lowercased()) else {
            throw wrong
        }
        let times = text[text.index(after: colon)...].split(separator: "-", omittingEmptySubsequences: false)
        guard times.count == 2, let from = Self.minute(times[0]), let to = Self.minute(times[1]), from < 1_440,
            from != to
        else { throw wrong }
        windows = [ScreenSessions.Rules.Window(days: days, from: from, to: to)]
    }

    private static func days(_ text: String) -> [UInt8]? {
        var result: [UInt8] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false).map {
                days.firstIndex(of: String($0))
            }
            switch (ends.count, ends.first ?? nil, ends.last ?? nil) {
            case (1, let day?, _): result.append(UInt8(day + 1))
            case (2, let first?, let last?):
                var day = first
                while true {
                    result.append(UInt8(day + 1))
                    if day == last { break }
                    day = (day + 1) % 7
                }
            default: return nil
            }
        }
        return result
    }

    private static func minute(_ text: Substring) -> UInt16? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 2, let hour = UInt16(parts[0]), let minute = UInt16(parts[1]),
            minute < 60, hour <= 24, hour * 60 + minute <= 1_440
        else { return nil }
        return hour * 60 + minute
    }

    /// Windows as they would be typed.
    static func text(_ windows: [ScreenSessions.Rules.Window]) -> String {
        if windows.isEmpty { return "always" }
        return windows.map { window in
            let names = window.days.map { days[Int(max(1, min($0, 7))) - 1] }.joined(separator: ",")
            return "\(names):\(time(window.from))-\(time(window.to))"
        }.joined(separator: " ")
    }

    private static func time(_ minute: UInt16) -> String {
        let (hours, minutes) = (String(minute / 60), String(minute % 60))
        return "\(hours.count < 2 ? "0" : "")\(hours):\(minutes.count < 2 ? "0" : "")\(minutes)"
    }
}
