import KithAPI
import KithRPC
import KithWire
import Logging
import Synchronization

/// One caller at the socket: reads its requests, runs them, writes the answers.
final class ServerConnection: Sendable {
    /// How many calls one connection may have running; the next is answered with `.exhausted`.
    static let callLimit = 256

    private let connection: LineConnection
    private let dispatcher: any Dispatcher
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        var calls: [RPCIdentifier: Task<RPCResponse, Never>] = [:]
        var running = 0
        var isDraining = false
    }

    init(_ descriptor: SocketDescriptor, poller: Poller, dispatcher: any Dispatcher, logger: Logger) {
        connection = LineConnection(descriptor, poller: poller, lineLimit: LineFramer.defaultLimit)
        self.dispatcher = dispatcher
        self.logger = logger
    }

    /// Serves until the caller is gone.
    ///
    /// Cancelling it ends every call.
    func serve() async {
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                do {
                    while let line = try await connection.nextLine() {
                        switch RPCPacket(parsing: line) {
                        case .single(let message):
                            if let stream = stream(message) {
                                if await serve(stream: stream) { return }
                            } else {
                                take(message, in: &group) { [connection] in try? await connection.send($0.json) }
                            }
                        case .batch(let messages): take(batch: messages, in: &group)
                        }
                    }
                    // No more requests; the answers to those before are still wanted, unless the caller is gone.
                    await waitForAnswers()
                } catch let error as KithError where error.code == .exhausted {
                    try? await connection.send(  // the caller may be gone already
                        RPCResponse(id: .null, result: .failure(RPCError(code: -32600, message: error.message))).json)
                } catch {
                    logger.debug("a connection at the socket failed", metadata: ["error": "\(error)"])
                }
                cancelAll()
            }
            connection.descriptor.shutDown()
        } onCancel: {
            cancelAll()
            connection.descriptor.shutDown()
        }
    }

    /// Closes the connection when nothing runs on it, now or later.
    func beginGracefulShutdown() {
        let isIdle = state.withLock { state in
            state.isDraining = true
            return state.running == 0
        }
        if isIdle { connection.descriptor.shutDown() }
    }

    private func cancelAll() {
        for call in state.withLock({ $0.calls.values }) { call.cancel() }
    }

    private func begin() -> Bool {
        state.withLock { state in
            guard state.running < Self.callLimit else { return false }
            state.running += 1
            return true
        }
    }

    private func end() {
        let isOver = state.withLock { state in
            state.running -= 1
            return state.running == 0 && state.isDraining
        }
        if isOver { connection.descriptor.shutDown() }
    }

    /// The caller has ended its direction: waits until it is gone or everything is answered.
    private func waitForAnswers() async {
        let isIdle = state.withLock { state in
            state.isDraining = true
            return state.running == 0
        }
        if !isIdle { await connection.poller.wait(for: .hangUp, of: connection.descriptor) }
    }

    // MARK: - Calls

    private func take(
        _ message: RPCMessage, in group: inout DiscardingTaskGroup,
        reply: @escaping @Sendable (RPCResponse) async -> Void
    ) {
        switch message {
        case .malformed(let response):
            group.addTask { await reply(response) }
        case .response:
            break  // nobody was asked anything
        case .request(let request):
            if let id = request.cancelled {
                state.withLock { $0.calls[id] }?.cancel()
                return
            }
            guard begin() else {
                let error = RPCError(KithError(.exhausted, "More than \(Self.callLimit) calls at once."))
                if let id = request.id { group.addTask { await reply(RPCResponse(id: id, result: .failure(error))) } }
                return
            }
            // Its own task, so that `$/cancel` can end this one alone.
            let task = Task(name: "kith \(request.method)") { await self.answer(request) }
            if let id = request.id { state.withLock { $0.calls[id] = task } }
            group.addTask {
                let response = await withTaskCancellationHandler {
                    await task.value
                } onCancel: {
                    task.cancel()
                }
                if let id = request.id {
                    self.state.withLock { _ = $0.calls.removeValue(forKey: id) }
                    await reply(response)
                }
                self.end()
            }
        }
    }

    private func take(batch messages: [RPCMessage], in group: inout DiscardingTaskGroup) {
        let batch = Batch(count: messages.count { $0.wantsAnswer })
        for message in messages {
            if let request = stream(message), let id = request.id {
                let error = RPCError(KithError(.invalid, "A stream cannot be opened in a batch."))
                group.addTask { await batch.add(RPCResponse(id: id, result: .failure(error)), to: self.connection) }
            } else {
                take(message, in: &group) { await batch.add($0, to: self.connection) }
            }
        }
    }

    private func answer(_ request: RPCRequest) async -> RPCResponse {
        let id = request.id ?? .null
        do {
            guard case .json(let result) = try await dispatcher.dispatch(RPCCall.call(request)) else {
                throw KithError(.internal, "The answer has another form than the request.")
            }
            guard result.count < LineFramer.defaultLimit - 1024 else {
                throw KithError(.exhausted, "The answer to \(request.method) is longer than 4 MiB. Ask for less.")
            }
            return RPCResponse(id: id, result: .success(JSONText(scanned: result)))
        } catch {
            return RPCResponse(id: id, result: .failure(RPCCall.failure(error)))
        }
    }

    // MARK: - Streams

    private func stream(_ message: RPCMessage) -> RPCRequest? {
        guard case .request(let request) = message, dispatcher.kind(of: request.method) == .stream else { return nil }
        return request
    }

    /// Serves a stream on this connection.
    ///
    /// Returns whether the connection was used up.
    private func serve(stream request: RPCRequest) async -> Bool {
        guard let id = request.id else { return false }
        let connection = connection
        let dispatcher = dispatcher
        func refuse(_ error: any Error) async {
            // The caller may be gone; then nobody wants to know.
            try? await connection.send(RPCResponse(id: id, result: .failure(RPCCall.failure(error))).json)
        }
        guard state.withLock({ $0.running }) == 0, begin() else {
            await refuse(KithError(.invalid, "A stream needs a connection of its own; calls run on this one."))
            return false
        }
        defer { end() }
        let accepted = Locked<SocketStream?>(nil)
        do {
            let call = try RPCCall.call(request)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    try await dispatcher.dispatch(stream: call) { output in
                        guard case .json(let result) = output else {
                            throw KithError(.internal, "The answer has another form than the request.")
                        }
                        let stream = SocketStream(
                            connection.descriptor, poller: connection.poller, ahead: connection.takeRest())
                        accepted.set(stream)
                        try await connection.send(
                            RPCResponse(id: id, result: .success(JSONText(scanned: result))).json)
                        return stream
                    }
                    return true
                }
                group.addTask {
                    await connection.poller.wait(for: .hangUp, of: connection.descriptor)
                    return false
                }
                // A caller that closes after both directions ended well has got what it wanted: let the service end.
                if try await group.next() == false, accepted.value?.isOver != true { group.cancelAll() }
                if try await group.next() == true { return }
                group.cancelAll()
            }
        } catch {
            if accepted.value == nil {
                await refuse(error)
                return false
            }
        }
        return accepted.value != nil
    }
}

extension RPCMessage {
    /// Whether something is to be sent back.
    fileprivate var wantsAnswer: Bool {
        switch self {
        case .request(let request): request.id != nil
        case .malformed: true
        case .response: false
        }
    }
}

/// The answers of one batch, sent together when the last is there.
private actor Batch {
    private let count: Int
    private var answers: [[UInt8]] = []

    init(count: Int) { self.count = count }

    func add(_ response: RPCResponse, to connection: LineConnection) async {
        answers.append(response.json)
        guard answers.count == count else { return }
        var line: [UInt8] = [UInt8(ascii: "[")]
        line += answers.joined(separator: [UInt8(ascii: ",")])
        line.append(UInt8(ascii: "]"))
        try? await connection.send(line)  // the caller may be gone
    }
}
