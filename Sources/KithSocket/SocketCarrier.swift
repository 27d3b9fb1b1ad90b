public import KithAPI
import KithIO
import KithRPC
import KithWire
import Synchronization

/// Calls to a device that runs in another process, through the socket in its data directory, or its loopback TCP port.
///
/// All calls share one connection; each stream gets its own.
public final class SocketCarrier: Carrier {
    private let target: SocketTarget
    private let reactor: Reactor
    private let core: Core
    private let reader: Task<Void, Never>

    /// Connects to the device that runs on `directory`; `nil` when none listens.
    ///
    /// - Throws: `KithError` `.denied` when another user's process listens there, `.unsupported` when the device is of
    ///   another version.
    /// `isAnyVersion` connects to one of another version, too, to which only a call without options can be made.
    public static func connect(
        directory: String, to holder: SocketHolder = .daemon, isAnyVersion: Bool = false
    ) async throws -> SocketCarrier? {
        guard let path = SocketPath.forConnecting(in: directory, to: holder),
            let descriptor = try SocketDescriptor.connect(to: path)
        else { return nil }
        let reactor = try Reactor.forSockets()
        let carrier = SocketCarrier(
            .unix(path: path), try LineConnection(descriptor, on: reactor, lineLimit: SocketTarget.lineLimit), reactor)
        if isAnyVersion { return carrier }
        do {
            let id = carrier.core.makeIdentifier()
            let greeting = try await carrier.core.exchange(
                try SocketProtocol.request(id: id), id: id, timeout: SocketTarget.patience)
            try SocketProtocol.check(greeting)
        } catch {
            carrier.close()
            if (error as? KithError)?.code == .timedOut {
                throw KithError(
                    .timedOut, "The device at \(directory) does not answer. Try again, or end its process.",
                    cause: error)
            }
            // One that was about to end took the connection, and then it was gone.
            if (error as? KithError)?.code == .closed { return nil }
            throw error
        }
        return carrier
    }

    /// Connects to the device that listens at a port of 127.0.0.1.
    ///
    /// - Parameters:
    ///   - port: The port, as `api.json` of the data directory says it (``APIEndpoint``).
    ///   - token: The token, from there as well.
    ///   - proof: What the device must answer, from there as well; `nil` believes whoever listens.
    /// - Returns: the carrier, let in.
    /// - Throws: `KithError` `.notFound` when nobody listens, `.denied` when the token is wrong, or somebody else answers,
    ///   `.unsupported` when the device is of another version, `.timedOut` when nothing is answered in ten seconds.
    public static func connect(tcp port: UInt16, token: String, proof: String? = nil) async throws -> SocketCarrier {
        let reactor = try Reactor.forSockets()
        let target = SocketTarget.loopback(port: port, token: token, proof: proof)
        guard let connection = try await target.connect(on: reactor) else {
            throw KithError(.notFound, "No device listens at port \(port) of this machine.")
        }
        return SocketCarrier(target, connection, reactor)
    }

    private init(_ target: SocketTarget, _ connection: LineConnection, _ reactor: Reactor) {
        self.target = target
        self.reactor = reactor
        // Our own device answers: it may say more than a caller may.
        let core = Core(connection)
        self.core = core
        // Answers are handed on where they come in, so that only their callers' threads are woken.
        reader = Task(name: "kith socket", executorPreference: core.connection.watch.executor) { await core.run() }
    }

    deinit { close() }

    /// Ends the connection; calls that wait fail with `.closed`.
    ///
    /// Streams go on.
    public func close() {
        core.connection.descriptor.shutDown()
        reader.cancel()
    }

    /// True unless the device is known to be gone.
    var isOpen: Bool { core.isOpen }

    /// Calls a query or an action and waits for its answer.
    public func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        let id = core.makeIdentifier()
        let request = RPCCall.request(
            id: id, method: M.name, input: try JSONText.encode(input), on: device, options: options)
        let response = try await core.exchange(request, id: id, timeout: options.timeout.map { $0 + Self.grace })
        return try Self.output(of: method, from: response)
    }

    /// Opens a stream and waits until the service accepted it.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        let request = RPCCall.request(
            id: .number("1"), method: M.name, input: try JSONText.encode(input), on: device, options: options,
            isRaw: true)
        guard let connection = try await target.connect(on: reactor) else {
            throw KithError(.closed, "The device at \(target) has stopped.", cause: NotSent())
        }
        do {
            return try await withDeadline(options.timeout.map { $0 + Self.grace }) {
                try await connection.send(request.json)
                guard let line = try await connection.nextLine() else {
                    throw KithError(.closed, "The device at \(self.target) stopped before it answered.")
                }
                guard case .single(.response(let response)) = RPCPacket(parsing: line) else {
                    throw KithError(.corrupt, "The device at \(self.target) answered with something else.")
                }
                let output = try Self.output(of: method, from: response)
                let stream = SocketStream(connection)
                return OpenedStream(output: output, stream: stream)
            }
        } catch {
            connection.descriptor.shutDown()
            throw error is CancellationError ? KithError(.cancelled, "The call was cancelled.") : error
        }
    }

    /// Calls a query or an action by its name, for programs that bring their own JSON.
    ///
    /// `json` is the method's input, one JSON object.
    /// - Returns: the answer, one JSON value.
    public func call(
        named name: String, json: [UInt8], on device: String?, options: CallOptions = CallOptions()
    ) async throws -> [UInt8] {
        let id = core.makeIdentifier()
        let request = RPCCall.request(
            id: id, method: name, input: try JSONText(json).bytes, on: device, options: options)
        let response = try await core.exchange(request, id: id, timeout: options.timeout.map { $0 + Self.grace })
        switch response.result {
        case .failure(let error): throw error.kithError
        case .success(let text): return text.bytes
        }
    }

    /// Opens a stream by its name, for programs that bring their own JSON; it shares this connection.
    ///
    /// `json` is the method's input, one JSON value. Returns when the service has accepted.
    public func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions = CallOptions()
    ) async throws -> any NamedStream {
        let id = core.makeIdentifier()
        let request = RPCCall.request(
            id: id, method: name, input: try JSONText(json).bytes, on: device, options: options,
            credit: JSONStream.window)
        return try await core.open(request, id: id, timeout: options.timeout.map { $0 + Self.grace })
    }

    /// The device itself answers when the deadline passes; we give up a little later, should it not.
    private static let grace = Duration.milliseconds(500)

    private static func output<M: Method>(of method: M.Type, from response: RPCResponse) throws -> M.Output {
        switch response.result {
        case .failure(let error): throw error.kithError
        case .success(let text):
            do {
                return try text.decode(M.Output.self)
            } catch {
                throw KithError(.corrupt, "The answer makes no sense to this version of Kith.", cause: error)
            }
        }
    }

    /// The calls that wait on one connection.
    private final class Core: Sendable {
        let connection: LineConnection
        private let timers = TimerQueue()
        private let state = Mutex(State())

        private struct State {
            var next = 0
            var waiting: [RPCIdentifier: Promise<Result<RPCResponse, any Error>>] = [:]
            var streams: [RPCIdentifier: JSONStream.Arrivals] = [:]
            var closed: KithError?
        }

        init(_ connection: LineConnection) { self.connection = connection }

        var isOpen: Bool { state.withLock { $0.closed == nil } }

        func makeIdentifier() -> RPCIdentifier {
            state.withLock { state in
                state.next += 1
                return .number(String(state.next))
            }
        }

        /// Passes answers to the calls that wait for them, until the connection ends.
        func run() async {
            var reason = KithError(.closed, "The device has stopped.")
            do {
                while let packet = try await connection.nextPacket() {
                    switch packet {
                    case .single(.response(let response)):
                        state.withLock { $0.waiting.removeValue(forKey: response.id) }?.fulfil(.success(response))
                    case .single(.request(let request)):
                        guard let (id, notice) = try StreamNotice.parse(request) else { continue }
                        if case .end = notice {
                            state.withLock { $0.streams.removeValue(forKey: id) }?.take(notice)
                        } else {
                            state.withLock { $0.streams[id] }?.take(notice)
                        }
                    default: throw KithError(.corrupt, "The device's answer makes no sense. Is it of the same version?")
                    }
                }
            } catch let error as KithError {
                reason = error
            } catch {
                // Cancelled: closed by us.
            }
            let reasonFound = reason
            let (waiting, streams) = state.withLock { state in
                state.closed = reasonFound
                defer {
                    state.waiting = [:]
                    state.streams = [:]
                }
                return (state.waiting.values, state.streams.values)
            }
            for reply in waiting { reply.fulfil(.failure(reasonFound)) }
            for stream in streams { stream.take(.end(RPCError(reasonFound))) }
            connection.descriptor.shutDown()
        }

        /// Requests a stream; messages that come with the answer are not missed.
        func open(_ request: RPCRequest, id: RPCIdentifier, timeout: Duration?) async throws -> JSONStream {
            let arrivals = JSONStream.Arrivals()
            state.withLock { $0.streams[id] = arrivals }
            do {
                switch try await exchange(request, id: id, timeout: timeout).result {
                case .failure(let error): throw error.kithError
                case .success(let answer): return JSONStream(id, answer: answer.bytes, arrivals, connection)
                }
            } catch {
                state.withLock { _ = $0.streams.removeValue(forKey: id) }
                throw error
            }
        }

        /// Asks, and waits for the answer; not longer than `timeout`.
        func exchange(
            _ request: RPCRequest, id: RPCIdentifier, timeout: Duration? = nil
        ) async throws -> RPCResponse {
            let reply = Promise<Result<RPCResponse, any Error>>()
            try state.withLock { state throws in
                if let closed = state.closed { throw KithError(closed.code, closed.message, cause: NotSent()) }
                state.waiting[id] = reply
            }
            let connection = connection
            @Sendable func giveUp(_ error: KithError) {
                guard reply.fulfil(.failure(error)) else { return }
                // Nobody to tell when the connection is gone: then the call is cancelled as well.
                Task(name: "kith cancel") { try? await connection.send(RPCRequest.cancel(id).json) }
            }
            let timer = timeout.map { timeout in
                timers.schedule(at: .now + timeout) { giveUp(KithError(.timedOut, "It was not done in time.")) }
            }
            defer {
                if let timer { timers.cancel(timer) }
                state.withLock { _ = $0.waiting.removeValue(forKey: id) }
            }
            return try await withTaskCancellationHandler {
                do throws(KithError) {
                    try await connection.send(request.json)
                } catch {
                    // Whatever comes after half a line makes no sense.
                    state.withLock { if $0.closed == nil { $0.closed = error } }
                    throw error
                }
                return try await reply.value().get()
            } onCancel: {
                giveUp(KithError(.cancelled, "The call was cancelled."))
            }
        }
    }
}

/// The cause of a failure before anything was sent.
struct NotSent: Error {}
