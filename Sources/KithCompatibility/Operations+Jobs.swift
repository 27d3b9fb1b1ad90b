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
}
