package import KithAPI
import KithIO
package import KithWire
import Synchronization

/// A forwarded connection on a stream between devices, with a window of its own.
///
/// What a slow program does not take must not wait in the connection between the devices, whose flow control is one for
/// all streams (RFC 9000 §4.1): a few downloads that were paused would stop everything else. So each end sends only what
/// the other has said it has room for, takes everything off the stream at once, and keeps at most its window. Each
/// direction is a run of frames, each begun by a varint (RFC 9000 §16), 4 · count + kind:
///
/// | kind | what it is |
/// | --- | --- |
/// | 0 | so many bytes of the connection follow |
/// | 1 | the other end may send so many bytes more |
/// | 2 | this direction of the connection has ended |
///
/// Both begin with room for ``firstWindow`` bytes. A window grows while its reader keeps up.
package final class ForwardStream: ByteStream {
    /// The number of bytes each end may send unasked.
    static let firstWindow = 128 << 10
    /// The most a window grows to.
    static let largestWindow = 8 << 20

    private let core: Core
    private let pump: Task<Void, Never>

    /// Speaks over a stream that was accepted; its window grows as far as `room` lets it.
    package init(_ raw: any ByteStream, room: WindowBudget = WindowBudget()) {
        let core = Core(raw, room)
        self.core = core
        pump = Task(name: "kith forward") { await core.pump() }
    }

    deinit { pump.cancel() }

    package func read(upTo limit: Int) async throws -> [UInt8]? { try await core.read(upTo: limit) }
    package func write(_ bytes: [UInt8]) async throws { try await core.write(bytes) }
    package func finish() async throws { try await core.finish() }
    package func abort(_ code: KithError.Code) { core.abort(code) }
}

/// The room that the windows of several streams may grow by together.
package final class WindowBudget: Sendable {
    private let left: Atomic<Int>

    /// Makes room for so many bytes.
    package init(_ count: Int = 128 << 20) { left = Atomic(count) }

    /// Takes some of it, if there is as much.
    fileprivate func take(_ count: Int) -> Bool {
        if left.wrappingSubtract(count, ordering: .relaxed).newValue >= 0 { return true }
        release(count)
        return false
    }

    fileprivate func release(_ count: Int) { left.wrappingAdd(count, ordering: .relaxed) }
}

private final class Core: Sendable {
    private struct State {
        var window = ForwardStream.firstWindow
        /// The number of bytes that may still come.
        var granted = ForwardStream.firstWindow
        /// The number of bytes taken since the other end was last notified.
        var owed = 0
        /// The number of bytes taken since the window grew.
        var sinceGrowth = 0
        /// The number of bytes waiting to be taken.
        var waiting = 0
        /// Ours: asked for, and sent.
        var hasFinished = false
        var endIsSent = false
        /// Theirs.
        var hasEnded = false
        /// Nothing more is written.
        var isClosed = false
    }

    private let raw: any ByteStream
    /// Never holds more than was granted.
    private let incoming = ByteQueue(capacity: .max)
    /// The number of bytes that may be sent.
    private let allowance = AsyncSemaphore(ForwardStream.firstWindow)
    /// One frame at a time.
    private let writing = AsyncMutex()
    private let state = Mutex(State())

    private let room: WindowBudget

    init(_ raw: any ByteStream, _ room: WindowBudget) {
        self.raw = raw
        self.room = room
    }

    deinit { room.release(state.withLock { $0.window - ForwardStream.firstWindow }) }

    // MARK: - In

    /// Takes everything off the stream at once.
    func pump() async {
        do {
            var left = 0
            var head: [UInt8] = []
            while let bytes = try await raw.read(upTo: 256 << 10) {
                var index = 0
                while index < bytes.count {
                    if left > 0 {
                        let count = min(left, bytes.count - index)
                        let part = count == bytes.count ? bytes : Array(bytes[index..<(index + count)])
                        index += count
                        left -= count
                        try await arrived(part)
                        continue
                    }
                    head.append(bytes[index])
                    index += 1
                    guard head.count == 1 << Int(head[0] >> 6) else { continue }
                    let value = head.dropFirst().reduce(UInt64(head[0] & 0x3F)) { $0 << 8 | UInt64($1) }
                    head.removeAll(keepingCapacity: true)
                    left = try await begun(kind: value & 3, count: value >> 2)
                }
            }
            guard state.withLock({ $0.hasEnded }) else {
                throw KithError(.closed, "The other device hung up before the connection ended.")
            }
        } catch is CancellationError {
            // Let go of.
        } catch {
            fail(error as? KithError ?? KithError(.internal, "A forwarded connection failed.", cause: error))
        }
    }

    /// A frame has begun; gives how many bytes of it follow.
    private func begun(kind: UInt64, count: UInt64) async throws -> Int {
        switch kind {
        case 0:
            let isGranted = state.withLock { state in
                guard count <= UInt64(state.granted), !state.hasEnded else { return false }
                state.granted -= Int(count)
                return true
            }
            guard isGranted else { throw KithError(.invalid, "The other device sent more than it was granted.") }
            return Int(count)
        case 1:
            guard count <= 1 << 40, allowance.count <= 1 << 40 else {
                throw KithError(.invalid, "The other device grants more than there can be.")
            }
            allowance.add(Int(count))
            return 0
        case 2:
            let isLast = state.withLock { state in
                state.hasEnded = true
                return state.endIsSent
            }
            try incoming.finish()
            // Nothing more will be granted. The other end may have let go of the stream by now, which takes nothing from
            // what has come.
            if isLast { try? await close() }
            return 0
        default: throw KithError(.invalid, "The other device sent a message of an unknown kind.")
        }
    }

    private func arrived(_ bytes: [UInt8]) async throws {
        state.withLock { $0.waiting += bytes.count }
        try await incoming.write(bytes)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        guard let bytes = try await incoming.read(upTo: limit) else { return nil }
        let grant = state.withLock { state -> Int? in
            state.waiting -= bytes.count
            state.owed += bytes.count
            state.sinceGrowth += bytes.count
            // Everything was taken, and a window of it: the window sets the pace, not the reader.
            if state.waiting == 0, state.sinceGrowth >= state.window, state.window < ForwardStream.largestWindow,
                room.take(state.window)
            {
                state.owed += state.window
                state.window *= 2
                state.sinceGrowth = 0
            }
            guard state.owed >= state.window / 4, !state.hasEnded else { return nil }
            defer { state.owed = 0 }
            state.granted += state.owed
            return state.owed
        }
        // When that fails, the next read says why; these bytes are good.
        if let grant { try? await send(kind: 1, count: grant) }
        return bytes
    }

    // MARK: - Out

    func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = try await allowance.take(upTo: rest.count)
            try await send(kind: 0, count: count, count == bytes.count ? bytes : Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
    }

    func finish() async throws {
        let isFirst = state.withLock { state in
            defer { state.hasFinished = true }
            return !state.hasFinished
        }
        guard isFirst else { return }
        try await send(kind: 2, count: 0)
        let isLast = state.withLock { state in
            state.endIsSent = true
            return state.hasEnded
        }
        // Nothing more will be granted.
        if isLast { try await close() }
    }

    /// Ends the stream behind the frame that is being written.
    private func close() async throws {
        await writing.lock()
        defer { writing.unlock() }
        state.withLock { $0.isClosed = true }
        try await raw.finish()
    }

    private func send(kind: UInt64, count: Int, _ bytes: [UInt8] = []) async throws {
        var writer = ByteWriter(capacity: 8 + (bytes.count < 16 << 10 ? bytes.count : 0))
        writer.varint(UInt64(count) << 2 | kind)
        await writing.lock()
        defer { writing.unlock() }
        // A reader may find room for more when both directions have just ended.
        if kind == 1, state.withLock({ $0.isClosed }) { return }
        if bytes.count < 16 << 10 {
            writer.bytes(bytes)
            try await raw.write(writer.bytes)
        } else {
            try await raw.write(writer.bytes)
            try await raw.write(bytes)
        }
    }

    // MARK: - The end

    func abort(_ code: KithError.Code) {
        incoming.abort(code)
        fail(KithError(code, "The connection was abandoned (\(code.rawValue))."))
    }

    private func fail(_ error: KithError) {
        let (hasEnded, isOver) = state.withLock { ($0.hasEnded, $0.endIsSent && $0.hasEnded) }
        if !isOver { raw.abort(error.code) }
        // What came before its end is whole, whatever became of the stream since.
        if !hasEnded { incoming.abort(error.code) }
        allowance.finish(throwing: error)
    }
}
