import Foundation
import KithAPI
import KithIO
import KithIndex
package import KithJobs
package import KithNode
import KithWire

/// The file systems that are mounted on this device, for its own person.
package final class VolumesService: Service {
    private let table = VolumeTable()
    private let disk = DiskExecutor()
    private let board: JobBoard

    /// Makes the service; tests of volumes are jobs of the device's.
    package init(_ board: JobBoard) {
        self.board = board
        board.register([SpeedJob()])
    }

    /// The methods it serves.
    package var handlers: [Handler] {
        [
            .call(Volumes.List.self) { input, _ in try await self.list(input) },
            .stream(Volumes.Follow.self) { input, _, pending in try await self.follow(input, pending) }
                .endingAtShutdown(),
            .call(Volumes.Test.self) { input, _ in try await self.test(input) },
            .call(Volumes.TestResult.self) { input, _ in try await self.result(input) },
            .call(Volumes.Eject.self) { input, _ in try await self.eject(input) }.limited(to: 2),
        ]
    }

    private func list(_ input: Volumes.List.Input) async throws -> Volumes.List.Output {
        Volumes.List.Output(
            volumes: try await disk.run { self.table.list(all: input.all).prefix(512).map(Volumes.Volume.init) })
    }

    private func follow(_ input: Volumes.List.Input, _ pending: PendingStream<Volumes.Follow>) async throws {
        // From before the first answer, so that nothing falls between.
        let changes = try VolumeWatcher.changes()
        let stream = try await pending.accept()
        var known: [Volumes.Volume]?
        var next = changes.makeAsyncIterator()
        repeat {
            let volumes = try await list(input).volumes
            let plain = volumes.map(Self.withoutRoom)
            if known != plain { try await stream.send(Volumes.Follow.Update(volumes: volumes)) }
            known = plain
            // Several changes at once are one.
            try await Task.sleep(for: .milliseconds(100))
        } while await next.next() != nil
        try await stream.finish()
    }

    /// How full it is is no change of what is mounted.
    static func withoutRoom(_ volume: Volumes.Volume) -> Volumes.Volume {
        var volume = volume
        volume.free = nil
        volume.capacity = nil
        volume.problem = nil
        return volume
    }

    private func test(_ input: Volumes.Test.Input) async throws -> Volumes.Test.Output {
        let parsed = try input.path.parsed()
        guard parsed.anchor == .top else {
            throw KithError(.invalid, "\(input.path) is no whole path: it does not begin with a slash.")
        }
        let size = input.size ?? 256 << 20
        guard SpeedTest.sizes.contains(size) else {
            throw KithError(.invalid, "A speed is measured with 1 MiB to 16 GiB.")
        }
        // Where nothing can be measured is said at once.
        guard FileManager.default.fileExists(atPath: input.path.description) else {
            throw KithError(.notFound, "There is no folder \(input.path).")
        }
        let queue = try await board.start()
        let job = try await queue.add(SpeedJob(), .init(path: input.path.bytes, size: size))
        return Volumes.Test.Output(job: job.uuidString.lowercased())
    }

    private func result(_ input: Volumes.TestResult.Input) async throws -> Volumes.TestResult.Output {
        guard let id = UUID(uuidString: input.job) else { throw KithError(.invalid, "\(input.job) is no job.") }
        let queue = try await board.queue()
        guard try await queue.job(id).state.isFinal else { return Volumes.TestResult.Output(speed: nil) }
        let speed = try await queue.output(of: id, SpeedJob.self)
        return Volumes.TestResult.Output(
            speed: Volumes.Test.Speed(
                size: speed.size, write: speed.write, read: speed.read, bypassesCache: speed.bypassesCache))
    }

    private func eject(_ input: Volumes.Eject.Input) async throws -> Nothing {
        try await disk.run {
            let names = try input.path.parsed().components
            let path = [UInt8(ascii: "/")] + Array(names.joined(separator: [UInt8(ascii: "/")]))
            guard let volume = self.table.list(all: true).first(where: { $0.mount.point == path }) else {
                throw KithError(.notFound, "Nothing is mounted at \(input.path). `kith volumes` lists what is.")
            }
            try VolumeEjection.eject(volume)
        }
        return Nothing()
    }
}

extension Volumes.Volume {
    init(_ volume: MountedVolume) {
        let kind: Volumes.Kind =
            switch volume.kind {
            case .internal: .internal
            case .external: .external
            case .network: .network
            case .virtual: .virtual
            }
        self.init(
            path: Files.Path(bytes: volume.mount.point), device: String(decoding: volume.mount.source, as: UTF8.self),
            fileSystem: volume.mount.type, kind: kind, label: volume.label, uuid: volume.uuid,
            fingerprint: volume.fingerprint, capacity: volume.capacity, free: volume.free,
            isReadOnly: volume.isReadOnly, problem: volume.problem)
    }
}

/// A job that measures how fast a volume is.
struct SpeedJob: JobKind {
    struct Input: Codable, Sendable {
        var path: [UInt8]
        var size: UInt64
    }

    struct Cursor: Codable, Sendable {}

    typealias Output = SpeedTest.Speed

    static let name = "testVolume"

    func title(of input: Input) -> String {
        "measure the speed of \(String(decoding: input.path, as: UTF8.self).prefix(200))"
    }

    func run(_ job: JobRun<Self>) async throws -> SpeedTest.Speed {
        var progress = JobProgress(phase: "write", completed: 0, total: 2, bytes: 0, totalBytes: job.input.size * 2)
        return try SpeedTest(path: job.input.path, size: job.input.size).run { count in
            progress.bytes += count
            if progress.bytes > job.input.size, progress.completed == 0 {
                (progress.phase, progress.completed) = ("read", 1)
            }
            job.report(progress)
            // What was measured so far is of no use to the next attempt.
            if job.isInterrupted { throw CancellationError() }
        }
    }
}
