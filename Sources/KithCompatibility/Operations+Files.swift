import KithAPI
import KithRPC
import KithWire

/// Files as the reference describes them.
enum AdaptedFile {
    /// What our methods know of a file, wherever that is from.
    struct Facts {
        var id: CompatibleID
        var path: Files.Path
        var kind: String
        var category: String?
        var size: JSONValue = 0
        var modified: Int64?
        var added: Int64?
        var tags: [JSONValue] = []

        /// Takes over what the library has of the same file; size and time stay those of the disk.
        mutating func take(_ known: Facts) {
            (id, tags, added, category) = (known.id, known.tags, known.added, known.category)
        }
    }

    /// An entry of the library.
    static func facts(ofEntry entry: JSONValue, of device: AdaptedDevice) throws -> Facts {
        guard let number = entry.member("id")?.whole, let path = AdaptedPath.read(entry.member("path")),
            let kind = entry.member("kind")?.text
        else { throw KithError(.internal, "The library describes a file in a way that is not understood.") }
        return Facts(
            id: device.note(number, at: path), path: path, kind: kind, category: entry.member("category")?.text,
            size: entry.member("size") ?? 0, modified: entry.member("modified")?.whole,
            added: entry.member("created")?.whole ?? entry.member("added")?.whole,
            tags: (entry.member("tags")?.list ?? []).compactMap(\.text).map { AdaptedTag.shown($0, of: device) })
    }

    /// An entry of a folder on the disk, which the library may not know.
    static func facts(of entry: JSONValue, at path: Files.Path, of device: AdaptedDevice) throws -> Facts {
        guard let kind = entry.member("kind")?.text else {
            throw KithError(.internal, "A file is described in a way that is not understood.")
        }
        return Facts(
            id: CompatibleID(.path, path.bytes, of: device.id), path: path, kind: kind, size: entry.member("size") ?? 0,
            modified: entry.member("modified")?.whole)
    }

    /// The file as the reference describes it.
    static func shown(_ facts: Facts, of device: AdaptedDevice) -> JSONValue {
        let full = String(decoding: facts.path.lastName, as: UTF8.self)
        let isFile = facts.kind == "file"
        // A name that begins with its only dot has no extension.
        let dot = isFile ? full.lastIndex(of: ".").flatMap { $0 == full.startIndex ? nil : $0 } : nil
        let modified = JSONValue.time(facts.modified)
        return [
            "id": .string(facts.id.text), "sd_path": device.shown(facts.path),
            "kind": .string(
                isFile ? "File" : facts.kind == "folder" ? "Directory" : facts.kind == "link" ? "Symlink" : "File"),
            "name": .string(dot.map { String(full[..<$0]) } ?? full),
            "extension": .optional(
                dot.map { String(full[full.index(after: $0)...]) }.flatMap { $0.isEmpty ? nil : $0 }),
            "size": facts.size, "content_identity": .null, "alternate_paths": [], "tags": .array(facts.tags),
            "sidecars": [], "image_media_data": .null, "video_media_data": .null, "audio_media_data": .null,
            "created_at": facts.added == nil ? modified : .time(facts.added), "modified_at": modified,
            "accessed_at": .null, "content_kind": .string(contentKind(facts.category)), "is_local": true,
            "duration_seconds": .null,
        ]
    }

    /// The reference's name of a kind of file.
    static func contentKind(_ category: String?) -> String {
        switch category {
        case let category?
        where [
            "image", "video", "audio", "document", "archive", "code", "text", "book", "font",
            "database", "executable",
        ].contains(category): category
        case "model": "mesh"
        default: "unknown"
        }
    }

    /// Our names of a kind of the reference's; none where there is nothing like it.
    static func categories(ofContentKind kind: String) -> [String] {
        switch kind {
        case "mesh", "model": ["model"]
        case "binary": ["executable"]
        case "spreadsheet", "presentation": ["document"]
        case "unknown": ["other"]
        default: contentKind(kind) == kind ? [kind] : []
        }
    }
}

extension Operation {
    static let fileOperations: [Operation] = [
        .query("files.by_path") { call in
            let path = try call.path("path")
            let entry = try await call.call("files.stat", ["path": path.json])
            return try await known(path, entry, call)
        },
        .query("files.by_id") { call in
            let id = try call.input.id("file_id")
            let path = try call.device.path(ofEntry: id.number(.entry, of: call.device.id))
            let entry = try await call.call("files.stat", ["path": path.json])
            return try await known(path, entry, call)
        },
        .query("files.directory_listing") { call in
            let path = try call.path("path")
            let limit = try call.input.number("limit", 1_000, in: 1...10_000)
            let showsHidden = try call.input.flag("include_hidden")
            let foldersFirst = try call.input.flag("folders_first")
            let order = try DirectoryOrder(call.input)
            let listing = try await listing(of: path, showsHidden: showsHidden, call)
            var files = listing.facts
            files.sort { order.precedes($0, $1, foldersFirst: foldersFirst) }
            return [
                "files": .array(files.prefix(Int(limit)).map { AdaptedFile.shown($0, of: call.device) }),
                "total_count": .integer(Int64(files.count)),
                "has_more": .boolean(files.count > Int(limit) || listing.hasMore),
            ]
        },
        .action("files.createFolder") { call in
            let name = try call.input.string("name")
            guard Files.Path.isName(Array(name.utf8)) else {
                throw KithError(.invalid, "files.createFolder: “\(name.prefix(64))” is not a name.")
            }
            let folder = try call.path("parent").appending(Array(name.utf8))
            guard try call.input.list("items").isEmpty else {
                throw KithError(.unsupported, "files.createFolder: make the folder first, then move the items into it.")
            }
            _ = try await call.call("files.mkdir", ["path": folder.json])
            return ["folder_path": call.device.shown(folder), "job_receipt": .null]
        },
        .action("files.rename") { call in
            let target = try call.path("target")
            let name = try call.input.string("new_name")
            guard Files.Path.isName(Array(name.utf8)) else {
                throw KithError(.invalid, "files.rename: “\(name.prefix(64))” is not a name.")
            }
            return try await operation(
                call, ["kind": "rename", "paths": [target.json], "names": [.string(name)]], conflict: nil,
                named: "file_rename")
        },
        .action("files.delete") { call in
            let paths = try call.paths("targets")
            let isPermanent = try call.input.flag("permanent")
            // Clients of Spacedrive say true, each time.
            let isRecursive = try call.input.flag("recursive", true)
            return try await operation(
                call, ["kind": isPermanent ? "delete" : "trash", "paths": .array(paths.map(\.json))], conflict: nil,
                named: "delete_files"
            ) {
                if !isRecursive { try await refuseFull(paths, call) }
            }
        },
        .action("files.copy") { call in
            let paths = try call.paths("sources")
            let destination = try call.path("destination")
            let isMove = try call.input.flag("move_files")
            try call.refuse([
                ("preserve_timestamps", true, "files keep their times here"),
                ("verify_checksum", false, "copies are not read again here"),
                ("copy_method", "Auto", "how files are copied is up to this device"),
            ])
            let conflict: String? =
                switch try call.input.optionalString("on_conflict") {
                case nil: try call.input.flag("overwrite") ? "overwrite" : nil
                case "Overwrite": "overwrite"
                case "AutoModifyName": "keepBoth"
                case "Skip": "skip"
                case "Abort": nil
                case let other?:
                    throw KithError(.invalid, "files.copy: “\(other.prefix(32))” is no way to solve a conflict.")
                }
            return try await operation(
                call,
                [
                    "kind": isMove ? "move" : "copy", "paths": .array(paths.map(\.json)),
                    "destination": destination.json,
                ], conflict: conflict, named: "file_copy")
        },
    ]

    /// Plans an operation, and begins it as a job when nothing stands in its way.
    ///
    /// It is not begun where `check` throws, which is called when it is planned, or where the plan has conflicts that
    /// nobody has decided.
    private static func operation(
        _ call: Call, _ input: [String: JSONValue], conflict: String?, named name: String,
        check: () async throws -> Void = {}
    ) async throws -> JSONValue {
        var input = input
        input["conflicts"] = .string(conflict ?? "ask")
        let plan = try await call.call("operations.plan", input)
        guard let id = plan.member("id") else {
            throw KithError(.internal, "The plan of an operation is described in a way that is not understood.")
        }
        let unresolved = plan.member("totals")?.member("unresolved")?.whole ?? 0
        guard unresolved == 0 else {
            let first = (plan.member("steps")?.list ?? []).first { $0.member("conflict") != nil }
            let place = AdaptedPath.read(first?.member("destination")).map { ", first \($0)" } ?? ""
            throw KithError(
                .conflict,
                "\(unresolved) things are there already\(place). Say `on_conflict`: Overwrite, AutoModifyName or Skip.")
        }
        try await check()
        let begun = try await call.call("operations.confirm", ["plan": id])
        return ["id": begun.member("job") ?? .null, "job_name": .string(name)]
    }

    /// Refuses folders with something in them.
    ///
    /// Looked at after the plan was made: of what comes into one later, a plan to delete has no step.
    ///
    /// - Throws: `KithError` `.conflict`.
    private static func refuseFull(_ paths: [Files.Path], _ call: Call) async throws {
        for path in paths {
            let entry = try await call.call("files.stat", ["path": path.json])
            guard entry.member("kind")?.text == "folder" else { continue }
            let page = try await call.call("files.list", ["path": path.json, "limit": 1])
            guard page.member("entries")?.list?.isEmpty ?? true, page.member("hasMore")?.flag != true else {
                throw KithError(
                    .conflict,
                    "\(path) is not empty, and nothing was deleted. Say `recursive`: true to delete it with all in it.")
            }
        }
    }

    /// A file on the disk, with all that the library knows of it, if it does.
    private static func known(_ path: Files.Path, _ entry: JSONValue, _ call: Call) async throws -> JSONValue {
        var own = try AdaptedFile.facts(of: entry, at: path, of: call.device)
        guard let found = try await call.indexedFiles().facts(at: path) else {
            return AdaptedFile.shown(own, of: call.device)
        }
        own.take(found)
        let shown = AdaptedFile.shown(own, of: call.device)
        return own.kind == "file" ? try await AdaptedDetails(of: path, call).added(to: shown) : shown
    }

    /// The entries of a folder, at most ten thousand.
    private static func listing(
        of path: Files.Path, showsHidden: Bool, _ call: Call
    ) async throws -> (facts: [AdaptedFile.Facts], hasMore: Bool) {
        var own: [(name: [UInt8], entry: JSONValue)] = []
        var after: JSONValue = .null
        var hasMore = true
        while hasMore, own.count < 10_000 {
            var input: [String: JSONValue] = ["path": path.json, "limit": 1_000]
            if after != .null { input["after"] = after }
            let page = try await call.call("files.list", input)
            hasMore = page.member("hasMore")?.flag ?? false
            let entries = page.member("entries")?.list ?? []
            guard let last = entries.last?.member("name") else { break }
            after = last
            for entry in entries {
                guard let name = AdaptedPath.read(entry.member("name")) else { continue }
                if !showsHidden, name.bytes.first == UInt8(ascii: ".") { continue }
                own.append((name.bytes, entry))
            }
        }
        guard let last = own.map(\.name).max(by: { $0.lexicographicallyPrecedes($1) }) else { return ([], hasMore) }
        let wanted = Set(own.map(\.name))
        var known: [[UInt8]: JSONValue] = [:]
        // The library may have more of the folder than is listed here.
        try await call.indexedFiles().forEach(in: path) { name, entry in
            if wanted.contains(name) { known[name] = entry }
            return name.lexicographicallyPrecedes(last)
        }
        let facts = try own.map { name, entry in
            var facts = try AdaptedFile.facts(of: entry, at: path.appending(name), of: call.device)
            if let found = known[name] { facts.take(try AdaptedFile.facts(ofEntry: found, of: call.device)) }
            return facts
        }
        return (facts, hasMore)
    }
}

/// The order of a directory's listing.
private struct DirectoryOrder {
    private enum Key: String {
        case name, modified, modifiedat, size, type
    }

    private let key: Key
    private let isReversed: Bool

    /// Reads `sort_by` and `sort_direction`; without the latter the newest and the largest come first.
    init(_ input: Fields) throws {
        let name = try input.optionalString("sort_by") ?? "name"
        guard let key = Key(rawValue: name.lowercased()) else {
            throw KithError(.unsupported, "\(input.operation): this device does not sort by \(name.prefix(32)).")
        }
        self.key = key
        let isDescending = key == .modified || key == .modifiedat || key == .size
        isReversed =
            switch try input.optionalString("sort_direction")?.lowercased() {
            case nil: false
            case "asc": isDescending
            case "desc": !isDescending
            case let other?:
                throw KithError(.invalid, "\(input.operation): “\(other.prefix(32))” is no `sort_direction`.")
            }
    }

    func precedes(_ one: AdaptedFile.Facts, _ other: AdaptedFile.Facts, foldersFirst: Bool) -> Bool {
        if foldersFirst || key == .type, (one.kind == "folder") != (other.kind == "folder") {
            return (one.kind == "folder") != (isReversed && !foldersFirst)
        }
        return isReversed ? isBefore(other, one) : isBefore(one, other)
    }

    private func isBefore(_ one: AdaptedFile.Facts, _ other: AdaptedFile.Facts) -> Bool {
        switch key {
        case .modified, .modifiedat:
            if one.modified != other.modified { return one.modified ?? 0 > other.modified ?? 0 }
        case .size: if one.size != other.size { return one.size.real ?? 0 > other.size.real ?? 0 }
        case .name, .type: break
        }
        return one.path.lastName.lexicographicallyPrecedes(other.path.lastName)
    }
}
