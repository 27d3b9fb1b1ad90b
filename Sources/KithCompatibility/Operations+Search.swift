import KithAPI
import KithRPC
import KithWire

extension Operation {
    /// The most entries that a page may lie behind.
    private static let deepest: Int64 = 100_000

    static let searchOperations: [Operation] = [
        .query("search.files") { call in
            let began = ContinuousClock.now
            let paging = try call.input.fields("pagination")
            let limit = Int(try paging.number("limit", 50, in: 1...1_000))
            let offset = Int(try paging.number("offset", 0, in: 0...deepest))
            let query = try query(call)
            var found: [JSONValue] = []
            var total: Int64?
            var after: JSONValue = .null
            var hasMore = true
            // Pages are passed over one by one, so that those of a cursor and of a number are the same.
            while hasMore, found.count < offset + limit {
                var input: [String: JSONValue] = [
                    "query": .string(query), "limit": .integer(Int64(min(1_000, offset + limit - found.count))),
                ]
                if after != .null { input["after"] = after }
                let page = try await call.call("search.files", input)
                let entries = page.member("entries")?.list ?? []
                if total == nil { total = page.member("total")?.whole }
                after = page.member("next") ?? .null
                hasMore = after != .null && !entries.isEmpty
                found += entries
            }
            let files = try found.dropFirst(offset).prefix(limit).map {
                AdaptedFile.shown(try AdaptedFile.facts(ofEntry: $0, of: call.device), of: call.device)
            }
            let count = total ?? Int64(found.count)
            let page = Int64(offset / limit) + 1
            return [
                "files": .array(files),
                "results": .array(
                    files.map {
                        [
                            "file": $0, "score": 1,
                            "score_breakdown": [
                                "temporal_score": 0, "semantic_score": .null, "metadata_score": 0, "recency_boost": 0,
                                "user_preference_boost": 0, "final_score": 1,
                            ],
                            "highlights": [], "matched_content": .null,
                        ]
                    }),
                "total_found": .integer(count),
                "search_id": .string(CompatibleID(.search, query.utf8, of: call.device.id).text),
                "facets": [
                    "file_types": [:], "tags": [:], "locations": [:], "date_ranges": [:], "size_ranges": [:],
                    "content_types": [:],
                ],
                "suggestions": [],
                "pagination": [
                    "current_page": .integer(page), "total_pages": .integer((count + Int64(limit) - 1) / Int64(limit)),
                    "has_next": .boolean(hasMore), "has_previous": .boolean(offset > 0),
                    "limit": .integer(Int64(limit)),
                    "offset": .integer(Int64(offset)),
                ],
                "execution_time_ms": .integer(
                    (ContinuousClock.now - began).components.attoseconds / 1_000_000_000_000_000
                        + (ContinuousClock.now - began).components.seconds * 1_000),
                "index_type": "Persistent", "available_filters": [],
            ]
        }
    ]

    /// Text as a word of our language, whatever it holds.
    private static func quoted(_ text: some StringProtocol) -> String {
        "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    /// The query in our language.
    private static func query(_ call: Call) throws -> String {
        let text = try call.input.optionalString("query") ?? ""
        guard text.utf8.count <= 1_000 else {
            throw KithError(.invalid, "search.files: a query has at most 1,000 bytes.")
        }
        var parts = text.split(whereSeparator: \.isWhitespace).map { quoted($0) }
        let filters = try call.input.fields("filters")
        func alternatives(_ filter: String, _ values: [String]) {
            guard !values.isEmpty else { return }
            parts.append("(" + values.map { "\(filter)\(quoted($0))" }.joined(separator: " OR ") + ")")
        }
        alternatives("ext:", try filters.list("file_types").compactMap(\.text))
        let kinds = try filters.list("content_types").compactMap(\.text)
        let categories = kinds.flatMap { AdaptedFile.categories(ofContentKind: $0) }
        guard kinds.isEmpty || !categories.isEmpty else {
            throw KithError(
                .unsupported, "search.files: this device knows no files of the kind \(kinds[0].prefix(32)).")
        }
        if !categories.isEmpty { parts.append("kind:" + categories.joined(separator: ",")) }
        if let range = filters.value.member("date_range") {
            let field =
                switch range.member("field")?.text {
                case nil, "ModifiedAt": "modified"
                case "CreatedAt": "created"
                case "IndexedAt": "added"
                case let other?:
                    throw KithError(
                        .unsupported, "search.files: this device does not know the time \(other.prefix(32)).")
                }
            for (name, sign) in [("start", ">="), ("end", "<=")] {
                guard let text = range.member(name)?.text else { continue }
                guard let date = Timestamp.date(text) else {
                    throw KithError(.invalid, "search.files: `\(name)` must be a time as 2024-05-31T12:00:00Z.")
                }
                parts.append("\(field):\(sign)\(date)")
            }
        }
        if let range = filters.value.member("size_range") {
            for (name, sign) in [("min", ">="), ("max", "<=")] {
                guard let member = range.member(name) else { continue }
                guard let size = member.whole, size >= 0 else {
                    throw KithError(.invalid, "search.files: `\(name)` must be a number of bytes.")
                }
                parts.append("size:\(sign)\(size)")
            }
        }
        guard filters.value.member("tags")?.member("include")?.list?.isEmpty ?? true,
            filters.value.member("tags")?.member("exclude")?.list?.isEmpty ?? true,
            try filters.list("locations").isEmpty
        else {
            throw KithError(
                .unsupported, "search.files: filter tags and locations in the query: tag:NAME location:NAME.")
        }
        switch call.input.value.member("scope") {
        case nil, .string("Library"): break
        case let scope?:
            guard let path = scope.member("Path")?.member("path") else {
                throw KithError(.unsupported, "search.files: the scope is \"Library\", or a \"Path\".")
            }
            let place = try call.device.own(AdaptedPath(path, in: "search.files"), in: "search.files")
            parts.append("in:\(quoted(place.description))")
        }
        let sort = try call.input.fields("sort")
        let isRising = try sort.optionalString("direction") ?? "Desc" == "Asc"
        let key: String? =
            switch try sort.optionalString("field") ?? "Relevance" {
            case "Relevance": nil
            case "Name": "name"
            case "Size": "size"
            case "ModifiedAt": "modified"
            case "CreatedAt": "created"
            case "IndexedAt": "added"
            case let other:
                throw KithError(.unsupported, "search.files: this device does not sort by \(other.prefix(32)).")
            }
        if let key { parts.append("sort:\(isRising ? "" : "-")\(key)") }
        return parts.joined(separator: " ")
    }
}
