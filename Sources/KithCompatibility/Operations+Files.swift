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
            return try await AdaptedFile.shown(known(path, entry, call), of: call.device)
        },
        .query("files.by_id") { call in
            let id = try call.input.id("file_id")
            let path = try call.device.path(ofEntry: id.number(.entry, of: call.device.id))
            let entry = try await call.call("files.stat", ["path": path.json])
            return try await AdaptedFile.shown(known(path, entry, call), of: call.device)
        },
        .query("files.directory_listing") { call in
            let path = try call.path("path")
            let limit = try call.input.number("limit", 1_000, in: 1...10_000)
            let showsHidden = try call.input.flag("include_hidden")
            let foldersFirst = try call.input.flag("folders_first")
            let order = try call.input.optionalString("sort_by") ?? "Name"
            let listing = try await listing(of: path, showsHidden: showsHidden, call)
            var files = listing.facts
            sort(&files, by: order, foldersFirst: foldersFirst)
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

    /// A file on the disk, with what the library knows of it, if it does.
    private static func known(_ path: Files.Path, _ entry: JSONValue, _ call: Call) async throws -> AdaptedFile.Facts {
        var own = try AdaptedFile.facts(of: entry, at: path, of: call.device)
        if let found = try await indexed(in: path.parent, call).first(where: { $0.path == path }) {
            (own.id, own.tags, own.added, own.category) = (found.id, found.tags, found.added, found.category)
        }
        return own
    }

    /// What the library has of a folder; nothing of one that it does not keep.
    private static func indexed(in folder: Files.Path, _ call: Call) async throws -> [AdaptedFile.Facts] {
        let locations = try await call.call("locations.list").member("locations")?.list ?? []
        for location in locations {
            guard let id = location.member("id"), let top = AdaptedPath.read(location.member("path")) else { continue }
            let names = top.bytes.split(separator: UInt8(ascii: "/"))
            let wanted = folder.bytes.split(separator: UInt8(ascii: "/"))
            guard wanted.starts(with: names) else { continue }
            let inner = Files.Path(bytes: Array(wanted.dropFirst(names.count).joined(separator: [UInt8(ascii: "/")])))
            do {
                let listing = try await call.call("locations.browse", ["id": id, "path": inner.json])
                return try (listing.member("entries")?.list ?? []).map {
                    try AdaptedFile.facts(ofEntry: $0, of: call.device)
                }
            } catch let error as KithError where error.code == .notFound || error.code == .unsupported {
                // It was not scanned yet, or this device does not list folders from the index.
                return []
            }
        }
        return []
    }

    /// The entries of a folder, at most ten thousand.
    private static func listing(
        of path: Files.Path, showsHidden: Bool, _ call: Call
    ) async throws -> (facts: [AdaptedFile.Facts], hasMore: Bool) {
        let known = Dictionary(
            try await indexed(in: path, call).map { ($0.path, $0) }, uniquingKeysWith: { $1 })
        var facts: [AdaptedFile.Facts] = []
        var after: JSONValue = .null
        var hasMore = true
        while hasMore, facts.count < 10_000 {
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
                let place = path.appending(name.bytes)
                var own = try AdaptedFile.facts(of: entry, at: place, of: call.device)
                if let found = known[place] {
                    (own.id, own.tags, own.added, own.category) = (found.id, found.tags, found.added, found.category)
                }
                facts.append(own)
            }
        }
        return (facts, hasMore)
    }

    private static func sort(_ files: inout [AdaptedFile.Facts], by order: String, foldersFirst: Bool) {
        func precedes(_ one: AdaptedFile.Facts, _ other: AdaptedFile.Facts) -> Bool {
            if foldersFirst, (one.kind == "folder") != (other.kind == "folder") { return one.kind == "folder" }
            switch order.lowercased() {
            case "modified", "modifiedat":
                if one.modified != other.modified { return one.modified ?? 0 > other.modified ?? 0 }
            case "size": if one.size != other.size { return one.size.real ?? 0 > other.size.real ?? 0 }
            default: break
            }
            return one.path.lastName.lexicographicallyPrecedes(other.path.lastName)
        }
        files.sort(by: precedes)
    }
}
