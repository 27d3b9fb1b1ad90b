import KithAPI
import KithIO
import KithWire
import Synchronization

/// The files of a transfer whose contents go over streams of their own, beside the one that lists them.
///
/// One task deals them out. A lane has one file at a time; it is free for the next when that is read, while what was read
/// is still on its way.
final class SendingSubstreams: Sendable {
    /// A file to send.
    struct Job: Sendable {
        let file: Descriptor
        let info: Descriptor.Info
        let path: [UInt8]
        /// Its size when it was listed.
        let announced: UInt64
        let basis: TreeSender.Basis
    }

    private enum Lane {
        /// Its stream is not open yet.
        case closed
        /// It has no file.
        case free
        /// It has one.
        case busy
    }

    private struct State {
        var lanes: [Lane]
        /// True once the receiver has refused the substream.
        var isRefused = false
        var isComplete = true
        var failure: (any Error)?
        /// True when something has changed since the dealer last looked.
        var isChanged = false
        var dealer: Waiter<Void>?
    }

    let count: Int
    private let starts: [BoundedQueue<Bool>]
    private let jobs: [BoundedQueue<Job>]
    private let state: Mutex<State>

    init(count: Int) {
        self.count = count
        starts = (0..<count).map { _ in BoundedQueue(capacity: 1) }
        jobs = (0..<count).map { _ in BoundedQueue(capacity: 1) }
        state = Mutex(State(lanes: Array(repeating: .closed, count: count)))
    }

    /// Takes in whether the receiver's hello says that it takes lanes.
    func agreed(_ isAgreed: Bool) {
        if !isAgreed { change { $0.isRefused = true } }
        for start in starts {
            // Again it changes nothing.
            if isAgreed { _ = try? start.offer(true) }
            start.finish()
        }
    }

    /// Waits until a lane may begin; false when there are to be none.
    func begins(_ lane: Int) async throws -> Bool { try await starts[lane].receive() ?? false }

    /// Ends them all, for a reason the one who deals meets next.
    func fail(_ error: any Error) {
        change { if $0.failure == nil { $0.failure = error } }
        for job in jobs { job.finish(throwing: error) }
    }

    // MARK: - Dealing

    /// Waits for a lane that is free; `nil` when there are none.
    func free() async throws -> Int? {
        try await waiting { state in
            if state.isRefused { return .some(nil) }
            return state.lanes.firstIndex(of: .free).map { .some($0) }
        }
    }

    /// Gives a free lane a file.
    func deal(_ job: Job, to lane: Int) throws {
        state.withLock { $0.lanes[lane] = .busy }
        guard try jobs[lane].offer(job) else { preconditionFailure("a free lane has no file") }
    }

    /// Waits until all that was dealt is read, and tells the lanes that no more comes; whether all could be read.
    func finish() async throws -> Bool {
        let isComplete = try await waiting { $0.lanes.contains(.busy) ? nil : $0.isComplete }
        for job in jobs { job.finish() }
        return isComplete
    }

    private func waiting<Result: Sendable>(_ body: (inout State) -> Result?) async throws -> Result {
        while true {
            try Task.checkCancellation()
            let result = try state.withLock { state throws -> Result? in
                if let failure = state.failure { throw failure }
                state.isChanged = false
                return body(&state)
            }
            if let result { return result }
            await state.wait(at: \.dealer) { $0.isChanged }
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let dealer = state.withLock { state in
            body(&state)
            state.isChanged = true
            return state.dealer.take()
        }
        dealer?.resume()
    }

    // MARK: - Sending

    /// Sends what a lane is dealt, until no more comes.
    func run(_ lane: Int, through sender: FileSender, progress: TransferProgress) async throws {
        change { $0.lanes[lane] = .free }
        while let job = try await jobs[lane].receive() {
            progress.begin(job.path)
            do {
                try await sender.sendContents(of: job.file, job.info, announced: job.announced, job.basis)
                progress.add(files: 1)
            } catch let error as Errno {
                let skipped = Files.Skipped(
                    path: Files.Path(bytes: job.path),
                    failure: Files.Failure(error.failure("read", Files.Path(bytes: job.path))))
                progress.skip(skipped)
                try sender.put(.skipped(skipped))
                change { $0.isComplete = false }
            }
            try await sender.flush()
            change { $0.lanes[lane] = .free }
        }
    }
}
