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
            let query = try await query(call)
            // Both at once: each goes through all that is found.
            async let counted = call.call("search.facets", ["query": .string(query.condition)])
            let answer = try await found(query.text, count: offset + limit, call)
            let facets = try await AdaptedFacets.shown(try await counted, call)
            let files = try answer.entries.dropFirst(offset).prefix(limit).map {
                AdaptedFile.shown(try AdaptedFile.facts(ofEntry: $0, of: call.device), of: call.device)
            }
            let count = answer.total ?? facets.total
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
                "search_id": .string(CompatibleID(.search, query.text.utf8, of: call.device.id).text),
                "facets": facets.json,
                "suggestions": [],
                "pagination": [
                    "current_page": .integer(page), "total_pages": .integer((count + Int64(limit) - 1) / Int64(limit)),
                    "has_next": .boolean(answer.hasMore), "has_previous": .boolean(offset > 0),
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

    /// The first of what a query finds; pages are passed over one by one, so that those of a cursor and of a number are
    /// the same.
    static func found(
        _ query: String, count: Int, countsAll: Bool = false, _ call: Call
    ) async throws -> (entries: [JSONValue], total: Int64?, hasMore: Bool) {
        var found: [JSONValue] = []
        var total: Int64?
        var after: JSONValue = .null
        var hasMore = true
        while hasMore, found.count < count {
            var input: [String: JSONValue] = [
                "query": .string(query), "limit": .integer(Int64(min(1_000, count - found.count))),
            ]
            if after != .null { input["after"] = after } else if countsAll { input["countsAll"] = true }
            let page = try await call.call("search.files", input)
            let entries = page.member("entries")?.list ?? []
            if total == nil { total = page.member("total")?.whole }
            after = page.member("next") ?? .null
            hasMore = after != .null && !entries.isEmpty
            found += entries
        }
        return (found, total, hasMore)
    }

    // MARK: - Queries

    /// Text as a word of our language, whatever it holds.
    static func quoted(_ text: some StringProtocol) -> String {
        "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    /// The condition that a path lies in a folder.
    static func within(_ folder: Files.Path, _ call: Call) throws -> String {
        guard let text = String(validating: folder.bytes, as: UTF8.self) else {
            throw KithError(.unsupported, "\(call.input.operation): \(folder) is not UTF-8, and cannot be searched.")
        }
        return "in:" + quoted(text)
    }

    private static func any(_ conditions: [String]) -> String {
        conditions.count == 1 ? conditions[0] : "(" + conditions.joined(separator: " OR ") + ")"
    }

    /// The query in our language: what is wanted, and the whole with the order.
    private static func query(_ call: Call) async throws -> (condition: String, text: String) {
        let text = try call.input.optionalString("query") ?? ""
        guard text.utf8.count <= 1_000 else {
            throw KithError(.invalid, "search.files: a query has at most 1,000 bytes.")
        }
        var parts = text.split(whereSeparator: \.isWhitespace).map { quoted($0) }
        parts += try filters(try call.input.fields("filters"))
        parts += try await tagged(try call.input.fields("filters").fields("tags"), call)
        parts += try await located(call)
        let condition = parts.joined(separator: " ")
        guard let order = try order(try call.input.fields("sort")) else { return (condition, condition) }
        return (condition, (parts + [order]).joined(separator: " "))
    }

    /// The conditions of the filters that need nothing but what they say.
    private static func filters(_ filters: Fields) throws -> [String] {
        var parts: [String] = []
        let extensions = try filters.list("file_types").compactMap(\.text)
        if !extensions.isEmpty { parts.append(any(extensions.map { "ext:" + quoted($0) })) }
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
                // A date alone is all of that day.
                guard let time = Timestamp.date(text) ?? Timestamp.seconds(text).map({ "@\($0)" }) else {
                    throw KithError(.invalid, "search.files: `\(name)` must be a time as 2024-05-31T12:00:00Z.")
                }
                parts.append("\(field):\(sign)\(time)")
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
        return parts
    }

    /// The conditions of tags: all of some, none of others, each with those beneath it.
    private static func tagged(_ filter: Fields, _ call: Call) async throws -> [String] {
        let (wanted, unwanted) = (try filter.list("include"), try filter.list("exclude"))
        guard !wanted.isEmpty || !unwanted.isEmpty else { return [] }
        let names = try await tagNames(call)
        func condition(_ id: JSONValue) throws -> String { "tag:" + quoted(try name(ofTag: id, in: names)) }
        return try wanted.map(condition) + unwanted.map { "-" + (try condition($0)) }
    }

    /// The conditions of the scope and of the locations.
    private static func located(_ call: Call) async throws -> [String] {
        var parts: [String] = []
        let locations = try call.input.fields("filters").list("locations")
        var places: [String] = []
        for location in locations { places.append(try await within(location, call)) }
        if !places.isEmpty { parts.append(any(places)) }
        switch call.input.value.member("scope") {
        case nil, .string("Library"): break
        case let scope?:
            if let id = scope.member("Location")?.member("location_id") {
                parts.append(try await within(id, call))
            } else if let path = scope.member("Path")?.member("path") {
                let place = try call.device.own(AdaptedPath(path, in: "search.files"), in: "search.files")
                parts.append(try within(place, call))
            } else {
                throw KithError(.unsupported, "search.files: the scope is \"Library\", a \"Location\" or a \"Path\".")
            }
        }
        return parts
    }

    /// The condition that a path lies in a location, which is named by its UUID.
    private static func within(_ location: JSONValue, _ call: Call) async throws -> String {
        guard let id = location.text.flatMap({ CompatibleID($0) }) else {
            throw KithError(.invalid, "search.files: a location must be a UUID.")
        }
        guard let path = AdaptedPath.read(try await self.location(id, call).member("path")) else {
            throw KithError(.internal, "A location is described in a way that is not understood.")
        }
        return try within(path, call)
    }

    private static func order(_ sort: Fields) throws -> String? {
        let isRising = try sort.optionalString("direction") ?? "Desc" == "Asc"
        let key: String
        switch try sort.optionalString("field") ?? "Relevance" {
        case "Relevance": return nil
        case "Name": key = "name"
        case "Size": key = "size"
        case "ModifiedAt": key = "modified"
        case "CreatedAt": key = "created"
        case "IndexedAt": key = "added"
        case let other:
            throw KithError(.unsupported, "search.files: this device does not sort by \(other.prefix(32)).")
        }
        return "sort:\(isRising ? "" : "-")\(key)"
    }
}

/// What was found, counted by its properties, as the reference writes it.
private struct AdaptedFacets {
    var total: Int64
    var json: JSONValue

    /// Reads the answer of `search.facets`.
    static func shown(_ facets: JSONValue, _ call: Call) async throws -> AdaptedFacets {
        let device = call.device
        func counts(_ name: String, _ key: (String) -> String? = { $0 }) -> JSONValue {
            var counts: [String: JSONValue] = [:]
            for count in facets.member(name)?.list ?? [] {
                guard let key = count.member("value")?.text.flatMap(key) else { continue }
                let number = (counts[key]?.whole ?? 0).addingReportingOverflow(count.member("count")?.whole ?? 0)
                counts[key] = .integer(number.overflow ? .max : number.partialValue)
            }
            return .object(counts)
        }
        var locations: [String: String] = [:]
        if facets.member("locations")?.list?.isEmpty == false {
            for location in try await call.call("locations.list").member("locations")?.list ?? [] {
                guard let name = location.member("name")?.text else { continue }
                locations[name] = AdaptedLocation.id(location, of: device).text
            }
        }
        return AdaptedFacets(
            total: facets.member("total")?.whole ?? 0,
            json: [
                "file_types": counts("extensions"), "tags": counts("tags") { AdaptedTag.id($0, of: device).text },
                "locations": counts("locations") { locations[$0] }, "date_ranges": counts("years"),
                "size_ranges": counts("sizes"),
                "content_types": counts("kinds") {
                    // Folders and links have no kind there.
                    ["folder", "link"].contains($0) ? nil : AdaptedFile.contentKind($0)
                },
            ])
    }
}
