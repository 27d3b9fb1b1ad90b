import Foundation
import KithIO
import Synchronization

/// Asks folders whether they are there: one on a server that never answers keeps one thread, and holds nobody up.
final class Presence: Sendable {
    private typealias Answer = Promise<Result<FileAttributes, SystemError>>

    /// How long one is waited for.
    private let patience: Duration
    /// The folders at which a thread waits; who asks meanwhile gets its answer.
    private let asked = Mutex<[[UInt8]: Answer]>([:])

    init(patience: Duration) { self.patience = patience }

    /// Describes the folder at a path.
    ///
    /// - Throws: `SystemError`, `ETIMEDOUT` among them for one that does not answer; `CancellationError`.
    func attributes(of path: [UInt8]) async throws -> FileAttributes {
        let (answer, isNew) = asked.withLock { asked in
            if let answer = asked[path] { return (answer, false) }
            let answer = Answer()
            asked[path] = answer
            return (answer, true)
        }
        if isNew { ask(path, answer) }
        return try await answer.valueUnlessCancelled().get()
    }

    private func ask(_ path: [UInt8], _ answer: Answer) {
        let timer = Task { [patience] in
            try await Task.sleep(for: patience)
            answer.fulfil(.failure(SystemError(ETIMEDOUT)))
        }
        Thread.detachNewThread { [self] in
            let result = Result { () throws(SystemError) in try OpenFolder(path: path).attributes() }
            asked.withLock { $0[path] = nil }
            timer.cancel()
            answer.fulfil(result)
        }
    }
}

extension SystemError {
    /// What it says of a folder that is looked for.
    var presenceText: String { number == ETIMEDOUT ? "it does not answer" : description }
}

/// The signs of life of a task that asks a disk one thing after the other.
final class DiskPulse: Sendable {
    private let beats = Atomic<UInt64>(0)
    private let isAsking = Atomic(false)

    /// Notes that the disk has answered.
    func beat() { beats.wrappingAdd(1, ordering: .relaxed) }

    /// Does what asks the disk.
    func whileAsking<Result>(_ body: () -> Result) -> Result {
        beat()
        isAsking.store(true, ordering: .relaxed)
        defer { isAsking.store(false, ordering: .relaxed) }
        return body()
    }

    /// Returns when the disk has not answered one question for as long as `patience`, at most twice that.
    ///
    /// - Throws: `CancellationError`.
    func untilSilent(for patience: Duration) async throws {
        var last = beats.load(ordering: .relaxed)
        while true {
            try await Task.sleep(for: patience)
            let now = beats.load(ordering: .relaxed)
            if now == last, isAsking.load(ordering: .relaxed) { return }
            last = now
        }
    }
}
