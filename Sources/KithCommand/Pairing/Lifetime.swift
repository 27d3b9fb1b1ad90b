import ArgumentParser
import Foundation

/// A length of time as typed: `90s`, `10m`, `2h`, `1d`.
struct Lifetime: ExpressibleByArgument {
    let seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    init?(argument: String) {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400]
        guard let unit = argument.last, let factor = units[unit], let count = Int64(argument.dropLast()),
            count > 0, count <= 604_800
        else { return nil }
        seconds = count * factor
    }

    var defaultValueDescription: String { "\(seconds / 60)m" }
}
