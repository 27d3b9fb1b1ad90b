import KithAPI
import KithIO
import KithRPC
import KithWire
import Logging
import Synchronization

/// One caller at the socket: reads its requests, runs them, writes the answers.
final class ServerConnection: Sendable {
    /// How many calls one connection may have running; the next is answered with `.exhausted`.
    static let callLimit = 256

    private let connection: LineConnection
    private let mayHalfClose: Bool
    private let dispatcher: any Dispatcher
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// What runs, each with what calls it off.
        var cancels: [UInt64: @Sendable () -> Void] = [:]
        /// Which of them an identifier means: the newest that has it.
        var calls: [RPCIdentifier: UInt64] = [:]
        var streams: [RPCIdentifier: SharedStream] = [:]
        var running = 0
        var begun: UInt64 = 0
        var isDraining = false
        /// Whether the caller has said hello.
        var knowsEnvelope = false
    }

    init(
        _ descriptor: SocketDescriptor, on reactor: Reactor, mayHalfClose: Bool, dispatcher: any Dispatcher,
        logger: Logger
    ) throws(KithError) {
        self.mayHalfClose = mayHalfClose
        connection = try LineConnection(descriptor, on: reactor, lineLimit: LineFramer.defaultLimit)
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
                            if let notice = notice(message) {
                                await take(notice)
                            } else if let hello = hello(message) {
                                try await connection.send(hello.json)
                            } else if let (request, method) = stream(message) {
                                if request.envelope["raw"]?.boolean == true {
                                    if await serve(raw: request) { return }
                                } else {
                                    serve(shared: request, method, in: &group)
                                }
                            } else {
                                take(message, in: &group) { [connection] in try? await connection.send($0.json) }
                            }
                        case .batch(let messages): take(batch: messages, in: &group)
                        }
                    }
                    // No more requests; the answers to those before are still wanted, unless the caller is gone.
                    if mayHalfClose { await waitForAnswers() }
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
        for cancel in state.withLock({ Array($0.cancels.values) }) { cancel() }
    }

    /// Begins a call, and gives its number; `nil` where there are too many.
    private func begin() -> UInt64? {
        state.withLock { state in
            guard state.running < Self.callLimit else { return nil }
            state.running += 1
            state.begun += 1
            return state.begun
        }
    }

    /// Notes what calls a call off, whether or not it has an identifier, or one of its own.
    private func note(_ number: UInt64, _ id: RPCIdentifier?, _ cancel: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.cancels[number] = cancel
            if let id { state.calls[id] = number }
        }
    }

    private func end(_ number: UInt64, _ id: RPCIdentifier?) {
        let isOver = state.withLock { state in
            state.cancels[number] = nil
            if let id, state.calls[id] == number { state.calls[id] = nil }
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
        if !isIdle { await connection.watch.wait(for: .hangUp) }
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
            guard let number = begin() else {
                if let id = request.id {
                    group.addTask { await reply(RPCResponse(id: id, result: .failure(Self.crowded))) }
                }
                return
            }
            // Its own task, so that `$/cancel` can end this one alone.
            let task = Task(name: "kith \(request.method)") { await self.answer(request) }
            note(number, request.id) { task.cancel() }
            group.addTask {
                let response = await withTaskCancellationHandler {
                    await task.value
                } onCancel: {
                    task.cancel()
                }
                if request.id != nil { await reply(response) }
                self.end(number, request.id)
            }
        }
    }

    private func take(batch messages: [RPCMessage], in group: inout DiscardingTaskGroup) {
        let batch = Batch(count: messages.count { $0.wantsAnswer })
        for message in messages {
            if let notice = notice(message) {
                // In a batch only what needs not wait for its turn.
                if notice.notice == .cancel { cancel(notice.id) }
            } else if let hello = hello(message) {
                group.addTask { await batch.add(hello, to: self.connection) }
            } else if let (request, _) = stream(message), let id = request.id {
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
            guard case .json(let result) = try await dispatcher.dispatch(call(request).call) else {
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

    private func stream(_ message: RPCMessage) -> (RPCRequest, AnyMethod)? {
        guard case .request(let request) = message, let method = dispatcher.entry(request.method),
            method.kind == .stream
        else { return nil }
        return (request, method)
    }

    private func call(_ request: RPCRequest) throws -> RPCCall {
        try RPCCall(request, knowsEnvelope: state.withLock { $0.knowsEnvelope })
    }

    private static let crowded = RPCError(KithError(.exhausted, "More than \(callLimit) calls at once."))

    /// The answer to a caller that says hello; `nil` when this is something else.
    private func hello(_ message: RPCMessage) -> RPCResponse? {
        guard case .request(let request) = message, request.method == SocketProtocol.hello, let id = request.id else {
            return nil
        }
        state.withLock { $0.knowsEnvelope = true }
        return RPCResponse(id: id, result: .success(SocketProtocol.answer))
    }

    private typealias Notice = (id: RPCIdentifier, notice: StreamNotice)

    private func notice(_ message: RPCMessage) -> Notice? {
        guard case .request(let request) = message else { return nil }
        do {
            return try StreamNotice.parse(request)
        } catch {
            // A notification has no answer.
            logger.debug("a caller at the socket said something odd", metadata: ["error": "\(error)"])
            return nil
        }
    }

    private func cancel(_ id: RPCIdentifier) {
        state.withLock { state in state.calls[id].flatMap { state.cancels[$0] } }?()
    }

    private func take(_ notice: Notice) async {
        if notice.notice == .cancel { return cancel(notice.id) }
        // One that has ended meanwhile.
        guard let stream = state.withLock({ $0.streams[notice.id] }) else { return }
        do {
            try await stream.take(notice.notice)
        } catch {
            stream.fail((error as? KithError) ?? KithError(.cancelled, "The call was cancelled."))
        }
    }

    /// Serves a stream beside what else runs on this connection.
    private func serve(shared request: RPCRequest, _ method: AnyMethod, in group: inout DiscardingTaskGroup) {
        guard let id = request.id else { return }
        let connection = connection
        let dispatcher = dispatcher
        @Sendable func refuse(_ error: RPCError) async {
            // The caller may be gone; then nobody wants to know.
            try? await connection.send(RPCResponse(id: id, result: .failure(error)).json)
        }
        let call: RPCCall
        do {
            call = try self.call(request)
            guard state.withLock({ $0.streams[id] }) == nil else {
                throw KithError(.conflict, "A stream with the identifier of this request is open.")
            }
        } catch {
            group.addTask { await refuse(RPCCall.failure(error)) }
            return
        }
        guard let number = begin() else {
            group.addTask { await refuse(Self.crowded) }
            return
        }
        let stream = SharedStream(id, method, connection, credit: call.credit)
        let isAccepted = Locked(false)
        let task = Task(name: "kith \(request.method)") {
            var failure: (any Error)?
            do {
                try await dispatcher.dispatch(stream: call.call) { output in
                    guard case .json(let result) = output else {
                        throw KithError(.internal, "The answer has another form than the request.")
                    }
                    isAccepted.set(true)
                    return try await stream.accept(JSONText(scanned: result))
                }
            } catch {
                failure = error
            }
            if isAccepted.value {
                await stream.end(failure)
            } else {
                await refuse(RPCCall.failure(failure ?? KithError(.internal, "The stream was not accepted.")))
            }
        }
        note(number, id) { task.cancel() }
        state.withLock { $0.streams[id] = stream }
        group.addTask {
            await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                task.cancel()
            }
            self.state.withLock { $0.streams[id] = nil }
            stream.letGo()
            self.end(number, id)
        }
    }

    /// Serves a stream that takes over this connection.
    ///
    /// Returns whether the connection was used up.
    private func serve(raw request: RPCRequest) async -> Bool {
        guard let id = request.id else { return false }
        let connection = connection
        let dispatcher = dispatcher
        func refuse(_ error: any Error) async {
            // The caller may be gone; then nobody wants to know.
            try? await connection.send(RPCResponse(id: id, result: .failure(RPCCall.failure(error))).json)
        }
        guard state.withLock({ $0.running }) == 0, let number = begin() else {
            await refuse(
                KithError(.invalid, "A raw stream needs a connection of its own; other calls run on this one."))
            return false
        }
        defer { end(number, nil) }
        let accepted = Locked<SocketStream?>(nil)
        do {
            let call = try call(request).call
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    try await dispatcher.dispatch(stream: call) { output in
                        guard case .json(let result) = output else {
                            throw KithError(.internal, "The answer has another form than the request.")
                        }
                        let stream = SocketStream(connection)
                        accepted.set(stream)
                        try await connection.send(
                            RPCResponse(id: id, result: .success(JSONText(scanned: result))).json)
                        return stream
                    }
                    return true
                }
                group.addTask {
                    await connection.watch.wait(for: .hangUp)
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
