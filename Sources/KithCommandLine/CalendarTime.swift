/// A point in time as a clock that is some seconds ahead of Greenwich shows it, in the Gregorian calendar.
package struct CalendarTime: Hashable, Sendable {
    package let year: Int64
    /// 1…12.
    package let month: Int
    /// 1…31.
    package let day: Int
    package let hour: Int
    package let minute: Int
    package let second: Int

    /// Takes seconds since 1970.
    ///
    /// - Precondition: the sum of both is no further than 2⁶² from 1970.
    package init(_ seconds: Int64, offset: Int) {
        let local = seconds + Int64(offset)
        let days = Self.floor(local, 86_400)
        let rest = Int(local - days * 86_400)
        (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60)
        // Years that begin in March have their odd day at the end; 400 of them have 146,097 days.
        let shifted = days + 719_468
        let era = Self.floor(shifted, 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let part = (5 * dayOfYear + 2) / 153
        month = Int(part < 10 ? part + 3 : part - 9)
        day = Int(dayOfYear - (153 * part + 2) / 5 + 1)
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    private static func floor(_ number: Int64, _ divisor: Int64) -> Int64 {
        number / divisor - (number % divisor < 0 ? 1 : 0)
    }

    /// `2026-11-21 16:30`.
    package var minutes: String {
        let date = (year < 0 ? "-" : "") + Self.padded(year.magnitude, 4)
        return "\(date)-\(Self.padded(month, 2))-\(Self.padded(day, 2)) \(clock)"
    }

    /// `16:30`.
    package var clock: String { "\(Self.padded(hour, 2)):\(Self.padded(minute, 2))" }

    /// A number with zeros before it, to so many digits.
    package static func padded(_ number: some BinaryInteger, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}
