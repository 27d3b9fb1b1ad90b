import Foundation
import KithAPI
import KithWire

/// New names for many files, as a text with places in it.
///
/// `{name}` is the old name without its ending, `{ext}` the ending, `{n}` counts from 1, `{n:3}` with three digits, `{date}`
/// is the day of the last change. `{{` is a brace.
struct RenamePattern: Hashable {
    private enum Part: Hashable {
        case text([UInt8])
        case name
        case ending
        case number(digits: Int)
        case date
    }

    private var parts: [Part] = []

    /// Reads a pattern.
    ///
    /// - Throws: `.invalid`, saying which place is none.
    init(_ text: String) throws(KithError) {
        guard !text.isEmpty, text.utf8.count <= 1_024 else {
            throw KithError(.invalid, "A pattern for names has 1 to 1,024 bytes.")
        }
        var rest = Substring(text)
        var plain: [UInt8] = []
        func refuse(_ what: Substring) -> KithError {
            KithError(
                .invalid,
                "The pattern has no place {\(what)}: there are {name}, {ext}, {n}, {n:3} and {date}, and {{ is a brace."
            )
        }
        while let character = rest.popFirst() {
            guard character == "{" else {
                plain += Array(String(character).utf8)
                continue
            }
            if rest.first == "{" {
                rest.removeFirst()
                plain.append(UInt8(ascii: "{"))
                continue
            }
            guard let end = rest.firstIndex(of: "}") else { throw refuse(rest) }
            let place = rest[..<end]
            rest = rest[end...].dropFirst()
            let part: Part
            switch place {
            case "name": part = .name
            case "ext": part = .ending
            case "date": part = .date
            case "n": part = .number(digits: 1)
            default:
                guard place.hasPrefix("n:"), let digits = Int(place.dropFirst(2)), (1...9).contains(digits) else {
                    throw refuse(place)
                }
                part = .number(digits: digits)
            }
            if !plain.isEmpty { parts.append(.text(plain)) }
            plain = []
            parts.append(part)
        }
        if !plain.isEmpty { parts.append(.text(plain)) }
    }

    /// The new name of the `number`th file, counted from 1.
    func name(for old: [UInt8], number: Int, modified: Int64) -> [UInt8] {
        let dot = old.lastIndex(of: UInt8(ascii: ".")).flatMap { $0 > 0 ? $0 : nil }
        var name: [UInt8] = []
        for part in parts {
            switch part {
            case .text(let text): name += text
            case .name: name += old[..<(dot ?? old.endIndex)]
            case .ending:
                let ending = dot.map { old[($0 + 1)...] } ?? []
                name += ending
                // A file without an ending gets no dot at its end.
                if ending.isEmpty, name.last == UInt8(ascii: ".") { name.removeLast() }
            case .number(let digits):
                let text = String(number)
                name += Array((String(repeating: "0", count: max(digits - text.count, 0)) + text).utf8)
            case .date: name += Array(TrashInfo.date(modified / 1_000_000_000).prefix(10).utf8)
            }
        }
        return name
    }
}
