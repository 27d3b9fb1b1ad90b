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
/// let client = Client(ReconnectingCarrier(directory: "/home/ana/.local/share/kith"))
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
        try await answered(M.name, isIdempotent: M.header.isIdempotent, options) {
            try await $0.call(method, input, on: device, options: $1)
        }
    }

    /// Opens a stream and waits until the service accepted it; it ends with `.closed` when the daemon does.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        try await opened(options) { try await $0.open(method, input, on: device, options: $1) }
    }

    /// Calls a query or an action by its name, once: whether it may be asked twice is not known.
    public func call(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> [UInt8] {
        try await answered(name, isIdempotent: false, options) {
            try await $0.call(named: name, json: json, on: device, options: $1)
        }
    }

    /// Opens a stream by its name and waits until the service accepted it; it ends with `.closed` when the daemon does.
    public func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        try await opened(options) { try await $0.open(named: name, json: json, on: device, options: $1) }
    }

    /// Calls a query or an action by its path, once: whether it may be asked twice is not known.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        try await answered(path, isIdempotent: false, options) {
            try await $0.request(path, input, from: provider, as: type, options: $1)
        }
    }

    /// Opens a stream by its path and waits until the service accepted it; it ends with `.closed` when the daemon does.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        try await opened(options) { try await $0.open(path: path, input, from: provider, options: $1) }
    }

    /// Opens a stream as the connection to the daemon does, which waits for the service.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        try await opened(options) { try await $0.begin(method, input, on: device, options: $1) }
    }

    /// Ends the connection; the next call makes another.
    public func close() {
        current.withLock { current in
            defer { current = nil }
            return current
        }?.close()
    }

    // MARK: - Parts

    /// The answer to a call, asked for again where that does no harm.
    private func answered<Output: Sendable>(
        _ name: String, isIdempotent: Bool, _ options: CallOptions,
        _ call: @escaping @Sendable (SocketCarrier, CallOptions) async throws -> Output
    ) async throws -> Output {
        try await limited(options) { options in
            while true {
                let carrier = try await self.carrier()
                do {
                    return try await call(carrier, options())
                } catch let error as KithError where error.code == .closed && !carrier.isOpen {
                    self.drop(carrier)
                    guard isIdempotent || error.cause is NotSent else {
                        throw KithError(
                            .closed,
                            "The daemon was stopped before it answered: \(name) may have been done, or not.",
                            cause: error)
                    }
                }
            }
        }
    }

    /// A stream that was accepted, asked for again only if nothing was said before.
    private func opened<Stream: Sendable>(
        _ options: CallOptions,
        _ open: @escaping @Sendable (SocketCarrier, CallOptions) async throws -> Stream
    ) async throws -> Stream {
        try await limited(options) { options in
            while true {
                let carrier = try await self.carrier()
                do {
                    return try await open(carrier, options())
                } catch let error as KithError where error.cause is NotSent {
                    self.drop(carrier)
                }
            }
        }
    }

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
