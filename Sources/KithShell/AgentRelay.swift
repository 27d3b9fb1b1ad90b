import CKithSystem
import Foundation
import KithIO
import KithWire
import Synchronization

/// Connections to an ssh agent, carried in `agent` frames: on the device from the programs of a session, at the caller
/// to the person's own agent.
///
/// A connection is known by a number the device gives it; empty bytes end it. What arrives faster than it is taken is
/// bounded, and one that holds more is closed.
final class AgentRelay: Sendable {
    /// A receiver of a connection's bytes; empty ones at its end.
    typealias Sink = @Sendable (_ number: UInt64, _ bytes: [UInt8]) -> Void

    private struct Connection {
        var descriptor: Int32
        var outgoing: AsyncStream<[UInt8]>.Continuation
        var waiting = 0
    }

    private struct State {
        var connections: [UInt64: Connection] = [:]
        var next: UInt64 = 1
        var isClosed = false
    }

    private static let maximumConnections = 16
    /// An agent's message is at most 256 KiB.
    private static let maximumWaiting = 512 << 10
    private static let pieceLimit = 32 << 10

    private let reactor: Reactor
    private let clock: any Ticker
    private let sink: Sink
    private let state = Mutex(State())

    init(_ reactor: Reactor, clock: any Ticker, sink: @escaping Sink) {
        self.reactor = reactor
        self.clock = clock
        self.sink = sink
    }

    // MARK: - The device's end

    /// A socket for the programs of a session; who connects to it talks to the caller's agent.
    struct Listener: Sendable {
        let path: String
        let descriptor: Int32

        /// Listens in a new folder that only this user can enter.
        init() throws(KithError) {
            let parent = FileManager.default.temporaryDirectory.path
            let folder = "\(parent)/kith-\(UUID().uuidString.prefix(8).lowercased())"
            path = folder + "/agent"
            // mkdir(2) takes nothing that is there already, so nobody else can have prepared it.
            guard unsafe mkdir(folder, 0o700) == 0 else {
                throw KithError(
                    .internal, unsafe "Cannot offer an ssh agent in \(parent): \(String(cString: strerror(errno))).")
            }
            descriptor = unsafe kith_stream_listen_path(path, 16)
            guard descriptor >= 0 else {
                _ = unsafe rmdir(folder)
                throw KithError(
                    .internal,
                    unsafe "Cannot offer an ssh agent in \(parent): \(String(cString: strerror(-descriptor))).")
            }
        }

        func close() {
            _ = Foundation.close(descriptor)
            unsafe kith_socket_unlink(path)
            _ = unsafe rmdir((path as NSString).deletingLastPathComponent)
        }
    }

    /// Takes connections until cancelled.
    func accept(from listener: Listener) async throws {
        let watch = try reactor.watch(terminal: listener.descriptor)
        defer { watch.close() }
        while true {
            try Task.checkCancellation()
            var peer = kith_udp_address()
            let descriptor = unsafe kith_stream_accept(listener.descriptor, &peer)
            switch -descriptor {
            case EAGAIN, EWOULDBLOCK:
                await watch.wait(for: .reading)
                continue
            // Nothing to take it with: others must end first.
            case EMFILE, ENFILE, ENOBUFS, ENOMEM:
                try await clock.sleep(for: .milliseconds(50))
                continue
            case ECONNABORTED, EPROTO, EINTR: continue
            default: break
            }
            guard descriptor >= 0 else {
                throw unsafe KithError(
                    .closed, "The socket for the agent takes no more: \(String(cString: strerror(-descriptor))).")
            }
            let number = state.withLock { state in
                defer { state.next += 1 }
                return state.next
            }
            add(descriptor, as: number)
        }
    }

    // MARK: - The caller's end

    /// Opens a connection to the agent for a number not seen before.
    func connect(_ number: UInt64, to path: String) {
        let descriptor = unsafe kith_stream_connect_path(path)
        guard descriptor >= 0 else { return sink(number, []) }
        add(descriptor, as: number)
    }

    func isOpen(_ number: UInt64) -> Bool { state.withLock { $0.connections[number] != nil } }

    // MARK: - Both

    /// Passes bytes on to a connection; empty ones end it.
    func deliver(_ bytes: [UInt8], to number: UInt64) {
        guard !bytes.isEmpty else { return remove(number) }
        let isTooMuch = state.withLock { state -> Bool in
            guard let connection = state.connections[number] else { return false }
            guard connection.waiting + bytes.count <= Self.maximumWaiting else { return true }
            state.connections[number]?.waiting += bytes.count
            connection.outgoing.yield(bytes)
            return false
        }
        if isTooMuch {
            remove(number)
            sink(number, [])
        }
    }

    /// Ends every connection.
    func close() {
        let numbers = state.withLock { state in
            state.isClosed = true
            return Array(state.connections.keys)
        }
        for number in numbers { remove(number) }
    }

    private func add(_ descriptor: Int32, as number: UInt64) {
        let (chunks, outgoing) = AsyncStream.makeStream(of: [UInt8].self)
        // Without a watch nobody can wait for it: it is refused like one too many.
        let watch = try? reactor.watch(terminal: descriptor)
        let isTaken = state.withLock { state in
            guard watch != nil, !state.isClosed, state.connections.count < Self.maximumConnections else { return false }
            state.connections[number] = Connection(descriptor: descriptor, outgoing: outgoing)
            return true
        }
        guard let watch, isTaken else {
            watch?.close()
            _ = Foundation.close(descriptor)
            return sink(number, [])
        }
        Task(name: "kith agent \(number)") {
            await withTaskGroup { group in
                group.addTask { await self.read(descriptor, watch, number) }
                group.addTask { await self.write(chunks, to: descriptor, watch, number) }
                await group.next()
                self.remove(number)
                group.cancelAll()
            }
            watch.close()
            _ = Foundation.close(descriptor)
        }
    }

    private func remove(_ number: UInt64) {
        let removed = state.withLock { $0.connections.removeValue(forKey: number) }
        removed?.outgoing.finish()
    }

    private func read(_ descriptor: Int32, _ watch: Watch, _ number: UInt64) async {
        var buffer = [UInt8](repeating: 0, count: Self.pieceLimit)
        while !Task.isCancelled {
            let count = unsafe kith_read_available(descriptor, &buffer, buffer.count)
            if count > 0 {
                sink(number, Array(buffer[..<count]))
            } else if Int32(-count) == EAGAIN {
                await watch.wait(for: .reading)
            } else {
                break
            }
        }
        sink(number, [])
    }

    private func write(
        _ chunks: AsyncStream<[UInt8]>, to descriptor: Int32, _ watch: Watch, _ number: UInt64
    ) async {
        for await chunk in chunks {
            var rest = chunk[...]
            while !rest.isEmpty {
                let count = unsafe rest.withUnsafeBytes {
                    unsafe kith_write_available(descriptor, $0.baseAddress, $0.count)
                }
                if count >= 0 {
                    rest = rest.dropFirst(count)
                } else if Int32(-count) == EAGAIN {
                    await watch.wait(for: .writing)
                    if Task.isCancelled { return }
                } else {
                    return
                }
            }
            state.withLock { $0.connections[number]?.waiting -= chunk.count }
        }
    }
}
