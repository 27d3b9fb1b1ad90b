import ArgumentParser
import Foundation
import KithAPI

/// A number of lines or bytes: `10`, `+10`, `-10`, with `b`, `k`, `K`, `kB`, `M`, `MB`, `G`, `GB` behind, as coreutils
/// do.
struct CountArgument: ExpressibleByArgument {
    /// The number without its sign.
    var number: UInt64
    /// The sign it was written with.
    var sign: Character?

    init(_ number: UInt64) { self.number = number }

    init?(argument: String) {
        var text = argument[...]
        if let first = text.first, first == "+" || first == "-" {
            sign = first
            text = text.dropFirst()
        }
        guard let number = Self.number(text) else { return nil }
        self.number = number
    }

    var defaultValueDescription: String { (sign.map { String($0) } ?? "") + String(number) }

    /// A number with a unit: powers of 1024, or of 1000 with a `B` behind.
    static func number(_ text: some StringProtocol) -> UInt64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = UInt64(digits) else { return nil }
        let factor: UInt64
        switch text.dropFirst(digits.count) {
        case "", "c": factor = 1
        case "b": factor = 512
        case "k", "K", "KiB": factor = 1 << 10
        case "M", "MiB": factor = 1 << 20
        case "G", "GiB": factor = 1 << 30
        case "T", "TiB": factor = 1 << 40
        case "kB", "KB": factor = 1_000
        case "MB": factor = 1_000_000
        case "GB": factor = 1_000_000_000
        case "TB": factor = 1_000_000_000_000
        default: return nil
        }
        let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        return isTooLarge ? nil : product
    }
}
