package import KithWire

/// A filter of a search, with its patterns read.
///
/// The device that searches uses it to select what to report, and the device that asked for the search to check what was
/// reported: there the other's clock and some attributes are missing, so an answer may be ``Answer/maybe``.
package struct FileCondition: Sendable {
    /// An answer to whether something meets the filter.
    package enum Answer: Int, Comparable, Sendable {
        case no
        case maybe
        case yes

        package static func < (left: Answer, right: Answer) -> Bool { left.rawValue < right.rawValue }

        fileprivate init(_ isMet: Bool) { self = isMet ? .yes : .no }

        fileprivate var opposite: Answer {
            switch self {
            case .no: .yes
            case .maybe: .maybe
            case .yes: .no
            }
        }
    }

    /// The known attributes of one file or folder.
    package struct Subject: Sendable {
        var kind: Files.Kind
        /// The kind of a special file; `nil` where its device does not say.
        var special: Files.Special?
        var size: UInt64
        /// Seconds since its last change; `nil` where only its device knows.
        var age: UInt64?
        /// Its name; `nil` where only its device knows.
        var name: [UInt8]?

        package init(kind: Files.Kind, special: Files.Special?, size: UInt64, age: UInt64?, name: [UInt8]?) {
            self.kind = kind
            self.special = special
            self.size = size
            self.age = age
            self.name = name
        }
    }

    private let filter: Files.Filter
    private let patterns: [(glob: GlobPattern, isPath: Bool)]
    private let allOf: [FileCondition]
    private let anyOf: [FileCondition]
    private let noneOf: [FileCondition]
    /// True when everything meets the filter.
    package let isAlwaysMet: Bool

    /// Reads a filter.
    ///
    /// - Throws: `.invalid` for one with more than 64 patterns or 128 filters in it, or more than 16 levels deep.
    package init(_ filter: Files.Filter) throws(KithError) {
        var left = (patterns: 64, filters: 128)
        try self.init(filter, depth: 16, &left)
    }

    private init(
        _ filter: Files.Filter, depth: Int, _ left: inout (patterns: Int, filters: Int)
    ) throws(KithError) {
        left.patterns -= filter.patterns.count
        left.filters -= 1
        guard depth > 0, left.filters >= 0 else {
            throw KithError(.invalid, "A search takes at most 128 filters, 16 levels deep.")
        }
        guard left.patterns >= 0, filter.patterns.allSatisfy({ $0.glob.utf8.count <= 1_024 }) else {
            throw KithError(.invalid, "A search takes at most 64 patterns of at most 1024 bytes each.")
        }
        self.filter = filter
        isAlwaysMet = filter == Files.Filter()
        patterns = filter.patterns.map { (GlobPattern($0.glob, ignoresCase: $0.ignoresCase), $0.isPath) }
        func read(_ filters: [Files.Filter]) throws(KithError) -> [FileCondition] {
            var read: [FileCondition] = []
            for filter in filters { read.append(try FileCondition(filter, depth: depth - 1, &left)) }
            return read
        }
        allOf = try read(filter.allOf)
        anyOf = try read(filter.anyOf)
        noneOf = try read(filter.noneOf)
    }

    /// Tells whether something meets the filter; `path` is called only for patterns that match the whole path.
    package func isMet(by subject: Subject, path: () -> [UInt8]) -> Answer {
        guard filter.kinds.isEmpty || filter.kinds.contains(subject.kind), filter.size.contains(subject.size) else {
            return .no
        }
        var answer = Answer.yes
        if subject.kind == .special, !filter.specials.isEmpty {
            answer = subject.special.map { Answer(filter.specials.contains($0)) } ?? .maybe
        }
        if filter.age != Files.Filter.Bounds() {
            answer = min(answer, subject.age.map { Answer(filter.age.contains($0)) } ?? .maybe)
        }
        for pattern in patterns where answer > .no {
            let text = pattern.isPath ? path() : subject.name
            answer = min(answer, text.map { Answer(pattern.glob.matches($0)) } ?? .maybe)
        }
        for condition in allOf where answer > .no { answer = min(answer, condition.isMet(by: subject, path: path)) }
        for condition in noneOf where answer > .no {
            answer = min(answer, condition.isMet(by: subject, path: path).opposite)
        }
        guard answer > .no, !anyOf.isEmpty else { return answer }
        var one = Answer.no
        for condition in anyOf where one < .yes { one = max(one, condition.isMet(by: subject, path: path)) }
        return min(answer, one)
    }
}

extension Files.List.Output {
    /// Refuses a page that is not one of the folder, or the file, that was asked for.
    ///
    /// - Throws: `.denied` for names that are paths or out of order, and for too many.
    package func check(against input: Files.List.Input, from device: String?) throws(KithError) {
        // Of a file, the file itself.
        if entries.count == 1, entries[0].name == input.path, !hasMore { return }
        var last = input.after?.bytes ?? []
        var isGood = entries.count <= max(input.limit, 1)
        for entry in entries where isGood {
            isGood = Files.Path.isName(entry.name.bytes) && last.lexicographicallyPrecedes(entry.name.bytes)
            last = entry.name.bytes
        }
        guard isGood else {
            throw KithError(
                .denied,
                "\(device ?? "This device") answered with what does not lie in \(input.path). The answer was refused.")
        }
    }
}

/// Checks a device's answers to a search: they may hold what was asked for and nothing else.
package struct FoundCheck: Sendable {
    private let input: Files.Find.Input
    private let device: String
    private let condition: FileCondition
    private let name: [UInt8]?

    /// Reads what is asked for.
    ///
    /// - Throws: `.invalid` for a filter, or a path, that cannot be asked for.
    package init(_ input: Files.Find.Input, from device: String?) throws(KithError) {
        self.input = input
        self.device = device ?? "this device"
        condition = try FileCondition(input.filter)
        name = try input.path.parsed().components.last
    }

    /// Refuses an answer that was not asked for.
    ///
    /// - Throws: `.denied` for names that do not lie beneath the path, too deep ones, and what the filter does not let
    ///   through.
    package func check(_ found: Files.Found) throws(KithError) {
        for entry in found.entries {
            guard isAskedFor(entry) else {
                throw notAskedFor(entry.name)
            }
        }
        for skipped in found.skipped where !Self.isBeneath(skipped.path) { throw notAskedFor(skipped.path) }
    }

    private func notAskedFor(_ path: Files.Path) -> KithError {
        KithError(.denied, "\(device) answered with “\(path)”, which was not asked for. The answer was refused.")
    }

    /// Tells whether a path is that of the folder asked about, or lies in it.
    fileprivate static func isBeneath(_ path: Files.Path) -> Bool { path.bytes.isEmpty || path.levelsBeneath != nil }

    private func isAskedFor(_ entry: Files.Entry) -> Bool {
        let path = entry.name.bytes
        guard let levels = path.isEmpty ? 0 : entry.name.levelsBeneath, levels >= input.minimumDepth,
            levels <= input.maximumDepth ?? .max
        else { return false }
        // Of a large folder, nothing more is done for each name.
        if condition.isAlwaysMet { return true }
        let last = path.lastIndex(of: UInt8(ascii: "/")).map { Array(path[($0 + 1)...]) } ?? path
        let subject = FileCondition.Subject(
            kind: entry.kind, special: entry.special, size: entry.size, age: nil, name: path.isEmpty ? name : last)
        return condition.isMet(by: subject) { input.path.appending(path).bytes } > .no
    }
}

/// Checks a device's answers about the disk usage of folders: only paths beneath the one asked about, no deeper than
/// asked.
package struct UsedCheck: Sendable {
    private let input: Files.Usage.Input
    private let device: String

    /// Expects an answer.
    package init(_ input: Files.Usage.Input, from device: String?) {
        self.input = input
        self.device = device ?? "this device"
    }

    /// Refuses an answer that was not asked for.
    ///
    /// - Throws: `.denied` for paths that do not lie beneath the one asked about, and too deep ones.
    package func check(_ used: Files.Used) throws(KithError) {
        for item in used.items {
            let levels = item.path.bytes.isEmpty ? 0 : item.path.levelsBeneath
            guard let levels, levels <= input.maximumDepth ?? .max else { throw notAskedFor(item.path) }
        }
        for skipped in used.skipped where !FoundCheck.isBeneath(skipped.path) { throw notAskedFor(skipped.path) }
    }

    private func notAskedFor(_ path: Files.Path) -> KithError {
        KithError(.denied, "\(device) answered about “\(path)”, which was not asked for. The answer was refused.")
    }
}
