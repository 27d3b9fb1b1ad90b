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
            // Once one cannot tell any more, none can.
            for try await _ in group {}
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
                "LibraryCreated", "LibraryOpened", "LibraryClosed", "LibraryDeleted", "LocationAdded",
                "LocationRemoved", "IndexingStarted", "IndexingProgress", "IndexingCompleted", "IndexingFailed",
                "ResourceChangedBatch", "ResourceDeleted", "Refresh")
        else { return }
        do {
            // Clients find one from the beginning.
            _ = try await device.libraries()
        } catch let error as KithError where error.code == .unsupported {
            return
        }
        var events = LibraryEventAdapter(device)
        // Of all of them: one that is made later is heard of, too.
        let resources: JSONValue = ["file", "location", "tag", "library"]
        try await follow("events.library", ["resources": resources]) { message in
            try await pass(await events.events(of: message))
        }
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
