/// What a condition is tried on: the properties of one entry of a library, as plain values.
package struct Subject: Hashable, Sendable {
    /// A tag on an entry: the names from the top of the hierarchy down to it.
    package typealias TagPath = [String]

    /// The name, as ``NameFolding/display(_:)`` gives it.
    package var name: String
    /// The whole path, in the same form.
    package var path: String
    /// The kind of the entry.
    package var kind: EntryKind
    /// The category of a file; `nil` for what is no file.
    package var category: FileCategory?
    /// The number of bytes; `nil` for what is no file.
    package var size: UInt64?
    /// The dates, in seconds since 1970.
    package var dates: [DateField: Int64]
    /// The tags.
    package var tags: [TagPath]
    /// The name of the location; `nil` when it is in none.
    package var location: String?
    /// The name of the device.
    package var device: String
    /// The properties it has.
    package var flags: Set<EntryFlag>
    /// The stars, 0…5.
    package var rating: Int
    /// The note on it.
    package var note: String?
    /// The text inside the file; `nil` when it is unknown.
    package var content: String?
    /// The phrases that an index of words has found in the text inside the file.
    package var phrases: Set<String> = []
    /// What the file measures.
    package var measures: [ContentMeasure: UInt64] = [:]
    /// The maker and the model of the camera; `nil` when they are unknown.
    package var camera: String?
    /// What its content has.
    package var features: Set<ContentFeature> = []

    /// Makes a subject.
    package init(
        name: String, path: String, kind: EntryKind = .file, category: FileCategory? = nil, size: UInt64? = nil,
        dates: [DateField: Int64] = [:], tags: [TagPath] = [], location: String? = nil, device: String = "",
        flags: Set<EntryFlag> = [], rating: Int = 0, note: String? = nil, content: String? = nil
    ) {
        self.name = name
        self.path = path
        self.kind = kind
        self.category = category
        self.size = size
        self.dates = dates
        self.tags = tags
        self.location = location
        self.device = device
        self.flags = flags
        self.rating = rating
        self.note = note
        self.content = content
    }
}

extension SearchQuery {
    /// Tells whether an entry meets the condition.
    package func matches(_ subject: Subject) -> Bool { condition.matches(subject) }
}

extension Condition {
    /// Tells whether an entry meets the condition.
    package func matches(_ subject: Subject) -> Bool {
        switch self {
        case .everything: true
        case .all(let conditions): conditions.allSatisfy { $0.matches(subject) }
        case .any(let conditions): conditions.contains { $0.matches(subject) }
        case .not(let condition): !condition.matches(subject)
        case .term(let term): term.matches(subject)
        }
    }
}

extension Term {
    /// Tells whether an entry has the property.
    package func matches(_ subject: Subject) -> Bool {
        switch self {
        case .name(let match): match.matches(subject.name)
        case .path(let text): FoldedMatching.contains(text, in: subject.path)
        case .inFolder(let folder): Self.isBeneath(folder, subject.path)
        case .category(let categories): subject.category.map(categories.contains) ?? false
        case .entry(let kind): subject.kind == kind
        case .fileExtension(let extensions):
            extensions.contains { FoldedMatching.hasExtension($0, subject.name) }
        case .size(let range): subject.size.map(range.contains) ?? false
        case .date(let field, let range): subject.dates[field].map(range.contains) ?? false
        case .tag(let tag, let includesDescendants):
            subject.tags.contains { Self.isTag(tag, $0, includingDescendants: includesDescendants) }
        case .untagged: subject.tags.isEmpty
        case .location(let name): subject.location.map { NameFolding.folded($0) == name } ?? false
        case .device(let name): NameFolding.folded(subject.device) == name
        case .flag(let flag): subject.flags.contains(flag)
        case .rating(let range): range.contains(subject.rating)
        case .note(let text): subject.note.map { FoldedMatching.contains(text, in: $0) } ?? false
        case .content(let text):
            subject.phrases.contains(text) || subject.content.map { WordMatching.contains(text, in: $0) } ?? false
        case .measure(let measure, let range): subject.measures[measure].map(range.contains) ?? false
        case .camera(let text): subject.camera.map { FoldedMatching.contains(text, in: $0) } ?? false
        case .has(let feature): subject.features.contains(feature)
        }
    }

    private static func isBeneath(_ folder: String, _ path: String) -> Bool {
        let path = NameFolding.normalized(path).utf8
        if folder.utf8.first == UInt8(ascii: "/") {
            // The root has its slash already.
            let inside = folder == "/" ? folder : folder + "/"
            return path.starts(with: inside.utf8) && path.count > inside.utf8.count
        }
        let inside = "/\(folder)/"
        guard let end = FoldedMatching.end(of: inside.utf8, in: path) else { return false }
        return end < path.endIndex
    }

    private static func isTag(_ tag: String, _ path: Subject.TagPath, includingDescendants: Bool) -> Bool {
        let names = tag.split(separator: "/").map(String.init)
        let path = path.map(NameFolding.folded)
        guard !names.isEmpty, names.count <= path.count else { return false }
        if !includingDescendants { return path.suffix(names.count).elementsEqual(names) }
        return (0...(path.count - names.count)).contains { path[$0...].starts(with: names) }
    }
}

extension NameMatch {
    /// Tells whether a name, in any case, is meant.
    ///
    /// Takes no memory for names in ASCII, but for expressions.
    package func matches(_ name: String) -> Bool {
        switch self {
        case .contains(let text): FoldedMatching.contains(text, in: name)
        case .prefix(let text): FoldedMatching.hasPrefix(text, name)
        case .suffix(let text): FoldedMatching.hasSuffix(text, name)
        case .exact(let text): FoldedMatching.isEqual(text, name)
        case .glob(let glob): glob.matches(name)
        case .regex(let expression): expression.matches(name)
        }
    }
}

extension NameGlob {
    /// Tells whether the pattern matches a whole name, in any case: in time proportional to both their lengths.
    package func matches(_ name: String) -> Bool {
        // What ASCII needs no folding for is folded on the way.
        let isASCII = NameFolding.isASCII(name.utf8)
        let scalars = isASCII ? name.unicodeScalars : NameFolding.folded(name).unicodeScalars
        var unit = 0
        var index = scalars.startIndex
        /// Where to go on when the last `*` has to take one scalar more.
        var retry: (unit: Int, index: String.Index)?
        while index < scalars.endIndex {
            if unit < units.count, units[unit] == .many {
                unit += 1
                retry = (unit, index)
            } else if unit < units.count, Self.fits(units[unit], scalars[index], isASCII: isASCII) {
                unit += 1
                scalars.formIndex(after: &index)
            } else if let last = retry {
                let later = scalars.index(after: last.index)
                retry = (last.unit, later)
                unit = last.unit
                index = later
            } else {
                return false
            }
        }
        while unit < units.count, units[unit] == .many { unit += 1 }
        return unit == units.count
    }

    private static func fits(_ unit: Unit, _ scalar: Unicode.Scalar, isASCII: Bool) -> Bool {
        switch unit {
        case .scalar(let wanted): wanted == (isASCII ? NameFolding.lowercase(scalar) : scalar)
        case .one: true
        case .many: false
        }
    }
}

/// Compares folded texts with texts in any case, without a copy where those are ASCII.
enum FoldedMatching {
    static func contains(_ needle: String, in text: String) -> Bool {
        guard NameFolding.isASCII(text.utf8) else {
            return end(of: needle.utf8, in: NameFolding.folded(text).utf8) != nil
        }
        return end(of: needle.utf8, in: text.utf8, folding: NameFolding.lowercase) != nil
    }

    static func hasPrefix(_ prefix: String, _ text: String) -> Bool {
        guard NameFolding.isASCII(text.utf8) else { return NameFolding.folded(text).utf8.starts(with: prefix.utf8) }
        return text.utf8.starts(with: prefix.utf8) { NameFolding.lowercase($0) == $1 }
    }

    static func hasSuffix(_ suffix: String, _ text: String) -> Bool {
        guard NameFolding.isASCII(text.utf8) else {
            return NameFolding.folded(text).utf8.reversed().starts(with: suffix.utf8.reversed())
        }
        return text.utf8.reversed().starts(with: suffix.utf8.reversed()) { NameFolding.lowercase($0) == $1 }
    }

    static func isEqual(_ folded: String, _ text: String) -> Bool {
        guard NameFolding.isASCII(text.utf8) else { return NameFolding.folded(text).utf8.elementsEqual(folded.utf8) }
        return text.utf8.elementsEqual(folded.utf8) { NameFolding.lowercase($0) == $1 }
    }

    /// Tells whether a name ends in a dot and the extension, after something else.
    static func hasExtension(_ wanted: String, _ name: String) -> Bool {
        guard hasSuffix(wanted, name) else { return false }
        guard NameFolding.isASCII(name.utf8) else {
            return endsInDot(NameFolding.folded(name).utf8.dropLast(wanted.utf8.count))
        }
        return endsInDot(name.utf8.dropLast(wanted.utf8.count))
    }

    private static func endsInDot(_ stem: Substring.UTF8View) -> Bool {
        stem.last == UInt8(ascii: ".") && stem.count > 1
    }

    /// The index after the first place where `needle` stands in `text`; `nil` when it does not.
    static func end(
        of needle: String.UTF8View, in text: String.UTF8View, folding: (UInt8) -> UInt8 = { $0 }
    ) -> String.Index? {
        guard let first = needle.first else { return text.startIndex }
        var start = text.startIndex
        while start < text.endIndex {
            if folding(text[start]) == first {
                var (index, wanted) = (text.index(after: start), needle.index(after: needle.startIndex))
                while wanted < needle.endIndex, index < text.endIndex, folding(text[index]) == needle[wanted] {
                    text.formIndex(after: &index)
                    needle.formIndex(after: &wanted)
                }
                if wanted == needle.endIndex { return index }
                // Nothing that begins later has room.
                if index == text.endIndex { return nil }
            }
            text.formIndex(after: &start)
        }
        return nil
    }
}

/// Finds words one after the other in a text, as an index of words does.
enum WordMatching {
    /// Tells whether the words of a folded text stand in another, whole and one after the other.
    static func contains(_ phrase: String, in text: String) -> Bool {
        let wanted = words(of: phrase)
        let found = words(of: NameFolding.folded(text))
        guard !wanted.isEmpty, wanted.count <= found.count else { return false }
        return (0...(found.count - wanted.count)).contains { start in
            zip(wanted, found[start...]).allSatisfy { $0.elementsEqual($1) }
        }
    }

    /// Runs of letters, numbers and marks.
    private static func words(of text: String) -> [Substring.UnicodeScalarView] {
        text.unicodeScalars.split { scalar in
            switch scalar.properties.generalCategory {
            case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .decimalNumber,
                .letterNumber, .otherNumber, .nonspacingMark, .spacingMark, .enclosingMark, .privateUse:
                false
            default: true
            }
        }
    }
}
