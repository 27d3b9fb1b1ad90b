import KithAPI
import KithTrust
import KithWire
import Synchronization

/// A request of this device for a certificate, while it waits for the holder of the root key.
final class PendingEnrolment: Sendable {
    let code = EnrolmentCode()
    let nonce: [UInt8]
    /// The time at which it is void, in seconds since 1970.
    let expiresAt: Int64
    /// True when another root than the pinned one may be pinned.
    let replacesRoot: Bool
    /// What happens to it, for this device's person; ends with it.
    let events: AsyncStream<Trust.EnrolEvent>
    private let report: AsyncStream<Trust.EnrolEvent>.Continuation
    private let state = Mutex(State())

    private struct State {
        var attempts = 0
        var isAnswered = false
        var isOver = false
    }

    init(expiresAt: Int64, replacesRoot: Bool) {
        nonce = (0..<EnrolmentRequest.nonceLength).map { _ in UInt8.random(in: 0 ... .max) }
        self.expiresAt = expiresAt
        self.replacesRoot = replacesRoot
        (events, report) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(8))
    }

    /// Has one device answer it at a time.
    func begin() throws(KithError) {
        let isFree = state.withLock { state in
            guard !state.isAnswered, !state.isOver else { return false }
            state.isAnswered = true
            return true
        }
        guard isFree else { throw KithError(.conflict, "Another device is answering that request right now.") }
    }

    /// The device that answered it is done, or gone.
    func end() { state.withLock { $0.isAnswered = false } }

    /// Counts an attempt before it is looked at; returns how many are left after it.
    ///
    /// - Throws: `KithError` `.notFound` when there is none left.
    func countAttempt() throws(KithError) -> Int {
        let left = state.withLock { state -> Int? in
            guard !state.isOver, state.attempts < EnrolmentCode.attemptLimit else { return nil }
            state.attempts += 1
            return EnrolmentCode.attemptLimit - state.attempts
        }
        guard let left else { throw Self.void }
        return left
    }

    /// Tells this device's person of a wrong code; the last one voids the request.
    func refused(_ device: String, left: Int) {
        report.yield(.wrongCode(by: device, left: left))
        guard left == 0 else { return }
        finish(
            .failed(
                code: .denied, message: "\(EnrolmentCode.attemptLimit) wrong codes: the request is void. Begin again."))
    }

    /// Ends it.
    func finish(_ event: Trust.EnrolEvent) {
        state.withLock { $0.isOver = true }
        report.yield(event)
        report.finish()
    }

    /// The answer to whoever finds no request.
    static let void = KithError(
        .notFound, "No request for a certificate waits there. On that device run: kith enrol")
}
