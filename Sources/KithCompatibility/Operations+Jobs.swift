import KithAPI
import KithRPC
import KithWire

/// Jobs as the reference describes them.
enum AdaptedJob {
    /// The reference's name of a state.
    static func status(_ job: JSONValue) -> String {
        switch job.member("state")?.text {
        case "done": "completed"
        case let state?: state
        case nil: "failed"
        }
    }

    /// Our names of a state of the reference.
    static func states(_ status: String) throws -> [JSONValue] {
        switch status {
        case "queued", "running", "paused", "failed", "cancelled": [.string(status)]
        case "completed": ["done"]
        default: throw KithError(.invalid, "jobs.list: “\(status.prefix(32))” is not a state of a job.")
        }
    }

    /// How much is done, 0 to 1.
    static func progress(_ job: JSONValue) -> Double {
        if job.member("state")?.text == "done" { return 1 }
        let progress = job.member("progress")
        for (done, all) in [("bytes", "totalBytes"), ("completed", "total")] {
            if let whole = progress?.member(all)?.real, whole > 0, let part = progress?.member(done)?.real {
                return min(1, max(0, part / whole))
            }
        }
        return 0
    }

    /// A job of our methods, as the lists of the reference have it.
    static func shown(_ job: JSONValue, of device: AdaptedDevice) -> JSONValue {
        [
            "id": job.member("id") ?? .null, "name": job.member("kind") ?? .null,
            "device_id": .string(device.uuid.text),
            "status": .string(status(job)), "progress": .number(progress(job)), "action_type": .null,
            "action_context": .null, "current_phase": job.member("progress")?.member("phase") ?? .null,
            "current_path": job.member("progress")?.member("current") ?? .null,
            "status_message": job.member("title") ?? .null, "created_at": .time(job.member("created")?.whole),
            "started_at": .time(job.member("started")?.whole), "completed_at": .time(job.member("ended")?.whole),
            "error_message": job.member("error") ?? .null,
        ]
    }
}

extension Operation {
    static let jobOperations: [Operation] = [
        .query("jobs.list") { call in
            var input: [String: JSONValue] = ["limit": 1_000]
            if let status = try call.input.optionalString("status") {
                input["states"] = .array(try AdaptedJob.states(status))
            }
            let jobs = try await call.call("jobs.list", input).member("jobs")?.list ?? []
            return ["jobs": .array(jobs.map { AdaptedJob.shown($0, of: call.device) })]
        },
        .query("jobs.active") { call in
            let answer = try await call.call("jobs.list", ["states": ["queued", "running", "paused"], "limit": 1_000])
            let jobs = answer.member("jobs")?.list ?? []
            func count(_ state: String) -> JSONValue {
                .integer(Int64(jobs.count { $0.member("state")?.text == state }))
            }
            return [
                "jobs": .array(jobs.map { AdaptedJob.shown($0, of: call.device) }), "running_count": count("running"),
                "paused_count": count("paused"),
            ]
        },
        .query("jobs.info") { call in
            let id = try call.input.id("job_id")
            let job = try await call.call("jobs.get", ["id": .string(id.text)]).member("job") ?? .null
            return AdaptedJob.shown(job, of: call.device)
        },
        change("pause"), change("resume"), change("cancel"),
    ]

    /// A change of a job, which our method of the same name does.
    private static func change(_ verb: String) -> Operation {
        .action("jobs.\(verb)") { call in
            let id = try call.input.id("job_id")
            _ = try await call.call("jobs.\(verb)", ["id": .string(id.text)])
            return ["job_id": .string(id.text), "success": true]
        }
    }

    static let volumeOperations: [Operation] = [
        .query("volumes.list") { call in
            let volumes = try await volumes(call)
            return ["volumes": .array(volumes.map { AdaptedVolume.shown($0, of: call.device) })]
        },
        .action("volumes.refresh") { call in
            // They are read from the system each time.
            ["volumes_refreshed": .integer(Int64(try await volumes(call).count)), "volumes_failed": 0]
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
            // The job says nothing to who only asks: it is asked again, for as long as the caller waits.
            let end = ContinuousClock.now + .seconds(600)
            while ContinuousClock.now < end {
                if let speed = try await call.call("volumes.testResult", ["job": job]).member("speed") {
                    func megabytes(_ name: String) -> JSONValue {
                        .integer(Int64((speed.member(name)?.real ?? 0) / 1_000_000))
                    }
                    return [
                        "fingerprint": call.input.value.member("fingerprint") ?? .null,
                        "read_speed_mbps": megabytes("read"), "write_speed_mbps": megabytes("write"),
                    ]
                }
                let state = try await call.call("jobs.get", ["id": job]).member("job")
                if let text = state?.member("state")?.text, ["failed", "cancelled"].contains(text) {
                    throw KithError(.internal, "The test did not end: \(state?.member("error")?.text ?? text)")
                }
                try await Task.sleep(for: .milliseconds(250))
            }
            throw KithError(.timedOut, "The test of the volume takes longer than ten minutes.")
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
}

/// Volumes as the reference describes them.
enum AdaptedVolume {
    /// What tells a volume from others; of one that has nothing of its own, where it is.
    static func fingerprint(_ volume: JSONValue) -> String {
        volume.member("fingerprint")?.text ?? "path:" + (AdaptedPath.read(volume.member("path"))?.description ?? "")
    }

    /// A volume of our methods.
    static func shown(_ volume: JSONValue, of device: AdaptedDevice) -> JSONValue {
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
            "is_read_only": volume.member("isReadOnly") ?? false, "is_mounted": true, "is_tracked": false,
            "error_status": volume.member("problem") ?? .null,
        ]
    }
}
