import KithAPI
import KithIO
import KithIdentity
import KithWire
import Logging
import Synchronization

/// Calls of other devices to this one.
extension Node {
    /// Serves the connections that `accept` is given, until the listener ends or a graceful shutdown is done.
    package func serve(_ listener: @escaping @Sendable (_ accept: @Sendable (any PeerLink) -> Void) async -> Void) async
    {
        startServices()
        let (links, arrivals) = AsyncStream.makeStream(of: (any PeerLink).self)
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await listener { arrivals.yield($0) }
                arrivals.finish()
            }
            group.addTask {
                await withDiscardingTaskGroup { connections in
                    for await link in links { connections.addTask { await self.serve(link: link) } }
                }
            }
            group.addTask {
                await withDiscardingTaskGroup { group in
                    group.addTask { await self.reachFollowed() }
                    group.addTask { await self.keepOutbox() }
                }
            }
            group.addTask {
                await self.shutdown.wait()
                // The limit is kept by cancelling the wait.
                try? await withDeadline(self.options.drain, on: self.clock) { await self.waitUntilIdle() }
                arrivals.finish()
            }
            // The listener or the shutdown ends first; then everything else does.
            await group.next()
            group.cancelAll()
        }
        cancelOwnCalls(Self.stopping)
        await stopServices()
        peerStates.end()
        audit.flush()
    }

    /// Serves one connection until it is over.
    ///
    /// Cancelling it ends every call and closes the connection.
    package func serve(link: any PeerLink) async {
        let session: Session
        do {
            let (admitted, displaced) = try admit(link)
            if let displaced {
                displaced.end(Self.crowded)
                displaced.link.close(Self.crowded.code, reason: Self.crowded.message)
            }
            session = admitted
        } catch {
            link.close(Self.outward(error).code, reason: Self.outward(error).message)
            return
        }
        defer { dismiss(session) }
        link.explainFailures { [weak self, weak session] stream, error in
            if let session { await self?.explain(stream, error, in: session) }
        }
        noteBeginning(session)
        notePeer(link.peer)
        await withTaskCancellationHandler {
            await withDiscardingTaskGroup { group in
                let record = Task(name: "kith record") { await self.keepRecord(session) }
                let follow = Task(name: "kith follow") { await self.follow(session) }
                let services = Task(name: "kith services") { await self.followServices(session) }
                let watch = session.isPaired ? nil : Task(name: "kith unpaired") { await self.watch(session) }
                // Streams are taken where they come in; only what serves them wakes another thread.
                await withTaskExecutorPreference(link.executor) {
                    while let stream = await link.nextStream() {
                        group.addTask(executorPreference: globalConcurrentExecutor) {
                            await self.serve(stream: stream, in: session)
                        }
                    }
                }
                watch?.cancel()
                record.cancel()
                follow.cancel()
                services.cancel()
                session.end(KithError(.closed, "The connection ended."))
                await record.value
                await follow.value
                await services.value
            }
        } onCancel: {
            session.end(Self.stopping)
            link.close(.closed, reason: Self.stopping.message)
        }
        await noteEnding(session)
        await noteEnd(session)
        hub.wakeFollowers()
    }

    /// Tells the other end why a stream that it opened fails, unless it is one that would not understand.
    private func explain(_ stream: UInt64, _ error: KithError, in session: Session) async {
        let knows = session.hello?.capabilities.contains(Reach.Hello.streamErrors) ?? true
        guard session.isPaired, knows, session.link.isOpen else { return }
        // Whoever cannot be told learns the code all the same.
        _ = try? await ask(
            Reach.Failed.self, Reach.Failed.Input(stream: stream, error), in: session, within: .seconds(2))
    }

    static let crowded = KithError(.exhausted, "Too many devices that are not paired are connected. Try again soon.")

    /// Closes the connection of an unpaired device when it is idle or stays too long.
    private func watch(_ session: Session) async {
        let end = clock.now + options.unpairedLifetime
        while !session.isPaired, session.link.isOpen {
            // What this device dialed may be quiet while two people compare a code.
            let idle = session.link.isDialed ? end : clock.now + options.unpairedIdle
            guard (try? await clock.sleep(until: min(idle, end), tolerance: nil)) != nil else { return }  // over
            if session.isPaired { return }
            if session.running == 0 || clock.now >= end {
                session.end(KithError(.unpaired, "This device is not paired with the other one."))
                session.link.close(.unpaired, reason: "The devices are not paired.")
                return
            }
        }
    }

    /// Serves one stream another device opened.
    func serve(stream: any ByteStream, in session: Session) async {
        let isEarly = session.link.isEarly(stream)
        do {
            let arrival = try await CallScope(timers: timers, whenCancelled: Self.stopping).run(
                "kith header", until: clock.now + options.headerTimeout, isImmediate: Self.mayBlock(#isolation)
            ) {
                try await HeaderExchange.receiveHeader(
                    from: stream,
                    inputLimit: session.isPaired ? StreamHeader.inputLimit : self.options.unpairedInputLimit)
            }
            guard let (header, rest) = arrival else { return stream.abort(.cancelled) }
            // Whoever only wants to hear of changes does not keep the connection open.
            if header.method == Services.Watch.header.name { session.link.isInBackground(stream) }
            await answer(header, on: rest, isEarly: isEarly, in: session)
        } catch {
            await refuse(error, on: stream)
            if !session.isPaired { await hangUp(session) }
        }
    }

    /// Ends the connection of an unpaired device that asked for something it may not have; the answer still arrives.
    private func hangUp(_ session: Session) async {
        if session.running == 0 { await session.link.drain(.seconds(1)) }
    }

    private func answer(
        _ header: StreamHeader, on stream: any ByteStream, isEarly: Bool, in session: Session
    ) async {
        let reply = StreamReply(stream)
        do {
            try await run(header, reply: reply, isEarly: isEarly, in: session)
        } catch {
            let failure = Self.outward(error is CancellationError ? Self.stopping : error)
            if failure.code == .internal {
                // Without a cause it is what the service says itself, perhaps in another program's or device's words.
                logger.log(
                    level: failure.cause == nil ? .notice : .error, "a call failed",
                    metadata: [
                        "method": "\(header.method)", "error": "\("\(failure.cause ?? failure)".prefix(bytes: 1_000))",
                    ])
            }
            // A refusal is on the disk before its caller learns of it.
            await audit.waitUntilWritten()
            if reply.isAccepted {
                stream.fail(failure)
            } else {
                await refuse(failure, on: stream)
            }
        }
        if !session.isPaired, reply.wasRefused { await hangUp(session) }
    }

    private func run(
        _ header: StreamHeader, reply: StreamReply, isEarly: Bool, in session: Session
    ) async throws {
        let deadline = header.millisecondsLeft.map { ms in
            clock.now.advanced(by: .milliseconds(Int64(min(ms, 1 << 52))))
        }
        if isShuttingDown { throw Self.stopping }
        if isEarly, !session.isPaired || (try? self.handler(header.method))?.method.kind != .query {
            // It may be a replay by somebody who listened: only a query tolerates that (RFC 9001 §9.2).
            guard await session.link.handshakeCompleted() else {
                throw KithError(.closed, "The other device never completed the handshake.")
            }
        }
        // Whoever calls from another device is told that this one stops, so that it can come back.
        let scope = CallScope(timers: timers, whenCancelled: Self.stopping)
        let handler: Handler
        let input: any Sendable
        let access: Access
        do {
            // An unpaired peer learns nothing about what is served here, and none of its input is read.
            if !session.isPaired, !isOpen(header.method, to: session.link.peer) {
                throw Access.paired.refusal(of: session.caller, holding: [])
                    ?? KithError(.unpaired, "The devices are not paired.")
            }
            handler = try self.handler(header.method)
            input = try handler.method.input.decode(.cbor(header.input))
            access = try handler.access(input, calledAs: header.method)
        } catch {
            if !session.isPaired {
                reply.noteRefusal()
                audit(session, (try? self.handler(header.method))?.method.name ?? "-", isAllowed: false, "not paired")
            }
            noteRefusal((try? self.handler(header.method))?.method.name, in: session, Self.outward(error))
            throw error
        }
        await audit.room()
        let ticket: UInt64
        let caller: Caller
        let grants: [Grant]
        do {
            (ticket, caller, grants) = try session.begin(
                scope, access: access, limit: options.callsPerConnection,
                unpairedLimit: options.callsPerUnpairedConnection)
        } catch let error as KithError where CallNote.isRefusal(error) {
            let isLimit = error.code == .exhausted
            if !isLimit { reply.noteRefusal() }
            audit(
                session, handler.method.name, isAllowed: false,
                isLimit ? "\(access.reason): \(error.message)" : access.reason)
            noteRefusal(handler.method.name, in: session, error)
            throw error
        }
        let note = CallNote(access, handler.isRoutine ? .query : handler.method.kind) {
            self.audit(session, header.method, isAllowed: $0, $1)
        }
        do {
            try await run(
                handler, input, Admission(ticket: ticket, caller: caller, grants: grants, deadline: deadline), header,
                access: access, note: note, scope: scope, reply: reply, in: session)
        } catch {
            note.failed(Self.outward(error))
            throw error
        }
    }

    /// Tells whether a device that is not paired may call a method.
    private func isOpen(_ name: String, to device: DeviceID) -> Bool {
        guard let method = (try? handler(name))?.method, method.header.isOpenToUnpaired else { return false }
        return directory.isOpen(method.name, to: device)
    }

    /// A call that was let through.
    private struct Admission {
        var ticket: UInt64
        var caller: Caller
        var grants: [Grant]
        var deadline: ContinuousClock.Instant?
    }

    private func run(
        _ handler: Handler, _ input: any Sendable, _ admission: Admission, _ header: StreamHeader, access: Access,
        note: CallNote, scope: CallScope, reply: StreamReply, in session: Session
    ) async throws {
        let ticket = admission.ticket
        if access != .anyone, session.noteMutual() { becameMutual(session.link.peer) }
        defer {
            session.end(ticket)
            noteIdle()
        }
        let peer = session.link.peer
        let name = handler.method.name
        try deviceCalls.enter(peer, name, perMethod: handler.perDevice, total: options.callsPerDevice)
        defer { deviceCalls.leave(peer, name) }
        let isReady = try handler.calls?.enter(scope) ?? true
        defer { handler.calls?.leave(scope) }
        let link = session.link
        var prepared = CallContext(
            caller: admission.caller, grants: admission.grants, deadline: admission.deadline, trace: header.trace,
            client: client,
            exportKeyingMaterial: { try await link.exportKeyingMaterial(label: $0, context: $1) },
            calledOff: { scope.reason })
        prepared.parameters = handler.parameters
        if let calls = handler.calls { prepared.logger = calls.logger }
        prepared.explain = { link.explain($0, $1) }
        prepared.callerAddress = { await link.status()?.address }
        prepared.narrowing = { purpose, check in
            do {
                try session.narrow(ticket, by: check)
            } catch {
                note.denied(purpose)
                throw error
            }
        }
        prepared.noteChange = { note.allowed() }
        prepared.protection = protection
        prepared.events = hub
        prepared.grantedRoot = { [directory] in try directory.grantedRoot($0) }
        let context = prepared
        switch handler.body {
        case .call(let body):
            let watcher = CallerWatch(ofCall: reply.stream) { scope.cancel($0) }
            defer { watcher.cancel() }
            let output = try await scope.run(
                header.method, until: admission.deadline, isImmediate: Self.mayBlock(#isolation)
            ) {
                if !isReady { try await handler.calls?.ready() }
                return try await self.counted(handler) {
                    try await self.observed(handler.method, context) { try await body(input, $0) }
                }
            }
            note.allowed()
            guard case .cbor(let bytes) = try handler.method.output.encode(output, .cbor) else { return }
            (reply.stream as? any CallStream)?.expectInputEnd()
            try await reply.stream.finish(writing: try ResponseHead.success(bytes).encoded())
        case .stream, .events:
            let watcher = CallerWatch(reply.stream) { scope.cancel($0) }
            defer { watcher.cancel() }
            try await serve(handler, input, context: context, scope: scope, isReady: isReady) { output in
                guard case .cbor(let bytes) = try handler.method.output.encode(output, .cbor) else {
                    throw KithError(.internal, "The answer has another form than the request.")
                }
                let stream = try await watcher.handOver()
                handler.method.header.traffic.prioritize(stream, isCaller: false)
                note.allowed()
                try await stream.write(try ResponseHead.success(bytes).encoded())
                reply.noteAcceptance()
                return stream
            }
        }
    }

    /// Answers with an error, and ends the stream.
    private func refuse(_ error: any Error, on stream: any ByteStream) async {
        let failure = Self.outward(error)
        do {
            try await stream.finish(writing: try ResponseHead(failure).encoded())
        } catch {
            stream.abort(failure.code)  // nobody listens any more
        }
    }

    private func audit(_ session: Session, _ method: String, isAllowed: Bool, _ detail: String) {
        var name = session.link.peer.description
        let known = session.known
        if let known { name = known.name }
        audit.write(
            AuditRecord(
                device: session.link.peer, name: name, isPaired: known != nil, address: session.link.address,
                method: method, isAllowed: isAllowed,
                // What it asked for may be long, and many lines may wait for the disk.
                detail: detail.prefix(bytes: 1_000)))
    }
}

/// The state of the answer to one stream.
private final class StreamReply: Sendable {
    let stream: any ByteStream
    private let state = Mutex((isAccepted: false, wasRefused: false))

    init(_ stream: any ByteStream) { self.stream = stream }

    var isAccepted: Bool { state.withLock { $0.isAccepted } }
    var wasRefused: Bool { state.withLock { $0.wasRefused } }
    func noteAcceptance() { state.withLock { $0.isAccepted = true } }
    func noteRefusal() { state.withLock { $0.wasRefused = true } }
}

/// Watches a caller until its call is answered: a reset calls the work off.
///
/// Bytes that the caller of a stream sends before the answer are read, and kept for the service.
private final class CallerWatch: Sendable {
    /// The number of bytes after which it reads no further; a reset behind them is seen only by whoever reads on.
    private static let limit = 64 << 10

    private let stream: any ByteStream
    private let heard: Locked<[UInt8]>
    /// Reads; `nil` where the stream tells by itself.
    private let task: Task<Void, any Error>?

    /// Watches the caller of a query or an action, from whom nothing more comes.
    convenience init(ofCall stream: any ByteStream, gone: @escaping @Sendable (KithError) -> Void) {
        guard let call = stream as? any CallStream else {
            self.init(stream, gone: gone)
            return
        }
        self.init(stream, task: nil)
        call.whenInputFails { gone(Self.gone($0)) }
    }

    private init(_ stream: any ByteStream, task: Task<Void, any Error>?) {
        self.stream = stream
        self.task = task
        heard = Locked([])
    }

    private static func gone(_ error: KithError) -> KithError {
        KithError(.cancelled, "The caller is gone.", cause: error)
    }

    init(_ stream: any ByteStream, gone: @escaping @Sendable (KithError) -> Void) {
        self.stream = stream
        let heard = Locked<[UInt8]>([])
        self.heard = heard
        task = Task(name: "kith caller") {
            do {
                while heard.value.count < Self.limit, let bytes = try await stream.read(upTo: 16 << 10) {
                    heard.set(heard.value + bytes)
                }
            } catch let error as KithError {
                gone(Self.gone(error))
                throw error
            }
        }
    }

    func cancel() {
        if let task { task.cancel() } else { (stream as? any CallStream)?.whenInputFails(nil) }
    }

    /// Stops reading and returns the stream with the bytes read so far.
    func handOver() async throws -> any ByteStream {
        task?.cancel()
        if case .failure(let error)? = await task?.result, !(error is CancellationError) { throw error }
        return heard.value.isEmpty ? stream : PrefixedStream(heard.value, before: stream)
    }
}
