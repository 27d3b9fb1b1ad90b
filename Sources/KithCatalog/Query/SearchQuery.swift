import KithCommandLine

/// A search of a library: a condition on its entries, and the order of what is found.
///
/// The language is that of ``help``, and made so that the name of a file, pasted in, finds that file: whatever is no
/// syntax in its place is text. Words count without regard to case and to how accents are written.
package struct SearchQuery: Hashable, Sendable {
    /// The most bytes of UTF-8 of a query.
    package static let lengthLimit = 4_096
    /// The most levels of groups and negations in one another.
    package static let depthLimit = 64
    /// The most words and filters.
    package static let termLimit = 256

    /// The condition that entries meet.
    package var condition: Condition
    /// The keys of the order, the first one first; empty when the query names none.
    package var sort: [SortKey]

    /// Makes a query of its parts.
    package init(condition: Condition, sort: [SortKey] = []) {
        self.condition = condition
        self.sort = sort
    }

    /// A word that looks like a filter, and is none: it is searched as text.
    package struct UnknownFilter: Hashable, Sendable {
        /// The name before its colon, in lower case.
        package var name: String
        /// The name of the filter that may be meant; `nil` when none is near.
        package var nearest: String?
    }

    /// The words of a query that look like filters and are searched as text, each name once; none for one with a fault.
    package static func unknownFilters(in text: String) -> [UnknownFilter] {
        // A fault is told where the query is read.
        guard var parser = try? QueryParser(text, clock: QueryClock(now: 0, offsetFromUTC: 0)),
            (try? parser.query()) != nil
        else { return [] }
        return parser.unknownFilters
    }

    /// The year of a time in seconds since 1970, for a clock that is ahead of Greenwich, and the seconds of that year.
    package static func year(of seconds: Int64, offsetFromUTC: Int) -> (year: Int64, seconds: ClosedRange<Int64>) {
        let clock = QueryClock(now: seconds, offsetFromUTC: offsetFromUTC)
        let year = clock.today.year
        return (year, clock.start(year, 1, 1)...(clock.start(year + 1, 1, 1) - 1))
    }

    /// Reads a query.
    ///
    /// - Parameters:
    ///   - text: The query, in the language of ``help``.
    ///   - now: The time that `today` and `<7d` refer to, in seconds since 1970.
    ///   - offsetFromUTC: The seconds by which the clock of whoever asks is ahead of Greenwich. It holds for all dates of
    ///     the query, on both sides of a change to summer time.
    /// - Throws: ``QueryError``, which says where in the text the fault is.
    package init(_ text: String, now: Int64, offsetFromUTC: Int) throws(QueryError) {
        var parser = try QueryParser(text, clock: QueryClock(now: now, offsetFromUTC: offsetFromUTC))
        self = try parser.query()
    }
}

/// A condition on one entry of a library.
package indirect enum Condition: Hashable, Sendable {
    /// Every entry meets it.
    case everything
    /// All of several conditions; everything when there are none.
    case all([Condition])
    /// One of several conditions at least; nothing when there are none.
    case any([Condition])
    /// The opposite.
    case not(Condition)
    /// One property of the entry.
    case term(Term)
}

/// A condition on one property of an entry.
///
/// Texts are folded (``NameFolding/folded(_:)``) unless a case says otherwise.
package enum Term: Hashable, Sendable {
    /// The name of the entry, without its folder.
    case name(NameMatch)
    /// The path contains a text.
    case path(String)
    /// The entry is beneath a folder, at any depth. The text keeps its case, is in normalization form C and does not end
    /// in a slash, but for `/` itself.
    ///
    /// One that begins with `/` is a whole path. One that begins with `~` has to be made one by the caller, who knows
    /// whose home is meant. Any other is a run of names anywhere on the path: `docs/2024` finds `/a/docs/2024/b`.
    case inFolder(String)
    /// The entry is a file of one of these categories.
    case category(Set<FileCategory>)
    /// The entry is of this kind.
    case entry(EntryKind)
    /// The name ends in a dot and one of these, none of which begins with a dot, and something stands before the dot.
    ///
    /// Each may have dots: `tar.gz`.
    case fileExtension(Set<String>)
    /// The number of bytes of a file.
    case size(SizeRange)
    /// The time of one of the entry's dates; an entry without it does not meet the condition.
    case date(DateField, TimeRange)
    /// The entry carries the tag, or one of the tags beneath it.
    ///
    /// The text is the name of a tag, or the names of several down the hierarchy with slashes between them: the end of
    /// the tag's own path.
    case tag(String, includingDescendants: Bool)
    /// The entry carries no tag.
    case untagged
    /// The whole name of the entry's location.
    case location(String)
    /// The whole name of the device the entry is on.
    case device(String)
    /// A yes-or-no property.
    case flag(EntryFlag)
    /// The number of stars, within 0…5; 0 is for what nobody has rated.
    case rating(ClosedRange<Int>)
    /// The note on the entry contains a text.
    case note(String)
    /// The text inside the file has these words one after the other, as whole words.
    case content(String)
    /// A measure of an image, a film or sound; a file without it does not meet the condition.
    case measure(ContentMeasure, SizeRange)
    /// The maker and the model of the camera contain a text.
    case camera(String)
    /// The content of the file has something.
    case has(ContentFeature)
}

/// A condition on a name.
///
/// Texts are folded (``NameFolding/folded(_:)``), and none is empty.
package enum NameMatch: Hashable, Sendable {
    /// The text is somewhere in the name.
    case contains(String)
    /// The name begins with the text.
    case prefix(String)
    /// The name ends with the text.
    case suffix(String)
    /// The text is the whole name.
    case exact(String)
    /// The pattern matches the whole name.
    case glob(NameGlob)
    /// The pattern matches somewhere in the name.
    case regex(RegularExpression)
}

/// A pattern with wildcards, for whole names.
package struct NameGlob: Hashable, Sendable {
    /// A part of a pattern.
    package enum Part: Hashable, Sendable {
        /// These characters, folded.
        case text(String)
        /// Any one Unicode scalar: `?`.
        case one
        /// Any number of scalars: `*`. Two never follow one another.
        case many
    }

    /// The parts in their order.
    package let parts: [Part]
    let units: [Unit]

    /// What is matched at a time: a scalar or a wildcard.
    enum Unit: Hashable, Sendable {
        case scalar(Unicode.Scalar)
        case one
        case many
    }

    /// Makes a pattern; neighbours are joined where they can be.
    package init(_ parts: [Part]) {
        var joined: [Part] = []
        for part in parts {
            switch (joined.last, part) {
            case (.many, .many), (_, .text("")): continue
            case (.text(let before), .text(let text)): joined[joined.count - 1] = .text(before + text)
            default: joined.append(part)
            }
        }
        self.parts = joined
        units = joined.flatMap { (part) -> [Unit] in
            switch part {
            case .text(let text): text.unicodeScalars.map { .scalar($0) }
            case .one: [.one]
            case .many: [.many]
            }
        }
    }
}

/// The kind of an entry in the file system.
package enum EntryKind: String, Hashable, Sendable, Codable, CaseIterable {
    /// A folder.
    case folder
    /// A regular file.
    case file
    /// A symbolic link.
    case link
    /// A pipe, a socket or a device.
    case other
}

/// A yes-or-no property of an entry.
package enum EntryFlag: String, Hashable, Sendable, Codable, CaseIterable {
    /// Another entry has the same content.
    case duplicate
    /// A person has marked it.
    case favorite
    /// Its name begins with a dot, or the system hides it.
    case hidden
    /// A file of no bytes, or a folder of no entries.
    case empty
    /// Its volume or device is not there now.
    case offline
}

/// The date of an entry that a condition is about.
package enum DateField: String, Hashable, Sendable, Codable, CaseIterable {
    /// The last change of the content.
    case modified
    /// The creation of the file.
    case created
    /// When the library first saw it.
    case added
    /// When a picture or a film was taken.
    case taken
}

/// A measure of what is in a file.
package enum ContentMeasure: String, Hashable, Sendable, Codable, CaseIterable {
    /// Pixels across, as it is shown.
    case width
    /// Pixels down, as it is shown.
    case height
    /// Milliseconds.
    case duration
}

/// What the content of a file may have.
package enum ContentFeature: String, Hashable, Sendable, Codable, CaseIterable {
    /// The place where it was taken.
    case gps
    /// Text that is searched.
    case text
}

/// A range of sizes in bytes; a bound that is `nil` is none.
package struct SizeRange: Hashable, Sendable {
    /// The smallest size within.
    package var from: UInt64?
    /// The largest size within.
    package var through: UInt64?

    /// Makes a range.
    package init(from: UInt64? = nil, through: UInt64? = nil) {
        self.from = from
        self.through = through
    }

    /// Tells whether a size is within.
    package func contains(_ size: UInt64) -> Bool { size >= from ?? 0 && size <= through ?? .max }
}

/// A span of time in seconds since 1970; a bound that is `nil` is none.
package struct TimeRange: Hashable, Sendable {
    /// The first second within.
    package var from: Int64?
    /// The first second after it.
    package var until: Int64?

    /// Makes a range.
    package init(from: Int64? = nil, until: Int64? = nil) {
        self.from = from
        self.until = until
    }

    /// Tells whether a time is within.
    package func contains(_ time: Int64) -> Bool { time >= from ?? .min && until.map { time < $0 } ?? true }
}

/// One key of an order.
package struct SortKey: Hashable, Sendable {
    /// What entries are ordered by.
    package enum Field: String, Hashable, Sendable, Codable, CaseIterable {
        /// How well the name fits the words of the query.
        case relevance
        /// The folded name.
        case name
        /// The folded path.
        case path
        /// The size in bytes.
        case size
        /// The kind or category.
        case kind
        /// The extension.
        case ext
        /// The last change.
        case modified
        /// The creation.
        case created
        /// When the library first saw it.
        case added
        /// The stars.
        case rating
    }

    /// What entries are ordered by.
    package var field: Field
    /// True for the largest first.
    package var isDescending: Bool

    /// Makes a key.
    package init(_ field: Field, descending isDescending: Bool = false) {
        self.field = field
        self.isDescending = isDescending
    }
}
