public import KithAPI
public import KithWire
import Synchronization

/// A stream beneath a wrapper, which notes what the wrapper passes on.
public final class WrappedStream: ByteStream {
    /// The requirements of a stream.
    public enum Requirement: String, CaseIterable, Sendable {
        /// Bytes.
        case read
        /// To take bytes.
        case write
        /// To end our direction.
        case finish
        /// To take bytes and end our direction together.
        case finishWriting
        /// To abandon both.
        case abort
        /// To abandon both, and to say why.
        case fail
        /// To take no more.
        case stopReading
        /// News that no more is taken.
        case stopped
        /// The executor on which a waiting caller resumes.
        case executor
    }

    private final class OwnExecutor: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) {
            preconditionFailure("nothing runs where a test only looks who answers")
        }
    }

    private let ownExecutor = OwnExecutor()
    private let asked = Mutex<Set<Requirement>>([])

    private init() {}

    private func note(_ requirement: Requirement) { asked.withLock { _ = $0.insert(requirement) } }

    /// Gives one byte.
    public func read(upTo limit: Int) async throws -> [UInt8]? {
        note(.read)
        return [7]
    }

    /// Takes them.
    public func write(_ bytes: [UInt8]) async throws { note(.write) }

    /// Ends nothing.
    public func finish() async throws { note(.finish) }

    /// Takes them, and ends nothing.
    public func finish(writing bytes: [UInt8]) async throws { note(.finishWriting) }

    /// Abandons nothing.
    public func abort(_ code: KithError.Code) { note(.abort) }

    /// Abandons nothing.
    public func fail(_ error: KithError) { note(.fail) }

    /// Goes on.
    public func stopReading(_ code: KithError.Code) { note(.stopReading) }

    /// At once.
    public func stopped() async throws { note(.stopped) }

    /// One of its own.
    public var executor: (any TaskExecutor)? { ownExecutor }

    /// The requirements of a stream that a wrapper does not pass on: it loses them for who holds the wrapper.
    public static func lost(by wrap: (WrappedStream) throws -> any ByteStream) async throws -> Set<Requirement> {
        let stream = WrappedStream()
        let wrapper = try wrap(stream)
        if wrapper.executor === stream.ownExecutor { stream.note(.executor) }
        _ = try await wrapper.read(upTo: 1)
        try await wrapper.write([7])
        try await wrapper.finish()
        try await wrapper.finish(writing: [7])
        try await wrapper.stopped()
        wrapper.stopReading(.cancelled)
        wrapper.fail(KithError(.cancelled, "Enough."))
        wrapper.abort(.cancelled)
        return Set(Requirement.allCases).subtracting(stream.asked.withLock { $0 })
    }
}
