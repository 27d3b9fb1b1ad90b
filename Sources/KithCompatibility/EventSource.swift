import KithAPI
import KithIO
import KithIdentity
import KithRPC
import KithWire

/// The events of this device in the reference's terms, of all that it has a source for.
///
/// What a slow subscriber has missed is said by `Refresh`: it drops what it remembers, and asks again.
struct EventSource: Sendable {
    private let device: AdaptedDevice
    private let subscription: Subscription

    init(_ device: AdaptedDevice, _ subscription: Subscription) {
        (self.device, self.subscription) = (device, subscription)
    }

    /// The most files of one change that are described; of more the subscriber asks again.
    private static let described = 256
    /// The time between two looks at who is connected, of which no stream tells.
    private static let interval = Duration.seconds(2)

    /// Tells events until it is cancelled, or all sources have ended.
    ///
    /// - Throws: what `tell` throws.
    func run(_ tell: @escaping @Sendable (JSONValue) async throws -> Void) async throws {
        // One at a time: two sources must not send at once what is to come in order.
        let order = AsyncMutex()
        let pass: @Sendable ([AdaptedEvent]) async throws -> Void = { [subscription] events in
            await order.lock()
            defer { order.unlock() }
            for event in events where subscription.wants(event) { try await tell(event.json) }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await followLibraries(pass) }
            group.addTask { try await followJobs(pass) }
            group.addTask { try await followVolumes(pass) }
            group.addTask { try await followDevices(pass) }
            defer { group.cancelAll() }
            try await group.waitForAll()
        }
    }

    private typealias Pass = @Sendable ([AdaptedEvent]) async throws -> Void

    private func isWanted(_ names: String...) -> Bool {
        subscription.types.isEmpty || names.contains { subscription.types.contains($0) }
    }

    /// Follows one of our streams, as long as it lasts; a device without it has no such events.
    private func follow(
        _ method: String, _ input: JSONValue, _ take: (JSONValue) async throws -> Void
    ) async throws {
        let stream: any NamedStream
        do {
            stream = try await device.client.open(named: method, input)
        } catch let error as KithError where error.code == .unsupported || error.code == .notFound {
            return
        }
        defer { stream.cancel() }
        while let message = try await stream.message() { try await take(message) }
    }

    // MARK: - The library

    private func followLibraries(_ pass: @escaping Pass) async throws {
        guard
            isWanted(
                "LocationAdded", "LocationRemoved", "IndexingStarted", "IndexingProgress", "IndexingCompleted",
                "IndexingFailed", "ResourceChangedBatch", "ResourceDeleted", "Refresh")
        else { return }
        var libraries: [JSONValue] = []
        do {
            libraries = try await device.libraries()
        } catch let error as KithError where error.code == .unsupported {
            return
        }
        let wanted = libraries.compactMap { $0.member("id")?.text }
            .filter { subscription.library == nil || $0 == subscription.library }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for library in wanted {
                group.addTask {
                    try await follow("events.library", ["library": .string(library)]) { message in
                        try await pass(try await events(of: message, in: library))
                    }
                }
            }
            defer { group.cancelAll() }
            try await group.waitForAll()
        }
    }

    /// The events that a message of our stream brings.
    private func events(of message: JSONValue, in library: String) async throws -> [AdaptedEvent] {
        guard let event = message.member("event")?.member("event") else {
            // A gap: what was missed is not known.
            return [AdaptedEvent(name: "Refresh")]
        }
        func place(_ name: String, _ place: JSONValue, _ more: [String: JSONValue] = [:]) -> AdaptedEvent {
            let number = place.member("location")?.whole ?? 0
            let path = AdaptedPath.read(place.member("path")) ?? "/"
            var content: [String: JSONValue] = [
                "location_id": .string(CompatibleID(.location, number: number, of: device.id).text)
            ]
            if name.hasPrefix("Location") { content["library_id"] = .string(library) }
            if name == "LocationAdded" { content["path"] = .string(path.description) }
            content.merge(more) { $1 }
            return AdaptedEvent(name: name, content: .object(content), library: library, resource: nil, paths: [path])
        }
        if let added = event.member("locationAdded") { return [place("LocationAdded", added)] }
        if let removed = event.member("locationRemoved") { return [place("LocationRemoved", removed)] }
        if let began = event.member("scanBegan") { return [place("IndexingStarted", began)] }
        if let scan = event.member("scanProgressed"), let whole = scan.member("place") {
            let processed = scan.member("progress")?.member("entries") ?? 0
            return [place("IndexingProgress", whole, ["processed": processed, "total": .null])]
        }
        if let scan = event.member("scanEnded"), let whole = scan.member("place") {
            if let problem = scan.member("problem") { return [place("IndexingFailed", whole, ["error": problem])] }
            let progress = scan.member("progress")
            let names = progress?.member("entries")?.whole ?? 0
            let folders = progress?.member("folders")?.whole ?? 0
            return [
                place(
                    "IndexingCompleted", whole,
                    ["total_files": .integer(max(0, names - folders)), "total_dirs": .integer(folders)])
            ]
        }
        if let files = event.member("files") { return await changes(files, in: library) }
        if let tags = event.member("tags") {
            let names = (tags.member("added")?.list ?? []).compactMap(\.text)
            var events = (tags.member("deleted")?.list ?? []).compactMap(\.text).map { name in
                AdaptedEvent(
                    name: "ResourceDeleted",
                    content: [
                        "resource_type": "tag", "resource_id": .string(AdaptedTag.id(name, of: device).text),
                    ], library: library, resource: "tag")
            }
            if !names.isEmpty {
                events.append(batch("tag", names.map { AdaptedTag.shown($0, of: device) }, [], in: library))
            }
            return events
        }
        return []
    }

    private func changes(_ files: JSONValue, in library: String) async -> [AdaptedEvent] {
        let changes = files.member("changes")?.list ?? []
        guard files.member("more")?.whole ?? 0 == 0, changes.count <= Self.described else {
            let folder = AdaptedPath.read(files.member("folder"))
            return [AdaptedEvent(name: "Refresh", library: library, paths: folder.map { [$0] } ?? [])]
        }
        var events: [AdaptedEvent] = []
        var resources: [JSONValue] = []
        var paths: [Files.Path] = []
        for change in changes {
            guard let number = change.member("id")?.whole, let path = AdaptedPath.read(change.member("path")) else {
                continue
            }
            let id = device.note(number, at: path)
            if change.member("kind")?.text == "removed" {
                events.append(
                    AdaptedEvent(
                        name: "ResourceDeleted",
                        content: ["resource_type": "file", "resource_id": .string(id.text)], library: library,
                        resource: "file", paths: [path]))
                continue
            }
            // What is gone again meanwhile is told of by the next change.
            guard let entry = try? await device.client.call(named: "files.stat", ["path": path.json]),
                var facts = try? AdaptedFile.facts(of: entry, at: path, of: device)
            else { continue }
            facts.id = id
            resources.append(AdaptedFile.shown(facts, of: device))
            paths.append(path)
            if let from = AdaptedPath.read(change.member("from")) { paths.append(from) }
        }
        if !resources.isEmpty { events.append(batch("file", resources, paths, in: library)) }
        return events
    }

    private func batch(
        _ type: String, _ resources: [JSONValue], _ paths: [Files.Path], in library: String
    ) -> AdaptedEvent {
        AdaptedEvent(
            name: "ResourceChangedBatch",
            content: [
                "resource_type": .string(type), "resources": .array(resources),
                "metadata": [
                    "no_merge_fields": [], "alternate_ids": [],
                    "affected_paths": .array(paths.map { device.shown($0) }),
                ],
            ], library: library, resource: type, paths: paths)
    }

    // MARK: - Jobs, volumes, devices

    private func followJobs(_ pass: @escaping Pass) async throws {
        guard
            isWanted(
                "JobQueued", "JobStarted", "JobProgress", "JobPaused", "JobResumed", "JobCompleted", "JobFailed",
                "JobCancelled")
        else { return }
        var states = JobStates()
        var isCurrent = true
        try await follow("jobs.follow", [:]) { message in
            if let job = message.member("job") {
                try await pass(states.events(of: job, isCurrent: isCurrent, on: device.uuid))
            }
            if let gone = message.member("removed")?.text { states.remove(gone) }
            // From here on it is news.
            if message.member("isCurrent")?.flag == true { isCurrent = false }
        }
    }

    private func followVolumes(_ pass: @escaping Pass) async throws {
        guard isWanted("VolumeMountChanged") else { return }
        var known: Set<String>?
        try await follow("volumes.follow", [:]) { message in
            let now = Set((message.member("volumes")?.list ?? []).map(AdaptedVolume.fingerprint))
            defer { known = now }
            guard let before = known else { return }
            func changed(_ fingerprint: String, _ isMounted: Bool) -> AdaptedEvent {
                AdaptedEvent(
                    name: "VolumeMountChanged",
                    content: ["fingerprint": .string(fingerprint), "is_mounted": .boolean(isMounted)])
            }
            try await pass(
                now.subtracting(before).sorted().map { changed($0, true) }
                    + before.subtracting(now).sorted().map { changed($0, false) })
        }
    }

    private func followDevices(_ pass: @escaping Pass) async throws {
        // Asked also where nobody wants to know it: a device that stops refuses, which ends a subscription without another
        // source, and the device would wait for it.
        var known: [DeviceID: String]?
        while true {
            let devices = try await device.client.call(Devices.List.self, Devices.List.Input(probe: false))
            let now = Dictionary(
                devices.filter(\.isOnline).map { ($0.id, $0.name) }, uniquingKeysWith: { $1 })
            if let before = known {
                let came = now.filter { before[$0.key] == nil }.map { id, name in
                    AdaptedEvent(
                        name: "DeviceConnected",
                        content: [
                            "device_id": .string(CompatibleID(of: id).text), "device_name": .string(name),
                        ])
                }
                let left = before.filter { now[$0.key] == nil }.map { id, _ in
                    AdaptedEvent(
                        name: "DeviceDisconnected", content: ["device_id": .string(CompatibleID(of: id).text)])
                }
                try await pass(came + left)
            }
            known = now
            try await Task.sleep(for: Self.interval)
        }
    }
}
