import KithAPI
import KithRPC
import KithWire

extension JSONValue {
    /// The member of an object; `nil` when there is none, or it is `null`.
    func member(_ name: String) -> JSONValue? {
        guard case .object(let members) = self, let value = members[name], value != .null else { return nil }
        return value
    }

    /// The text this is.
    var text: String? { if case .string(let text) = self { text } else { nil } }
    /// The whole number this is.
    var whole: Int64? { if case .integer(let value) = self { value } else { nil } }
    /// The number this is.
    var real: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
    /// The truth value this is.
    var flag: Bool? { if case .boolean(let value) = self { value } else { nil } }
    /// The elements of the list this is.
    var list: [JSONValue]? { if case .array(let values) = self { values } else { nil } }

    /// Whether it is empty: text, a list or an object.
    var isNothing: Bool {
        switch self {
        case .string(let text): text.isEmpty
        case .array(let list): list.isEmpty
        case .object(let members): members.isEmpty
        default: false
        }
    }

    /// Text, or `null`.
    static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
    /// A number that may be greater than JSON's whole numbers here.
    static func count(_ value: UInt64) -> JSONValue {
        value <= UInt64(Int64.max) ? .integer(Int64(value)) : .number(Double(value))
    }

    /// A time as RFC 3339 writes it, in UTC; `null` for none, or one that has no year of four digits.
    static func time(_ seconds: Int64?) -> JSONValue {
        guard let seconds, let text = Timestamp.text(seconds) else { return .null }
        return .string(text)
    }

    /// A duration as the reference writes it.
    static func duration(_ duration: Duration) -> JSONValue {
        let (seconds, attoseconds) = duration.components
        return ["secs": .integer(seconds), "nanos": .integer(attoseconds / 1_000_000_000)]
    }
}

/// Times as RFC 3339 writes them.
enum Timestamp {
    /// The text of seconds since 1970; `nil` outside of the years 0 to 9999.
    static func text(_ seconds: Int64) -> String? {
        guard (-62_167_219_200...253_402_300_799).contains(seconds) else { return nil }
        let days = seconds >= 0 ? seconds / 86_400 : -((86_399 - seconds) / 86_400)
        let rest = seconds - days * 86_400
        // Howard Hinnant's days_from_civil, backwards: eras of 400 years that begin in March.
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let day = shifted - era * 146_097
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365
        let dayOfYear = day - (365 * year + year / 4 - year / 100)
        let month = (5 * dayOfYear + 2) / 153
        let isAfterYear = month >= 10
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let fullYear = year + era * 400 + (isAfterYear ? 1 : 0)
        let digits = String(fullYear)
        let yearText = String(repeating: "0", count: max(0, 4 - digits.count)) + digits
        let date =
            "\(yearText)-\(two(isAfterYear ? month - 9 : month + 3))-\(two(dayOfYear - (153 * month + 2) / 5 + 1))"
        return "\(date)T\(two(rest / 3_600)):\(two(rest / 60 % 60)):\(two(rest % 60))Z"
    }

    /// A date alone, as `2024-05-31`; `nil` when the text is none.
    static func date(_ text: String) -> String? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count == 10, parts.map(\.utf8.count) == [4, 2, 2],
            parts.joined().utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        return text
    }

    /// The seconds since 1970 of a time in RFC 3339, without parts of a second; `nil` when the text is none.
    static func seconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        /// The number in some of the bytes; `nil` where not all are digits.
        func number(_ range: Range<Int>, atMost limit: Int64) -> Int64? {
            guard range.upperBound <= bytes.count, bytes[range].allSatisfy({ (0x30...0x39).contains($0) }) else {
                return nil
            }
            let number = bytes[range].reduce(0 as Int64) { $0 * 10 + Int64($1) - 0x30 }
            return number <= limit ? number : nil
        }
        func has(_ characters: String, at index: Int) -> Bool {
            bytes.indices.contains(index) && characters.utf8.contains(bytes[index])
        }
        guard let year = number(0..<4, atMost: 9_999), has("-", at: 4), let month = number(5..<7, atMost: 12),
            month > 0,
            has("-", at: 7), let day = number(8..<10, atMost: 31), day > 0, has("Tt ", at: 10),
            let hour = number(11..<13, atMost: 23), has(":", at: 13), let minute = number(14..<16, atMost: 59),
            has(":", at: 16), let second = number(17..<19, atMost: 60)
        else { return nil }
        var end = 19
        if has(".", at: end) {
            let digits = bytes[(end + 1)...].prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return nil }
            end += 1 + digits.count
        }
        var offset: Int64 = 0
        if has("Zz", at: end) {
            end += 1
        } else {
            guard has("+-", at: end), let hours = number((end + 1)..<(end + 3), atMost: 23), has(":", at: end + 3),
                let minutes = number((end + 4)..<(end + 6), atMost: 59)
            else { return nil }
            offset = (hours * 60 + minutes) * (has("-", at: end) ? -60 : 60)
            end += 6
        }
        guard end == bytes.count else { return nil }
        return days(year, month, day) * 86_400 + (hour * 60 + minute) * 60 + second - offset
    }

    /// The days from 1970 to a day of the Gregorian calendar: Howard Hinnant's days_from_civil.
    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// The input of an operation: what is absent, `null` or `{}` are the same.
struct Fields: Sendable {
    /// The operation's name, for errors.
    let operation: String
    /// The input.
    let value: JSONValue

    private func wrong(_ name: String, _ what: String) -> KithError {
        KithError(.invalid, "\(operation): `\(name)` must be \(what).")
    }

    /// Text that must be there.
    func string(_ name: String) throws -> String {
        guard let text = try optionalString(name) else { throw wrong(name, "given") }
        return text
    }

    /// Text, or none.
    func optionalString(_ name: String) throws -> String? {
        guard let member = value.member(name) else { return nil }
        guard let text = member.text else { throw wrong(name, "a string") }
        return text
    }

    /// A truth value; `usual` when there is none.
    func flag(_ name: String, _ usual: Bool = false) throws -> Bool {
        guard let member = value.member(name) else { return usual }
        guard let flag = member.flag else { throw wrong(name, "true or false") }
        return flag
    }

    /// A whole number within bounds; `usual` when there is none.
    func number(_ name: String, _ usual: Int64, in range: ClosedRange<Int64>) throws -> Int64 {
        guard let member = value.member(name) else { return usual }
        guard let number = member.whole, range.contains(number) else {
            throw wrong(name, "a whole number, \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A UUID that must be there.
    func id(_ name: String) throws -> CompatibleID {
        guard let id = CompatibleID(try string(name)) else { throw wrong(name, "a UUID") }
        return id
    }

    /// The elements of a list; none when there is none.
    func list(_ name: String) throws -> [JSONValue] {
        guard let member = value.member(name) else { return [] }
        guard let list = member.list else { throw wrong(name, "a list") }
        return list
    }

    /// The fields of a member that is an object.
    func fields(_ name: String) throws -> Fields {
        let member = value.member(name) ?? [:]
        guard case .object = member else { throw wrong(name, "an object") }
        return Fields(operation: operation, value: member)
    }
}
