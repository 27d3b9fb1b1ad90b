package import KithAPI
import KithIO
import KithRPC
package import KithWire
package import Logging
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The JSON-RPC server of a device, whatever its listener: as a rule a Unix socket in its data directory.
///
/// A connection carries any number of calls and streams at once.
/// ``run()`` serves until it is cancelled, which ends every call, or ``beginGracefulShutdown()``,
/// which admits no new callers and lets running calls end on their own.
public final class SocketServer: Sendable {
    /// The most connections at once, unless told otherwise; one more is answered with an error.
    package static let connectionLimit = 2_048

    private let connectionLimit: Int
    private let dispatcher: any Dispatcher
    private let foreign: (any ForeignProtocol)?
    private let logger: Logger
    private let listener: SocketListener
    private let reactor: Reactor
    private let watch: Watch
    private let state = Mutex(State())
    /// Happens when the last connection of a server that admits no more has ended.
    private let emptied = AsyncEvent()

    private struct State {
        var isShuttingDown = false
        var waiting: Task<Void, Never>?
        var connections: [ObjectIdentifier: ServerConnection] = [:]
    }

    /// Serves the callers of `listener`, who wait until ``run()``.
    package init(
        _ listener: SocketListener, dispatcher: any Dispatcher, foreign: (any ForeignProtocol)? = nil,
        connectionLimit: Int = connectionLimit, logger: Logger
    ) throws(KithError) {
        self.listener = listener
        self.connectionLimit = connectionLimit
        self.dispatcher = dispatcher
        self.foreign = foreign
        self.logger = logger
        reactor = try .forSockets()
        watch = try reactor.watch(listener.descriptor)
    }

    /// Begins to listen at the socket of a data directory, as ``SocketListener/unix(directory:as:)``.
    package convenience init(
        directory: String, as holder: SocketHolder = .daemon, dispatcher: any Dispatcher,
        foreign: (any ForeignProtocol)? = nil, logger: Logger
    ) throws(KithError) {
        try self.init(
            .unix(directory: directory, as: holder), dispatcher: dispatcher, foreign: foreign, logger: logger)
    }

    /// The files of its socket: whoever could change them could pose as the device.
    public var places: [String] { listener.places }

    /// Serves callers until the task is cancelled or a graceful shutdown is done.
    public func run() async throws {
        defer { listener.remove() }
        try await withThrowingDiscardingTaskGroup { group in
            while let descriptor = try await nextCaller() { admit(descriptor, to: &group) }
            // From here on a new caller is refused, rather than left waiting for an answer.
            listener.remove()
        }
    }

    /// Waits for a caller; `nil` once the server is shutting down.
    private func nextCaller() async throws -> SocketDescriptor? {
        while true {
            try Task.checkCancellation()
            if isShuttingDown { return nil }
            switch try listener.descriptor.accept() {
            case .connection(let descriptor): return descriptor
            case .notNow: try await Task.sleep(for: .milliseconds(10))
            case .wouldBlock: await waitForCaller()
            }
        }
    }

    /// Waits in a task that ``beginGracefulShutdown()`` can cancel.
    private func waitForCaller() async {
        let waiting = Task(name: "kith socket accept") { [watch] in await watch.wait(for: .reading) }
        let isClosing = state.withLock { state in
            state.waiting = waiting
            return state.isShuttingDown
        }
        if isClosing { waiting.cancel() }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
    }

    /// Admits no new callers; running calls end on their own, idle connections are closed.
    public func beginGracefulShutdown() {
        let (connections, waiting) = state.withLock { state in
            state.isShuttingDown = true
            return (Array(state.connections.values), state.waiting)
        }
        waiting?.cancel()
        if connections.isEmpty { emptied.happen() }
        for connection in connections { connection.beginGracefulShutdown() }
    }

    /// Ends the connections that are there: those at which something still waits to be sent after a while, because their
    /// callers do not read, without it.
    ///
    /// For when every call has ended, or was called off.
    package func end(within grace: Duration = .seconds(1)) async {
        beginGracefulShutdown()
        // The limit is kept by cancelling the wait.
        try? await withDeadline(grace) { [emptied] in _ = await emptied.wait() }
        for connection in state.withLock({ Array($0.connections.values) }) { connection.end() }
    }

    private var isShuttingDown: Bool { state.withLock { $0.isShuttingDown } }

    private func admit(_ descriptor: SocketDescriptor, to group: inout ThrowingDiscardingTaskGroup<any Error>) {
        guard listener.admits(descriptor.peer) else {
            logger.warning("refused a caller", metadata: ["at": "\(listener.name)"])
            return
        }
        let connection: ServerConnection
        do {
            connection = try ServerConnection(
                descriptor, on: reactor, gate: listener.gate, mayHalfClose: listener.mayHalfClose,
                dispatcher: dispatcher, foreign: foreign, logger: logger)
        } catch {
            logger.warning("refused a caller: \(error.message)", metadata: ["at": "\(listener.name)"])
            return
        }
        guard enter(connection) else {
            let answer = RPCResponse(id: .null, result: .failure(RPCError(crowded))).json + [0x0A]
            _ = try? descriptor.send(answer, from: 0)  // a fresh socket takes it, or its caller is gone
            return
        }
        group.addTask {
            await connection.serve()
            self.leave(connection)
        }
    }

    /// Makes a pair of connected sockets: one for a caller in this process, one for ``serve(caller:)``.
    package static func makePair() throws(KithError) -> (caller: Int32, served: Int32) {
        var ends: (Int32, Int32) = (-1, -1)
        guard Platform.makePair(&ends) else {
            throw KithError(.exhausted, "Could not make a pair of sockets: \(SocketDescriptor.text(errno)).")
        }
        return ends
    }

    /// Serves a caller who has the other end of a pair of sockets, until it is gone or the task is cancelled.
    ///
    /// It is one like those at the Unix socket. `number` is closed in the end, whatever comes of it.
    ///
    /// - Throws: `KithError` `.exhausted` when there are too many.
    package func serve(caller number: Int32) async throws(KithError) {
        let connection = try ServerConnection(
            SocketDescriptor(owning: number), on: reactor, gate: nil, mayHalfClose: true, dispatcher: dispatcher,
            foreign: nil, logger: logger)
        guard enter(connection) else { throw crowded }
        await connection.serve()
        leave(connection)
    }

    private var crowded: KithError {
        KithError(.exhausted, "More than \(connectionLimit) connections, or this device stops.")
    }

    private func enter(_ connection: ServerConnection) -> Bool {
        // Those at the gate are counted there: they must not keep out whoever is let in.
        let limit = connectionLimit + (listener.gate == nil ? 0 : 2 * TokenGate.pendingLimit)
        return state.withLock { state in
            guard !state.isShuttingDown, state.connections.count < limit else { return false }
            state.connections[ObjectIdentifier(connection)] = connection
            return true
        }
    }

    private func leave(_ connection: ServerConnection) {
        let isLast = state.withLock { state in
            state.connections[ObjectIdentifier(connection)] = nil
            return state.isShuttingDown && state.connections.isEmpty
        }
        if isLast { emptied.happen() }
    }
}
