import Foundation
import KithAPI
import KithIO
import KithIndex
import KithJobs
import KithNode
import KithWire
import Logging

/// Publishes what becomes of the device's jobs and volumes, as events of its own topics `$library/job-ID` and
/// `$library/volumes`, for its own person.
///
/// Until somebody first asks for them nothing is followed.
actor DeviceEvents {
    private let board: JobBoard
    private let interval: Duration
    private let tellsVolumes: Bool
    private let logger: Logger
    private let volumes = VolumeTable()
    private let disk = DiskExecutor()
    private var hub: EventHub?
    /// Begins to follow; `nil` as long as nobody wants events.
    private var beginning: Task<Void, Never>?
    private var areWanted = false
    private var following: [Task<Void, Never>] = []

    /// Makes one that says no more often than each `interval` that a job goes on; what changes meanwhile comes together.
    ///
    /// `tellsVolumes` is false for tests of jobs: the machine's volumes are everybody's.
    init(_ board: JobBoard, interval: Duration = .milliseconds(100), tellsVolumes: Bool = true, logger: Logger) {
        self.board = board
        self.interval = interval
        self.tellsVolumes = tellsVolumes
        self.logger = logger
    }

    /// Publishes there from now on, if somebody wanted events of a run before.
    func start(in hub: EventHub) async {
        self.hub = hub
        if areWanted { await want() }
    }

    /// Publishes from now on, if it does not already; returns once nothing more is missed.
    func want() async {
        if beginning == nil, let hub {
            hub.remember()
            areWanted = true
            beginning = Task(name: "kith device events") { await follow() }
        }
        await beginning?.value
    }

    /// Follows nothing any more, until the next start.
    func stop() async {
        await beginning?.value
        let tasks = following
        (following, beginning, hub) = ([], nil, nil)
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    private func follow() async {
        await followJobs()
        if tellsVolumes { followVolumes() }
    }

    // MARK: - Jobs

    private func followJobs() async {
        do {
            let queue = try await board.queue()
            let changes = await queue.follow(every: interval)
            // What is there already is no news.
            let first = Dictionary(
                try await queue.list().map { ($0.id, LibraryService.described($0)) }, uniquingKeysWith: { $1 })
            following.append(
                Task(name: "kith job events") { [weak self] in
                    var known = first
                    for await change in changes {
                        switch change {
                        case .changed(let record):
                            let job = LibraryService.described(record)
                            let old = known.updateValue(job, forKey: record.id)
                            if let event = LibraryEvent(job, before: old) { await self?.publish(event, of: job.id) }
                        case .removed(let id):
                            guard known.removeValue(forKey: id) != nil else { continue }
                            let job = id.uuidString.lowercased()
                            await self?.publish(.jobRemoved(.init(id: job)), of: job)
                        }
                    }
                })
        } catch {
            logger.error("The jobs cannot be followed.", metadata: ["error": "\(error)"])
        }
    }

    private func publish(_ event: LibraryEvent, of job: String) {
        LibraryTopics.publish(event, to: "$library/job-\(job)", in: hub)
    }

    // MARK: - Volumes

    private func followVolumes() {
        do {
            // From before the first look, so that nothing falls between.
            let changes = try VolumeWatcher.changes()
            let first = volumes.list(since: nil)
            following.append(
                Task(name: "kith volume events") { [weak self, volumes, disk, interval] in
                    var known = first
                    for await _ in changes {
                        // Several at once are one; cancelled, the changes end, too.
                        do { try await Task.sleep(for: interval) } catch { return }
                        let before = known
                        guard let now = try? await disk.run({ volumes.list(since: before) }) else { continue }
                        for (mount, volume) in before where now[mount] == nil {
                            await self?.publish(.volumeRemoved(VolumesService.withoutRoom(.init(volume))))
                        }
                        for (mount, volume) in now where before[mount] == nil {
                            await self?.publish(.volumeAdded(.init(volume)))
                        }
                        known = now
                    }
                })
        } catch {
            logger.info("Volumes that come and go are not told.", metadata: ["error": "\(error)"])
        }
    }

    private func publish(_ event: LibraryEvent) { LibraryTopics.publish(event, to: "$library/volumes", in: hub) }
}

extension LibraryEvent {
    /// What became of a job since `before`; `nil` when nothing did that anybody sees.
    init?(_ job: Jobs.Job, before: Jobs.Job?) {
        guard let before, before.state == job.state, before.started == job.started, before.ended == job.ended else {
            self = .jobChanged(job)
            return
        }
        guard before.progress != job.progress else { return nil }
        self = .jobProgressed(job)
    }
}
