import Foundation
import KithWire
import Synchronization

/// The connection of one run of a job to its queue.
final class JobLink: Sendable {
    private struct State {
        var progress: JobProgress
        var speed = JobSpeed()
        var isInterrupted = false
    }

    let id: JobID
    private let queue: JobQueue
    private let followers: JobFollowers
    private let elapsed: @Sendable () -> Double
    private let state: Mutex<State>

    /// Makes the link of a run that begins at `progress`; `elapsed` are seconds since any moment.
    init(
        id: JobID, progress: JobProgress, queue: JobQueue, followers: JobFollowers,
        elapsed: @escaping @Sendable () -> Double
    ) {
        self.id = id
        self.queue = queue
        self.followers = followers
        self.elapsed = elapsed
        state = Mutex(State(progress: progress))
    }

    /// The newest progress, and the pace now.
    var live: (progress: JobProgress, pace: JobPace?) {
        let now = elapsed()
        return state.withLock { ($0.progress, $0.speed.pace(at: now)) }
    }

    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    func interrupt() { state.withLock { $0.isInterrupted = true } }

    func report(_ progress: JobProgress) {
        let now = elapsed()
        state.withLock { state in
            state.progress = progress.bounded
            state.speed.note(progress, at: now)
        }
        followers.note(id)
    }

    func checkpoint(_ cursor: Data, _ progress: JobProgress) async throws {
        report(progress)
        try await queue.store(cursor, progress.bounded, of: id)
        if isInterrupted { throw JobInterruption() }
    }

    func log(_ line: String) async { await queue.log(line, of: id) }
}

extension JobProgress {
    /// The same with texts of a length that can be kept for each of many jobs.
    var bounded: JobProgress {
        var progress = self
        progress.phase = phase.prefix(bytes: 100)
        progress.current = current?.prefix(bytes: 1_000)
        return progress
    }
}

/// Those who follow the jobs of a queue: each is told of each job that is not as it was, once until it looks.
final class JobFollowers: Sendable {
    private struct State {
        var next = 0
        /// The jobs that are not as a follower saw them, in the order in which they changed.
        var changed: [Int: Changes] = [:]
        var isClosed = false
    }

    struct Changes {
        var order: [JobID] = []
        var ids: Set<JobID> = []
        let signal: AsyncStream<Void>.Continuation
    }

    private let state = Mutex(State())

    func add() -> (number: Int, signals: AsyncStream<Void>) {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.next += 1
            if state.isClosed { continuation.finish() }
            state.changed[state.next] = Changes(signal: continuation)
            return state.next
        }
        return (number, signals)
    }

    func remove(_ number: Int) {
        let changes = state.withLock { $0.changed.removeValue(forKey: number) }
        changes?.signal.finish()
    }

    /// Notes that a job is not as it was.
    func note(_ id: JobID) {
        state.withLock { state in
            for number in state.changed.keys where state.changed[number]?.ids.insert(id).inserted == true {
                state.changed[number]?.order.append(id)
                state.changed[number]?.signal.yield()
            }
        }
    }

    /// Takes what has changed for one of them.
    func take(_ number: Int) -> [JobID] {
        state.withLock { state in
            let order = state.changed[number]?.order ?? []
            state.changed[number]?.order = []
            state.changed[number]?.ids = []
            return order
        }
    }

    /// Ends all of them.
    func close() {
        let all = state.withLock { state in
            state.isClosed = true
            return Array(state.changed.values)
        }
        for changes in all { changes.signal.finish() }
    }
}
