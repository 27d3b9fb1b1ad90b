import Foundation
import KithAPI
import KithCatalog
import KithIndex
import KithNode
import KithWire

extension LibraryService {
    /// Searches, what is noted of entries, and the folders that could not be read.
    var searchHandlers: [Handler] {
        [
            .query(Search.Find.self, among: visitors) { input, context in try await self.find(input, context) },
            .stream(Search.Follow.self) { try await self.follow($0, $1, $2) }.limited(to: 16).endingAtShutdown(),
            .query(Search.Facets.self, among: visitors) { input, context in try await self.facets(input, context) },
            .query(Locations.Problems.self, among: visitors) { input, context in
                try await self.problems(input, context)
            },
            .call(Annotations.Change.self) { input, context in try await self.annotate(input, context) },
            .query(Annotations.Get.self, among: visitors) { input, context in
                try await self.annotation(input, context)
            },
        ]
    }

    /// The most bytes of paths and tags in one answer, which has to fit a message of 1 MiB with all around them.
    static let answerLimit = 400 << 10

    private func query(_ text: String, _ offset: Int?) throws -> SearchQuery {
        let offset = offset ?? 0
        guard (-86_400...86_400).contains(offset) else {
            throw KithError(.invalid, "`offsetFromUTC` is at most a day, in seconds.")
        }
        guard !text.utf8.contains(0) else { throw KithError(.invalid, "A query has no NUL in it.") }
        do throws(QueryError) {
            return try SearchQuery(text, now: Int64(Date().timeIntervalSince1970), offsetFromUTC: offset)
        } catch {
            let fault = String(decoding: Array(text.utf8)[error.range].prefix(64), as: UTF8.self)
            throw KithError(
                .invalid,
                "The query has a fault at byte \(error.range.lowerBound), \u{201C}\(fault)\u{201D}: \(error.message)")
        }
    }

    private func find(_ input: Search.Find.Input, _ context: CallContext) async throws -> Search.Find.Output {
        guard input.limit > 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 entries come.")
        }
        let query = try query(input.query, input.offsetFromUTC)
        let access = try ContentAccess(for: query, by: context)
        let after = try input.after.flatMap { try Self.place($0) }
        let index = try await keeper(input.library, for: context).index()
        let page = try await index.search(query, device: name(), after: after, limit: input.limit)
        var total = page.total
        if input.countsAll == true, total == nil { total = try await index.count(query, device: name()) }
        var (entries, bytes) = ([Library.Entry](), 0)
        for found in page.entries {
            let entry = Self.entry(found, withContent: access.isGranted)
            bytes +=
                entry.path.bytes.count + (entry.note?.utf8.count ?? 0) + entry.tags.reduce(0) { $0 + $1.utf8.count }
            if bytes > Self.answerLimit, !entries.isEmpty { break }
            entries.append(entry)
        }
        return Search.Find.Output(
            entries: entries, next: page.next(after: entries.count).map { Search.Cursor(text: $0.text) }, total: total)
    }

    /// The place that a caller names; `nil` for the beginning, which older clients call 0.
    private static func place(_ cursor: Search.Cursor) throws -> SearchPlace? {
        if cursor.text == "#0" { return nil }
        guard let place = SearchPlace(text: cursor.text) else {
            throw KithError(
                .invalid,
                cursor.text.hasPrefix("#")
                    ? "Answers are not numbered any more: `after` is `next` of the answer before, a text. Update the client."
                    : "`after` is no place in an answer: it is `next` of the answer before, as it was.")
        }
        return place
    }

    private func facets(
        _ input: Search.Facets.Input, _ context: CallContext
    ) async throws -> Search.Facets.Output {
        let query = try query(input.query, input.offsetFromUTC)
        _ = try ContentAccess(for: query, by: context)
        let index = try await keeper(input.library, for: context).index()
        let facets = try await index.facets(query, device: name(), offsetFromUTC: input.offsetFromUTC ?? 0)
        let names = Dictionary(
            try index.locations().map { (String($0.id), $0.name) }, uniquingKeysWith: { first, _ in first })
        let counts = { (counts: [SearchFacets.Count]) in
            counts.map { Search.Facets.Count(value: $0.value, count: $0.count) }
        }
        return Search.Facets.Output(
            total: facets.total, isCut: facets.isCut, bytes: facets.bytes, kinds: counts(facets.kinds),
            extensions: counts(facets.extensions),
            locations: facets.locations.map { .init(value: names[$0.value] ?? $0.value, count: $0.count) },
            tags: counts(facets.tags), years: counts(facets.years), sizes: counts(facets.sizes))
    }

    private func problems(
        _ input: Locations.Problems.Input, _ context: CallContext
    ) async throws -> Locations.Problems.Output {
        guard input.limit > 0 else { throw KithError(.invalid, "`limit` must be 1 or more; at most 500 folders come.") }
        let index = try await keeper(input.library, for: context).index()
        if let id = input.id { _ = try index.location(id) }
        let limit = min(input.limit, 500)
        let found = try await index.problems(in: input.id, after: input.after ?? 0, limit: limit)
        var (problems, bytes) = ([Locations.Problems.Problem](), 0)
        for folder in found {
            bytes += folder.path.count + folder.problem.utf8.count
            if bytes > Self.answerLimit, !problems.isEmpty { break }
            problems.append(
                .init(location: folder.location, path: Files.Path(bytes: folder.path), reason: folder.problem))
        }
        let isWhole = found.count < limit && problems.count == found.count
        return Locations.Problems.Output(
            problems: problems, next: isWhole || problems.isEmpty ? nil : found[problems.count - 1].id)
    }

    private func annotate(_ input: Annotations.Change.Input, _ context: CallContext) async throws -> Nothing {
        guard input.paths.count <= 10_000 else { throw KithError(.invalid, "At most 10,000 files at a time.") }
        try await keeper(input.library, for: context).index().annotate(
            input.paths.map { try Self.plain($0.bytes) }, isFavorite: input.isFavorite, rating: input.rating,
            note: input.note)
        return Nothing()
    }

    private func annotation(
        _ input: Annotations.Get.Input, _ context: CallContext
    ) async throws -> Annotations.Get.Output {
        let noted = try await keeper(input.library, for: context).index().annotation(of: Self.plain(input.path.bytes))
        return .init(isFavorite: noted.isFavorite, rating: noted.rating, note: noted.note)
    }

    static func entry(_ found: FoundEntry) -> Library.Entry {
        let kind: Files.Kind =
            switch found.kind {
            case .folder: .folder
            case .link: .link
            case .file: .file
            case .other: .special
            }
        let created = found.created.map { $0 / 1_000_000_000 }
        let noted = found.annotation
        return Library.Entry(
            id: found.id, path: Files.Path(bytes: found.path), kind: kind, category: found.category?.rawValue,
            size: found.size, modified: found.modified / 1_000_000_000, added: found.added, location: found.location,
            tags: found.tags.map { $0.joined(separator: "/") }, created: created,
            isFavorite: noted.isFavorite ? true : nil, rating: noted.rating == 0 ? nil : noted.rating,
            note: noted.note.map(beginning),
            snippet: found.snippet.map { $0.parts.map { Library.Entry.Passage(text: $0.text, isHit: $0.isHit) } })
    }

    /// As much of a note as an answer with a thousand of them has room for.
    private static func beginning(_ note: String) -> String {
        var (text, bytes) = (String.UnicodeScalarView(), 0)
        for scalar in note.unicodeScalars {
            bytes += UTF8.width(scalar)
            guard bytes <= 1_024 else { break }
            text.append(scalar)
        }
        return String(text)
    }

    private func follow(
        _ input: Search.Follow.Input, _ context: CallContext, _ pending: PendingStream<Search.Follow>
    ) async throws {
        guard input.limit > 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 entries are followed.")
        }
        // What is wrong with it is said before anything else.
        let query = try query(input.query, input.offsetFromUTC)
        let access = try ContentAccess(for: query, by: context)
        let index = try await keeper(input.library, for: context).index()
        let follows = LiveSearch.follows(query.condition)
        // From before the first answer, so that nothing falls between.
        let changes = follows ? index.changeSets() : nil
        var reasons = index.changes().makeAsyncIterator()
        let stream = try await pending.accept()
        var live = LiveSearch(query, device: name(), limit: input.limit)
        var difference: LiveSearch.Difference
        (difference, live) = try await visitors.run(context.caller) { [live] in
            var live = live
            return (try await live.search(in: index), live)
        }
        try await send(difference, isFirst: true, access, to: stream)
        while true {
            // Many changes at once are one.
            try await Task.sleep(for: .milliseconds(100))
            var set: ChangeSet?
            if let changes {
                set = await changes.nextJoined()
                if set == nil { break }
            } else if await reasons.next() == nil {
                break
            }
            let start = ContinuousClock.now
            // Anew each time: `today` is another day at some time.
            let asked = try self.query(input.query, input.offsetFromUTC)
            // Who follows has waited before, and waits again rather than end.
            (difference, live) = try await visitors.run(context.caller, isPatient: true) { [live, set, name] in
                var live = live
                guard live.asks(asked, device: name()), let set else { return (try await live.search(in: index), live) }
                return (try await live.apply(set, in: index), live)
            }
            try await send(difference, isFirst: false, access, to: stream)
            // What takes long is done less often: others search here, too.
            try await Task.sleep(for: start.duration(to: .now) * 10)
        }
        try await stream.finish()
    }

    /// Sends what differs in parts that fit a message; even an empty answer is one, at first.
    private func send(
        _ difference: LiveSearch.Difference, isFirst: Bool, _ access: ContentAccess,
        to stream: MethodStream<Search.Follow.Upstream, Search.Follow.Downstream>
    ) async throws {
        guard isFirst || !difference.isEmpty else { return }
        var parts = difference.found.map { Self.entry($0, withContent: access.isGranted) }[...]
        repeat {
            let part = Array(parts.prefix(100))
            parts = parts.dropFirst(100)
            try await stream.send(Search.Follow.Difference(found: part, gone: parts.isEmpty ? difference.gone : []))
        } while !parts.isEmpty
    }
}
