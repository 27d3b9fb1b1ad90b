import Foundation
import KithAPI
import KithIdentity
import KithIO
import KithJobs
import KithNode
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithLibrary

/// The jobs of a queue, as events for whoever follows them slowly.
@Suite(.timeLimit(.minutes(2))) struct JobEventTests {
    /// A job that reports what a test hands it, until that ends.
    private struct Reporting: JobKind {
        struct Input: Codable, Sendable {}
        typealias Cursor = Input

        static let name = "reporting"
        let reports: AsyncStream<UInt64>

        func run(_ job: JobRun<Self>) async throws -> Input {
            for await number in reports { job.report(JobProgress(phase: "count", completed: number, total: 100)) }
            if job.isInterrupted { throw CancellationError() }
            return Input()
        }
    }

    /// A job that has nothing to do.
    private struct Empty: JobKind {
        struct Input: Codable, Sendable {}
        typealias Cursor = Input

        static let name = "empty"
        static let limit = 4

        func run(_ job: JobRun<Self>) async throws -> Input { Input() }
    }

    private let folder: TemporaryFolder
    private let hub: EventHub

    init() throws {
        folder = try TemporaryFolder()
        hub = EventHub(
            publisher: try DeviceID(publicKey: [UInt8](repeating: 1, count: 32)), now: { 1_700_000_000_000 })
    }

    private func board(_ kinds: [any JobKind]) -> JobBoard {
        let board = JobBoard(path: folder.path + "/jobs.sqlite", logger: Logger(label: "test"))
        board.register(kinds)
        return board
    }

    private func next(_ subscription: Subscription<LibraryEvent>) async throws -> LibraryEvent {
        for try await delivery in subscription.deliveries {
            guard case .event(let event) = delivery else { throw KithError(.exhausted, "\(delivery)") }
            return event.message
        }
        throw KithError(.closed, "no more events")
    }

    @Test func `who is slow gets the newest progress of a job, and loses nothing else by it`() async throws {
        let (reports, continuation) = AsyncStream.makeStream(of: UInt64.self)
        let board = board([Reporting(reports: reports)])
        let queue = try await board.start()
        let events = DeviceEvents(board, interval: .zero, tellsVolumes: false, logger: Logger(label: "test"))
        await events.start(in: hub)
        await events.want()
        // Room for three: what a job is as queued and as running, and how far it is.
        let subscription = try LibraryTopics.follow(nil, in: hub, isOwner: true, buffer: 3, after: nil)
        defer { subscription.cancel() }
        let id = try await queue.add(Reporting(reports: reports), .init()).uuidString.lowercased()
        for number in 1...UInt64(50) {
            let before = hub.sequence
            continuation.yield(number)
            try await eventually { hub.sequence > before }
        }
        // Its beginning may have been told of with the first of what it did, as queued and as running.
        var event = try await next(subscription)
        while case .jobChanged(let job) = event {
            #expect(job.id == id && !job.state.isFinal)
            event = try await next(subscription)
        }
        guard case .jobProgressed(let newest) = event else { throw KithError(.invalid, "\(event)") }
        #expect(newest.id == id && newest.progress.completed == 50)
        continuation.finish()
        guard case .jobChanged(let ended) = try await next(subscription) else { throw KithError(.invalid, "no end") }
        #expect(ended.state == .done)
        await board.stop()
        await events.stop()
    }

    @Test func `a job that is not kept any more is told of`() async throws {
        let board = board([Empty()])
        let queue = try await board.start()
        let first = try await queue.add(Empty(), .init()).uuidString.lowercased()
        await queue.untilIdle()
        let events = DeviceEvents(board, interval: .zero, tellsVolumes: false, logger: Logger(label: "test"))
        await events.start(in: hub)
        await events.want()
        let subscription = try LibraryTopics.follow(nil, in: hub, isOwner: true, buffer: 4_096, after: nil)
        defer { subscription.cancel() }
        // The last two hundred are kept.
        for _ in 0..<200 { _ = try await queue.add(Empty(), .init()) }
        await queue.untilIdle()
        var removed: String?
        while removed == nil {
            if case .jobRemoved(let job) = try await next(subscription) { removed = job.id }
        }
        #expect(removed == first)
        await board.stop()
        await events.stop()
    }

    @Test func `only the pattern of its own person has a place for what is the device's`() async throws {
        let (own, other) = (
            try LibraryTopics.follow(nil, in: hub, isOwner: true, buffer: 8, after: nil),
            try LibraryTopics.follow(nil, in: hub, isOwner: false, buffer: 8, after: nil)
        )
        defer {
            own.cancel()
            other.cancel()
        }
        let job = LibraryEvent.jobRemoved(.init(id: "1"))
        let tags = LibraryEvent.tags(.init(deleted: ["a"]))
        for topic in ["$library/job-1", "$library/volumes"] { LibraryTopics.publish(job, to: topic, in: hub) }
        LibraryTopics.publish(tags, to: "$library/4c4e/tags", in: hub)
        #expect(try await next(other) == tags)
        for event in [job, job, tags] { #expect(try await next(own) == event) }
    }
}
