package import KithCatalog
package import KithWire

/// What a search finds, kept as it is while the index changes: of each change only the entries are looked at that it
/// names.
///
/// Where a change names none, as when a folder with much in it moved, all is searched anew.
package struct LiveSearch: Sendable {
    /// What is found now and was not before, or not as it is now; and the numbers of what is not found any more.
    package struct Difference: Hashable, Sendable {
        package var found: [FoundEntry] = []
        package var gone: [Int64] = []

        package var isEmpty: Bool { found.isEmpty && gone.isEmpty }
    }

    private var query: SearchQuery
    private var device: String
    private let limit: Int
    /// What is found, by its numbers.
    package private(set) var entries: [Int64: FoundEntry] = [:]

    /// Makes a search that has found nothing yet.
    ///
    /// - Parameters:
    ///   - query: What is searched; one that ``follows(_:)``.
    ///   - device: The name of this device, for `device:`.
    ///   - limit: The most entries, 1…1,000; more count as that.
    package init(_ query: SearchQuery, device: String = "", limit: Int) {
        (self.query, self.device, self.limit) = (query, device, min(max(limit, 1), FileIndex.pageLimit))
    }

    /// Tells whether changes name all entries that meet a condition now or have met it before.
    ///
    /// Not when it asks for what depends on other entries, on disks that come and go, or on what is in files.
    package static func follows(_ condition: Condition) -> Bool {
        switch condition {
        case .everything: true
        case .not(let condition): follows(condition)
        case .all(let conditions), .any(let conditions): conditions.allSatisfy(follows)
        case .term(let term):
            switch term {
            case .flag(let flag): flag == .hidden || flag == .favorite
            case .date(let field, _): field != .taken
            case .content, .measure, .camera, .has: false
            case .name, .path, .inFolder, .category, .entry, .fileExtension, .size, .tag, .untagged, .location, .device,
                .rating, .note:
                true
            }
        }
    }

    /// Asks for something else from now on, unless it is the same: then it returns true, else all is to be searched.
    package mutating func asks(_ query: SearchQuery, device: String) -> Bool {
        if query == self.query, device == self.device { return true }
        (self.query, self.device) = (query, device)
        return false
    }

    /// Searches everything.
    ///
    /// - Throws: `.exhausted` when more is found than the limit; as ``FileIndex/search(_:device:after:limit:)``.
    package mutating func search(in index: FileIndex) async throws(KithError) -> Difference {
        let page = try await index.search(query, device: device, limit: limit)
        guard !page.hasMore else { throw tooMany }
        var difference = Difference()
        var now: [Int64: FoundEntry] = [:]
        for entry in page.entries {
            now[entry.id] = entry
            if entries[entry.id] != entry { difference.found.append(entry) }
        }
        difference.gone = entries.keys.filter { now[$0] == nil }.sorted()
        entries = now
        return difference
    }

    /// Takes in what changed in the index.
    ///
    /// - Throws: as ``search(in:)``.
    package mutating func apply(_ changes: ChangeSet, in index: FileIndex) async throws(KithError) -> Difference {
        guard var touched = changes.touched else { return try await search(in: index) }
        for folder in changes.goneFolders {
            for entry in entries.values where entry.folder.isWithin(folder) { touched.insert(entry.id) }
        }
        guard !touched.isEmpty else { return Difference() }
        let found = try await index.entries(touched.sorted(), meeting: query, device: device)
        var difference = Difference()
        for entry in found where entries[entry.id] != entry { difference.found.append(entry) }
        for id in touched.subtracting(found.map(\.id)) where entries.removeValue(forKey: id) != nil {
            difference.gone.append(id)
        }
        for entry in found { entries[entry.id] = entry }
        difference.gone.sort()
        guard entries.count <= limit else { throw tooMany }
        return difference
    }

    private var tooMany: KithError {
        KithError(.exhausted, "More than \(limit) are found, and so many can be followed. Narrow the query down.")
    }
}

extension FileIndex {
    /// Those of some entries that a query finds, in the order of their numbers.
    func entries(_ ids: [Int64], meeting query: SearchQuery, device: String) async throws(KithError) -> [FoundEntry] {
        try await search(query, device, usesNames: false) { search, database in
            var entries: [FoundEntry] = []
            try search.forEach(database, EntrySearch.Walk(byNumber: true, ids: ids)) { found in
                entries.append(found.entry)
                return true
            }
            return entries
        }
    }
}
