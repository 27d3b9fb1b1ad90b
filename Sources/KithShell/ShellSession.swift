public import KithAPI
import KithIO
public import KithWire
import Synchronization

/// A shell or a command on another device, seen from the caller's side.
///
/// ```swift
/// let session = try await ShellSession.open(.init(commandLine: "make test"), on: "laptop", client: client)
/// try await session.endInput()
/// for try await event in session.events {
///     switch event {
///     case .output(let bytes), .errorOutput(let bytes): print(String(decoding: bytes, as: UTF8.self))
///     case .exited(let exit): print(exit.shellStatus)
///     default: break
///     }
/// }
/// ```
/// One task may iterate the events while another writes; resizes and signals may come from anywhere.
///
/// A session that was opened to be kept (``Shell/Open/Input/keep``) survives its connection: the events tell of the
/// interruption, and whoever goes on asking for the next one makes the session look for the device until it is found;
/// then it continues with the byte after the last, both ways. ``close()`` ends the processes there, ``detach()``
/// leaves them running. A session that is released is closed.
public final class ShellSession: Sendable {
    /// An event from the other device, or of the connection.
    @nonexhaustive
    public enum Event: Sendable {
        /// Bytes from standard output, or from the terminal.
        case output([UInt8])
        /// Bytes from standard error; never from a terminal.
        case errorOutput([UInt8])
        /// A drawing of the terminal as it is now, in place of output that was skipped; it may come in parts.
        case screen([UInt8])
        /// The device has processed the input up to this position (``write(_:)``) and sent what it echoed.
        case echoed(input: UInt64, roundTrip: Duration)
        /// The connection was lost; asking for the next event looks for the device.
        case interrupted(KithError)
        /// Another attempt to find the device has failed.
        case stillInterrupted(KithError)
        /// The session goes on where it was.
        case resumed
        /// The end, always the last event.
        case exited(ShellExit)
    }

    /// The means by which a session finds its device again.
    private struct Returning: Sendable {
        var client: Client
        var device: String?
        var input: Shell.Attach.Input
    }

    /// One stream, and what is in flight on it.
    private final class Link: Sendable {
        let stream: any ByteStream
        let sink: FrameSink
        let decoder = Mutex(ReceiveBuffer())

        init(_ stream: any ByteStream) {
            self.stream = stream
            sink = FrameSink(stream)
        }
    }

    private struct State {
        var link: Link
        var engine: ShellSessionEngine
    }

    /// The session's name on the device, to attach to it.
    public let id: String
    /// The number of its first process there.
    public let process: Int32
    /// The time for which the device keeps it when nobody is attached; `nil`: it ends with its stream.
    public let keep: Duration?
    private let clock: any Ticker
    private let returning: Returning?
    private let state: Mutex<State>
    /// The amount of input that may still be sent before the device reports that it has received some.
    private let allowance = AsyncSemaphore(ShellFrame.inputWindow, limit: ShellFrame.inputWindow)
    /// Orders what is typed with what is sent again.
    private let lock = AsyncMutex()
    private let agent = Mutex<(relay: AgentRelay, path: String)?>(nil)
    private let answers: Mutex<AsyncStream<(UInt64, [UInt8])>?>
    private let agentAnswers: AsyncStream<(UInt64, [UInt8])>.Continuation

    /// Opens a shell or runs a command on a device; `nil` is this one.
    ///
    /// - Throws: `KithError`: `.denied` without the grant, `.notFound` for a folder that is not there.
    public static func open(
        _ input: Shell.Open.Input, on device: String?, client: Client, options: CallOptions = CallOptions()
    ) async throws -> ShellSession {
        try await open(input, on: device, client: client, options: options, clock: ContinuousClock())
    }

    /// Opens a shell or runs a command, and looks for the device by a clock.
    static func open(
        _ input: Shell.Open.Input, on device: String?, client: Client, options: CallOptions = CallOptions(),
        clock: any Ticker
    ) async throws -> ShellSession {
        let opened = try await client.open(Shell.Open.self, input, on: device, options: options)
        return ShellSession(opened, input, client: client, device: device, clock: clock)
    }

    /// Attaches to a session that runs on a device.
    ///
    /// - Throws: `KithError`: `.notFound` when there is none of that name, `.denied` when it is not shared.
    public static func attach(
        _ input: Shell.Attach.Input, on device: String?, client: Client, options: CallOptions = CallOptions()
    ) async throws -> ShellSession {
        let opened = try checked(try await client.open(Shell.Attach.self, input, on: device, options: options))
        let output = opened.output
        var input = input
        input.session = output.session.id
        return ShellSession(
            stream: opened.stream.bytes, id: output.session.id, process: output.session.process, keep: output.keep,
            isTerminal: output.session.size != nil, position: output.position, size: input.size,
            returning: (client, device, input), clock: ContinuousClock())
    }

    /// Speaks over a stream ``Shell/Open`` was accepted on.
    ///
    /// With a client and the session kept, it finds its way back after a lost connection.
    public convenience init(
        _ opened: OpenedStream<Shell.Open>, _ input: Shell.Open.Input, client: Client? = nil,
        device: String? = nil
    ) {
        self.init(opened, input, client: client, device: device, clock: ContinuousClock())
    }

    private convenience init(
        _ opened: OpenedStream<Shell.Open>, _ input: Shell.Open.Input, client: Client?, device: String?,
        clock: any Ticker
    ) {
        let attach = Shell.Attach.Input(
            session: opened.output.session, size: input.terminal?.size, scrollback: 1_000, client: input.client)
        self.init(
            stream: opened.stream.bytes, id: opened.output.session, process: opened.output.process,
            keep: opened.output.keep, isTerminal: input.terminal != nil, position: 0, size: input.terminal?.size,
            returning: client.map { ($0, device, attach) }, clock: clock)
    }

    private init(
        stream: any ByteStream, id: String, process: Int32, keep: UInt32?, isTerminal: Bool, position: UInt64,
        size: Shell.Size?, returning: (client: Client, device: String?, input: Shell.Attach.Input)?,
        clock: any Ticker
    ) {
        self.id = id
        self.clock = clock
        self.process = process
        self.keep = keep.map { .seconds($0) }
        self.returning =
            keep == nil
            ? nil : returning.map { Returning(client: $0.client, device: $0.device, input: $0.input) }
        let engine = ShellSessionEngine(
            isTerminal: isTerminal, patience: returning == nil ? nil : self.keep, position: position, size: size)
        state = Mutex(State(link: Link(stream), engine: engine))
        let (answers, answer) = AsyncStream.makeStream(of: (UInt64, [UInt8]).self)
        self.answers = Mutex(answers)
        agentAnswers = answer
    }

    deinit {
        agentAnswers.finish()
        agent.withLock { $0?.relay }?.close()
        close()
    }

    // MARK: - Out

    /// The executor on which tasks that read and write it run best: `ByteStream.executor`.
    package var executor: (any TaskExecutor)? { state.withLock { $0.link.stream.executor } }

    /// The events from the device, in order, until it has exited.
    public var events: Events { Events(session: self) }

    /// Waits for the next event; `nil` after `exited`, and once this end has closed or detached.
    ///
    /// - Throws: `KithError` `.closed` and the like when the connection was lost and nothing brings it back.
    public func next() async throws -> Event? {
        do {
            while true {
                let (link, isOver, isLost) = state.withLock {
                    ($0.link, $0.engine.hasExited, $0.engine.isInterrupted)
                }
                if isOver { return nil }
                if isLost { return try await comeBack() }
                do {
                    while let frame = try link.decoder.withLock({ decoder throws(KithError) in
                        try ShellFrame.next(from: &decoder)
                    }) {
                        if let event = try await event(frame, link) { return event }
                    }
                    if let frame = state.withLock({ $0.engine.acknowledgement() }) { try await link.sink.send(frame) }
                    guard let bytes = try await link.stream.read(upTo: 64 << 10) else {
                        throw KithError(.closed, "The device hung up before the shell ended.")
                    }
                    link.decoder.withLock { $0.append(bytes) }
                } catch let error as KithError {
                    switch state.withLock({ $0.engine.lost(error, at: clock.now) }) {
                    case .end: return nil
                    case .fail: throw error
                    case .interrupt:
                        link.stream.abort(.closed)
                        return .interrupted(error)
                    }
                }
            }
        } catch let last as LastWord {
            allowance.finish()
            throw last.error
        } catch {
            if !(error is CancellationError) { allowance.finish() }
            throw error
        }
    }

    /// The device's last message before it let this end go: nothing brings that back.
    private struct LastWord: Error {
        var error: KithError
    }

    /// Follows the engine's reaction to a frame.
    private func event(_ frame: ShellFrame, _ link: Link) async throws -> Event? {
        switch try state.withLock({ state throws(KithError) in try state.engine.received(frame, at: clock.now) }) {
        case .none: return nil
        case .give(let event, let frame):
            if let frame { try await link.sink.send(frame) }
            return event
        case .grant(let count):
            allowance.add(count)
            return nil
        case .askAgent(let number, let bytes):
            relay(bytes, of: number)
            return nil
        case .exit(let exit):
            allowance.finish()
            // The processes are gone; a connection that is gone by now as well harms nobody.
            try? await link.sink.finish()
            return .exited(exit)
        case .fail(let error):
            link.stream.abort(.closed)
            throw LastWord(error: error)
        }
    }

    /// Returns the session attached to, or closes its stream when the device reports that no shell runs there.
    private static func checked(
        _ opened: OpenedStream<Shell.Attach>
    ) throws(KithError) -> OpenedStream<Shell.Attach> {
        do throws(KithError) {
            try ShellSessionEngine.check(opened.output.position)
            return opened
        } catch {
            opened.stream.abort(error.code)
            throw error
        }
    }

    // MARK: - The agent

    /// Lets programs of the session ask the ssh agent that listens at `path`, when the session was opened so.
    ///
    /// Call it once, before the first event is asked for.
    public func forwardAgent(at path: String) throws {
        let relay = AgentRelay(try .forShells(), clock: clock) { [weak self] number, bytes in
            guard let self else { return }
            self.agentAnswers.yield((number, bytes))
        }
        agent.withLock { $0 = (relay, path) }
        let answers = answers.withLock { stream in
            defer { stream = nil }
            return stream
        }
        guard let answers else { return }
        Task(name: "kith agent") { [weak self] in
            for await (number, bytes) in answers {
                guard let link = self?.state.withLock({ $0.engine.isInterrupted ? nil : $0.link }) else { continue }
                // An answer that meets a lost connection is lost with it: the program there asks again or fails.
                try? await link.sink.send(.agent(number, bytes))
            }
        }
    }

    private func relay(_ bytes: [UInt8], of number: UInt64) {
        guard let (relay, path) = agent.withLock({ $0 }) else { return }
        if !bytes.isEmpty, !relay.isOpen(number) { relay.connect(number, to: path) }
        relay.deliver(bytes, to: number)
    }

    // MARK: - The way back

    /// Makes one attempt to go on, after a pause when one has just failed.
    private func comeBack() async throws -> Event? {
        guard var input = returning?.input, let returning else { throw HostedShellEngine.gone }
        switch state.withLock({ $0.engine.search(at: clock.now) }) {
        case .found: return .resumed
        case .end: return nil
        case .giveUp(let error): throw error
        case .attach(let pause, let position, let size):
            if pause > .zero { try await clock.sleep(for: pause) }
            // Whoever left meanwhile looks for nothing.
            guard state.withLock({ $0.engine.isInterrupted }) else { return nil }
            input.position = position
            input.size = size
        }
        do {
            let opened = try await returning.client.open(
                Shell.Attach.self, input, on: returning.device, options: CallOptions(timeout: .seconds(15)))
            try await resume(opened)
            return .resumed
        } catch let error as KithError where error.code == .notFound {
            throw KithError(
                .closed, "The shell there has ended meanwhile: the device restarted, or ended it.", cause: error)
        } catch let error as KithError where ShellSessionEngine.isPassing(error) || error.code == .cancelled {
            try Task.checkCancellation()
            state.withLock { $0.engine.searchFailed() }
            return .stillInterrupted(error)
        }
    }

    /// Takes up a new stream: what of the input has not arrived is sent again before anything else.
    private func resume(_ opened: OpenedStream<Shell.Attach>) async throws {
        let opened = try Self.checked(opened)
        await lock.lock()
        defer { lock.unlock() }
        let link = Link(opened.stream.bytes)
        let again = state.withLock { state in
            state.link = link
            return state.engine.attached(
                position: opened.output.position, inputPosition: opened.output.inputPosition)
        }
        guard let (rest, hasEndedInput) = again else { return link.stream.abort(.cancelled) }
        do {
            for start in stride(from: 0, to: rest.count, by: 32 << 10) {
                try await link.sink.send(.input(Array(rest[start..<min(rest.count, start + 32 << 10)])))
            }
            if hasEndedInput { try await link.sink.send(.endOfInput) }
        } catch {
            link.stream.abort(.closed)
            throw error
        }
        state.withLock { $0.engine.resumed() }
    }

    // MARK: - In

    /// The number of bytes typed or written so far.
    public var inputPosition: UInt64 { state.withLock { $0.engine.inputPosition } }

    /// Since when input waits to be echoed; known only with ``Shell/Client/wantsEchoes``.
    public var unansweredSince: ContinuousClock.Instant? { state.withLock { $0.engine.unansweredSince } }

    /// Writes to standard input, or types on the terminal; waits while the process does not read.
    ///
    /// Returns the position of the input after these bytes. After the process has exited, input is dropped.
    @discardableResult
    public func write(_ bytes: [UInt8]) async throws -> UInt64 {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = try await allowance.take(upTo: min(rest.count, 32 << 10))
            guard count > 0 else { break }
            let part = Array(rest.prefix(count))
            rest = rest.dropFirst(count)
            await lock.lock()
            defer { lock.unlock() }
            let link = state.withLock { $0.engine.typed(part, at: clock.now) ? $0.link : nil }
            try await send(.input(part), over: link)
        }
        return inputPosition
    }

    /// Ends standard input; on a terminal it types the end-of-file key.
    public func endInput() async throws {
        await lock.lock()
        defer { lock.unlock() }
        let link = state.withLock { $0.engine.endInput() ? $0.link : nil }
        try await send(.endOfInput, over: link)
    }

    /// Tells the terminal's new size.
    public func resize(_ size: Shell.Size) async throws {
        let link = state.withLock { $0.engine.resize(size) ? $0.link : nil }
        try await send(.resize(size), over: link)
    }

    /// Signals what runs in the foreground of the terminal; without one, the command and its children.
    ///
    /// One that meets a lost connection is lost with it.
    public func signal(_ signal: ShellSignal) async throws {
        let link = state.withLock { $0.engine.canSend ? $0.link : nil }
        try await send(.signal(signal), over: link)
    }

    /// Sends a frame; a connection that breaks meanwhile is noticed by who waits for events.
    private func send(_ frame: ShellFrame, over link: Link?) async throws {
        guard let link else { return }
        do {
            try await link.sink.send(frame)
        } catch let error as KithError where returning != nil && ShellSessionEngine.isPassing(error) {
            // What was typed is kept, and sent again over the next stream.
        }
    }

    // MARK: - The end

    /// Hangs up, which ends the processes unless another client may type.
    ///
    /// Does nothing after the exit.
    public func close() { leave()?.stream.abort(.cancelled) }

    /// Lets go after what was typed, and leaves the processes running for as long as the session is kept.
    ///
    /// Returns when the device has noticed, or after two seconds without a word from it.
    public func detach() async {
        guard let link = leave() else { return }
        await lock.lock()
        defer { lock.unlock() }
        try? await link.sink.finish()
        // A device that answers nothing will notice by itself.
        await withTaskGroup { group in
            group.addTask {
                while (try? await link.stream.read(upTo: 64 << 10)) ?? nil != nil {}
            }
            group.addTask { [clock] in try? await clock.sleep(for: .seconds(2)) }
            await group.next()
            group.cancelAll()
        }
        link.stream.abort(.closed)
    }

    /// Lets nobody write any more; the link to end, unless that has happened.
    private func leave() -> Link? {
        allowance.finish()
        return state.withLock { $0.engine.leave() ? $0.link : nil }
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
