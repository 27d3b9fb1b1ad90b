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
            let states = try call.input.optionalString("status").map { try AdaptedJob.states($0) }
            let jobs = try await jobs(states, call)
            return ["jobs": .array(jobs.map { AdaptedJob.shown($0, of: call.device) })]
        },
        .query("jobs.active") { call in
            let jobs = try await jobs(["queued", "running", "paused"], call)
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

    /// The jobs in some states, page by page: of those that wait there may be any number.
    private static func jobs(_ states: [JSONValue]?, _ call: Call) async throws -> [JSONValue] {
        var input: [String: JSONValue] = ["limit": 100]
        if let states { input["states"] = .array(states) }
        var (jobs, next) = ([JSONValue](), Int64?.none)
        repeat {
            if let next { input["before"] = .integer(next) }
            let page = try await call.call("jobs.list", input)
            jobs += page.member("jobs")?.list ?? []
            let before = page.member("next")?.whole
            // Numbers fall; one that does not would be asked for again and again.
            next = before.flatMap { before in next.map { before < $0 } ?? true ? before : nil }
        } while next != nil && jobs.count < 10_000
        return jobs
    }

    /// A change of a job, which our method of the same name does.
    private static func change(_ verb: String) -> Operation {
        .action("jobs.\(verb)") { call in
            let id = try call.input.id("job_id")
            _ = try await call.call("jobs.\(verb)", ["id": .string(id.text)])
            return ["job_id": .string(id.text), "success": true]
        }
    }
}
