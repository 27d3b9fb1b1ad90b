import KithAPI
import KithIO
import KithRPC
import KithWire
import Synchronization

/// A socket connection that carries JSON-RPC, one packet a line: one task reads, any number write.
final class LineConnection: Sendable {
    let descriptor: SocketDescriptor
    /// The readiness of the descriptor, for tasks to wait on.
    let watch: Watch
    private let reading: Reading
    private let turn = AsyncMutex()
    private let queue = Mutex((bytes: [UInt8](), isSending: false))
    /// Room for bytes that were read and not taken yet.
    let room = ByteRoom(inboxLimit)
    private static let inboxLimit = 64 << 20
    /// Room for lines that wait to be sent: while there is none, a server reads no further.
    let outgoing = ByteRoom(outboxLimit)
    /// The most bytes of them, beside the answers of calls that run already.
    static let outboxLimit = 8 << 20
    /// The sign that the other end is gone: where it may end its direction and still listen, both have to be.
    let departure: Reactor.Interest

    /// Only the one reading task touches it.
    private final class Reading: @unchecked Sendable {  // `nextLine` says so
        var framer: LineFramer
        /// The lines taken since others on the thread had their turn.
        var sinceTurn = 0
        init(limit: Int) { framer = LineFramer(limit: limit) }
    }

    init(
        _ descriptor: SocketDescriptor, on reactor: Reactor, lineLimit: Int, mayHalfClose: Bool = true
    ) throws(KithError) {
        self.descriptor = descriptor
        departure = mayHalfClose ? .hangUp : .end
        watch = try reactor.watch(descriptor)
        reading = Reading(limit: lineLimit)
    }

    /// Waits for the next line; `nil` at the end.
    ///
    /// One task at a time.
    func nextLine() async throws -> [UInt8]? {
        while true {
            if let line = try reading.framer.next() {
                try await takeTurn()
                return line
            }
            try Task.checkCancellation()
            switch try descriptor.receive(upTo: 64 << 10) {
            case .bytes(let bytes): reading.framer.append(bytes)
            case .end: return nil
            case .wouldBlock:
                reading.sinceTurn = 0
                await watch.wait(for: .reading)
            }
        }
    }

    /// Lets others on the thread go on, now and then: the other end may send for ever without a pause.
    private func takeTurn() async throws {
        reading.sinceTurn += 1
        guard reading.sinceTurn >= Self.linesATurn else { return }
        reading.sinceTurn = 0
        await Task.yield()
        try Task.checkCancellation()
    }

    /// So many lines, under a millisecond's worth, are taken before others on the thread have their turn.
    private static let linesATurn = 32

    /// Waits for the next packet; `nil` at the end.
    ///
    /// One task at a time, which may wait on the socket's own executor: a packet that takes long to read is read elsewhere.
    func nextPacket() async throws -> RPCPacket? {
        guard let line = try await nextLine() else { return nil }
        return await packet(line)
    }

    /// Reads a packet, elsewhere when that takes long.
    func packet(_ line: [UInt8]) async -> RPCPacket {
        if line.count <= Self.longLine { return RPCPacket(parsing: line) }
        return await withTaskExecutorPreference(globalConcurrentExecutor) { RPCPacket(parsing: line) }
    }

    /// A line of more bytes than this, some hundred microseconds' worth, would keep others waiting.
    private static let longLine = 64 << 10

    /// Allows longer lines from now on; only the reading task calls this.
    func allowLines(of limit: Int) { reading.framer.limit = limit }

    /// Waits for something other than the next line, unless the other end goes away meanwhile.
    ///
    /// Only the reading task calls it; it would not notice otherwise.
    ///
    /// - Throws: what `body` throws, `KithError` `.closed` when the other end is gone.
    func whileThere(_ body: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup { group in
            group.addTask { try await body() }
            group.addTask { [watch, departure] in
                await watch.wait(for: departure)
                try Task.checkCancellation()
                throw KithError(.closed, "The caller is gone.")
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Ends this direction, and throws away what comes in the other until that ends, too: who would close at once might
    /// take from the other end what it has not read yet.
    ///
    /// Only the reading task calls this.
    func leave() async throws {
        descriptor.endWriting()
        while true {
            try Task.checkCancellation()
            switch try descriptor.receive(upTo: 64 << 10) {
            case .bytes: try await takeTurn()
            case .end: return
            case .wouldBlock: await watch.wait(for: .reading)
            }
        }
    }

    /// Takes the bytes that came in after the last line.
    ///
    /// Only the reading task calls this.
    func takeRest() -> [UInt8] { reading.framer.takeRest() }

    /// Sends a line whole, after those before it.
    ///
    /// Cancelling the task does not end it, half a line would end the connection; shutting the socket down does.
    func send(_ line: [UInt8]) async throws(KithError) {
        outgoing.add(line.count + 1)
        defer { outgoing.giveBack(line.count + 1) }
        try await write(line + [0x0A])
    }

    private func write(_ lines: [UInt8]) async throws(KithError) {
        await turn.lock()
        defer { turn.unlock() }
        var offset = 0
        while offset < lines.count {
            let count = try descriptor.send(lines, from: offset)
            offset += count
            if count == 0 { await watch.wait(for: .writing, isCancellable: false) }
        }
    }

    /// Queues a line, once there is room for it; returns whether somebody has to call ``sendQueued()`` now.
    ///
    /// Who sends much that is answered at once, before it reads, costs one task and not one a line.
    func enqueue(_ line: [UInt8]) async throws -> Bool {
        try await outgoing.take(line.count + 1)
        return queue.withLock { queue in
            queue.bytes += line
            queue.bytes.append(0x0A)
            defer { queue.isSending = true }
            return !queue.isSending
        }
    }

    /// Sends what is queued, and what is queued meanwhile.
    func sendQueued() async {
        while true {
            let bytes = queue.withLock { queue in
                if queue.bytes.isEmpty { queue.isSending = false }
                defer { queue.bytes = [] }
                return queue.bytes
            }
            guard !bytes.isEmpty else { return }
            defer { outgoing.giveBack(bytes.count) }
            try? await write(bytes)  // the other end may be gone
        }
    }
}
