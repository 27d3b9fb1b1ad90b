package import KithAPI
import KithRPC
package import KithWire
package import Logging
import Synchronization

/// The JSON-RPC door of a device: a Unix socket in its data directory, for this user's processes only.
///
/// A connection carries any number of calls at once; a stream takes over the connection it was asked for on.
/// ``run()`` serves until it is cancelled, which ends every call, or ``beginGracefulShutdown()``,
/// after which nobody new gets in and the calls that run end on their own.
public final class SocketServer: Sendable {
    /// How many connections there may be at once; more wait in the system's queue.
    package static let connectionLimit = 256

    private let dispatcher: any Dispatcher
    private let logger: Logger
    private let place: SocketPath
    private let listener: SocketDescriptor
    private let poller: Poller
    private let state = Mutex(State())

    private struct State {
        var isShuttingDown = false
        var waiting: Task<Void, Never>?
        var connections: [ObjectIdentifier: ServerConnection] = [:]
    }

    /// Begins to listen; callers wait until ``run()``.
    ///
    /// Whoever calls this holds the lock of the data directory: a socket left there by a process that is gone
    /// is removed.
    ///
    /// - Throws: `KithError` `.conflict` when another process answers at the socket, `.denied` when the system refuses.
    package init(directory: String, dispatcher: any Dispatcher, logger: Logger) throws(KithError) {
        self.dispatcher = dispatcher
        self.logger = logger
        place = try SocketPath.forListening(in: directory)
        if try SocketDescriptor.connect(to: place.path) != nil {
            throw KithError(.conflict, "Another process answers at \(place.path).")
        }
        place.remove()
        poller = try Poller()
        listener = try SocketDescriptor.listen(at: place.path)
        try place.announce()
    }

    /// Where it listens.
    public var path: String { place.path }

    /// The socket, and the folder around it where that is not the data directory: whoever could change them would be
    /// taken for the device.
    public var places: [String] { place.pointer == nil ? [place.path] : [place.path, SocketPath.sharedFolder] }

    /// Serves callers until the task is cancelled or a graceful shutdown is done.
    public func run() async throws {
        defer { place.remove() }
        try await withThrowingDiscardingTaskGroup { group in
            while let descriptor = try await nextCaller() { admit(descriptor, to: &group) }
            // From here on a new caller finds nobody, rather than somebody who does not answer.
            place.remove()
        }
    }

    /// Waits for a caller; `nil` once the door is closing.
    private func nextCaller() async throws -> SocketDescriptor? {
        while true {
            try Task.checkCancellation()
            if isShuttingDown { return nil }
            switch try listener.accept() {
            case .connection(let descriptor): return descriptor
            case .notNow: try await Task.sleep(for: .milliseconds(10))
            case .wouldBlock: await waitForCaller()
            }
        }
    }

    /// Waits in a task that ``beginGracefulShutdown()`` can cancel.
    private func waitForCaller() async {
        let poller = poller
        let listener = listener
        let waiting = Task(name: "kith socket accept") { await poller.wait(for: .read, of: listener) }
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

    /// Lets nobody new in; calls that run end on their own, idle connections are closed.
    public func beginGracefulShutdown() {
        let (connections, waiting) = state.withLock { state in
            state.isShuttingDown = true
            return (Array(state.connections.values), state.waiting)
        }
        waiting?.cancel()
        for connection in connections { connection.beginGracefulShutdown() }
    }

    private var isShuttingDown: Bool { state.withLock { $0.isShuttingDown } }

    private func admit(_ descriptor: SocketDescriptor, to group: inout ThrowingDiscardingTaskGroup<any Error>) {
        guard descriptor.isOwnUser else {
            logger.warning("refused a caller of another user at the socket")
            return
        }
        let connection = ServerConnection(descriptor, poller: poller, dispatcher: dispatcher, logger: logger)
        let isAdmitted = state.withLock { state -> Bool in
            guard !state.isShuttingDown, state.connections.count < Self.connectionLimit else { return false }
            state.connections[ObjectIdentifier(connection)] = connection
            return true
        }
        guard isAdmitted else {
            let failure = KithError(.exhausted, "More than \(Self.connectionLimit) connections, or this device stops.")
            let answer = RPCResponse(id: .null, result: .failure(RPCError(failure))).json + [0x0A]
            _ = try? descriptor.send(answer, from: 0)  // a fresh socket takes it, or its caller is gone
            return
        }
        group.addTask {
            await connection.serve()
            self.state.withLock { _ = $0.connections.removeValue(forKey: ObjectIdentifier(connection)) }
        }
    }
}
