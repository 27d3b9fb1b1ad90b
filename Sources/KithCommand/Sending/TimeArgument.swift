import ArgumentParser
import Foundation
import KithAPI

/// A length of time as `90`, `90s`, `15m` or `1h`.
struct TimeArgument: ExpressibleByArgument {
    /// In seconds.
    var seconds: UInt32

    init(seconds: UInt32) { self.seconds = seconds }

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber }
        let units: [Substring: UInt32] = ["": 1, "s": 1, "m": 60, "h": 3_600]
        guard let number = UInt32(digits), let unit = units[argument.dropFirst(digits.count)], number > 0,
            number <= 86_400
        else { return nil }
        seconds = number * unit
    }

    var defaultValueDescription: String { seconds % 60 == 0 ? "\(seconds / 60)m" : "\(seconds)s" }
}
