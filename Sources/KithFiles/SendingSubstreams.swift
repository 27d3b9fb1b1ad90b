import KithAPI
import KithIO
import KithWire
import Synchronization

/// The files of a transfer whose contents go over streams of their own, beside the one that lists them.
///
/// One task deals them out. A substream has one file at a time; it is free for the next when that is read, while what was read
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

    private enum Substream {
        /// Its stream is not open yet.
        case closed
        /// It has no file.
        case free
        /// It has one.
        case busy
    }

    private struct State {
        var substreams: [Substream]
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
        state = Mutex(State(substreams: Array(repeating: .closed, count: count)))
    }

    /// Starts the substreams, or none, as the receiver's hello says.
    func agreed(_ isAgreed: Bool) {
        if !isAgreed { change { $0.isRefused = true } }
        for start in starts {
            // Again it changes nothing.
            if isAgreed { _ = try? start.offer(true) }
            start.finish()
        }
    }

    /// Waits until a substream may begin; false when there are to be none.
    func begins(_ substream: Int) async throws -> Bool { try await starts[substream].receive() ?? false }

    /// Ends them all, for a reason the one who deals meets next.
    func fail(_ error: any Error) {
        change { if $0.failure == nil { $0.failure = error } }
        for job in jobs { job.finish(throwing: error) }
    }

    // MARK: - Dealing

    /// Waits for a substream that is free; `nil` when there are none.
    func free() async throws -> Int? {
        try await waiting { state in
            if state.isRefused { return .some(nil) }
            return state.substreams.firstIndex(of: .free).map { .some($0) }
        }
    }

    /// Gives a free substream a file.
    func deal(_ job: Job, to substream: Int) throws {
        state.withLock { $0.substreams[substream] = .busy }
        guard try jobs[substream].offer(job) else { preconditionFailure("a free substream has no file") }
    }

    /// Waits until all that was dealt is read, and tells the substreams that no more comes; whether all could be read.
    func finish() async throws -> Bool {
        let isComplete = try await waiting { $0.substreams.contains(.busy) ? nil : $0.isComplete }
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
            await state.wait(in: { $1(&$0.dealer) }) { $0.isChanged }
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

    /// Sends what a substream is dealt, until no more comes.
    func run(_ substream: Int, through sender: FileSender, progress: TransferProgress) async throws {
        change { $0.substreams[substream] = .free }
        while let job = try await jobs[substream].receive() {
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
            change { $0.substreams[substream] = .free }
        }
    }
}
