import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTerminal
import KithWire
import Synchronization

/// A session on this device: one process with its terminal or pipes, whoever looks at it, if anybody does.
///
///     process ──pump──▶ log, screen ──wake──▶ each viewer's sender ──frames──▶ stream
///     process ◀─feeder── queue ◀──input── each viewer's receiver ◀──frames── stream
///
/// The log holds what a viewer who lost its connection needs to go on; the screen what one needs who comes new, or
/// has fallen behind. On a terminal a viewer that drives holds the process back when it is slow, as a terminal does;
/// one that only looks is drawn the screen of now instead. Without a driver the process on a terminal runs freely,
/// and one on pipes until the log is full.
final class HostedShell: Sendable {
    /// The circumstances in which a session was opened.
    struct Profile: Sendable {
        /// Its name.
        var id: String
        /// The command that a list shows.
        var command: String
        /// The caller who opened it.
        var owner: Caller
        /// When, in seconds since 1970.
        var opened: Int64
        /// The time it outlives its last interactive client; `nil`: it does not.
        var keep: Duration?
        /// The one command it was allowed; `nil`: any.
        var forcedCommand: String?
        /// The size of its terminal; `nil`: pipes.
        var size: Shell.Size?
    }

    /// The next step of a client's sender.
    enum Step: Sendable {
        case send([ShellFrame])
        case wait
        /// Nothing will change before that time.
        case waitUntil(ContinuousClock.Instant)
        /// All that there is has been sent; this is how it ended.
        case exited(ShellExit)
        case failed(KithError)
    }

    /// One window on the session.
    struct Viewer: Sendable {
        var id: [UInt8]
        var caller: Caller
        var drives: Bool
        var size: Shell.Size?
        var wake: AsyncStream<Void>.Continuation
        var window: OutputWindow
        /// The kind of redraw that goes before anything else, and how many lines before it.
        var redraw: Redraw?
        var lastDrawn: ContinuousClock.Instant?
        /// Frames of the ssh agent to be sent before anything else.
        var agentFrames: [ShellFrame] = []
        /// Why it may not go on.
        var refusal: KithError?
    }

    /// Why the screen is drawn, and since when it should have been.
    struct Redraw: Sendable {
        var scrollback: Int
        /// Output goes on arriving for a moment after an interrupt; the screen is drawn when it has paused.
        var awaitsPause: ContinuousClock.Instant?
    }

    /// The input of one end that has come, as positions.
    private struct Input {
        let id: [UInt8]
        var received: UInt64 = 0
        /// The input that the process has been given.
        var taken: UInt64 = 0
        /// The position at which the end's sender was last woken to report it.
        var told: UInt64 = 0
    }

    private struct State {
        var log = OutputLog()
        var screen: Terminal?
        var size: Shell.Size?
        var sharing: Shell.Sharing
        var viewers: [UInt64: Viewer] = [:]
        /// Those another has taken the place of, until they know.
        var replaced: Set<UInt64> = []
        var nextViewer: UInt64 = 0
        /// The input of the last few ends that came.
        var inputs: [Input] = []
        var exit: ShellExit?
        var failure: KithError?
        /// No driver since then.
        var abandoned: ContinuousClock.Instant?
        var lastActivity = ContinuousClock.now
        var isPaused = true
        /// Ended on purpose, for this reason.
        var ending: KithError?
    }

    /// The number of bytes the process may run ahead of the senders.
    private static let ahead = 128 << 10
    /// Beyond how much unread input the terminal's own answers are left out.
    private static let repliesAhead = 64 << 10
    /// The number of bytes held for a client that comes back.
    private var retained: Int { process.isTerminal ? 1 << 20 : 4 << 20 }
    /// The number of ends whose input positions are remembered.
    private static let rememberedInputs = 32
    /// The interval at which a client of another size is drawn the screen.
    private static let frameInterval = Duration.milliseconds(50)

    let profile: Profile
    let process: ShellProcess
    private let state: Mutex<State>
    private let input = InputQueue()
    private let room = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let work = Mutex<Task<Void, Never>?>(nil)
    private let onEnd: @Sendable (HostedShell) -> Void
    private let agent = Mutex<(relay: AgentRelay, viewer: [UInt8])?>(nil)

    /// Takes over a process that has just been started.
    ///
    /// `onEnd` is called once it is over and nobody is left to be told.
    init(
        _ process: ShellProcess, profile: Profile, sharing: Shell.Sharing,
        onEnd: @escaping @Sendable (HostedShell) -> Void
    ) {
        self.process = process
        self.profile = profile
        self.onEnd = onEnd
        var state = State(sharing: sharing)
        state.size = profile.size
        if let size = profile.size {
            state.screen = Terminal(columns: Self.columns(size), rows: Self.rows(size))
        }
        self.state = Mutex(state)
    }

    /// Begins to carry bytes; they wait in the log for the first viewer.
    func start() {
        work.withLock { work in
            work = Task(name: "kith shell \(profile.id)", executorPreference: process.executor) { await self.run() }
        }
    }

    /// Lets the programs of the session ask the agent of one window, which comes and goes.
    ///
    /// Returns when cancelled.
    func offerAgent(of viewer: [UInt8], at listener: AgentRelay.Listener, _ reactor: Reactor) async {
        let relay = AgentRelay(reactor) { [weak self] number, bytes in
            self?.tellAgent(.agent(number, bytes), of: viewer, number)
        }
        agent.withLock { $0 = (relay, viewer) }
        try? await relay.accept(from: listener)
        agent.withLock { $0 = nil }
        relay.close()
        listener.close()
    }

    private func tellAgent(_ frame: ShellFrame, of viewer: [UInt8], _ number: UInt64) {
        let isThere = state.withLock { state -> Bool in
            guard let key = state.viewers.first(where: { $0.value.id == viewer })?.key,
                (state.viewers[key]?.agentFrames.count ?? 0) < 1_024
            else { return false }
            state.viewers[key]?.agentFrames.append(frame)
            state.viewers[key]?.wake.yield()
            return true
        }
        if !isThere { agent.withLock { $0?.relay }?.deliver([], to: number) }
    }

    /// Takes an answer of a window's agent.
    func agentAnswered(_ number: UInt64, _ bytes: [UInt8], by key: UInt64) {
        let viewer = state.withLock { $0.viewers[key]?.id }
        guard let agent = agent.withLock({ $0 }), agent.viewer == viewer else { return }
        agent.relay.deliver(bytes, to: number)
    }

    private static func columns(_ size: Shell.Size) -> Int { min(max(Int(size.columns), 2), 1_000) }
    private static func rows(_ size: Shell.Size) -> Int { min(max(Int(size.rows), 1), 1_000) }

    // MARK: - The process's side

    private func run() async {
        do {
            let exit = try await carry()
            // Whoever is told of the end finds nothing running any more.
            await process.close()
            state.withLock { $0.exit = exit }
            wakeAll()
        } catch {
            let failure =
                state.withLock { $0.ending } ?? (error as? KithError)
                ?? KithError(.cancelled, "The session was ended.")
            state.withLock { $0.failure = failure }
            wakeAll()
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
        var hasRoom = room.stream.makeAsyncIterator()
        while true {
            while !mayRead {
                guard await hasRoom.next() != nil else { throw CancellationError() }
                try Task.checkCancellation()
            }
            var isQuiet = true
            for source in sources {
                switch try process.read(source, using: &buffer) {
                case .bytes(let bytes):
                    isQuiet = false
                    took(bytes, from: source)
                case .nothingYet: break
                case .end: sources.removeAll { $0 == source }
                }
            }
            guard isQuiet else {
                // What was read goes out before more is.
                await Task.yield()
                continue
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
            paused()
            try await process.wait(for: sources, exit: exit == nil)
        }
    }

    /// True when more output may be read from the process.
    private var mayRead: Bool {
        state.withLock { state in
            // Nothing of a pipe may be lost; on a terminal there is the screen.
            if !process.isTerminal, state.log.count >= retained { return false }
            return state.viewers.values.filter { getsBytes($0, state) }.allSatisfy {
                state.log.end - $0.window.sent < Self.ahead && state.log.end - $0.window.received < retained
            }
        }
    }

    /// Keeps what was read, and lets the senders know.
    private func took(_ bytes: [UInt8], from source: ShellProcess.Source) {
        let replies = state.withLock { state -> [UInt8] in
            state.isPaused = false
            state.log.append(bytes, from: source)
            state.screen?.feed(bytes)
            state.lastActivity = .now
            trim(&state)
            for viewer in state.viewers.values { viewer.wake.yield() }
            // A program that asks what terminal it has is answered by the person's, or in its absence by ours.
            let replies = state.screen?.takeReplies() ?? []
            return state.viewers.values.contains { $0.drives && !isDrawn($0, state) } ? [] : replies
        }
        // A program that does not read what it asks for is not told more.
        if !replies.isEmpty, input.count < Self.repliesAhead { give(replies, of: nil) }
    }

    private func paused() {
        state.withLock { state in
            state.isPaused = true
            for viewer in state.viewers.values where viewer.redraw != nil { viewer.wake.yield() }
        }
    }

    /// Lets go of what nobody will ask for.
    private func trim(_ state: inout State) {
        // Those who are drawn the screen need no bytes, and may stand still for hours.
        let received = state.viewers.values.filter { getsBytes($0, state) }.map(\.window.received).min()
        if let received {
            state.log.forget(before: min(received, state.log.end))
        } else if profile.size != nil {
            // Whoever comes back within this goes on byte for byte.
            state.log.forget(before: state.log.end - min(state.log.end, UInt64(retained)))
        }
    }

    /// Tells whether a client is interactive and is sent every byte, and not the screen as it is.
    private func getsBytes(_ viewer: Viewer, _ state: borrowing State) -> Bool {
        guard viewer.drives, viewer.redraw == nil else { return false }
        return !isDrawn(viewer, state)
    }

    /// Writes what viewers typed to the process.
    private func feed() async throws {
        for await chunk in input.chunks {
            defer { input.isDone(chunk) }
            guard let bytes = chunk.bytes else {
                try await process.endInput()
                continue
            }
            let interrupts = process.interrupts(bytes)
            try await process.write(bytes)
            if let end = chunk.end { taken(from: end.viewer, upTo: end.position) }
            if interrupts { interrupted() }
        }
        try Task.checkCancellation()
    }

    /// Gives input to the process: at once, as far as nothing is before it and the process takes it.
    private func give(_ bytes: [UInt8], of end: (viewer: [UInt8], position: UInt64)?) {
        input.append(InputQueue.Chunk(bytes: bytes, end: end)) { chunk in
            let (count, interrupts) = process.writeNow(bytes)
            if interrupts { interrupted() }
            guard count == bytes.count else {
                return InputQueue.Chunk(bytes: Array(bytes[count...]), end: chunk.end)
            }
            if let end { taken(from: end.viewer, upTo: end.position) }
            return nil
        }
    }

    /// Forgets output that viewers have not been sent, as the terminal itself does for a key that interrupts.
    private func interrupted() {
        let late = ContinuousClock.now + .milliseconds(150)
        state.withLock { state in
            for (key, viewer) in state.viewers
            where viewer.redraw == nil && state.log.end - viewer.window.sent > UInt64(Self.ahead / 8) {
                state.viewers[key]?.redraw = Redraw(scrollback: 0, awaitsPause: late)
                viewer.wake.yield()
            }
        }
        room.continuation.yield()
    }

    // MARK: - The viewers' side

    /// Lets a viewer in; returns its key, and where its output begins.
    ///
    /// One of the same name is put out: it is the same window whose connection was lost.
    func admit(
        _ viewer: Shell.Viewer, caller: Caller, drives: Bool, size: Shell.Size?, position: UInt64?, scrollback: Int,
        wake: AsyncStream<Void>.Continuation
    ) throws(KithError) -> (key: UInt64, position: UInt64, inputPosition: UInt64) {
        let result = state.withLock { state -> (UInt64, UInt64, UInt64)? in
            if state.ending != nil { return nil }
            for (key, other) in state.viewers where other.id == viewer.id && Self.isSame(other.caller, caller) {
                state.viewers[key] = nil
                state.replaced.insert(key)
                other.wake.yield()
                other.wake.finish()
            }
            let known = position.flatMap { $0 >= state.log.start && $0 <= state.log.end ? $0 : nil }
            // On pipes nothing can be drawn; what is gone is gone.
            let begin = known ?? (state.screen == nil ? state.log.start : state.log.end)
            var window = OutputWindow(at: begin)
            window.jump(to: begin)
            state.nextViewer += 1
            state.viewers[state.nextViewer] = Viewer(
                id: viewer.id, caller: caller, drives: drives, size: size, wake: wake, window: window,
                redraw: known == nil && state.screen != nil ? Redraw(scrollback: scrollback) : nil)
            if drives { state.abandoned = nil }
            let at = remember(viewer.id, &state)
            return (state.nextViewer, begin, state.inputs[at].received)
        }
        guard let result else { throw Self.gone }
        if drives, let size { resize(size) }
        room.continuation.yield()
        wake.yield()
        return result
    }

    static let replaced = KithError(.conflict, "This window was attached again from elsewhere, and goes on there.")

    static let gone = KithError(.notFound, "That shell has ended.")

    private func remember(_ id: [UInt8], _ state: inout State) -> Int {
        if let at = state.inputs.firstIndex(where: { $0.id == id }) { return at }
        if state.inputs.count >= Self.rememberedInputs {
            let there = Set(state.viewers.values.map(\.id))
            if let idle = state.inputs.firstIndex(where: { !there.contains($0.id) }) { state.inputs.remove(at: idle) }
        }
        state.inputs.append(Input(id: id))
        return state.inputs.count - 1
    }

    /// Tells whether a client may type.
    func drives(_ key: UInt64) -> Bool { state.withLock { $0.viewers[key]?.drives ?? false } }

    /// Tells whether the session waits for a client to come back, when the last interactive one goes for this reason.
    func isKept(after reason: KithError) -> Bool {
        guard profile.keep != nil else { return false }
        return switch reason.code {
        // It hung up, or must not be here.
        case .cancelled, .denied, .unpaired, .invalid: false
        default: process.isTerminal || reason.code == .closed || reason.code == .timedOut
        }
    }

    /// Lets a viewer go; returns whether that was the last that drove.
    @discardableResult
    func dismiss(_ key: UInt64) -> Bool {
        let (wasLast, size) = state.withLock { state -> (Bool, Shell.Size?) in
            state.replaced.remove(key)
            guard let viewer = state.viewers.removeValue(forKey: key) else { return (false, nil) }
            viewer.wake.finish()
            let drivers = state.viewers.filter { $0.value.drives }
            let wasLast = viewer.drives && drivers.isEmpty
            if wasLast { state.abandoned = .now }
            trim(&state)
            // The size was that of who leaves: then of the one that came last.
            let isOfOther = drivers.values.contains { !isDrawn($0, state) }
            return (wasLast, viewer.drives && !isOfOther ? drivers.max { $0.key < $1.key }?.value.size : nil)
        }
        if let size { resize(size) }
        room.continuation.yield()
        watch()
        return wasLast
    }

    /// Returns the next step of a client's sender.
    func next(for key: UInt64) -> Step {
        let now = ContinuousClock.now
        let step = state.withLock { state -> Step in
            guard var viewer = state.viewers[key] else {
                return .failed(state.replaced.contains(key) ? Self.replaced : Self.gone)
            }
            defer { state.viewers[key] = viewer }
            if let refusal = viewer.refusal { return .failed(refusal) }
            if !viewer.agentFrames.isEmpty {
                defer { viewer.agentFrames = [] }
                return .send(viewer.agentFrames)
            }
            if isDrawn(viewer, state), viewer.redraw == nil, viewer.window.sent < state.log.end {
                viewer.redraw = Redraw(scrollback: 0)
            }
            if let redraw = viewer.redraw, state.screen != nil {
                if let late = redraw.awaitsPause, !state.isPaused, now < late, state.exit == nil {
                    return .waitUntil(late)
                }
                if isDrawn(viewer, state), let last = viewer.lastDrawn, now < last + Self.frameInterval {
                    return .waitUntil(last + Self.frameInterval)
                }
                viewer.redraw = nil
                viewer.lastDrawn = now
                viewer.window.jump(to: state.log.end)
                return .send([.jump(state.log.end)] + draw(redraw, for: viewer, state))
            }
            if viewer.window.sent < state.log.start {
                // It only looks, and was slower than those that drive.
                viewer.redraw = Redraw(scrollback: 0)
                viewer.wake.yield()
                return .wait
            }
            let isLimited = process.isTerminal
            // In halves of the window: a caller of before acknowledges a piece when it is given the next.
            let limit = min(32 << 10, isLimited ? min(viewer.window.room, viewer.window.limit / 2) : .max)
            guard let piece = state.log.piece(from: viewer.window.sent, limit: limit) else {
                guard viewer.window.sent == state.log.end else { return .wait }
                if let exit = state.exit { return .exited(exit) }
                if let failure = state.failure { return .failed(failure) }
                return .wait
            }
            viewer.window.sent(piece.bytes.count, at: now.time)
            return .send([piece.source == .output ? .output(Array(piece.bytes)) : .errorOutput(Array(piece.bytes))])
        }
        if case .send = step { room.continuation.yield() }
        return step
    }

    /// Tells whether a client is drawn the screen because the bytes are meant for another size than it has.
    private func isDrawn(_ viewer: Viewer, _ state: borrowing State) -> Bool {
        guard let size = viewer.size, let own = state.size else { return false }
        return size.columns != own.columns || size.rows != own.rows
    }

    private func draw(_ redraw: Redraw, for viewer: Viewer, _ state: borrowing State) -> [ShellFrame] {
        guard var screen = state.screen else { return [] }
        if let size = viewer.size, isDrawn(viewer, state) {
            screen.resize(columns: Self.columns(size), rows: Self.rows(size))
        }
        let bytes = screen.snapshot(scrollbackLines: redraw.scrollback)
        return stride(from: 0, to: bytes.count, by: 32 << 10).map {
            .screen(Array(bytes[$0..<min(bytes.count, $0 + 32 << 10)]))
        }
    }

    /// Notes what a viewer has dealt with.
    func received(_ position: UInt64, by key: UInt64) throws(KithError) {
        let isSound = state.withLock { state in
            let isSound = state.viewers[key]?.window.received(position, at: ContinuousClock.now.time) ?? true
            trim(&state)
            state.viewers[key]?.wake.yield()
            return isSound
        }
        guard isSound else { throw KithError(.invalid, "The caller acknowledged output it was not sent.") }
        room.continuation.yield()
    }

    /// Takes input of a viewer; returns the position it reaches.
    func type(_ bytes: [UInt8], by key: UInt64) throws(KithError) -> UInt64? {
        let end = try state.withLock { state throws(KithError) -> (viewer: [UInt8], position: UInt64)? in
            guard let viewer = state.viewers[key] else { return nil }
            if let refusal = viewer.refusal { throw refusal }
            guard viewer.drives else { throw Self.onlyLooks }
            let at = remember(viewer.id, &state)
            state.inputs[at].received += UInt64(bytes.count)
            guard state.inputs[at].received - state.inputs[at].taken <= UInt64(ShellFrame.inputWindow) else {
                throw KithError(.invalid, "The caller sent more input than it was allowed to.")
            }
            state.lastActivity = .now
            return (viewer.id, state.inputs[at].received)
        }
        guard let end else { return nil }
        give(bytes, of: end)
        return end.position
    }

    static let onlyLooks = KithError(.denied, "This window may only view the shell, not type.")

    /// Notes input that was passed on, of a window that may have come back under another key meanwhile.
    private func taken(from viewer: [UInt8], upTo position: UInt64) {
        state.withLock { state in
            guard let at = state.inputs.firstIndex(where: { $0.id == viewer }) else { return }
            // A viewer that was forgotten and came back has begun to count anew.
            state.inputs[at].taken = min(max(state.inputs[at].taken, position), state.inputs[at].received)
            guard state.inputs[at].taken - state.inputs[at].told >= UInt64(ShellFrame.inputWindow / 8) else { return }
            state.inputs[at].told = state.inputs[at].taken
            for other in state.viewers.values where other.id == viewer { other.wake.yield() }
        }
    }

    /// The amount of a client's input that the process has been given.
    func inputTaken(by key: UInt64) -> UInt64 {
        state.withLock { state in
            guard let viewer = state.viewers[key] else { return 0 }
            return state.inputs.first { $0.id == viewer.id }?.taken ?? 0
        }
    }

    /// Ends the input of the process: closes the pipe, or types the end-of-file key.
    func endInput(by key: UInt64) throws(KithError) {
        let drives = state.withLock { $0.viewers[key]?.drives ?? false }
        guard drives else { throw Self.onlyLooks }
        input.appendEnd()
    }

    /// Takes the size of a viewer's window; of one that drives, it becomes the terminal's.
    func resize(_ size: Shell.Size, by key: UInt64) {
        let drives = state.withLock { state -> Bool in
            state.viewers[key]?.size = size
            guard state.viewers[key]?.drives != true else { return true }
            state.viewers[key]?.redraw = state.screen.map { _ in Redraw(scrollback: 0) }
            state.viewers[key]?.wake.yield()
            return false
        }
        if drives { resize(size) }
    }

    private func resize(_ size: Shell.Size) {
        state.withLock { state in
            guard state.screen != nil, size.columns > 0, size.rows > 0, state.size != size else { return }
            state.size = size
            state.screen?.resize(columns: Self.columns(size), rows: Self.rows(size))
            // Those who now differ are drawn the screen; those who do no longer get its bytes again, from a fresh one.
            for (key, viewer) in state.viewers where viewer.size != nil && viewer.lastDrawn != nil {
                state.viewers[key]?.redraw = Redraw(scrollback: 0)
                viewer.wake.yield()
            }
        }
        process.resize(size)
    }

    func signal(_ signal: ShellSignal, by key: UInt64) throws(KithError) {
        let drives = state.withLock { $0.viewers[key]?.drives ?? false }
        guard drives else { throw Self.onlyLooks }
        process.signal(signal)
    }

    /// The amount of output that waits to be sent to the client that is furthest behind.
    var backlog: Int {
        state.withLock { state in
            state.viewers.values.map { Int(state.log.end - min($0.window.sent, state.log.end)) }.max() ?? 0
        }
    }

    /// The amounts of output and of input that are held.
    var held: (output: Int, input: Int) { (state.withLock { $0.log.count }, input.count) }

    // MARK: - The end

    /// Ends it, with all its processes, and returns when they are gone.
    func end(_ reason: KithError) async {
        state.withLock { state in
            if state.ending == nil { state.ending = reason }
        }
        work.withLock { $0 }?.cancel()
        input.finish()
        await finished()
        onEnd(self)
    }

    /// Returns when the process is over and its remains are gone.
    func finished() async { await work.withLock { $0 }?.value }

    /// Puts out the viewers a change of rights concerns.
    func dismissViewers(_ reason: KithError, where isConcerned: (Viewer) -> Bool) {
        state.withLock { state in
            for (key, viewer) in state.viewers where isConcerned(viewer) {
                state.viewers[key]?.refusal = reason
                viewer.wake.yield()
            }
        }
    }

    /// Ends the session when nobody has come back in time.
    private func watch() {
        guard let keep = profile.keep else { return }
        let abandoned = state.withLock { $0.abandoned }
        guard let abandoned else { return }
        Task(name: "kith shell \(profile.id) kept") {
            try? await Task.sleep(until: abandoned + keep, clock: .continuous)
            guard self.state.withLock({ $0.abandoned == abandoned && $0.ending == nil }) else { return }
            await self.end(KithError(.timedOut, "Nobody came back to this shell in time."))
        }
    }

    private func wakeAll() {
        state.withLock { state in
            for viewer in state.viewers.values { viewer.wake.yield() }
        }
    }

    // MARK: - Who may attach

    var sharing: Shell.Sharing {
        get { state.withLock { $0.sharing } }
        set { state.withLock { $0.sharing = newValue } }
    }

    /// The access of a caller to a session; more includes less.
    enum Access: Int, Comparable {
        case none, view, interactive

        static func < (first: Access, second: Access) -> Bool { first.rawValue < second.rawValue }
    }

    /// The access a caller has to it.
    func access(of caller: Caller, holding grants: [Grant]) -> Access {
        if caller == .owner || isOwn(caller) { return .interactive }
        switch sharing {
        case .none: return .none
        case .view: return grants.allows(.shellView) ? .view : .none
        case .drive: return grants.allows(.shell) ? .interactive : grants.allows(.shellView) ? .view : .none
        }
    }

    /// Tells whether a caller is the one who opened it.
    func isOwn(_ caller: Caller) -> Bool { Self.isSame(caller, profile.owner) }

    private static func isSame(_ first: Caller, _ second: Caller) -> Bool {
        switch (first, second) {
        case (.owner, .owner): true
        case (.device(let first, _, _), .device(let second, _, _)): first == second
        default: false
        }
    }

    /// The session as a list shows it to a caller.
    func description(for caller: Caller) -> Shell.Session {
        let owner = if case .device(_, let name, _) = profile.owner { name } else { "" }
        return state.withLock { state in
            let now = ContinuousClock.now
            let endsAt = state.abandoned.flatMap { since in profile.keep.map { since + $0 } }
            return Shell.Session(
                id: profile.id, process: process.leader, command: profile.command,
                title: state.screen.map { String(decoding: $0.title, as: UTF8.self) } ?? "",
                size: state.size, owner: owner, isOwn: isOwn(caller), sharing: state.sharing, opened: profile.opened,
                idle: Int64((now - state.lastActivity) / .seconds(1)), viewers: state.viewers.count,
                drivers: state.viewers.values.count(where: \.drives),
                endsIn: endsAt.map { max(0, Int64(($0 - now) / .seconds(1))) }, status: state.exit?.shellStatus)
        }
    }
}

extension ContinuousClock.Instant {
    private static let origin = ContinuousClock.now

    /// The time since this process first asked.
    var time: Duration { self - Self.origin }
}

/// Received input the process has not read yet, in the order it came, whoever typed it.
private final class InputQueue: Sendable {
    /// Something typed, up to a position of a viewer's input; `nil` bytes: the end.
    struct Chunk: Sendable {
        var bytes: [UInt8]?
        var end: (viewer: [UInt8], position: UInt64)?
    }

    let chunks: AsyncStream<Chunk>
    private let continuation: AsyncStream<Chunk>.Continuation

    /// The number of chunks that have been queued and are not yet done, and of bytes in them.
    private let waiting = Mutex((chunks: 0, bytes: 0))

    /// The number of bytes that wait.
    var count: Int { waiting.withLock { $0.bytes } }

    init() { (chunks, continuation) = AsyncStream.makeStream(of: Chunk.self) }

    /// Queues what `now` leaves of a chunk, or all of it when others are before it.
    func append(_ chunk: Chunk, now: (Chunk) -> Chunk?) {
        guard chunk.bytes?.isEmpty != true else { return }
        waiting.withLock { waiting in
            guard let rest = waiting.chunks == 0 ? now(chunk) : chunk else { return }
            waiting.chunks += 1
            waiting.bytes += rest.bytes?.count ?? 0
            continuation.yield(rest)
        }
    }

    func appendEnd() { append(Chunk()) { $0 } }

    /// One that was queued has been dealt with.
    func isDone(_ chunk: Chunk) {
        waiting.withLock { waiting in
            waiting.chunks -= 1
            waiting.bytes -= chunk.bytes?.count ?? 0
        }
    }

    func finish() { continuation.finish() }
}
