import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// What `events.library` tells of jobs and volumes.
@Suite(.timeLimit(.minutes(4))) struct `Events of a device` {
    private func withDevice(
        _ door: Door = .inProcess, _ body: (_ device: Device, _ client: Client, _ folder: String) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        (options.name, options.apiPort) = ("laptop", 0)
        let device = try await Kith.open(dataDirectory: folder.path + "/device", options: options)
        try FileManager.default.createDirectory(atPath: folder.path + "/tree/into", withIntermediateDirectories: true)
        try await device.whileRunning {
            let (client, close) = try await door.client(of: device, in: folder.path + "/device")
            defer { close() }
            try await body(device, client, folder.path + "/tree")
        }
    }

    /// Opens a subscription, which is there when this returns.
    private func follow(
        _ client: Client, _ input: LibraryEvents.Follow.Input = .usual, on device: String? = nil
    ) async throws -> MethodStream<LibraryEvents.Delivery, Nothing> {
        try await client.open(LibraryEvents.Follow.self, input, on: device).stream
    }

    /// The events up to the first that is the last wanted; a gap is a fault.
    private func events(
        _ stream: MethodStream<LibraryEvents.Delivery, Nothing>, until isLast: (LibraryEvent) -> Bool
    ) async throws -> [LibraryEvents.Numbered] {
        var all: [LibraryEvents.Numbered] = []
        while let delivery = try await stream.receive() {
            guard case .event(let event) = delivery else {
                Issue.record("\(delivery)")
                continue
            }
            all.append(event)
            if isLast(event.event) { return all }
        }
        throw KithError(.closed, "The events ended: \(all)")
    }

    /// The first event of a location; before it there is nothing but that its library was made and opened.
    private func location(
        in stream: MethodStream<LibraryEvents.Delivery, Nothing>
    ) async throws -> LibraryEvents.Numbered {
        let all = try await events(stream) { $0.resource == .location }
        #expect(all.dropLast().allSatisfy { $0.event.resource == .library }, "\(all)")
        return try #require(all.last)
    }

    private func ends(_ job: String) -> (LibraryEvent) -> Bool {
        { event in
            guard case .jobChanged(let other) = event else { return false }
            return other.id == job && other.state.isFinal
        }
    }

    @Test(arguments: Door.allCases)
    func `a job is told of from its beginning to its end, by every carrier`(_ door: Door) async throws {
        try await withDevice(door) { device, client, folder in
            let input = Volumes.Test.Input(path: Files.Path(folder), size: 1 << 20)
            // One that has ended before is no news.
            let old = try await client.volumes.test(input).job
            try await eventually { try await client.jobs.get(.init(id: old)).job.state == .done }

            let stream = try await follow(client, .init(resources: [.job]))
            let id = try await client.volumes.test(input).job
            let events = try await events(stream, until: ends(id))
            stream.abort(.cancelled)
            #expect(events.map(\.sequence) == events.map(\.sequence).sorted())
            #expect(events.allSatisfy { $0.library == LibraryEvents.ofDevice && $0.time > 0 })
            #expect(events.allSatisfy { $0.event.resource == .job })
            guard case .jobChanged(let first)? = events.first?.event, case .jobChanged(let last)? = events.last?.event
            else { throw KithError(.invalid, "\(events)") }
            #expect(first.id == id && first.kind == "testVolume")
            let job = try await client.jobs.get(.init(id: id)).job
            #expect(last.state == .done && last == job)
            try await eventually { device.events?.counts.subscriptions == 0 }
        }
    }

    @Test(arguments: Door.allCases)
    func `what became of a job meanwhile is told to whoever comes back`(_ door: Door) async throws {
        try await withDevice(door) { _, client, folder in
            let input = Volumes.Test.Input(path: Files.Path(folder), size: 1 << 20)
            let stream = try await follow(client, .init(types: [.jobChanged]))
            let first = try await client.volumes.test(input).job
            let last = try #require(try await events(stream, until: ends(first)).last)
            stream.abort(.cancelled)
            let second = try await client.volumes.test(input).job
            try await eventually { try await client.jobs.get(.init(id: second)).job.state == .done }

            let again = try await follow(client, .init(types: [.jobChanged], after: last.position))
            defer { again.abort(.cancelled) }
            let missed = try await events(again, until: ends(second))
            #expect(missed.allSatisfy { $0.epoch == last.epoch && $0.sequence > last.sequence })
        }
    }

    @Test func `one job alone is told of by its id, and none with a path or of a library`() async throws {
        try await withDevice { _, client, folder in
            let input = Volumes.Test.Input(path: Files.Path(folder), size: 1 << 20)
            await #expect(throws: KithError(.notFound, "")) { _ = try await follow(client, .init(job: "abcdef")) }
            let all = try await follow(client, .init(types: [.jobChanged]))
            let none = [
                try await follow(client, .init(path: Files.Path(folder))),
                try await follow(client, .init(library: try await client.libraries.info().id)),
            ]
            var jobs: [String] = []
            var begin: LibraryEvents.Position?
            for _ in 0..<2 {
                let job = try await client.volumes.test(input).job
                let told = try await events(all, until: ends(job))
                jobs.append(job)
                begin = begin ?? told.first.map { .init(epoch: $0.epoch, sequence: $0.sequence - 1) }
            }
            let one = try await follow(client, .init(job: String(jobs[1].prefix(13)), after: begin))
            let told = try await events(one, until: ends(jobs[1]))
            #expect(
                told.allSatisfy { event in
                    guard case .jobChanged(let job) = event.event else { return false }
                    return job.id == jobs[1]
                }, "\(told)")
            // What those are told of that want no jobs.
            _ = try await client.locations.add(.init(path: Files.Path(folder)))
            for stream in none {
                _ = try await location(in: stream)
            }
            for stream in none + [all, one] { stream.abort(.cancelled) }
        }
    }

    @Test func `an operation on files is a job, and what it does to them is told, too`() async throws {
        try await withDevice { _, client, folder in
            try Data("12345".utf8).write(to: URL(fileURLWithPath: folder + "/a.txt"))
            _ = try await client.locations.add(.init(path: Files.Path(folder)))
            try await eventually { try await client.locations.list().locations.first?.isWatched == true }
            let stream = try await follow(client, .init(types: [.jobChanged, .fileMoved]))
            defer { stream.abort(.cancelled) }
            let plan = try await client.call(
                Operations.Plan.self,
                .init(kind: .move, paths: [Files.Path(folder + "/a.txt")], destination: Files.Path(folder + "/into")))
            _ = try await client.call(Operations.Confirm.self, .init(plan: plan.id))
            var (hasEnded, hasMoved) = (false, false)
            _ = try await events(stream) { event in
                switch event {
                case .jobChanged(let job): if job.kind == "move", job.state == .done { hasEnded = true }
                case .files(let files): if files.changes.contains(where: { $0.kind == .moved }) { hasMoved = true }
                default: break
                }
                return hasEnded && hasMoved
            }
        }
    }

    @Test func `another device with the grant hears of no job`() async throws {
        try await withDevice { laptop, own, folder in
            let other = try TemporaryFolder()
            var options = onLoopback
            options.name = "phone"
            let phone = try await Kith.open(dataDirectory: other.path, options: options)
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.files(.read, root: "/"), .library])
                let mine = try await follow(own, .init(types: [.jobChanged]))
                let theirs = try await follow(phone.client, on: "laptop")
                defer { theirs.abort(.cancelled) }
                let id = try await own.volumes.test(.init(path: Files.Path(folder), size: 1 << 20)).job
                let begin = try #require(try await events(mine, until: ends(id)).first)
                mine.abort(.cancelled)
                _ = try await own.locations.add(.init(path: Files.Path(folder)))
                #expect(try await location(in: theirs).sequence > begin.sequence)

                // Nor of what is remembered, nor by a word for it.
                let before = LibraryEvents.Position(epoch: begin.epoch, sequence: begin.sequence - 1)
                let again = try await follow(phone.client, .init(after: before), on: "laptop")
                defer { again.abort(.cancelled) }
                _ = try await location(in: again)
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await follow(phone.client, .init(job: String(id.prefix(8))), on: "laptop")
                }
                await #expect(throws: KithError(.notFound, "")) {
                    _ = try await follow(phone.client, .init(library: LibraryEvents.ofDevice), on: "laptop")
                }
            }
        }
    }

    @Test func `jobs are told of again after the device stopped and runs anew`() async throws {
        let folder = try TemporaryFolder()
        let device = try await Kith.open(dataDirectory: folder.path, options: onLoopback)
        let input = Volumes.Test.Input(path: Files.Path(folder.path), size: 1 << 20)
        var last: LibraryEvents.Numbered?
        for _ in 0..<2 {
            try await device.whileRunning {
                let after = last.map { $0.position }
                let stream = try await follow(device.client, .init(types: [.jobChanged], after: after))
                defer { stream.abort(.cancelled) }
                let id = try await device.client.volumes.test(input).job
                let end = try #require(try await events(stream, until: ends(id)).last)
                #expect(last.map { $0.epoch == end.epoch && $0.sequence < end.sequence } ?? true)
                last = end
            }
        }
    }

    #if os(Linux)
    @Test(.enabled(if: canMount(), "needs the right to mount"))
    func `a file system that is mounted and goes is told of`() async throws {
        try await withDevice { _, client, folder in
            let stream = try await follow(client, .init(resources: [.volume], path: Files.Path(folder)))
            defer { stream.abort(.cancelled) }
            let place = folder + "/into"
            try #require(mount("stick", place, "tmpfs", 0, "size=1m") == 0)
            defer { umount2(place, 2) }
            let added = try #require(try await events(stream, until: { _ in true }).first)
            guard case .volumeAdded(let volume) = added.event else { throw KithError(.invalid, "\(added)") }
            #expect(volume.path == Files.Path(place) && volume.device == "stick" && volume.fileSystem == "tmpfs")
            #expect(volume.capacity == 1 << 20 && added.library == LibraryEvents.ofDevice)
            // That it can be written no more is no other volume.
            try #require(mount("stick", place, nil, UInt(MS_REMOUNT) | UInt(MS_RDONLY), nil) == 0)
            try #require(umount2(place, 0) == 0)
            let removed = try #require(try await events(stream, until: { _ in true }).first)
            guard case .volumeRemoved(let gone) = removed.event else { throw KithError(.invalid, "\(removed)") }
            #expect(gone.path == volume.path && gone.device == "stick" && gone.capacity == nil)
        }
    }

    private static func canMount() -> Bool {
        guard let folder = try? TemporaryFolder(), mount("probe", folder.path, "tmpfs", 0, "size=1m") == 0 else {
            return false
        }
        return umount2(folder.path, 0) == 0
    }
    #endif
}
