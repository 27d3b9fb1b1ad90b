public import KithAPI
import KithIO
import KithWire
import Synchronization

/// Carries calls to a device in another process, whichever process that is by then: it connects again to a daemon that
/// was restarted.
///
/// Idempotent calls (`MethodHeader.isIdempotent`) are repeated when the daemon went away meanwhile. Anything else may
/// have been done: it fails with `.closed`, and says so. A stream ends with `.closed`. A call that begins while there
/// is no daemon waits for one, trying ever less often, as long as ``Options/patience`` and its own time limit allow.
///
/// ```swift
/// let client = Client(ReconnectingCarrier(directory: Device.defaultDirectory(environment: environment)))
/// ```
public final class ReconnectingCarrier: Carrier {
    /// The patience with a daemon that is gone.
    public struct Options: Hashable, Sendable {
        /// The first wait; each is twice the one before.
        public var firstWait = Duration.milliseconds(20)
        /// The longest wait.
        public var longestWait = Duration.seconds(2)
        /// The time a call waits for a daemon in all.
        public var patience = Duration.seconds(30)

        /// The defaults.
        public init() {}
    }

    private let directory: String
    private let options: Options
    private let wait: @Sendable (Duration) async throws -> Void
    private let current = Mutex<SocketCarrier?>(nil)
    /// Held by the task that connects; the others wait for it.
    private let connecting = AsyncMutex()

    /// Makes a carrier to the daemon of a data directory; connects with the first call.
    public convenience init(directory: String, options: Options = Options()) {
        self.init(directory: directory, options: options) { try await Task.sleep(for: $0) }
    }

    /// Makes one that waits by `wait`.
    package init(directory: String, options: Options, wait: @escaping @Sendable (Duration) async throws -> Void) {
        self.directory = directory
        self.options = options
        self.wait = wait
    }

    /// Calls a query or an action and waits for its answer.
    public func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        try await limited(options) { options in
            while true {
                let carrier = try await self.carrier()
                do {
                    return try await carrier.call(method, input, on: device, options: options())
                } catch let error as KithError where error.code == .closed && !carrier.isOpen {
                    self.drop(carrier)
                    guard M.header.isIdempotent || error.cause is NotSent else {
                        throw KithError(
                            .closed,
                            "The daemon was stopped before it answered: \(M.name) may have been done, or not.",
                            cause: error)
                    }
                }
            }
        }
    }

    /// Opens a stream and waits until the service accepted it; it ends with `.closed` when the daemon does.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        try await limited(options) { options in
            while true {
                let carrier = try await self.carrier()
                do {
                    return try await carrier.open(method, input, on: device, options: options())
                } catch let error as KithError where error.cause is NotSent {
                    self.drop(carrier)
                }
            }
        }
    }

    /// Ends the connection; the next call makes another.
    public func close() {
        current.withLock { current in
            defer { current = nil }
            return current
        }?.close()
    }

    // MARK: - Parts

    /// Runs `body` within the time of a call; what it gets says how much of it is left.
    private func limited<Result: Sendable>(
        _ options: CallOptions, _ body: @escaping @Sendable (@Sendable () -> CallOptions) async throws -> Result
    ) async throws -> Result {
        guard let timeout = options.timeout else { return try await body { options } }
        let deadline = ContinuousClock.now.advanced(by: timeout)
        return try await withDeadline(deadline) {
            try await body { CallOptions(timeout: max(.milliseconds(1), deadline - .now), trace: options.trace) }
        }
    }

    private func drop(_ carrier: SocketCarrier) {
        current.withLock { if $0 === carrier { $0 = nil } }
    }

    private var standing: SocketCarrier? { current.withLock { $0?.isOpen == true ? $0 : nil } }

    /// The connection that stands, or a new one.
    private func carrier() async throws -> SocketCarrier {
        if let standing { return standing }
        try await connecting.lockUnlessCancelled()
        defer { connecting.unlock() }
        var (pause, waited) = (options.firstWait, Duration.zero)
        while true {
            if let standing { return standing }
            do {
                if let carrier = try await SocketCarrier.connect(directory: directory) {
                    current.withLock { $0 = carrier }
                    return carrier
                }
            } catch let error as KithError where error.code == .closed {
                // It went while it was greeted.
            }
            guard waited < options.patience else {
                throw KithError(
                    .unreachable, "No device is up at \(directory). Start it: kith up --data \(directory)")
            }
            let rest = min(pause, options.patience - waited)
            try await wait(rest)
            waited += rest
            pause = min(pause * 2, options.longestWait)
        }
    }
}
