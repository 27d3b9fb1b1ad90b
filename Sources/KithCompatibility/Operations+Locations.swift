import KithAPI
import KithRPC
import KithWire

/// Locations as the reference describes them.
enum AdaptedLocation {
    /// The UUID of a location.
    static func id(_ location: JSONValue, of device: AdaptedDevice) -> CompatibleID {
        CompatibleID(.location, number: location.member("id")?.whole ?? 0, of: device.id)
    }

    /// A location of our methods.
    static func shown(_ location: JSONValue, in library: String, of device: AdaptedDevice) -> JSONValue {
        let path = AdaptedPath.read(location.member("path")) ?? "/"
        let isScanning = location.member("isScanning")?.flag ?? false
        let state: JSONValue =
            if isScanning {
                ["Scanning": ["progress": 0]]
            } else if let problem = location.member("problem")?.text {
                ["Failed": ["error": .string(problem)]]
            } else {
                location.member("scanned") == nil ? "Pending" : "Completed"
            }
        return [
            "id": .string(id(location, of: device).text), "library_id": .string(library),
            "name": location.member("name") ?? .null, "path": .string(path.description), "sd_path": device.shown(path),
            "index_mode": location.member("mode")?.text == "content" ? "Content" : "Shallow", "scan_interval": .null,
            "total_size": 0, "file_count": location.member("entries") ?? 0, "directory_count": 0,
            "created_at": .time(location.member("added")?.whole), "updated_at": .time(location.member("added")?.whole),
            "last_scan_at": .time(location.member("scanned")?.whole), "scan_state": state,
            "is_active": location.member("isWatched") ?? false, "error_message": location.member("problem") ?? .null,
            "job_policies": [:],
        ]
    }
}

extension Operation {
    static let locationOperations: [Operation] = [
        .query("locations.list") { call in
            let library = try call.requiredLibrary().text
            let locations = try await call.call("locations.list").member("locations")?.list ?? []
            return [
                "locations": .array(locations.map { AdaptedLocation.shown($0, in: library, of: call.device) })
            ]
        },
        .action("locations.add") { call in
            let path = try call.path("path")
            var input: [String: JSONValue] = ["path": path.json]
            if let name = try call.input.optionalString("name") { input["name"] = .string(name) }
            switch try call.input.optionalString("mode") {
            case nil, "Shallow": break
            case "Content", "Deep": input["mode"] = "content"
            case let mode?:
                throw KithError(.unsupported, "locations.add: this device has no mode \(mode.prefix(32)).")
            }
            let location = try await call.call("locations.add", input)
            return [
                "location_id": .string(AdaptedLocation.id(location, of: call.device).text),
                "path": call.device.shown(path), "name": location.member("name") ?? .null, "job_id": .null,
            ]
        },
        .action("locations.remove") { call in
            let id = try call.input.id("location_id")
            let path = try await location(id, call).member("path")
            _ = try await call.call("locations.remove", ["id": .integer(try call.device.location(id))])
            return [
                "location_id": .string(id.text), "path": .optional(AdaptedPath.read(path)?.description),
            ]
        },
        .action("locations.rescan") { call in
            let id = try call.input.id("location_id")
            let location = try await location(id, call)
            try await rescan(location, call)
            return [
                "location_id": .string(id.text),
                "location_path": .optional(AdaptedPath.read(location.member("path"))?.description),
                "job_id": .string(id.text), "full_rescan": .boolean(try call.input.flag("full_rescan")),
            ]
        },
        .action("indexing.start") { call in
            guard try call.input.optionalString("persistence") ?? "Persistent" == "Persistent" else {
                throw KithError(
                    .unsupported, "indexing.start: this device indexes locations alone. Add the folder: locations.add.")
            }
            let wanted = try call.paths("paths")
            let locations = try await call.call("locations.list").member("locations")?.list ?? []
            let found = try wanted.map { path in
                guard let location = locations.first(where: { AdaptedPath.read($0.member("path")) == path }) else {
                    throw KithError(.notFound, "\(path) is not a location. Add it: locations.add.")
                }
                return location
            }
            for location in found { try await rescan(location, call) }
            return [
                "id": .string(AdaptedLocation.id(found[0], of: call.device).text), "job_name": "indexer",
            ]
        },
        .query("locations.validate_path") { call in
            let path = try call.path("path")
            let kind = try await call.call("files.exists", ["path": path.json]).member("kind")?.text
            let isFolder = kind == "folder"
            let depth = path.bytes.split(separator: UInt8(ascii: "/")).count
            let warning: JSONValue? =
                isFolder
                ? (depth == 0
                    ? [
                        "message": "This is the top of the file system: everything on the machine.",
                        "suggestion": .null,
                    ] : nil)
                : ["message": "There is no such folder.", "suggestion": .null]
            return [
                "is_recommended": .boolean(warning == nil), "risk_level": warning == nil ? "Low" : "High",
                "warnings": .array(warning.map { [$0] } ?? []), "suggested_alternative": .null,
                "path_depth": .integer(Int64(depth)), "is_on_primary_volume": true,
            ]
        },
        .query("locations.suggested") { call in
            var suggested: [JSONValue] = []
            for name in ["Documents", "Pictures", "Music", "Videos", "Movies", "Downloads", "Desktop"] {
                let path = Files.Path("~/" + name)
                let kind = try await call.call("files.exists", ["path": path.json]).member("kind")?.text
                guard kind == "folder" else { continue }
                let entry = try await call.call("files.stat", ["path": path.json])
                let absolute = AdaptedPath.read(entry.member("absolute")) ?? path
                suggested.append([
                    "name": .string(name), "path": .string(absolute.description),
                    "sd_path": call.device.shown(absolute),
                ])
            }
            return ["locations": .array(suggested)]
        },
    ]

    /// A location of the library, by the UUID it was named by.
    static func location(_ id: CompatibleID, _ call: Call) async throws -> JSONValue {
        let number = try call.device.location(id)
        let locations = try await call.call("locations.list").member("locations")?.list ?? []
        guard let location = locations.first(where: { $0.member("id")?.whole == number }) else {
            throw KithError(.notFound, "There is no location \(id.text) in this library.")
        }
        return location
    }

    /// Begins a scan, which goes on by itself.
    private static func rescan(_ location: JSONValue, _ call: Call) async throws {
        let stream = try await call.open("locations.scan", ["id": location.member("id") ?? 0])
        stream.cancel()
    }
}
