import KithAPI
import KithIdentity
import KithRPC
import KithWire

extension Operation {
    static let coreOperations: [Operation] = [
        .query("core.status", .core) { call in
            let status = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            // A device may keep no library: then it has none.
            let libraries = (try? await call.device.libraries()) ?? []
            let network = try await networkStatus(call, status)
            return [
                "version": .string(status.version),
                "built_at": "",
                "library_count": .integer(Int64(libraries.count)),
                "device_info": [
                    "id": .string(call.device.uuid.text), "name": .string(status.name), "os": .string(operatingSystem),
                    "hardware_model": .null, "created_at": .time(0),
                ],
                "libraries": .array(libraries.map { AdaptedLibrary.shown($0) }),
                "services": [
                    "location_watcher": ["is_running": .boolean(!libraries.isEmpty), "details": .null],
                    "networking": ["is_running": true, "details": .null],
                    "volume_monitor": ["is_running": false, "details": .null],
                    "file_sharing": ["is_running": true, "details": .null],
                ],
                "network": network,
                "system": [
                    "uptime": .duration(ContinuousClock.now - call.device.started),
                    "data_directory": .string(call.device.directory), "instance_name": .null,
                    "current_library": .optional(libraries.first?.member("name")?.text),
                ],
            ]
        },
        .query("core.events.list", .core) { _ in
            [
                "all_events": .array(AdaptedEvent.names.map { .string($0) }),
                "noisy_events": .array(AdaptedEvent.noisy.map { .string($0) }),
                "event_info": .array(
                    AdaptedEvent.names.map {
                        [
                            "variant": .string($0), "is_noisy": .boolean(AdaptedEvent.noisy.contains($0)),
                            "description": "",
                        ]
                    }),
            ]
        },
        .query("config.app.get", .core) { call in
            let status = try await call.device.client.call(ThisDevice.Status.self, Nothing())
            return [
                "version": 1, "data_dir": .string(call.device.directory), "log_level": "error",
                "telemetry_enabled": false,
                "preferences": ["theme": "system", "language": "en"],
                "job_logging": ["enabled": true, "include_debug": false],
                "services": [
                    "networking_enabled": true, "volume_monitoring_enabled": false, "fs_watcher_enabled": true,
                    "statistics_listener_enabled": false,
                ],
                "logging": ["main_filter": "error", "streams": []],
                "proxy_pairing": ["auto_accept_vouched": false, "auto_vouch_to_all": false],
                "device_name": .string(status.name),
            ]
        },
    ]

    #if os(macOS)
    private static let operatingSystem = "MacOS"
    #elseif os(iOS)
    private static let operatingSystem = "IOs"
    #else
    private static let operatingSystem = "Linux"
    #endif

    static var systemName: String { operatingSystem }
}

/// Libraries as the reference describes them.
enum AdaptedLibrary {
    /// A library of our methods.
    static func shown(_ library: JSONValue) -> JSONValue {
        let path = AdaptedPath.read(library.member("path"))?.description
        var shown: [String: JSONValue] = [
            "id": library.member("id") ?? .null, "name": library.member("name") ?? .null, "path": .string(path ?? ""),
            "stats": .null,
        ]
        if let numbers = library.member("statistics") {
            shown["stats"] = [
                "total_files": numbers.member("files") ?? 0, "total_directories": numbers.member("folders") ?? 0,
                "total_size": numbers.member("bytes") ?? 0, "location_count": numbers.member("locations") ?? 0,
                "tag_count": numbers.member("tags") ?? 0, "database_size": numbers.member("indexBytes") ?? 0,
                "last_indexed": .time(numbers.member("scanned")?.whole),
            ]
        }
        return .object(shown)
    }

    /// What the reference answers to most changes of libraries.
    static func changed(_ library: JSONValue) -> JSONValue {
        let shown = shown(library)
        return [
            "library_id": shown.member("id") ?? .null, "name": shown.member("name") ?? .null,
            "path": shown.member("path") ?? "",
        ]
    }
}

extension Operation {
    static let libraryOperations: [Operation] = [
        .query("libraries.list", .core) { call in
            let withNumbers = try call.input.flag("include_stats")
            return .array(try await call.device.libraries(withNumbers: withNumbers).map(AdaptedLibrary.shown))
        },
        .query("libraries.info") { call in
            let id = try call.requiredLibrary().text
            let library = try await call.device.libraries(withNumbers: true).first { $0.member("id")?.text == id }
            guard let library else { throw KithError(.notFound, "There is no library \(id) on this device.") }
            return AdaptedLibrary.shown(library)
        },
        .action("libraries.create", .core) { call in
            var input: [String: JSONValue] = ["name": .string(try call.input.string("name"))]
            if call.input.value.member("path") != nil { input["path"] = try call.path("path").json }
            return AdaptedLibrary.changed(try await call.call("libraries.create", input))
        },
        .action("libraries.open", .core) { call in
            AdaptedLibrary.changed(try await call.call("libraries.open", ["path": try call.path("path").json]))
        },
        .action("libraries.rename") { call in
            let id = try call.input.id("library_id").text
            let name = try call.input.string("new_name")
            let old = try await call.device.libraries().first { $0.member("id")?.text == id }?.member("name")
            _ = try await call.call("libraries.rename", ["library": .string(id), "name": .string(name)])
            return ["library_id": .string(id), "old_name": old ?? .null, "new_name": .string(name)]
        },
        .action("libraries.delete", .core) { call in
            let id = try call.input.id("library_id").text
            let name = try await call.device.libraries().first { $0.member("id")?.text == id }?.member("name")
            if try call.input.flag("delete_data") {
                _ = try await call.call("libraries.delete", ["library": .string(id)])
            } else {
                // Its data are to stay: it is forgotten.
                _ = try await call.call("libraries.close", ["library": .string(id), "forgets": true])
            }
            return ["library_id": .string(id), "name": name ?? .null]
        },
        .action("libraries.export") { call in
            let id = try call.input.id("library_id").text
            let path = try call.path("export_path")
            let name = try await call.device.libraries().first { $0.member("id")?.text == id }?.member("name")
            let stream = try await call.open("libraries.export", ["library": .string(id), "path": path.json])
            try await stream.drain()
            return [
                "library_id": .string(id), "library_name": name ?? .null, "export_path": .string(path.description),
                "exported_files": [.string(path.description)],
            ]
        },
    ]
}

extension NamedStream {
    /// Waits for the end; what comes until then is not wanted.
    ///
    /// - Throws: what it ended with.
    func drain() async throws {
        defer { cancel() }
        while try await receive() != nil {}
    }

    /// The next message, as a value; `nil` at the end.
    func message() async throws -> JSONValue? {
        while let item = try await receive() {
            if case .message(let json) = item { return try JSONText(json).value() }
        }
        return nil
    }
}
