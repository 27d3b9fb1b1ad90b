import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// A session on this device: one process with its terminal or pipes, and the clients attached to it, if there are any.
///
///     process ──pump──▶ engine ──wake──▶ each client's sender ──frames──▶ stream
///     process ◀─────── engine ◀──────── each client's receiver ◀──frames── stream
///
/// What is to be done when says ``HostedShellEngine``; this does it.
final class HostedShell: Sendable {
    typealias Action = HostedShellEngine.Action

    /// A client that is attached, and the signals for those who serve it.
    struct Attached: Sendable {
        let key: UInt64
        let position: UInt64
        let inputPosition: UInt64
        /// Says that its next step may have changed.
        let wakes: AsyncStream<Void>
        /// Says when an echo is due.
        let echoes: AsyncStream<ContinuousClock.Instant>
    }

    private struct Signals {
        var wake: AsyncStream<Void>.Continuation
        var echo: AsyncStream<ContinuousClock.Instant>.Continuation
    }

    private struct State {
        var engine: HostedShellEngine
        var signals: [UInt64: Signals] = [:]
    }

    let profile: HostedShellEngine.Profile
    let process: ShellProcess
    let clock: any Ticker
    private let state: Mutex<State>
    private let reads = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let writes = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(1))
    private let work = Mutex<Task<Void, Never>?>(nil)
    private let expiry = Mutex<Task<Void, Never>?>(nil)
    private let programEnded = AsyncEvent()
    private let closed = AsyncEvent()
    private let onEnd: @Sendable (HostedShell) -> Void
    private let agent = Mutex<AgentRelay?>(nil)

    /// Takes over a process that has just been started.
    ///
    /// `onEnd` is called once it is over and nobody is left to be told.
    init(
        _ process: ShellProcess, profile: HostedShellEngine.Profile, sharing: Shell.Sharing,
        clock: any Ticker = ContinuousClock(), onEnd: @escaping @Sendable (HostedShell) -> Void
    ) {
        self.process = process
        self.profile = profile
        self.clock = clock
        self.onEnd = onEnd
        state = Mutex(State(engine: HostedShellEngine(profile, sharing: sharing, at: clock.now)))
    }

    /// Begins to carry bytes, once; they wait in the log for the first client.
    func start() {
        work.withLock { work in
            guard work == nil else { return }
            work = Task(name: "kith shell \(profile.id)", executorPreference: process.executor) {
                await self.run()
                self.programEnded.happen()
                await self.closed.wait()
                self.onEnd(self)
            }
        }
    }

    // MARK: - The engine

    /// Lets something happen to the engine, and does what that calls for.
    private func handle<Answer: Sendable, Failure: Error>(
        _ event: (inout HostedShellEngine, ContinuousClock.Instant) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let (answer, actions) = report(event)
        perform(actions)
        return try answer.get()
    }

    /// Lets something happen to the engine, and does what takes no time; returns what else there is to do.
    private func report<Answer: Sendable, Failure: Error>(
        _ event: (inout HostedShellEngine, ContinuousClock.Instant) throws(Failure) -> Answer
    ) -> (Result<Answer, Failure>, [Action]) {
        state.withLock { state in
            let answer: Result<Answer, Failure>
            do throws(Failure) {
                answer = .success(try event(&state.engine, clock.now))
            } catch {
                answer = .failure(error)
            }
            let actions = state.engine.takeActions().filter { !performNow($0, state.signals) }
            return (answer, actions)
        }
    }

    /// Does an action that takes no time, in the order of events; returns whether it is one.
    private func performNow(_ action: Action, _ signals: [UInt64: Signals]) -> Bool {
        switch action {
        case .wake(let key): signals[key]?.wake.yield()
        case .read: reads.continuation.yield()
        case .resize(let size): process.resize(size)
        case .signal(let signal): process.signal(signal)
        case .echo, .write, .writeOn, .endInput, .answerAgent, .expire, .end: return false
        }
        return true
    }

    /// Does everything else.
    ///
    /// The engine lets only one at a time write to the process.
    private func perform(_ actions: [Action]) {
        var actions = actions[...]
        while let action = actions.popFirst() {
            switch action {
            case .write(let bytes):
                let written = process.write(bytes)
                actions = (report { engine, now in engine.wrote(written, at: now) }.1 + actions)[...]
            case .endInput:
                let keys = process.endInput()
                actions = (report { engine, _ in engine.endedInput(typing: keys) }.1 + actions)[...]
            case .writeOn(let waits): writes.continuation.yield(waits)
            case .echo(let key, let time): state.withLock { $0.signals[key] }?.echo.yield(time)
            case .answerAgent(let number, let bytes): agent.withLock { $0 }?.deliver(bytes, to: number)
            case .expire(let time): expire(at: time)
            case .end: endProgram()
            case .wake, .read, .resize, .signal: preconditionFailure("done when it was called for")
            }
        }
    }

    private func expire(at time: ContinuousClock.Instant) {
        expiry.withLock { expiry in
            expiry?.cancel()
            expiry = Task(name: "kith shell \(profile.id) kept") { [weak self, clock] in
                guard (try? await clock.sleep(until: time, tolerance: nil)) != nil else { return }  // cancelled
                self?.handle { engine, now in engine.timedOut(at: now) }
            }
        }
    }

    private func endProgram() {
        // One that was never begun has a process to end as well.
        start()
        closed.happen()
        work.withLock { $0 }?.cancel()
        expiry.withLock { $0 }?.cancel()
    }

    // MARK: - The process's side

    private func run() async {
        do {
            let exit = try await carry()
            // Whoever is told of the end finds nothing running any more.
            await process.close()
            handle { engine, _ in engine.programEnded(.exited(exit)) }
        } catch {
            let failure = (error as? KithError) ?? KithError(.cancelled, "The session was ended.")
            handle { engine, _ in engine.programEnded(.failed(failure)) }
            await process.close()
        }
    }

    private func carry() async throws -> ShellExit {
        try await withThrowingTaskGroup(of: ShellExit?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await self.pump() }
            group.addTask {
                try await self.feed()
                return nil
            }
            while let exit = try await group.next() {
                if let exit { return exit }
            }
            throw CancellationError()
        }
    }

    /// Reads output until the process has ended and, on pipes, nobody writes any more.
    private func pump() async throws -> ShellExit {
        var buffer = [UInt8](repeating: 0, count: 32 << 10)
        var sources: [ShellProcess.Source] = process.isTerminal ? [.output] : [.output, .errorOutput]
        var exit: ShellExit?
        var hasRoom = reads.stream.makeAsyncIterator()
        while true {
            while !state.withLock({ $0.engine.mayRead() }) {
                guard await hasRoom.next() != nil else { throw CancellationError() }
                try Task.checkCancellation()
            }
            var (hasRead, hasMore) = (false, false)
            for source in sources {
                switch try process.read(source, using: &buffer) {
                case .bytes(let bytes):
                    hasRead = true
                    // Less than there was room for: that was all, and what comes is reported.
                    if bytes.count == buffer.count { hasMore = true }
                    handle { engine, now in engine.output(bytes, from: source, at: now) }
                case .nothingYet: break
                case .end: sources.removeAll { $0 == source }
                }
            }
            if hasRead {
                // What was read goes out before more is.
                await Task.yield()
                if hasMore || state.withLock({ $0.engine.awaitsPause }) { continue }
            }
            if exit == nil {
                exit = try process.exit()
                // What it wrote last may have come after the reads above.
                if exit != nil { continue }
            }
            if let exit {
                // A terminal may be held open by background processes for ever; what they say now, nobody asked for.
                if process.isTerminal || sources.isEmpty { return exit }
            }
            handle { engine, _ in engine.paused() }
            try await process.wait(for: sources, exit: exit == nil)
        }
    }

    /// Writes what the process did not take at once.
    private func feed() async throws {
        for await waits in writes.stream {
            if waits { try await process.waitForRoom() }
            handle { engine, _ in engine.goOnWriting() }
        }
        try Task.checkCancellation()
    }

    // MARK: - The clients' side

    /// Lets a client in: ``HostedShellEngine/attach(_:of:as:size:position:scrollback:at:)``.
    func attach(
        _ client: Shell.Client, of caller: Caller, as mode: HostedShellEngine.Mode, size: Shell.Size?,
        position: UInt64?, scrollback: Int = 0
    ) throws(KithError) -> Attached {
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (echoes, echo) = AsyncStream.makeStream(
            of: ContinuousClock.Instant.self, bufferingPolicy: .bufferingNewest(1))
        let attachment = try handle { engine, now throws(KithError) in
            try engine.attach(
                client, of: caller, as: mode, size: size, position: position, scrollback: scrollback, at: now)
        }
        state.withLock { $0.signals[attachment.key] = Signals(wake: wake, echo: echo) }
        // It may have been woken before.
        wake.yield()
        return Attached(
            key: attachment.key, position: attachment.position, inputPosition: attachment.inputPosition,
            wakes: wakes, echoes: echoes)
    }

    /// Lets a client go; when the session ends for that, returns once its processes are gone.
    func detach(_ key: UInt64, _ departure: HostedShellEngine.Departure) async {
        let signals = state.withLock { $0.signals.removeValue(forKey: key) }
        signals?.wake.finish()
        signals?.echo.finish()
        handle { engine, now in engine.detach(key, departure, at: now) }
        if closed.hasHappened { await finished() }
    }

    /// Returns the next step of a client's sender.
    func next(for key: UInt64) -> HostedShellEngine.Step { handle { engine, now in engine.next(for: key, at: now) } }

    /// Returns the frame that says that input was processed, when it is due.
    func echo(for key: UInt64) -> ShellFrame? { handle { engine, now in engine.echo(for: key, at: now) } }

    /// Takes a frame of a client.
    ///
    /// Never waits for the process, so a signal always gets through.
    ///
    /// - Throws: `.invalid` for one that breaks the protocol.
    func received(_ frame: ShellFrame, by key: UInt64) throws(KithError) {
        try handle { engine, now throws(KithError) in
            switch frame {
            case .input(let bytes): try engine.typed(bytes, by: key, at: now)
            case .endOfInput: engine.inputEnded(by: key, at: now)
            case .resize(let size): engine.resized(to: size, by: key)
            case .signal(let signal): engine.signalled(signal, by: key, at: now)
            case .received(let position): try engine.received(position, by: key, at: now)
            case .agent(let number, let bytes): engine.agentAnswered(number, bytes, by: key)
            case .output, .errorOutput, .exited, .taken, .jump, .screen, .echoed, .ended:
                throw KithError(.invalid, "The caller sent what only a device sends.")
            }
        }
    }

    /// The amount of a client's input that the process has been given.
    func inputTaken(by key: UInt64) -> UInt64 { state.withLock { $0.engine.inputTaken(by: key) } }

    /// The amount of output that waits to be sent to the client that is furthest behind.
    var backlog: Int { state.withLock { $0.engine.backlog } }

    /// The amounts of output and of input that are held.
    var held: (output: Int, input: Int) { state.withLock { ($0.engine.heldOutput, $0.engine.unreadInput) } }

    /// Lets the programs of the session ask the agent of one client, which comes and goes.
    ///
    /// Returns when cancelled.
    func offerAgent(of client: [UInt8], at listener: AgentRelay.Listener, _ reactor: Reactor) async {
        let relay = AgentRelay(reactor, clock: clock) { [weak self] number, bytes in
            self?.handle { engine, _ in engine.agentAsked(number, bytes) }
        }
        agent.withLock { $0 = relay }
        handle { engine, _ in engine.offerAgent(of: client) }
        try? await relay.accept(from: listener)
        handle { engine, _ in engine.offerAgent(of: nil) }
        agent.withLock { $0 = nil }
        relay.close()
        listener.close()
    }

    // MARK: - The end

    /// Ends it, with all its processes, and returns when they are gone.
    func end(_ reason: KithError) async {
        handle { engine, _ in engine.end(reason) }
        await finished()
    }

    /// Returns when the process is over.
    func processEnded() async { await programEnded.wait() }

    /// Returns when the session is over and forgotten.
    private func finished() async { await work.withLock { $0 }?.value }

    // MARK: - Who may attach

    /// The access a caller has to it.
    func access(of caller: Caller, holding grants: [Grant]) -> HostedShellEngine.Access {
        state.withLock { $0.engine.access(of: caller, holding: grants) }
    }

    /// Tells whether a caller is the one who opened it.
    func isOwn(_ caller: Caller) -> Bool { state.withLock { $0.engine.isOwn(caller) } }

    /// Ends it or puts clients out, when a device may not have it any more.
    func grantsChanged(for device: DeviceID, to grants: [Grant]) {
        handle { engine, now in engine.grantsChanged(for: device, to: grants, at: now) }
    }

    /// Shares it with others, or no longer.
    func share(_ sharing: Shell.Sharing) { handle { engine, now in engine.share(sharing, at: now) } }

    /// The session as a list shows it to a caller.
    func description(for caller: Caller) -> Shell.Session {
        state.withLock { $0.engine.description(for: caller, process: process.leader, at: clock.now) }
    }
}
