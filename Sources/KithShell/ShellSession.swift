public import KithAPI
import KithWire
import Synchronization

/// A shell or a command on another device, seen from the caller's side.
///
/// ```swift
/// let session = try await ShellSession.open(.init(commandLine: "make test"), on: "laptop", client: client)
/// try await session.endInput()
/// for try await event in session.events {
///     switch event {
///     case .output(let bytes): …
///     case .errorOutput(let bytes): …
///     case .exited(let exit): print(exit.shellStatus)
///     }
/// }
/// ```
/// One task may iterate the events while another writes; resizes and signals may come from anywhere.
/// The processes there are ended when the session is closed or released before it has exited.
public final class ShellSession: Sendable {
    /// What comes from the other device.
    public enum Event: Hashable, Sendable {
        /// Bytes from standard output, or from the terminal.
        case output([UInt8])
        /// Bytes from standard error; never from a terminal.
        case errorOutput([UInt8])
        /// The end, always the last event.
        case exited(ShellExit)
    }

    /// What was started there.
    public let opened: Shell.Open.Output
    private let stream: any ByteStream
    private let sink: FrameSink
    private let allowance = InputAllowance()
    private let decoder = Mutex(ShellFrameDecoder())
    private let hasExited = Mutex(false)

    /// Opens a shell or runs a command on a device; `nil` is this one.
    ///
    /// - Throws: `KithError`: `.denied` without the grant, `.notFound` for a folder that is not there.
    public static func open(
        _ input: Shell.Open.Input, on device: String?, client: Client, options: CallOptions = CallOptions()
    ) async throws -> ShellSession {
        let opened = try await client.open(Shell.Open.self, input, on: device, options: options)
        return ShellSession(opened)
    }

    /// Speaks over a stream ``Shell/Open`` was accepted on.
    public init(_ opened: OpenedStream<Shell.Open.Output>) {
        self.opened = opened.output
        stream = opened.stream
        sink = FrameSink(opened.stream)
    }

    deinit { close() }

    /// What comes from the device, in order, until it has exited.
    public var events: Events { Events(session: self) }

    /// Waits for the next event; `nil` after `exited`.
    ///
    /// - Throws: `KithError` `.closed` and the like when the connection was lost before.
    public func next() async throws -> Event? {
        do {
            while true {
                if hasExited.withLock({ $0 }) { return nil }
                while let frame = try decoder.withLock({ decoder throws(KithError) in try decoder.next() }) {
                    switch frame {
                    case .output(let bytes): return .output(bytes)
                    case .errorOutput(let bytes): return .errorOutput(bytes)
                    case .taken(let count): allowance.add(count)
                    case .exited(let exit):
                        hasExited.withLock { $0 = true }
                        allowance.end()
                        // The processes are gone; a connection that is gone by now as well harms nobody.
                        try? await sink.finish()
                        return .exited(exit)
                    case .input, .endOfInput, .resize, .signal:
                        throw KithError(.invalid, "The device sent a frame that only a caller sends.")
                    }
                }
                guard let bytes = try await stream.read(upTo: 64 << 10) else {
                    throw KithError(.closed, "The shell's stream ended before the shell did.")
                }
                decoder.withLock { $0.append(bytes) }
            }
        } catch {
            if !(error is CancellationError) { allowance.end() }
            throw error
        }
    }

    /// Writes to standard input, or types on the terminal; waits while the process does not read.
    ///
    /// After the process has exited, input is dropped.
    public func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = try await allowance.take(upTo: min(rest.count, 32 << 10))
            guard count > 0 else { return }
            try await sink.send(.input(Array(rest.prefix(count))))
            rest = rest.dropFirst(count)
        }
    }

    /// Ends standard input; on a terminal it types the end-of-file key.
    public func endInput() async throws {
        if hasExited.withLock({ $0 }) { return }
        try await sink.send(.endOfInput)
    }

    /// Tells the terminal's new size.
    public func resize(_ size: Shell.Size) async throws {
        if hasExited.withLock({ $0 }) { return }
        try await sink.send(.resize(size))
    }

    /// Signals what runs in the foreground of the terminal; without one, the command and its children.
    public func signal(_ signal: ShellSignal) async throws {
        if hasExited.withLock({ $0 }) { return }
        try await sink.send(.signal(signal))
    }

    /// Hangs up, which ends the processes.
    ///
    /// Does nothing after the exit.
    public func close() {
        allowance.end()
        if !hasExited.withLock({ $0 }) { stream.abort(.cancelled) }
    }

    /// The events of a session as a sequence.
    public struct Events: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let session: ShellSession

        /// The sequence is its own iterator: events are given once.
        public func makeAsyncIterator() -> Events { self }

        /// Waits for the next event, as ``ShellSession/next()`` does.
        public mutating func next() async throws -> Event? { try await session.next() }
    }
}

/// How much input may still be sent before the device says it took some.
private final class InputAllowance: Sendable {
    private struct State {
        var left = ShellFrame.inputWindow
        var hasEnded = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func takeWaiting() -> [CheckedContinuation<Void, Never>] {
            defer { waiting = [] }
            return waiting
        }
    }

    private let state = Mutex(State())

    func add(_ count: Int) {
        let waiting = state.withLock { state in
            state.left = min(state.left + count, ShellFrame.inputWindow)
            return state.takeWaiting()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Lets nobody wait any more.
    func end() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            return state.takeWaiting()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until something may be sent and takes at most `limit` of it; 0 after the end.
    func take(upTo limit: Int) async throws -> Int {
        while true {
            try Task.checkCancellation()
            let taken = state.withLock { state -> Int? in
                if state.hasEnded { return 0 }
                guard state.left > 0 else { return nil }
                let taken = min(limit, state.left)
                state.left -= taken
                return taken
            }
            if let taken { return taken }
            await wait()
        }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.left == 0, !state.hasEnded, !Task.isCancelled else { return false }
                    state.waiting.append(continuation)
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        } onCancel: {
            // Whoever was not meant looks again and waits on.
            for waiter in state.withLock({ $0.takeWaiting() }) { waiter.resume() }
        }
    }
}
