import CKithSystem
import Foundation
import KithWire
import Synchronization

/// Tells tasks when their sockets are ready: one thread waits for all of them.
///
/// A socket is added once and reported at every change, so that a task that has something to do never asks the system to
/// be told. The thread ends with the last reference.
final class SocketLoop: Sendable {
    private let core: Core

    /// Starts the thread.
    ///
    /// - Throws: `.exhausted` when no descriptor is free.
    init() throws(KithError) {
        core = try Core()
        let thread = Thread { [core] in core.run() }
        thread.name = "kith-forward"
        thread.start()
    }

    deinit { core.stop() }

    /// How many sockets there are.
    var count: Int { core.count }

    /// Begins to report a descriptor to `readiness`; returns what ``remove(_:_:)`` wants.
    func add(_ descriptor: Int32, _ readiness: Readiness) throws(KithError) -> UInt64 {
        try core.add(descriptor, readiness)
    }

    /// Must come before the descriptor is closed.
    func remove(_ descriptor: Int32, _ token: UInt64) { core.remove(descriptor, token) }

    private final class Core: Sendable {
        private struct State {
            /// 0 is the pipe that ends the thread.
            var lastToken: UInt64 = 0
            var sockets: [UInt64: Readiness] = [:]
        }

        private let reactor: Int32
        private let stopEnds: (read: Int32, write: Int32)
        private let state = Mutex(State())

        init() throws(KithError) {
            reactor = kith_reactor_open()
            guard reactor >= 0 else { throw KithError(.exhausted, "No file descriptor is free for forwarding.") }
            var ends: [Int32] = [-1, -1]
            guard unsafe pipe(&ends) == 0 else {
                kith_socket_close(reactor)
                throw KithError(.exhausted, "No file descriptor is free for forwarding.")
            }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            stopEnds = (ends[0], ends[1])
            kith_reactor_add(reactor, stopEnds.read, 0)
        }

        deinit {
            kith_socket_close(reactor)
            kith_socket_close(stopEnds.read)
            kith_socket_close(stopEnds.write)
        }

        func add(_ descriptor: Int32, _ readiness: Readiness) throws(KithError) -> UInt64 {
            let token = state.withLock { state in
                state.lastToken += 1
                state.sockets[state.lastToken] = readiness
                return state.lastToken
            }
            let status = kith_reactor_add(reactor, descriptor, token)
            guard status == 0 else {
                state.withLock { _ = $0.sockets.removeValue(forKey: token) }
                throw KithError(.exhausted, "The system watches no more sockets: \(SystemError(-status)).")
            }
            return token
        }

        var count: Int { state.withLock { $0.sockets.count } }

        func remove(_ descriptor: Int32, _ token: UInt64) {
            kith_reactor_remove(reactor, descriptor)
            state.withLock { _ = $0.sockets.removeValue(forKey: token) }
        }

        func stop() {
            var byte: UInt8 = 0
            _ = unsafe write(stopEnds.write, &byte, 1)
        }

        func run() {
            var tokens = [UInt64](repeating: 0, count: 128)
            var ready = [UInt8](repeating: 0, count: 128)
            while true {
                let count = unsafe kith_reactor_wait(reactor, &tokens, &ready, 128)
                guard count > 0 else { continue }
                for index in 0..<Int(count) {
                    guard tokens[index] != 0 else { return }
                    // A token of a socket that is gone meanwhile is nobody's.
                    state.withLock { $0.sockets[tokens[index]] }?.became(ready[index])
                }
            }
        }
    }
}

/// What a socket is ready for, and who waits for it: one task for each direction.
final class Readiness: Sendable {
    /// What a task waits for.
    enum Direction: Sendable {
        case reading, writing
    }

    private struct State {
        // The first report comes with the registration.
        var isReadable = false
        var isWritable = false
        var reader: CheckedContinuation<Void, Never>?
        var writer: CheckedContinuation<Void, Never>?
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Forgets that a direction was ready: to be called before an attempt that may find that it is not.
    func expect(_ direction: Direction) {
        state.withLock { state in
            switch direction {
            case .reading: state.isReadable = false
            case .writing: state.isWritable = false
            }
        }
    }

    /// Waits until a direction has become ready since ``expect(_:)``, the socket was closed, or the task cancelled.
    ///
    /// - Returns: whether the socket is still open.
    @discardableResult func wait(_ direction: Direction) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    let isReady = direction == .reading ? state.isReadable : state.isWritable
                    // The cancellation handler may have run before the continuation was there.
                    if isReady || state.isClosed || Task.isCancelled { return true }
                    switch direction {
                    case .reading:
                        precondition(state.reader == nil, "two tasks read one socket at once")
                        state.reader = continuation
                    case .writing:
                        precondition(state.writer == nil, "two tasks write one socket at once")
                        state.writer = continuation
                    }
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                switch direction {
                case .reading:
                    defer { state.reader = nil }
                    return state.reader
                case .writing:
                    defer { state.writer = nil }
                    return state.writer
                }
            }
            waiter?.resume()
        }
        return state.withLock { !$0.isClosed }
    }

    /// Wakes everybody for good.
    func close() { wake { $0.isClosed = true } }

    /// Takes a report of the system's.
    func became(_ ready: UInt8) {
        wake { state in
            if ready & UInt8(KITH_READY_TO_READ) != 0 { state.isReadable = true }
            if ready & UInt8(KITH_READY_TO_WRITE) != 0 { state.isWritable = true }
        }
    }

    private func wake(_ change: (inout sending State) -> Void) {
        let (reader, writer) = state.withLock { state in
            change(&state)
            var waiters: (CheckedContinuation<Void, Never>?, CheckedContinuation<Void, Never>?) = (nil, nil)
            if state.isReadable || state.isClosed {
                waiters.0 = state.reader
                state.reader = nil
            }
            if state.isWritable || state.isClosed {
                waiters.1 = state.writer
                state.writer = nil
            }
            return waiters
        }
        reader?.resume()
        writer?.resume()
    }
}

/// A number of the system's for a failure.
struct SystemError: Error, Hashable, CustomStringConvertible {
    /// `errno`.
    let number: Int32

    init(_ number: Int32) { self.number = number }

    /// Whether the call would have had to wait.
    var isWouldBlock: Bool { number == EAGAIN || number == EWOULDBLOCK }

    var description: String { unsafe String(cString: strerror(number)) }
}
