import KithAPI
import KithRPC
import KithWire

/// Changes of locations, their way into files and back, and what reads them again.
extension Operation {
    static let upkeepOperations: [Operation] = [
        .action("locations.update") { call in
            let id = try call.input.id("id")
            if case .object(let policies) = call.input.value.member("job_policies") ?? [:], !policies.isEmpty {
                throw KithError(
                    .unsupported,
                    "locations.update: this device reads what the mode of a location says: locations.enable_indexing.")
            }
            var input: [String: JSONValue] = ["id": .integer(try call.device.location(id))]
            if let name = try call.input.optionalString("name") { input["name"] = .string(name) }
            _ = try await call.call("locations.change", input)
            return ["id": .string(id.text)]
        },
        .action("locations.enable_indexing") { call in
            let id = try call.input.id("id")
            _ = try await call.call(
                "locations.change",
                [
                    "id": .integer(try call.device.location(id)),
                    "mode": .string(try mode(try call.input.optionalString("index_mode") ?? "Deep", call)),
                ])
            return ["location_id": .string(id.text), "job_id": .string(id.text)]
        },
        .action("locations.triggerJob") { call in
            let id = try call.input.id("location_id")
            let kind = call.input.value.member("job_type") ?? .null
            let method =
                switch (kind.text ?? "").lowercased().filter(\.isLetter) {
                case "content", "contentidentification", "identify", "hashing", "filehashing": "locations.identify"
                case "verify", "validation", "integrity": "locations.verify"
                case "media", "mediadata", "mediametadata", "extract", "textextraction": "media.extract"
                default:
                    throw KithError(
                        .unsupported,
                        "locations.triggerJob: this device has the jobs content, verify and media, and not \(kind.text?.prefix(32) ?? "that one")."
                    )
                }
            let job = try await call.call(method, ["id": .integer(try call.device.location(id))])
            return ["job_id": job.member("id") ?? .null, "job_type": kind, "location_id": .string(id.text)]
        },
        .action("locations.export") { call in
            let id = try call.input.id("location_uuid")
            let path = try call.path("export_path")
            try call.refuse([
                ("include_content_identities", false, "the file holds tags and notes, and nothing of content"),
                ("include_media_data", false, "the file holds tags and notes, and nothing of media"),
                ("include_user_metadata", true, "the file always holds the notes"),
                ("include_tags", true, "the file always holds the tags"),
            ])
            let written = try await call.call(
                "locations.export", ["id": .integer(try call.device.location(id)), "path": path.json])
            return [
                "location_uuid": .string(id.text), "location_name": written.member("name") ?? .null,
                "export_path": .string(path.description), "file_size_bytes": written.member("bytes") ?? 0,
                "stats": ["entries": 0, "user_metadata": written.member("notes") ?? 0],
            ]
        },
        .action("locations.import") { call in
            let path = try call.path("import_path")
            var input: [String: JSONValue] = ["path": path.json]
            if let name = try call.input.optionalString("new_name") { input["name"] = .string(name) }
            let added: JSONValue
            do {
                added = try await call.call("locations.import", input)
            } catch let error as KithError where error.code == .conflict {
                guard try call.input.flag("skip_existing") else { throw error }
                throw KithError(
                    .conflict,
                    "locations.import: what a file holds is not added to a location that is there (`skip_existing`). \(error.message)"
                )
            }
            let location = added.member("location") ?? .null
            return [
                "location_uuid": .string(AdaptedLocation.id(location, of: call.device).text),
                "location_name": location.member("name") ?? .null, "import_path": .string(path.description),
                "stats": ["entries": 0, "user_metadata": added.member("notes") ?? 0],
            ]
        },
        .action("indexing.verify") { call in
            let began = ContinuousClock.now
            let path = try call.path("path")
            let location = try await location(around: path, call)
            let repairs = try call.input.flag("auto_fix")
            let reads = try call.input.flag("verify_content")
            guard repairs || reads else {
                throw KithError(
                    .unsupported,
                    "indexing.verify: this device does not only compare names. Say `auto_fix` to bring the library to what is there, or `verify_content` to read the files again."
                )
            }
            var report: [String: JSONValue] = [:]
            if repairs { report.merge(try await repaired(location, call)) { $1 } }
            if reads { report.merge(try await readAgain(location, call)) { $1 } }
            let faults = report.values.reduce(0) { $0 + ($1.whole ?? 0) }
            return [
                "is_valid": .boolean(faults == 0), "report": .object(report), "path": .string(path.description),
                "duration_secs": .number(
                    Double((ContinuousClock.now - began).components.attoseconds) / 1e18
                        + Double((ContinuousClock.now - began).components.seconds)),
            ]
        },
        .query("files.content_kind_stats") { call in
            let numbers = try await call.call("libraries.info").member("statistics") ?? [:]
            var counts: [String: Int64] = [:]
            for category in numbers.member("categories")?.list ?? [] {
                let kind = AdaptedFile.contentKind(category.member("name")?.text)
                counts[kind, default: 0] += category.member("files")?.whole ?? 0
            }
            return [
                "stats": .array(
                    counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map {
                        ["kind": .string($0.key), "name": .string($0.key), "file_count": .integer($0.value)]
                    }),
                "total_files": numbers.member("files") ?? 0,
            ]
        },
        .query("files.alternate_instances") { call in
            let id = try call.input.id("entry_uuid")
            let path = try call.device.path(ofEntry: id.number(.entry, of: call.device.id))
            let group = try await call.call("duplicates.copies", ["path": path.json]).member("group")
            let paths = (group?.member("copies")?.list ?? []).flatMap { $0.member("paths")?.list ?? [] }
                .compactMap { AdaptedPath.read($0) }.filter { $0 != path }
            var instances: [JSONValue] = []
            for other in paths.prefix(1_000) {
                // One that has gone since is no instance.
                guard let entry = try? await call.call("files.stat", ["path": other.json]) else { continue }
                instances.append(
                    AdaptedFile.shown(
                        try AdaptedFile.facts(of: entry, at: other, of: call.device), of: call.device))
            }
            return ["instances": .array(instances), "total_count": .integer(Int64(paths.count))]
        },
        .query("files.media_listing") { call in
            let path = try call.path("path")
            let limit = Int(try call.input.number("limit", 1_000, in: 1...10_000))
            let kinds = try call.input.list("media_types").compactMap(\.text)
            let categories =
                kinds.isEmpty ? ["image", "video"] : kinds.flatMap { AdaptedFile.categories(ofContentKind: $0) }
            guard !categories.isEmpty else {
                throw KithError(.unsupported, "files.media_listing: this device knows no files of such kinds.")
            }
            let order = try MediaOrder(call.input)
            let entries: [JSONValue]
            let total: Int64
            if try call.input.flag("include_descendants") {
                let kinds = "kind:" + categories.joined(separator: ",")
                let answer = try await found(
                    "\(try within(path, call)) \(kinds) \(order.text)", count: limit, countsAll: true, call)
                (entries, total) = (answer.entries, answer.total ?? Int64(answer.entries.count))
            } else {
                var all: [JSONValue] = []
                try await call.indexedFiles().forEach(in: path) { _, entry in
                    if let category = entry.member("category")?.text, categories.contains(category) {
                        all.append(entry)
                    }
                    return true
                }
                all.sort(by: order.precedes)
                (entries, total) = (Array(all.prefix(limit)), Int64(all.count))
            }
            let files = try entries.map {
                AdaptedFile.shown(try AdaptedFile.facts(ofEntry: $0, of: call.device), of: call.device)
            }
            return [
                "files": .array(files), "total_count": .integer(total),
                "has_more": .boolean(total > Int64(files.count)),
            ]
        },
    ]

    /// Our name of a mode.
    private static func mode(_ name: String, _ call: Call) throws -> String {
        switch name {
        case "Shallow": "recursive"
        case "Content", "Deep": "content"
        default:
            throw KithError(
                .unsupported, "\(call.input.operation): this device has the modes Shallow, Content and Deep.")
        }
    }

    /// The location that a path lies in.
    private static func location(around path: Files.Path, _ call: Call) async throws -> JSONValue {
        let names = path.bytes.split(separator: UInt8(ascii: "/"))
        let found = try await (call.call("locations.list").member("locations")?.list ?? []).first { location in
            guard let top = AdaptedPath.read(location.member("path")) else { return false }
            return names.starts(with: top.bytes.split(separator: UInt8(ascii: "/")))
        }
        guard let found else {
            throw KithError(.notFound, "\(path) lies in no location. Add it: locations.add.")
        }
        return found
    }

    /// Brings the library to what is there, and says what was not so.
    private static func repaired(_ location: JSONValue, _ call: Call) async throws -> [String: JSONValue] {
        let stream = try await call.open("locations.scan", ["id": location.member("id") ?? 0])
        defer { stream.cancel() }
        var last: JSONValue = .null
        while let progress = try await stream.message() { last = progress }
        func number(_ name: String) -> JSONValue { last.member(name) ?? 0 }
        return [
            "missing_from_index": number("added"), "stale_in_index": number("removed"),
            "metadata_mismatches": number("changed"), "moved": number("moved"),
            "unreadable_folders": number("problems"),
        ]
    }

    /// Reads the files again, and says what is not as it was.
    private static func readAgain(_ location: JSONValue, _ call: Call) async throws -> [String: JSONValue] {
        let begun = try await call.call("locations.verify", ["id": location.member("id") ?? 0])
        let job = begun.member("id") ?? .null
        _ = try await call.ended(job: job, what: "The reading of the files")
        let report = try await call.call("locations.report", ["id": job])
        return [
            "content_mismatches": report.member("damaged") ?? 0, "unreadable_files": report.member("unreadable") ?? 0,
            "gone": report.member("gone") ?? 0,
        ]
    }
}

/// The order of a listing of pictures and films.
private enum MediaOrder: String {
    case modified, created, datetaken, name, size

    /// Reads `sort_by`; without it the newest come first.
    init(_ input: Fields) throws {
        let name = try input.optionalString("sort_by") ?? "modified"
        guard let order = MediaOrder(rawValue: name.lowercased()) else {
            throw KithError(.unsupported, "\(input.operation): this device does not sort by \(name.prefix(32)).")
        }
        self = order
    }

    /// The order in our language; pictures are sorted by when they were made, as the reference does it, too.
    var text: String {
        switch self {
        case .modified: "sort:-modified,name"
        case .created, .datetaken: "sort:-created,name"
        case .name: "sort:name"
        case .size: "sort:-size,name"
        }
    }

    func precedes(_ one: JSONValue, _ other: JSONValue) -> Bool {
        func number(_ entry: JSONValue) -> Double {
            switch self {
            case .modified: entry.member("modified")?.real ?? 0
            case .created, .datetaken: (entry.member("created") ?? entry.member("added"))?.real ?? 0
            case .size: entry.member("size")?.real ?? 0
            case .name: 0
            }
        }
        let (first, second) = (number(one), number(other))
        if first != second { return first > second }
        func name(_ entry: JSONValue) -> String {
            String(decoding: AdaptedPath.read(entry.member("path"))?.lastName ?? [], as: UTF8.self).lowercased()
        }
        return name(one) < name(other)
    }
}
