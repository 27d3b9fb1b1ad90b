import KithAPI
import KithRPC
import KithWire

extension Operation {
    static let volumeOperations: [Operation] = [
        .query("volumes.list") { call in
            let tracked = try await trackedPlaces(call)
            return [
                "volumes": .array(
                    try await volumes(call).map {
                        AdaptedVolume.shown($0, isTracked: tracked[place($0)] != nil, of: call.device)
                    })
            ]
        },
        .action("volumes.refresh") { call in
            // They are read from the system each time.
            ["volumes_refreshed": .integer(Int64(try await volumes(call).count)), "volumes_failed": 0]
        },
        .action("volumes.track") { call in
            let volume = try await volume(call)
            let name = try call.input.optionalString("display_name")
            // A volume is known here by what of it is in the library: at least the names at its top.
            if try await trackedPlaces(call)[place(volume)] == nil {
                var input: [String: JSONValue] = ["path": volume.member("path") ?? .null, "mode": "shallow"]
                if let name { input["name"] = .string(name) }
                _ = try await call.call("locations.add", input)
            }
            let shown = AdaptedVolume.shown(volume, isTracked: true, of: call.device)
            return [
                "volume_id": shown.member("id") ?? .null, "fingerprint": shown.member("fingerprint") ?? .null,
                "name": name.map { .string($0) } ?? shown.member("name") ?? .null, "is_online": true,
            ]
        },
        .action("volumes.untrack") { call in
            let id = try call.input.id("volume_id").text
            let volume = try await volumes(call).first {
                AdaptedVolume.shown($0, isTracked: true, of: call.device).member("id")?.text == id
            }
            guard let volume else {
                throw KithError(
                    .notFound,
                    "volumes.untrack: no volume \(id) is mounted. Its locations are taken out by locations.remove.")
            }
            guard let location = try await trackedPlaces(call)[place(volume)] else {
                throw KithError(.notFound, "volumes.untrack: the volume at \(place(volume)) is not tracked.")
            }
            _ = try await call.call("locations.remove", ["id": location.member("id") ?? .null])
            return ["volume_id": .string(id), "success": true]
        },
        .action("volumes.index") { call in
            let volume = try await volume(call)
            let isWhole = try call.input.optionalString("scope") ?? "Recursive" == "Recursive"
            let mode: JSONValue = isWhole ? "recursive" : "shallow"
            let location: JSONValue
            if let known = try await trackedPlaces(call)[place(volume)] {
                location = try await call.call("locations.change", ["id": known.member("id") ?? .null, "mode": mode])
            } else {
                location = try await call.call(
                    "locations.add", ["path": volume.member("path") ?? .null, "mode": mode])
            }
            let shown = AdaptedVolume.shown(volume, isTracked: true, of: call.device)
            return [
                "volume_id": shown.member("id") ?? .null,
                "job_id": .string(AdaptedLocation.id(location, of: call.device).text), "total_files": .null,
                "total_directories": .null, "message": .string("\(place(volume)) is being scanned."),
            ]
        },
        .action("volumes.eject") { call in
            let volume = try await volume(call)
            _ = try await call.call("volumes.eject", ["path": volume.member("path") ?? .null])
            return ["fingerprint": call.input.value.member("fingerprint") ?? .null, "success": true, "message": .null]
        },
        .action("volumes.speed_test") { call in
            let volume = try await volume(call)
            let begun = try await call.call("volumes.test", ["path": volume.member("path") ?? .null])
            let job = begun.member("job") ?? .null
            _ = try await call.ended(job: job, what: "The test of the volume")
            let speed = try await call.call("volumes.testResult", ["job": job]).member("speed")
            func megabytes(_ name: String) -> JSONValue {
                .integer(Int64((speed?.member(name)?.real ?? 0) / 1_000_000))
            }
            return [
                "fingerprint": call.input.value.member("fingerprint") ?? .null,
                "read_speed_mbps": megabytes("read"), "write_speed_mbps": megabytes("write"),
            ]
        },
    ]

    private static func volumes(_ call: Call) async throws -> [JSONValue] {
        try await call.call("volumes.list").member("volumes")?.list ?? []
    }

    /// The volume with a fingerprint.
    private static func volume(_ call: Call) async throws -> JSONValue {
        let fingerprint = try call.input.string("fingerprint")
        let found = try await volumes(call).first { AdaptedVolume.fingerprint($0) == fingerprint }
        guard let found else {
            throw KithError(.notFound, "There is no volume with the fingerprint \(fingerprint.prefix(64)).")
        }
        return found
    }

    private static func place(_ volume: JSONValue) -> Files.Path { AdaptedPath.read(volume.member("path")) ?? "/" }

    /// The locations by their paths: a volume is tracked when one is at its top.
    private static func trackedPlaces(_ call: Call) async throws -> [Files.Path: JSONValue] {
        let locations = try await call.call("locations.list").member("locations")?.list ?? []
        return Dictionary(
            locations.compactMap { location in AdaptedPath.read(location.member("path")).map { ($0, location) } },
            uniquingKeysWith: { first, _ in first })
    }
}

extension Call {
    /// The time that an operation waits for a job.
    private static let patience = Duration.seconds(600)

    /// Waits until a job is done, and describes it.
    ///
    /// - Throws: `KithError` `.internal` when it failed, `.cancelled`, `.timedOut` after ten minutes.
    func ended(job: JSONValue, what: String) async throws -> JSONValue {
        let end = ContinuousClock.now + Self.patience
        // It says nothing to who only asks: it is asked again, for as long as the caller waits.
        while ContinuousClock.now < end {
            let state = try await call("jobs.get", ["id": job]).member("job") ?? .null
            switch state.member("state")?.text {
            case "done": return state
            case "failed":
                throw KithError(.internal, "\(what) did not end: \(state.member("error")?.text ?? "it failed").")
            case "cancelled": throw KithError(.cancelled, "\(what) was cancelled.")
            default: try await Task.sleep(for: .milliseconds(250))
            }
        }
        throw KithError(.timedOut, "\(what) takes longer than ten minutes.")
    }
}

/// Volumes as the reference describes them.
enum AdaptedVolume {
    /// What tells a volume from others; of one that has nothing of its own, where it is.
    static func fingerprint(_ volume: JSONValue) -> String {
        volume.member("fingerprint")?.text ?? "path:" + (AdaptedPath.read(volume.member("path"))?.description ?? "")
    }

    /// A volume of our methods.
    static func shown(_ volume: JSONValue, isTracked: Bool, of device: AdaptedDevice) -> JSONValue {
        let fingerprint = fingerprint(volume)
        let path = AdaptedPath.read(volume.member("path"))?.description ?? ""
        let (mount, kind) =
            switch volume.member("kind")?.text {
            case "external": ("External", "External")
            case "network": ("Network", "Network")
            case "virtual": ("System", "Virtual")
            default: ("System", path == "/" ? "Primary" : "Secondary")
            }
        return [
            "id": .string(CompatibleID(.volume, fingerprint.utf8, of: device.id).text),
            "fingerprint": .string(fingerprint), "device_id": .string(device.uuid.text),
            "name": volume.member("label") ?? .string(path), "display_name": volume.member("label") ?? .string(path),
            "mount_point": .string(path), "mount_points": [.string(path)], "mount_type": .string(mount),
            "volume_type": .string(kind), "disk_type": "Unknown", "file_system": volume.member("fileSystem") ?? .null,
            "total_capacity": volume.member("capacity") ?? 0, "available_space": volume.member("free") ?? 0,
            "is_read_only": volume.member("isReadOnly") ?? false, "is_mounted": true,
            "is_tracked": .boolean(isTracked), "error_status": volume.member("problem") ?? .null,
        ]
    }
}
