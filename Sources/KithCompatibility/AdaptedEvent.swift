import KithAPI
import KithRPC
import KithWire

/// What a client of the reference wants to hear of.
struct Subscription: Hashable, Sendable {
    /// The variants; empty for all.
    var types: Set<String> = []
    var library: String?
    var job: String?
    var resource: String?
    var path: Files.Path?
    /// Whether what lies deeper than in the folder itself counts, too.
    var isDeep = true

    /// Reads the content of `Subscribe`; a filter that this device does not know is ignored, as the reference does.
    init(_ content: JSONValue) throws(Envelope.Failure) {
        func wrong(_ what: String) -> Envelope.Failure {
            Envelope.Failure(variant: "SerializationError", message: what)
        }
        if let list = content.member("event_types") {
            guard let list = list.list, list.count <= 256 else { throw wrong("`event_types` must be a list of names") }
            types = Set(list.compactMap(\.text))
        }
        guard let filter = content.member("filter") else { return }
        library = filter.member("library_id")?.text?.lowercased()
        job = filter.member("job_id")?.text?.lowercased()
        resource = filter.member("resource_type")?.text
        isDeep = filter.member("include_descendants")?.flag ?? false
        if let scope = filter.member("path_scope") {
            do {
                path = try AdaptedPath(scope, in: "Subscribe").path
            } catch {
                throw wrong("`path_scope` must be a path of the kind Physical")
            }
        }
    }

    /// Hears of everything.
    init() {}

    /// Tells whether an event is wanted.
    func wants(_ event: AdaptedEvent) -> Bool {
        if !types.isEmpty, !types.contains(event.name) { return false }
        if let resource, event.resource != resource { return false }
        if let library, let own = event.library, own != library { return false }
        if let job, let own = event.job, own != job { return false }
        // What says nothing of paths passes.
        guard let path, !event.paths.isEmpty else { return true }
        let scope = path.bytes.split(separator: UInt8(ascii: "/"))
        return event.paths.contains { place in
            let names = place.bytes.split(separator: UInt8(ascii: "/"))
            return names.starts(with: scope) && (isDeep || names.count <= scope.count + 1)
        }
    }
}

/// An event in the reference's terms.
struct AdaptedEvent: Hashable, Sendable {
    /// Its variant.
    var name: String
    /// Its content; `nil` for a variant without.
    var content: JSONValue?
    var library: String?
    var job: String?
    /// The type of the resource it is about.
    var resource: String?
    var paths: [Files.Path] = []

    /// The event as the reference writes it.
    var json: JSONValue { content.map { [name: $0] } ?? .string(name) }

    /// The variants that this device sends.
    static let names = [
        "DeviceConnected", "DeviceDisconnected", "IndexingCompleted", "IndexingFailed", "IndexingProgress",
        "IndexingStarted", "JobCancelled", "JobCompleted", "JobFailed", "JobPaused", "JobProgress", "JobQueued",
        "JobResumed", "JobStarted", "LibraryClosed", "LibraryCreated", "LibraryDeleted", "LibraryOpened",
        "LocationAdded", "LocationRemoved", "Refresh", "ResourceChangedBatch",
        "ResourceDeleted", "VolumeMountChanged",
    ]
    /// Those of them that come often.
    static let noisy = ["IndexingProgress", "JobProgress", "ResourceChangedBatch"]
}

/// The states of jobs that were told, and what a new one means.
struct JobStates {
    private var known: [String: String] = [:]

    /// The events that a job's description brings; none for one that is as it was.
    mutating func events(of job: JSONValue, isCurrent: Bool, on device: CompatibleID) -> [AdaptedEvent] {
        guard let id = job.member("id")?.text, let state = job.member("state")?.text else { return [] }
        let before = known[id]
        known[id] = ["done", "failed", "cancelled"].contains(state) ? nil : state
        // What was there when the subscription began is no news.
        if isCurrent { return [] }
        var content: [String: JSONValue] = [
            "job_id": .string(id), "job_type": job.member("kind") ?? .null, "device_id": .string(device.text),
        ]
        let name: String
        switch (before, state) {
        case ("running", "running"):
            name = "JobProgress"
            content["progress"] = .number(AdaptedJob.progress(job))
            content["message"] = job.member("progress")?.member("phase") ?? .null
            content["generic_progress"] = .null
        case (let before?, let state) where before == state: return []
        case ("paused", "running"), ("paused", "queued"): name = "JobResumed"
        case (_, "running"): name = "JobStarted"
        case (_, "queued"): name = "JobQueued"
        case (_, "paused"): name = "JobPaused"
        case (_, "cancelled"): name = "JobCancelled"
        case (_, "failed"):
            name = "JobFailed"
            content["error"] = job.member("error") ?? ""
        case (_, "done"):
            name = "JobCompleted"
            content["output"] = ["type": "Success"]
        default: return []
        }
        return [AdaptedEvent(name: name, content: .object(content), job: id)]
    }

    /// Forgets a job that is not listed any more.
    mutating func remove(_ id: String) { known[id] = nil }
}
