import Foundation
import KithIO
import Synchronization

/// Asks folders whether they are there: one on a server that never answers keeps a thread, and holds nobody up.
///
/// A folder at which a thread still waits is not asked again: it does not answer.
final class Presence: Sendable {
    /// How long one is waited for.
    private let patience: Duration
    private let waiting = Mutex<Set<[UInt8]>>([])

    init(patience: Duration) { self.patience = patience }

    /// Describes the folder at a path.
    ///
    /// - Throws: `SystemError`, `ETIMEDOUT` among them for one that does not answer; `CancellationError`.
    func attributes(of path: [UInt8]) async throws -> FileAttributes {
        guard waiting.withLock({ $0.insert(path).inserted }) else { throw SystemError(ETIMEDOUT) }
        let promise = Promise<Result<FileAttributes, SystemError>>()
        Thread.detachNewThread { [self] in
            let result = Result { () throws(SystemError) in try OpenFolder(path: path).attributes() }
            _ = waiting.withLock { $0.remove(path) }
            promise.fulfil(result)
        }
        let timer = Task { [patience] in
            try await Task.sleep(for: patience)
            promise.fulfil(.failure(SystemError(ETIMEDOUT)))
        }
        defer { timer.cancel() }
        return try await promise.valueUnlessCancelled().get()
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
