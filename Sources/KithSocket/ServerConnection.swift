import KithAPI
import KithIO
import KithRPC
import KithWire
import Logging
import Synchronization

/// One caller at the socket: reads its requests, runs them, writes the answers.
///
/// Order: requests are begun in the order in which they arrive and run at once; each answer is sent when it is there, so
/// that a slow call keeps no other waiting. A caller for whom the order matters waits for an answer before it asks again.
/// Messages of one stream arrive in the order in which they were sent, after its answer, before its end. The answers of a
/// batch come together, in any order, when the last is there. A cancellation is taken in the order of its line.
final class ServerConnection: Sendable {
    /// The most calls one connection may have running; the next is answered with `.exhausted`.
    static let callLimit = 256

    private let connection: LineConnection
    private let mayHalfClose: Bool
    /// What it has to prove, and its place among those who have not; `nil`: nothing.
    private let gate: (gate: TokenGate, ticket: TokenGate.Ticket)?
    private let dispatcher: any Dispatcher
    private let foreign: (any ForeignProtocol)?
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// The running calls, each with what calls it off.
        var cancels: [UInt64: @Sendable () -> Void] = [:]
        /// The call that an identifier means: the newest that has it.
        var calls: [RPCIdentifier: UInt64] = [:]
        var streams: [RPCIdentifier: SharedStream] = [:]
        var running = 0
        var begun: UInt64 = 0
        var isDraining = false
        /// The version the caller has said hello with, 0 where it said none; `nil` before.
        var version: Int?
        /// The service the caller has registered, and what removes it.
        var service: (service: RegisteredService, remove: @Sendable (KithError) async -> Void)?

        var isIdle: Bool { running == 0 && service?.service.isIdle ?? true }
    }

    init(
        _ descriptor: SocketDescriptor, on reactor: Reactor, gate: TokenGate?, mayHalfClose: Bool,
        dispatcher: any Dispatcher, foreign: (any ForeignProtocol)?, logger: Logger
    ) throws(KithError) {
        self.mayHalfClose = mayHalfClose
        connection = try LineConnection(
            descriptor, on: reactor, lineLimit: gate == nil ? LineFramer.defaultLimit : TokenGate.lineLimit,
            mayHalfClose: mayHalfClose)
        if gate != nil { descriptor.sendsAtOnce() }
        self.gate = gate.map { ($0, $0.enter(descriptor)) }
        self.dispatcher = dispatcher
        self.foreign = foreign
        self.logger = logger
    }

    deinit {
        if let (gate, ticket) = gate { gate.leave(ticket) }
    }

    /// Serves until the caller is gone.
    ///
    /// Cancelling it ends every call.
    func serve() async {
        // Requests are read where they come in; only what serves them wakes another thread.
        await withTaskExecutorPreference(connection.watch.executor) { await serveHere() }
    }

    private func serveHere() async {
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                do {
                    guard try await isLetIn() else { return connection.descriptor.shutDown() }
                    var next = try await firstPacket()
                    while let packet = next {
                        switch packet {
                        case .single(let message):
                            if let refusal = refusal(message) {
                                try await connection.send(refusal.json)
                            } else if let notice = notice(message) {
                                await take(notice)
                            } else if let hello = hello(message) {
                                try await connection.send(hello.json)
                            } else if let (response, service) = registration(message) {
                                try await connection.send(response.json)
                                service?.begin()
                            } else if let (request, method) = stream(message) {
                                if request.envelope["raw"]?.boolean == true {
                                    let isUsedUp = await withTaskExecutorPreference(globalConcurrentExecutor) {
                                        await serve(raw: request)
                                    }
                                    if isUsedUp { return }
                                } else {
                                    try await serve(shared: request, method, in: &group)
                                }
                            } else {
                                try await take(message, in: &group) { $0.json }
                            }
                        case .batch(let messages): try await take(batch: messages, in: &group)
                        }
                        // Who does not read the answers is not read from; a service may write before it reads.
                        if state.withLock({ $0.service == nil }) { try await connection.outgoing.take(0) }
                        next = try await connection.nextPacket()
                    }
                    await removeService()
                    // No more requests; earlier ones are still answered, unless the caller is gone.
                    if mayHalfClose { await waitForAnswers() }
                } catch let error as KithError where error.code == .exhausted {
                    try? await connection.send(  // the caller may be gone already
                        RPCResponse(id: .null, result: .failure(RPCError(code: -32600, message: error.message))).json)
                } catch {
                    logger.debug("a connection at the socket failed", metadata: ["error": "\(error)"])
                }
                await removeService()
                cancelAll()
            }
            connection.descriptor.shutDown()
        } onCancel: {
            cancelAll()
            connection.descriptor.shutDown()
        }
    }

    /// Waits for the token, where one is asked for; answers it, or whatever is said in its place.
    private func isLetIn() async throws -> Bool {
        guard let (gate, ticket) = gate else { return true }
        defer { gate.leave(ticket) }
        var refusal = RPCResponse(
            id: .null,
            result: .failure(
                RPCError(
                    KithError(
                        .denied,
                        "The first line at this port is rpc.hello with the `token` in api.json of the data directory."))
            ))
        do {
            guard let line = try await connection.nextLine() else { return false }
            // What does not begin as JSON is a browser, or TLS, or a scan: no answer of ours is for them.
            guard line.first == UInt8(ascii: "{") else { return false }
            if case .single(.request(let request)) = RPCPacket(parsing: line) {
                refusal.id = request.id ?? .null
                if SocketProtocol.token(of: request).map(gate.admits) == true,
                    let hello = hello(.request(request), proof: gate.proof)
                {
                    connection.allowLines(of: LineFramer.defaultLimit)
                    try await connection.send(hello.json)
                    return true
                }
            }
        } catch let error as KithError where error.code == .exhausted {
            // Too long to be a hello.
        }
        logger.info("a caller at the port for programs did not know the token")
        try await connection.send(refusal.json)
        // The system would throw the answer away with whatever has not been read.
        for _ in 0..<16 {
            guard case .bytes = try connection.descriptor.receive(upTo: 64 << 10) else { break }
        }
        return false
    }

    /// Waits for the first packet; `nil` when there is none, or the connection was another protocol's, which it served.
    private func firstPacket() async throws -> RPCPacket? {
        guard let foreign, gate == nil else { return try await connection.nextPacket() }
        var line = try await connection.nextLine()
        if line == nil {
            // Its programs may end their direction in place of the line.
            let rest = connection.takeRest()
            guard mayHalfClose, rest.contains(where: { $0 > 0x20 }) else { return nil }
            line = rest
        }
        guard let line else { return nil }
        guard foreign.begins(with: line) else { return await connection.packet(line) }
        guard let number = begin() else { return nil }
        defer { end(number, nil) }
        let exchange = LineExchange(connection: connection)
        await withTaskExecutorPreference(globalConcurrentExecutor) {
            await withDiscardingTaskGroup { group in
                group.addTask { [connection] in
                    await connection.watch.wait(for: connection.departure)
                    // The other end is gone, or this one: nothing is to be said any more.
                    connection.descriptor.shutDown()
                }
                let service = Task(name: "kith foreign") { await foreign.serve(line, over: exchange) }
                note(number, nil) { service.cancel() }
                await withTaskCancellationHandler {
                    await service.value
                } onCancel: {
                    service.cancel()
                }
                group.cancelAll()
            }
        }
        return nil
    }

    /// Closes the connection when nothing runs on it, now or later.
    func beginGracefulShutdown() {
        let isIdle = state.withLock { state in
            state.isDraining = true
            return state.isIdle
        }
        if isIdle { connection.descriptor.shutDown() }
    }

    /// Ends the connection, whatever still waits to be sent.
    func end() { connection.descriptor.shutDown() }

    /// Closes the connection when the last call has ended.
    private func closeIfDrained() {
        if state.withLock({ $0.isDraining && $0.isIdle }) { connection.descriptor.shutDown() }
    }

    private func cancelAll() {
        for cancel in state.withLock({ Array($0.cancels.values) }) { cancel() }
    }

    /// Begins a call, and returns its number; `nil` when there are too many.
    private func begin() -> UInt64? {
        state.withLock { state in
            guard state.running < Self.callLimit else { return nil }
            state.running += 1
            state.begun += 1
            return state.begun
        }
    }

    /// Stores the function that calls a call off, whether or not it has an identifier, or a unique one.
    private func note(_ number: UInt64, _ id: RPCIdentifier?, _ cancel: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.cancels[number] = cancel
            if let id { state.calls[id] = number }
        }
    }

    private func end(_ number: UInt64, _ id: RPCIdentifier?) {
        state.withLock { state in
            state.cancels[number] = nil
            if let id, state.calls[id] == number { state.calls[id] = nil }
            state.running -= 1
        }
        closeIfDrained()
    }

    /// Waits, after the caller has ended its direction, until it is gone or everything is answered.
    private func waitForAnswers() async {
        let isIdle = state.withLock { state in
            state.isDraining = true
            return state.running == 0
        }
        if !isIdle { await connection.watch.wait(for: connection.departure) }
    }

    // MARK: - Calls

    /// Sends a line that is an answer already beside what runs, once there is room for it.
    private func refuse(with line: [UInt8], in group: inout DiscardingTaskGroup) async throws {
        guard try await connection.enqueue(line) else { return }
        group.addTask(executorPreference: globalConcurrentExecutor) { [connection] in await connection.sendQueued() }
    }

    /// Answers a message; `line` gives what is to be sent with an answer, `nil` while others are to come with it.
    private func take(
        _ message: RPCMessage, in group: inout DiscardingTaskGroup,
        line: @escaping @Sendable (RPCResponse) -> [UInt8]?
    ) async throws {
        switch message {
        case .malformed(let response):
            if let line = line(response) { try await refuse(with: line, in: &group) }
        case .response(let response):
            // Without a request it is not an answer.
            state.withLock { $0.service }?.service.take(response)
        case .request(let request):
            guard let number = begin() else {
                guard let id = request.id else { return }
                let response = RPCResponse(id: id, result: .failure(Self.crowded))
                if let line = line(response) { try await refuse(with: line, in: &group) }
                return
            }
            // `$/cancel` ends this one alone, and it may come before the call has begun.
            let cancellation = Cancellation()
            note(number, request.id) { cancellation.cancel() }
            group.addTask(executorPreference: globalConcurrentExecutor) {
                let response = await cancellation.run("kith \(request.method)") { await self.answer(request) }
                if request.id != nil, let line = line(response) {
                    try? await self.connection.send(line)  // the caller may be gone
                }
                self.end(number, request.id)
            }
        }
    }

    private func take(batch messages: [RPCMessage], in group: inout DiscardingTaskGroup) async throws {
        let batch = AnswerBatch(count: messages.count { $0.wantsAnswer })
        for message in messages {
            if let notice = notice(message) {
                // In a batch only what needs not wait for its turn.
                if notice.notice == .cancel { cancel(notice.id) }
            } else if let response = hello(message) ?? refusedStream(message) {
                if let line = batch.line(with: response) { try await refuse(with: line, in: &group) }
            } else {
                try await take(message, in: &group) { batch.line(with: $0) }
            }
        }
    }

    /// The refusal of a stream in a batch; `nil` when this is something else.
    private func refusedStream(_ message: RPCMessage) -> RPCResponse? {
        guard case (let request, .some)? = stream(message), let id = request.id else { return nil }
        let error = RPCError(KithError(.invalid, "A stream cannot be opened in a batch."))
        return RPCResponse(id: id, result: .failure(error))
    }

    private func answer(_ request: RPCRequest) async -> RPCResponse {
        let id = request.id ?? .null
        do {
            if let foreign, foreign.owns(request.method) {
                let result = try await foreign.answer(request.method, request.params)
                try check(result.bytes, of: request.method)
                return RPCResponse(id: id, result: .success(result))
            }
            var call = try call(request).call
            if call.method == SocketProtocol.discover { call.method = API.Document.name }
            guard case .json(let result) = try await dispatcher.dispatch(call) else {
                throw KithError(.internal, "The answer has another form than the request.")
            }
            try check(result, of: request.method)
            return RPCResponse(id: id, result: .success(JSONText(scanned: result)))
        } catch {
            return RPCResponse(id: id, result: .failure(RPCCall.failure(error, of: request.method)))
        }
    }

    /// Refuses an answer that is longer than a line may be.
    private func check(_ result: [UInt8], of method: String) throws {
        guard result.count < LineFramer.defaultLimit - 1024 else {
            throw KithError(.exhausted, "The answer to \(method.prefix(128)) is longer than 4 MiB. Ask for less.")
        }
    }

    // MARK: - Streams

    /// A request for a stream, or, without a method, one that only the device to be asked knows.
    private func stream(_ message: RPCMessage) -> (RPCRequest, AnyMethod?)? {
        guard case .request(let request) = message else { return nil }
        let method = dispatcher.entry(request.method)
        if request.envelope["on"] != nil, request.id != nil, method?.isShared != true {
            return (request, nil)
        }
        return method?.kind == .stream ? (request, method) : nil
    }

    private func call(_ request: RPCRequest) throws -> RPCCall {
        try RPCCall(request, knowsEnvelope: state.withLock { $0.version != nil })
    }

    private static let crowded = RPCError(KithError(.exhausted, "More than \(callLimit) calls at once."))

    /// The answer to a caller that says hello; `nil` when this is something else.
    private func hello(_ message: RPCMessage, proof: String? = nil) -> RPCResponse? {
        guard case .request(let request) = message, request.method == SocketProtocol.hello, let id = request.id else {
            return nil
        }
        let version = request.params?.members()?.first { $0.name == "protocol" }?.value.integer
        state.withLock { $0.version = Int(version ?? 0) }
        return RPCResponse(id: id, result: .success(SocketProtocol.answer(proof: proof)))
    }

    // MARK: - A service of the caller's

    /// The answer to a caller that registers a service, and the service; `nil` when this is something else.
    private func registration(_ message: RPCMessage) -> (RPCResponse, RegisteredService?)? {
        guard case .request(let request) = message, request.method == SocketProtocol.register, let id = request.id
        else { return nil }
        do {
            let service = try register(request)
            let names = try JSONText(encoding: ["methods": service.methods.map(\.name)])
            return (RPCResponse(id: id, result: .success(names)), service)
        } catch {
            return (RPCResponse(id: id, result: .failure(RPCCall.failure(error))), nil)
        }
    }

    private func register(_ request: RPCRequest) throws -> RegisteredService {
        let (version, present) = state.withLock { ($0.version, $0.service?.service.name) }
        guard version == SocketProtocol.version else {
            throw KithError(
                .unsupported,
                "Whoever registers a service says rpc.hello with `protocol` \(SocketProtocol.version) before.")
        }
        if let present {
            throw KithError(.conflict, "This connection has registered \(present). Each service has its own.")
        }
        let service = RegisteredService(try Registration(request.params), connection) { [weak self] in
            self?.closeIfDrained()
        }
        let remove = try dispatcher.add(service)
        state.withLock { $0.service = (service, remove) }
        logger.info("a service was registered", metadata: ["service": "\(service.name)"])
        return service
    }

    /// Ends the caller's service, whose answers cannot come any more.
    private func removeService() async {
        guard let (service, remove) = state.withLock({ $0.service.take() }) else { return }
        let reason = KithError(.closed, "The program that served \(service.name) has ended.")
        service.end(reason)
        await remove(reason)
        logger.info("a service has gone", metadata: ["service": "\(service.name)"])
    }

    /// The answer to a request whose identifier is one of ours; `nil` for any other message.
    ///
    /// Messages about a stream name only its identifier.
    private func refusal(_ message: RPCMessage) -> RPCResponse? {
        guard case .request(let request) = message, let id = request.id, RegisteredService.isOwn(id),
            state.withLock({ $0.service }) != nil
        else { return nil }
        let error = KithError(.invalid, "Identifiers that begin with “$” are those of the device's own requests.")
        return RPCResponse(id: id, result: .failure(RPCError(error)))
    }

    private typealias Notice = (id: RPCIdentifier, notice: StreamNotice)

    private func notice(_ message: RPCMessage) -> Notice? {
        guard case .request(let request) = message else { return nil }
        do {
            return try StreamNotice.parse(request)
        } catch {
            // A notification has no answer.
            logger.debug("a caller at the socket sent a malformed message", metadata: ["error": "\(error)"])
            return nil
        }
    }

    private func cancel(_ id: RPCIdentifier) {
        state.withLock { state in state.calls[id].flatMap { state.cancels[$0] } }?()
    }

    private func take(_ notice: Notice) async {
        if RegisteredService.isOwn(notice.id), let (service, _) = state.withLock({ $0.service }) {
            return service.take(notice.id, notice.notice)
        }
        if notice.notice == .cancel { return cancel(notice.id) }
        // One that has ended meanwhile.
        guard let stream = state.withLock({ $0.streams[notice.id] }) else { return }
        do {
            try await stream.take(notice.notice)
        } catch {
            stream.fail((error as? KithError) ?? KithError(.cancelled, "The call was cancelled."))
        }
    }

    /// Serves a stream beside the other calls of this connection; without a method, the device to be asked decides what the
    /// request is.
    private func serve(
        shared request: RPCRequest, _ method: AnyMethod?, in group: inout DiscardingTaskGroup
    ) async throws {
        guard let id = request.id else { return }
        let connection = connection
        let dispatcher = dispatcher
        @Sendable func send(_ response: RPCResponse) async {
            // The caller may be gone; then nobody wants to know.
            try? await connection.send(response.json)
        }
        let call: RPCCall
        do {
            call = try self.call(request)
            guard state.withLock({ $0.streams[id] }) == nil else {
                throw KithError(.conflict, "A stream with the identifier of this request is open.")
            }
        } catch {
            return try await self.refuse(
                with: RPCResponse(id: id, result: .failure(RPCCall.failure(error))).json, in: &group)
        }
        guard let number = begin() else {
            return try await self.refuse(
                with: RPCResponse(id: id, result: .failure(Self.crowded)).json, in: &group)
        }
        let stream = SharedStream(id, connection, credit: call.credit)
        let isAccepted = Locked(false)
        let task = Task(name: "kith \(request.method)") {
            var failure: (any Error)?
            do {
                var found = method
                if found == nil, let device = call.call.device {
                    found = try await dispatcher.entry(request.method, on: device, options: call.call.options)
                }
                guard let entry = found, entry.kind == .stream else {
                    return await send(await self.answer(request))
                }
                try await dispatcher.dispatch(stream: call.call) { output in
                    guard case .json(let result) = output else {
                        throw KithError(.internal, "The answer has another form than the request.")
                    }
                    isAccepted.set(true)
                    return try await stream.accept(JSONText(scanned: result), as: entry)
                }
            } catch {
                failure = error
            }
            if isAccepted.value {
                await stream.end(failure)
            } else {
                let failure = failure ?? KithError(.internal, "The stream was not accepted.")
                await send(RPCResponse(id: id, result: .failure(RPCCall.failure(failure))))
            }
        }
        note(number, id) { task.cancel() }
        state.withLock { $0.streams[id] = stream }
        group.addTask(executorPreference: globalConcurrentExecutor) {
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
        var isCounted = true
        defer { if isCounted { end(number, nil) } }
        let accepted = Locked<SocketStream?>(nil)
        do {
            let asked = try call(request)
            let call = asked.call
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    try await dispatcher.dispatch(stream: call) { output in
                        guard case .json(let result) = output else {
                            throw KithError(.internal, "The answer has another form than the request.")
                        }
                        let stream = SocketStream(
                            connection, sendsErrors: asked.sendsErrors, departure: connection.departure)
                        accepted.set(stream)
                        try await connection.send(
                            RPCResponse(id: id, result: .success(JSONText(scanned: result))).json)
                        return stream
                    }
                    return true
                }
                group.addTask {
                    await connection.watch.wait(for: connection.departure)
                    return false
                }
                defer { group.cancelAll() }
                // A caller that closes after both directions ended well has got what it wanted: let the service end.
                if try await group.next() == false, accepted.value?.isOver == true {
                    _ = try await group.next()
                }
            }
        } catch {
            if accepted.value == nil {
                await refuse(error)
                return false
            }
        }
        guard let stream = accepted.value else { return false }
        // From here on nothing of it is waited for by a device that stops.
        end(number, nil)
        isCounted = false
        // What it is ended by does not matter.
        try? await connection.leave()
        withExtendedLifetime(stream) {}
        return true
    }
}

extension RPCMessage {
    /// True when it is to be answered.
    fileprivate var wantsAnswer: Bool {
        switch self {
        case .request(let request): request.id != nil
        case .malformed: true
        case .response: false
        }
    }
}
