import Foundation
package import KithJobs
import Logging
import Synchronization

/// Kills a process at each place at which a job stores how far it is, to see that the next one goes on.
///
/// Count the places of a run that nothing disturbs. Then, for each of them, have an exit test run the same until it is
/// killed, run it again in the test's own process until it is idle, and compare what the two have left behind:
///
///     let places = try await JobKills.run(path: whole + "/jobs.sqlite", kinds: [kind]) { try await $0.add(kind, input) }
///     for place in 1...places {
///         await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, place = place as Int] in
///             try await JobKills.run(path: path + "/jobs.sqlite", kinds: [kind], killAt: place) { … }
///         }
///         try await JobKills.run(path: path + "/jobs.sqlite", kinds: [kind])
///     }
package enum JobKills {
    /// Opens a queue, starts it, does `body`, waits until no job is left that can run, and closes the queue.
    ///
    /// - Parameters:
    ///   - path: Where the queue is.
    ///   - kinds: The kinds of job it runs.
    ///   - place: The place, counted from 1, at which the process is killed by SIGKILL.
    ///   - body: Adds jobs, and may pause or cancel them.
    /// - Returns: the number of places that were reached.
    /// - Throws: what the queue and `body` throw.
    @discardableResult
    package static func run(
        path: String, kinds: [any JobKind], killAt place: Int? = nil,
        _ body: (JobQueue) async throws -> Void = { _ in }
    ) async throws -> Int {
        let counter = Counter(place: place)
        let queue = try JobQueue(
            path: path, kinds: kinds, logger: Logger(label: "test"), hooks: JobHooks { _ in counter.reach() })
        try await queue.start()
        try await body(queue)
        await queue.untilIdle()
        await queue.stop()
        return counter.count
    }

    private final class Counter: Sendable {
        private let reached = Mutex(0)
        private let place: Int?

        init(place: Int?) { self.place = place }

        var count: Int { reached.withLock { $0 } }

        func reach() {
            let number = reached.withLock { number in
                number += 1
                return number
            }
            if number == place { kill(getpid(), SIGKILL) }
        }
    }
}
