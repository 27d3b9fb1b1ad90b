import KithCommandLine

/// The names of filters, as they stand before the colon.
enum Field: String, CaseIterable {
    case name, path, `in`, kind, ext, size, modified, created, added, tag, location, device, `is`, rating, note, content
    case width, height, taken, duration, camera, has
    case regex, sort

    init?(_ name: String) {
        self.init(rawValue: name == "extension" ? "ext" : name)
    }

    /// The filter that a word stands for elsewhere; `nil` when it is none.
    static func meant(by word: String) -> Field? {
        switch word {
        case "type", "category": .kind
        case "filetype", "suffix": .ext
        case "filename", "file", "title": .name
        case "folder", "dir", "directory", "parent", "under": .in
        case "date", "mtime", "changed", "when": .modified
        case "birth", "ctime", "born": .created
        case "label", "labels", "keyword": .tag
        case "stars", "rated": .rating
        case "comment", "comments": .note
        case "text", "contents", "body": .content
        case "volume", "disk", "drive": .location
        case "host", "machine": .device
        case "order", "orderby", "sortby": .sort
        case "bytes", "filesize": .size
        default: nil
        }
    }

    /// The filter whose name is most like a word; `nil` when none is near.
    static func nearest(to word: String) -> Field? {
        Wording.nearest(to: word, in: allCases.map(\.rawValue)).flatMap { Field($0) }
    }
}

/// The value of a filter, as it is written.
struct FilterText {
    /// A run of text in quotation marks, or outside of them.
    struct Piece {
        var scalars: [Unicode.Scalar]
        var isQuoted: Bool
    }

    var pieces: [Piece]
    /// Where each scalar stands in the query.
    var sources: [Int]
    /// Where the name of the filter stands, with its colon.
    var name: Range<Int>
    /// Where the value stands.
    var range: Range<Int>

    var scalars: [Unicode.Scalar] { pieces.flatMap(\.scalars) }
    var text: String { String(String.UnicodeScalarView(scalars)) }

    /// The match that a word means: in what is not quoted, `*` and `?` are wildcards of the whole name.
    static func nameMatch(of pieces: [Piece]) -> NameMatch {
        var parts: [NameGlob.Part] = []
        var run = String.UnicodeScalarView()
        for piece in pieces {
            for scalar in piece.scalars {
                guard !piece.isQuoted, scalar == "*" || scalar == "?" else {
                    run.append(scalar)
                    continue
                }
                parts += [.text(NameFolding.folded(String(run))), scalar == "*" ? .many : .one]
                run = String.UnicodeScalarView()
            }
        }
        parts.append(.text(NameFolding.folded(String(run))))
        let glob = NameGlob(parts)
        switch glob.parts.count {
        case 1: if case .text(let text) = glob.parts[0] { return .contains(text) }
        case 2:
            if case .text(let text) = glob.parts[0], glob.parts[1] == .many { return .prefix(text) }
            if case .text(let text) = glob.parts[1], glob.parts[0] == .many { return .suffix(text) }
        case 3:
            if case .text(let text) = glob.parts[1], glob.parts[0] == .many, glob.parts[2] == .many {
                return .contains(text)
            }
        default: break
        }
        return .glob(glob)
    }
}

/// The time at which a query is read, and the clock of whoever asks.
struct QueryClock {
    /// Seconds since 1970, within the years that a query can name.
    let now: Int64
    /// The seconds by which the clock is ahead of Greenwich, a day at most.
    let offset: Int64

    init(now: Int64, offsetFromUTC: Int) {
        self.now = min(max(now, CalendarDay.seconds(1, 1, 1)), CalendarDay.seconds(9999, 12, 31))
        offset = Int64(min(max(offsetFromUTC, -86_400), 86_400))
    }

    /// The second at which a day of the calendar begins for whoever asks.
    func start(_ year: Int64, _ month: Int, _ day: Int) -> Int64 { CalendarDay.seconds(year, month, day) - offset }

    /// The day it is for whoever asks.
    var today: CalendarTime { CalendarTime(now, offset: Int(offset)) }
}

/// Days of the Gregorian calendar.
enum CalendarDay {
    /// The seconds from 1970 to the beginning of a day at Greenwich.
    static func seconds(_ year: Int64, _ month: Int, _ day: Int) -> Int64 {
        // Years that begin in March have their odd day at the end; 400 of them have 146,097 days.
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = Int64((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1)
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return (era * 146_097 + dayOfEra - 719_468) * 86_400
    }

    /// The number of days of a month.
    static func count(_ year: Int64, _ month: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

/// Reads the values of filters.
struct FilterValues {
    let clock: QueryClock
    /// Where each scalar of the query, and its end, is in UTF-8.
    let offsets: [Int]

    private func error(
        _ message: String, _ text: FilterText, code: QueryError.Code = .invalidValue, part: Range<Int>? = nil
    ) -> QueryError {
        var range = text.range
        if let part, !part.isEmpty, part.upperBound <= text.sources.count {
            range = text.sources[part.lowerBound]..<(text.sources[part.upperBound - 1] + 1)
        } else if let part, part.lowerBound < text.sources.count {
            range = text.sources[part.lowerBound]..<(text.sources[part.lowerBound] + 1)
        }
        return QueryError(code, message, at: offsets[range.lowerBound]..<offsets[range.upperBound])
    }

    /// The condition that a filter sets.
    func condition(_ field: Field, _ text: FilterText) throws(QueryError) -> Condition {
        switch field {
        case .name: return .term(.name(name(text)))
        case .path: return .term(.path(NameFolding.folded(text.text)))
        case .in: return .term(.inFolder(folder(text.text)))
        case .kind: return try kind(text)
        case .ext: return .term(.fileExtension(try extensions(text)))
        case .size: return .term(.size(try size(text)))
        case .modified: return .term(.date(.modified, try time(text)))
        case .created: return .term(.date(.created, try time(text)))
        case .added: return .term(.date(.added, try time(text)))
        case .tag: return try tag(text)
        case .location: return .term(.location(NameFolding.folded(text.text)))
        case .device: return .term(.device(NameFolding.folded(text.text)))
        case .is: return try property(text)
        case .rating: return .term(.rating(try rating(text)))
        case .note: return .term(.note(NameFolding.folded(text.text)))
        case .content: return .term(.content(NameFolding.folded(text.text)))
        case .width: return .term(.measure(.width, try pixels(text)))
        case .height: return .term(.measure(.height, try pixels(text)))
        case .duration: return .term(.measure(.duration, try duration(text)))
        case .taken: return .term(.date(.taken, try time(text)))
        case .camera: return .term(.camera(NameFolding.folded(text.text)))
        case .has: return .term(.has(try feature(text)))
        case .regex:
            do throws(RegularExpression.Fault) {
                return .term(.name(.regex(try RegularExpression(text.text))))
            } catch {
                throw self.error(error.message, text, code: .invalidExpression, part: error.range)
            }
        case .sort: preconditionFailure("An order is no condition")
        }
    }

    // MARK: - Texts

    private func name(_ text: FilterText) -> NameMatch {
        var pieces = text.pieces
        guard !pieces[0].isQuoted, pieces[0].scalars.first == "=" else { return FilterText.nameMatch(of: pieces) }
        pieces[0].scalars.removeFirst()
        let rest = pieces.flatMap(\.scalars)
        // A lone equals sign is text.
        guard !rest.isEmpty else { return FilterText.nameMatch(of: text.pieces) }
        return .exact(NameFolding.folded(String(String.UnicodeScalarView(rest))))
    }

    private func folder(_ text: String) -> String {
        var folder = NameFolding.normalized(text).unicodeScalars
        while folder.count > 1, folder.last == "/" { folder.removeLast() }
        return String(folder)
    }

    private func tag(_ text: FilterText) throws(QueryError) -> Condition {
        let isExact = !text.pieces[0].isQuoted && text.pieces[0].scalars.first == "="
        let scalars = text.scalars.dropFirst(isExact ? 1 : 0)
        let name = NameFolding.folded(String(String.UnicodeScalarView(scalars)))
        let names = name.split(separator: "/")
        guard !names.isEmpty else { throw error("tag: needs the name of a tag.", text) }
        return .term(.tag(names.joined(separator: "/"), includingDescendants: !isExact))
    }

    /// The parts between commas, each with where it is in the value.
    private func list(_ text: FilterText) throws(QueryError) -> [(text: String, range: Range<Int>)] {
        let scalars = text.scalars
        var parts: [(text: String, range: Range<Int>)] = []
        for part in scalars.split(separator: ",", omittingEmptySubsequences: false) {
            guard !part.isEmpty else {
                throw error(
                    "There is nothing before or after this comma.", text,
                    part: min(part.startIndex, scalars.count - 1)..<min(part.startIndex + 1, scalars.count))
            }
            parts.append((String(String.UnicodeScalarView(part)), part.startIndex..<part.endIndex))
        }
        return parts
    }

    private func extensions(_ text: FilterText) throws(QueryError) -> Set<String> {
        var extensions: Set<String> = []
        for part in try list(text) {
            let name = NameFolding.folded(part.text).unicodeScalars.drop { $0 == "." }
            guard !name.isEmpty else { throw error("An extension is more than a dot.", text, part: part.range) }
            extensions.insert(String(name))
        }
        return extensions
    }

    // MARK: - Words

    private static func unknown(_ word: String, _ what: String, among words: [String], all: String) -> String {
        let meant = Wording.nearest(to: word, in: words).map { "Did you mean \($0)?" } ?? "There are \(all)."
        return "There is no \(what) \(Wording.printable(word)). \(meant)"
    }

    private func kind(_ text: FilterText) throws(QueryError) -> Condition {
        var categories: Set<FileCategory> = []
        var kinds: [EntryKind] = []
        let names = FileCategory.allCases.map(\.rawValue) + [EntryKind.folder.rawValue, EntryKind.link.rawValue]
        for part in try list(text) {
            let word = NameFolding.folded(part.text)
            let singular = word.last == "s" ? String(word.dropLast()) : word
            if let category = FileCategory(rawValue: word) ?? FileCategory(rawValue: singular) {
                categories.insert(category)
            } else if let kind = EntryKind(rawValue: word) ?? EntryKind(rawValue: singular), kind != .file {
                if !kinds.contains(kind) { kinds.append(kind) }
            } else {
                let message = Self.unknown(word, "kind", among: names, all: names.joined(separator: ", "))
                throw error(message, text, part: part.range)
            }
        }
        let first: [Condition] = categories.isEmpty ? [] : [.term(.category(categories))]
        return Condition(any: first + kinds.map { .term(.entry($0)) })
    }

    private func property(_ text: FilterText) throws(QueryError) -> Condition {
        let word = NameFolding.folded(text.text)
        if word == "untagged" { return .term(.untagged) }
        if let kind = EntryKind(rawValue: word) { return .term(.entry(kind)) }
        if let flag = EntryFlag(rawValue: word == "favourite" ? "favorite" : word) { return .term(.flag(flag)) }
        let words = EntryKind.allCases.map(\.rawValue) + EntryFlag.allCases.map(\.rawValue) + ["untagged"]
        throw error(Self.unknown(word, "property", among: words, all: words.joined(separator: ", ")), text)
    }

    private func feature(_ text: FilterText) throws(QueryError) -> ContentFeature {
        let word = NameFolding.folded(text.text)
        if let feature = ContentFeature(rawValue: word) { return feature }
        let words = ContentFeature.allCases.map(\.rawValue)
        throw error(Self.unknown(word, "feature", among: words, all: words.joined(separator: ", ")), text)
    }

    /// The keys of an order.
    func sort(_ text: FilterText) throws(QueryError) -> [SortKey] {
        var keys: [SortKey] = []
        let names = SortKey.Field.allCases.map(\.rawValue)
        for part in try list(text) {
            let isDescending = part.text.hasPrefix("-")
            let word = NameFolding.folded(String(part.text.drop { $0 == "-" }))
            guard let field = SortKey.Field(rawValue: word == "extension" ? "ext" : word) else {
                throw error(
                    Self.unknown(word, "order", among: names, all: names.joined(separator: ", ")), text,
                    part: part.range)
            }
            keys.append(SortKey(field, descending: isDescending))
        }
        return keys
    }

    // MARK: - Ranges

    /// The bounds of what a value says, where each of its parts stands for all that is between two numbers.
    private struct Bounds<Number: FixedWidthInteger> {
        /// The smallest and the largest within.
        var from: Number?
        var through: Number?
    }

    /// Reads `5`, `>5`, `>=5`, `<5`, `<=5`, `2..5`, `2..` and `..5`.
    private func bounds<Number: FixedWidthInteger>(
        _ text: FilterText, what: String,
        part: (_ text: String, _ range: Range<Int>) throws(QueryError) -> ClosedRange<Number>
    ) throws(QueryError) -> Bounds<Number> {
        let scalars = text.scalars
        func read(_ range: Range<Int>) throws(QueryError) -> ClosedRange<Number> {
            guard !range.isEmpty else { throw error("There is no \(what) here.", text) }
            return try part(String(String.UnicodeScalarView(scalars[range])), range)
        }
        let end = scalars.count
        if let dots = scalars.indices.dropLast().first(where: { scalars[$0] == "." && scalars[$0 + 1] == "." }) {
            let low = dots == 0 ? nil : try read(0..<dots)
            let high = dots + 2 == end ? nil : try read((dots + 2)..<end)
            guard low != nil || high != nil else { throw error("There is no \(what) here.", text) }
            if let low, let high, low.lowerBound > high.upperBound {
                throw error("This range is empty: its beginning comes after its end.", text)
            }
            return Bounds(from: low?.lowerBound, through: high?.upperBound)
        }
        let isOrEqual = end > 1 && scalars[1] == "="
        switch scalars[0] {
        case ">":
            let number = try read((isOrEqual ? 2 : 1)..<end)
            if isOrEqual { return Bounds(from: number.lowerBound) }
            guard number.upperBound < .max else { throw error("Nothing is larger than that.", text) }
            return Bounds(from: number.upperBound + 1)
        case "<":
            let number = try read((isOrEqual ? 2 : 1)..<end)
            if isOrEqual { return Bounds(through: number.upperBound) }
            guard number.lowerBound > .min else { throw error("Nothing is smaller than that.", text) }
            return Bounds(through: number.lowerBound - 1)
        case let first:
            let number = try read((first == "=" ? 1 : 0)..<end)
            return Bounds(from: number.lowerBound, through: number.upperBound)
        }
    }

    private func rating(_ text: FilterText) throws(QueryError) -> ClosedRange<Int> {
        let bounds: Bounds<Int> = try bounds(text, what: "rating") { (part, range) throws(QueryError) in
            guard let number = Int(part), (0...5).contains(number) else {
                throw error("A rating is a number from 0 to 5.", text, part: range)
            }
            return number...number
        }
        let (low, high) = (bounds.from ?? 0, bounds.through ?? 5)
        guard low <= high, low <= 5, high >= 0 else { throw error("A rating is a number from 0 to 5.", text) }
        return low...high
    }

    private func pixels(_ text: FilterText) throws(QueryError) -> SizeRange {
        let bounds: Bounds<UInt64> = try bounds(text, what: "number of pixels") { (part, range) throws(QueryError) in
            let digits = part.hasSuffix("px") ? String(part.dropLast(2)) : part
            guard !digits.isEmpty, digits.utf8.allSatisfy(Self.isDigit), let number = UInt64(digits) else {
                throw error("This is a number of pixels, such as 4000.", text, part: range)
            }
            return number...number
        }
        return SizeRange(from: bounds.from, through: bounds.through)
    }

    /// Reads `90s`, `10m`, `1h30m` and `1:30:00`: in milliseconds; what is not said more exactly is a whole second.
    private func duration(_ text: FilterText) throws(QueryError) -> SizeRange {
        let bounds: Bounds<UInt64> = try bounds(text, what: "duration") { (part, range) throws(QueryError) in
            guard let (start, isOver) = Self.seconds(part)?.multipliedReportingOverflow(by: 1_000), !isOver else {
                throw error("A duration is such as 90s, 10m, 1h30m or 1:30:00.", text, part: range)
            }
            return start...(start > .max - 999 ? .max : start + 999)
        }
        return SizeRange(from: bounds.from, through: bounds.through)
    }

    private static func seconds(_ text: String) -> UInt64? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        if parts.count > 1 {
            guard parts.count <= 3 else { return nil }
            var sum: UInt64 = 0
            for (index, part) in parts.enumerated() {
                guard (1...6).contains(part.utf8.count), part.utf8.allSatisfy(isDigit), let number = UInt64(part),
                    index == 0 || number < 60
                else { return nil }
                sum = sum * 60 + number
            }
            return sum
        }
        var (rest, sum) = (Substring(NameFolding.folded(text)), UInt64(0))
        guard !rest.isEmpty else { return nil }
        let units: [(String, UInt64)] = [("d", 86_400), ("h", 3_600), ("min", 60), ("m", 60), ("s", 1), ("", 1)]
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(digits.count)
            guard let number = UInt64(digits),
                let (name, unit) = units.first(where: { rest.hasPrefix($0.0) })
            else { return nil }
            // Without a unit, only at the end: those are seconds.
            guard !name.isEmpty || rest.isEmpty else { return nil }
            rest = rest.dropFirst(name.count)
            let (product, isOver) = number.multipliedReportingOverflow(by: unit)
            let (total, isTooLarge) = sum.addingReportingOverflow(product)
            guard !isOver, !isTooLarge else { return nil }
            sum = total
        }
        return sum
    }

    private func size(_ text: FilterText) throws(QueryError) -> SizeRange {
        let bounds: Bounds<UInt64> = try bounds(text, what: "size") { (part, range) throws(QueryError) in
            guard let bytes = Self.bytes(part) else {
                throw error("A size is a number and a unit, such as 500, 10M, 1.5GB or 3KiB.", text, part: range)
            }
            return bytes...bytes
        }
        return SizeRange(from: bounds.from, through: bounds.through)
    }

    /// The number of bytes that a text such as `1.5GB` says, rounded down; `nil` when it says none, or too many.
    private static func bytes(_ text: String) -> UInt64? {
        let digits = text.utf8.prefix { Self.isDigit($0) }
        var rest = text.utf8.dropFirst(digits.count)
        guard !digits.isEmpty, let whole = UInt64(String(Substring(digits))) else { return nil }
        var fraction: [UInt8] = []
        if rest.first == UInt8(ascii: ".") {
            fraction = Array(rest.dropFirst().prefix { Self.isDigit($0) })
            rest = rest.dropFirst(1 + fraction.count)
            guard (1...18).contains(fraction.count) else { return nil }
        }
        guard let unit = units[String(Substring(rest)).lowercased()] else { return nil }
        let (bytes, isOver) = whole.multipliedReportingOverflow(by: unit)
        guard !isOver else { return nil }
        var (numerator, denominator) = (UInt64(0), UInt64(1))
        for digit in fraction {
            numerator = numerator * 10 + UInt64(digit - 48)
            denominator *= 10
        }
        // Less than the denominator, so that the quotient fits.
        let product = numerator.multipliedFullWidth(by: unit)
        let (sum, isTooLarge) = bytes.addingReportingOverflow(denominator.dividingFullWidth(product).quotient)
        return isTooLarge ? nil : sum
    }

    private static let units: [String: UInt64] = {
        var units: [String: UInt64] = ["": 1, "b": 1]
        var (decimal, binary) = (UInt64(1), UInt64(1))
        for letter in ["k", "m", "g", "t", "p", "e"] {
            decimal *= 1_000
            binary *= 1_024
            for suffix in ["", "b"] {
                units[letter + suffix] = decimal
                units[letter + "i" + suffix] = binary
            }
        }
        return units
    }()

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

    // MARK: - Times

    private func time(_ text: FilterText) throws(QueryError) -> TimeRange {
        if let age = try ages(text) { return age }
        let bounds: Bounds<Int64> = try bounds(text, what: "date") { (part, range) throws(QueryError) in
            guard let period = period(part) else {
                let words = ["today", "yesterday", "week", "month", "year"]
                let folded = NameFolding.folded(part)
                let meant = Wording.nearest(to: folded, in: words).map { " Did you mean \($0)?" } ?? ""
                throw error(
                    "A date is a year, a month or a day, such as 2024, 2024-05 or 2024-05-31; today, yesterday, week, "
                        + "month or year; or an age, such as <7d.\(meant)", text, part: range)
            }
            return period
        }
        let until = bounds.through.flatMap { $0 == .max ? nil : $0 + 1 }
        return TimeRange(from: bounds.from, until: until)
    }

    /// The first and the last second of a period; `nil` when the text names none.
    private func period(_ text: String) -> ClosedRange<Int64>? {
        let day: Int64 = 86_400
        let today = clock.today
        let midnight = clock.start(today.year, today.month, today.day)
        switch NameFolding.folded(text) {
        case "today": return midnight...(midnight + day - 1)
        case "yesterday": return (midnight - day)...(midnight - 1)
        case "week":
            // The first of January 1970 was a Thursday, three days after a Monday.
            let days = (midnight + clock.offset) / day + 3
            let monday = midnight - ((days % 7 + 7) % 7) * day
            return monday...(monday + 7 * day - 1)
        case "month": return month(today.year, today.month)
        case "year": return year(today.year)
        default: break
        }
        if text.utf8.first == UInt8(ascii: "@") { return Int64(text.dropFirst()).map { $0...$0 } }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        let lengths = [4, 2, 2]
        guard (1...3).contains(parts.count) else { return nil }
        var numbers: [Int] = []
        for (part, length) in zip(parts, lengths) {
            guard part.utf8.count == length, part.utf8.allSatisfy(Self.isDigit), let number = Int(part), number > 0
            else {
                return nil
            }
            numbers.append(number)
        }
        let calendarYear = Int64(numbers[0])
        if numbers.count == 1 { return year(calendarYear) }
        guard numbers[1] <= 12 else { return nil }
        if numbers.count == 2 { return month(calendarYear, numbers[1]) }
        guard numbers[2] <= CalendarDay.count(calendarYear, numbers[1]) else { return nil }
        let start = clock.start(calendarYear, numbers[1], numbers[2])
        return start...(start + day - 1)
    }

    private func year(_ year: Int64) -> ClosedRange<Int64> {
        clock.start(year, 1, 1)...(clock.start(year + 1, 1, 1) - 1)
    }

    private func month(_ year: Int64, _ month: Int) -> ClosedRange<Int64> {
        let start = clock.start(year, month, 1)
        return start...(start + Int64(CalendarDay.count(year, month)) * 86_400 - 1)
    }

    /// Reads ages, counted back from now: `<7d`, `>1y`, `1d..7d`, and `7d` alone, which is `<7d`; `nil` when it is none.
    private func ages(_ text: FilterText) throws(QueryError) -> TimeRange? {
        let value = text.text
        let ends = value.split(separator: "..", maxSplits: 1, omittingEmptySubsequences: false)
        if ends.count == 2 {
            guard let low = Self.age(ends[0]), let high = Self.age(ends[1]) else { return nil }
            guard low <= high else { throw error("This range is empty: its beginning comes after its end.", text) }
            return TimeRange(from: clock.now - high, until: clock.now - low + 1)
        }
        var rest = Substring(value)
        let sign = rest.first
        if sign == ">" || sign == "<" {
            rest = rest.dropFirst()
            if rest.first == "=" { rest = rest.dropFirst() }
        }
        guard let age = Self.age(rest) else { return nil }
        return sign == ">" ? TimeRange(until: clock.now - age) : TimeRange(from: clock.now - age)
    }

    /// Seconds; `nil` when the text is no age, or more than 10,000 years.
    private static func age(_ text: Substring) -> Int64? {
        let digits = text.utf8.prefix { Self.isDigit($0) }
        guard (1...9).contains(digits.count), let number = Int64(String(Substring(digits))) else { return nil }
        let units: [String: Int64] = [
            "min": 60, "h": 3_600, "d": 86_400, "w": 604_800, "mo": 2_592_000, "y": 31_536_000,
        ]
        guard let unit = units[text.dropFirst(digits.count).lowercased()] else { return nil }
        let seconds = number * unit
        return seconds <= 315_360_000_000 ? seconds : nil
    }
}
