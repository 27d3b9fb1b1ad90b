import KithAPI
import KithIO
import KithRPC
import KithWire
import Synchronization

/// The bytes of one stream over a socket connection that carries nothing else.
///
/// A bare socket cannot tell an abandoned stream from one that ended well, so each direction is a sequence of frames:
///
/// | four bytes, big endian | what follows |
/// | --- | --- |
/// | 1…2³¹−1 | that many bytes of the stream |
/// | 0 | nothing: this direction has ended |
/// | 2³¹ + code | nothing: both directions are abandoned with this `KithError/Code/wireCode` |
/// | 2³¹ + 2³⁰ + 1…2¹⁶ | so many bytes of a JSON-RPC error, with which both are; only to callers who asked for `errors` |
///
/// A connection that closes without the last two was `.closed`.
final class SocketStream: ByteStream {
    private let descriptor: SocketDescriptor
    private let watch: Watch
    private let reading: Reading
    private let state = Mutex(State())

    private struct State {
        var aborted: KithError?
        /// A frame is partly sent: nothing else may go out before its rest.
        var isWriting = false
        var hasFinished = false
        var hasEnded = false
    }

    /// The position of the reader; only the one reading task touches it.
    private final class Reading: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        /// The number of bytes of the current frame that are still to come.
        var left = 0
        /// Bytes received beyond what was asked for.
        var ahead: [UInt8]
        /// True when less was received last than was asked for: there was no more.
        var isDrained = false
        /// The part that has come of an error.
        var failure: [UInt8]?
        init(ahead: [UInt8]) { self.ahead = ahead }
    }

    /// Whether the other end takes a whole error.
    private let sendsErrors: Bool
    /// The sign that it is gone.
    private let departure: Reactor.Interest

    private static let abortBit: UInt32 = 1 << 31
    private static let errorBit: UInt32 = 1 << 30
    private static let errorLimit = 1 << 16
    private static let largestRead = 256 << 10
    /// Keys, not a file.
    private static let fewBytes = 256

    /// Takes over a connection, with the bytes that came in after its last line.
    init(_ connection: LineConnection, sendsErrors: Bool = false, departure: Reactor.Interest = .hangUp) {
        self.sendsErrors = sendsErrors
        self.departure = departure
        descriptor = connection.descriptor
        watch = connection.watch
        reading = Reading(ahead: connection.takeRest())
    }

    deinit { descriptor.shutDown() }

    var executor: (any TaskExecutor)? { watch.executor }

    /// True when both directions have ended well.
    var isOver: Bool { state.withLock { $0.hasFinished && $0.hasEnded } }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        precondition(limit > 0, "read(upTo:) needs room for at least one byte")
        let limit = min(limit, Self.largestRead)
        while true {
            try Task.checkCancellation()
            let hasEnded = try state.withLock { state throws -> Bool in
                if let error = state.aborted { throw error }
                return state.hasEnded
            }
            if hasEnded { return nil }
            if reading.isDrained, reading.ahead.isEmpty {
                reading.isDrained = false
                await watch.wait(for: .reading)
            } else if reading.left > 0 {
                if let bytes = try await readBody(upTo: limit), try !isFailure(bytes) { return bytes }
            } else if let bytes = try await readHead(upTo: limit), try !isFailure(bytes) {
                return bytes
            }
        }
    }

    /// Takes bytes that are part of an error.
    ///
    /// - Throws: the error, once it is whole.
    private func isFailure(_ bytes: [UInt8]) throws -> Bool {
        guard let before = reading.failure else { return false }
        reading.failure = before + bytes
        guard reading.left == 0 else { return true }
        let error = (try? JSONText(before + bytes)).flatMap { RPCError($0)?.kithError }
        throw fail(error ?? KithError(.corrupt, "The other end broke it off, and its reason makes no sense."))
    }

    /// Bytes of the current frame; `nil` after waiting for some.
    private func readBody(upTo limit: Int) async throws -> [UInt8]? {
        if !reading.ahead.isEmpty {
            let bytes = Array(reading.ahead.prefix(min(limit, reading.left)))
            reading.ahead.removeFirst(bytes.count)
            reading.left -= bytes.count
            return bytes
        }
        switch try descriptor.receive(upTo: min(limit, max(reading.left, 4096))) {
        case .wouldBlock:
            await watch.wait(for: .reading)
            return nil
        case .end: throw ended()
        case .bytes(let bytes): return keep(bytes)
        }
    }

    /// Returns the part of `bytes` that belongs to the current frame, and keeps the rest.
    private func keep(_ bytes: [UInt8]) -> [UInt8] {
        guard bytes.count > reading.left else {
            reading.left -= bytes.count
            return bytes
        }
        let own = Array(bytes[..<reading.left])
        reading.ahead = Array(bytes[reading.left...])
        reading.left = 0
        return own
    }

    /// Reads the next frame's head, and its first bytes if they are there.
    private func readHead(upTo limit: Int) async throws -> [UInt8]? {
        if reading.ahead.isEmpty {
            var head: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0, 0)
            let (received, count) = try descriptor.receive(head: &head, upTo: limit)
            switch received {
            case .wouldBlock:
                await watch.wait(for: .reading)
                return nil
            case .end: throw ended()
            case .bytes(let bytes):
                let parts = [head.0, head.1, head.2, head.3]
                guard count == 4 else {
                    reading.ahead = Array(parts[..<count])
                    return nil
                }
                reading.isDrained = bytes.count < min(limit, Self.fewBytes)
                try begin(parts)
                guard reading.left > 0, !bytes.isEmpty else {
                    reading.ahead = bytes
                    return nil
                }
                return keep(bytes)
            }
        }
        if reading.ahead.count >= 4 {
            let parts = Array(reading.ahead[..<4])
            reading.ahead.removeFirst(4)
            try begin(parts)
            return nil
        }
        switch try descriptor.receive(upTo: 4096) {
        case .wouldBlock: await watch.wait(for: .reading)
        case .end: throw ended()
        case .bytes(let bytes): reading.ahead += bytes
        }
        return nil
    }

    private func begin(_ head: [UInt8]) throws {
        let value = head.reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        if value & Self.abortBit != 0, value & Self.errorBit != 0 {
            let count = Int(value & ~(Self.abortBit | Self.errorBit))
            guard (1...Self.errorLimit).contains(count) else {
                throw fail(KithError(.corrupt, "The other end broke it off, and its reason makes no sense."))
            }
            reading.failure = []
            reading.left = count
            return
        }
        if value & Self.abortBit != 0 {
            let code = KithError.Code(wireCode: UInt64(value & ~Self.abortBit))
            throw fail(KithError(code, "The other end broke it off (\(code.rawValue))."))
        }
        if value == 0 { state.withLock { $0.hasEnded = true } }
        reading.left = Int(value)
    }

    private func ended() -> KithError { fail(KithError(.closed, "The other end of the socket is gone.")) }

    /// Stores the first failure, ends the connection, and returns the error to throw.
    private func fail(_ error: KithError) -> KithError {
        let first = state.withLock { state -> KithError in
            if state.aborted == nil { state.aborted = error }
            return state.aborted ?? error
        }
        descriptor.shutDown()
        return first
    }

    func write(_ bytes: [UInt8]) async throws {
        guard !bytes.isEmpty else { return }
        guard bytes.count < Int(Self.abortBit) else {
            throw KithError(.invalid, "One write may be at most 2 GiB.")
        }
        try await send(head: UInt32(bytes.count), bytes)
    }

    func finish() async throws {
        let isFirst = try state.withLock { state throws -> Bool in
            if let error = state.aborted { throw error }
            return !state.hasFinished
        }
        guard isFirst else { return }
        try await send(head: 0, [])
        state.withLock { $0.hasFinished = true }
    }

    /// Waits until the other end is gone: it does not say that it only reads no more.
    func stopped() async throws {
        if let error = state.withLock({ $0.aborted }) { throw error }
        await watch.wait(for: departure)
        try Task.checkCancellation()
        throw state.withLock { $0.aborted } ?? KithError(.closed, "The other end of the socket is gone.")
    }

    private func send(head: UInt32, _ bytes: [UInt8]) async throws {
        try Task.checkCancellation()
        try state.withLock { state throws in
            if let error = state.aborted { throw error }
            guard !state.hasFinished else { throw KithError(.internal, "The stream was written to after its end.") }
            guard !state.isWriting else {
                throw KithError(
                    .internal, "The stream was written to after a write that was cancelled, or by two tasks.")
            }
            state.isWriting = true
        }
        let head = Self.bytes(head)
        var offset = 0
        while offset < head.count + bytes.count {
            let count: Int
            do {
                count = try descriptor.send(head: head, bytes, from: offset)
            } catch {
                // What the other end said last explains more than a closed socket.
                throw fail(error)
            }
            offset += count
            if count == 0 {
                await watch.wait(for: .writing)
                if let error = state.withLock({ $0.aborted }) { throw error }
                // A frame begun cannot be taken back: the stream is good only for abort() now.
                if Task.isCancelled {
                    if offset == 0 { state.withLock { $0.isWriting = false } }
                    throw CancellationError()
                }
            }
        }
        state.withLock { $0.isWriting = false }
    }

    func abort(_ code: KithError.Code) {
        abandon(
            KithError(code, "It was broken off (\(code.rawValue))."),
            saying: Self.bytes(Self.abortBit | UInt32(code.wireCode)))
        // The other end may be waiting for room, and then reads nothing of this.
        if state.withLock({ $0.aborted != nil }) { descriptor.breakOff() }
    }

    func fail(_ error: KithError) {
        var text = RPCError(error).json
        if text.count > Self.errorLimit {
            text = RPCError(KithError(error.code, error.message.prefix(bytes: 4096))).json
        }
        guard sendsErrors, text.count <= Self.errorLimit else {
            return abandon(error, saying: Self.bytes(Self.abortBit | UInt32(error.code.wireCode)))
        }
        abandon(error, saying: Self.bytes(Self.abortBit | Self.errorBit | UInt32(text.count)) + text)
    }

    private func abandon(_ error: KithError, saying frame: [UInt8]) {
        let isFirst = state.withLock { state -> Bool in
            guard state.aborted == nil, !(state.hasFinished && state.hasEnded) else { return false }
            state.aborted = error
            if !state.isWriting {
                // One try: a full socket loses it, and the other end learns `.closed`.
                _ = try? descriptor.send(frame, from: 0)
            }
            return true
        }
        if isFirst { descriptor.shutDown() }
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 0xFF), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)]
    }
}
