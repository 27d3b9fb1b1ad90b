import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithWire
import Logging
import Synchronization

/// The screen of this device while somebody sees it: the source, the sessions, and who controls.
///
/// The source is opened for the first session and closed with the last one; one that is gone, as its server is, is opened
/// anew for the next.
final class ScreenHost: Sendable {
    /// Opens the screen; throws `.notFound` when there is none.
    typealias Opening = @Sendable () async throws -> any ScreenSource

    private struct State {
        var source: (any ScreenSource)?
        var pump: Task<Void, Never>?
        /// The pointer's shape and place, which a source tells when they change: sessions that begin later want them, too.
        var cursor: ScreenChange?
        var pointer: ScreenChange?
        /// Those who use the source, sessions that are about to begin or to end among them.
        var users = 0
        var sessions: [String: HostSession] = [:]
        /// Sessions that are about to begin, those that wait for a person among them.
        var beginning = 0
        var waiting: [String: WaitingSession] = [:]
        /// Sessions that were let in, and whose viewers may come back.
        var lost: [String: LostSession] = [:]
        var clipboards: [UInt64: ClipboardLink] = [:]
        var nextClipboard: UInt64 = 0
        var arbiter = ControlArbiter()
        var held = HeldInput()
        /// A look at whether who holds something is still there is to come.
        var looksAfterHeld = false
        var watchers: [UInt64: AsyncStream<Void>.Continuation] = [:]
        var nextWatcher: UInt64 = 0
        /// How often all sessions were ended.
        var endings: UInt64 = 0
        /// Whether the screen is dark for those in front of it.
        var isDark = false

        mutating func forgetSource() {
            (source, pump) = (nil, nil)
            (cursor, pointer) = (nil, nil)
            isDark = false
        }
    }

    private let state = Mutex(State())
    private let opening: Opening
    /// One opens or closes the source at a time.
    private let gate = AsyncMutex()
    /// Inputs have their effect one after the other.
    private let inputs = AsyncMutex()
    /// The screen is darkened, or not any more, by one at a time.
    private let darkening = AsyncMutex()
    /// Whoever is at the screen is shown one state after the other.
    private let noticing = AsyncMutex()
    let chat = ChatRoom()
    let attempts = Mutex(SessionAttempts())
    let timers = TimerQueue()
    let executor = DiskExecutor()
    let logger: Logger

    init(logger: Logger, opening: @escaping Opening) {
        self.logger = logger
        self.opening = opening
    }

    // MARK: - The source

    /// The screen, opened if it is not.
    func source() async throws -> any ScreenSource {
        await gate.lock()
        defer { gate.unlock() }
        if let source = state.withLock({ $0.source }) { return source }
        let source = try await opening()
        let pump = Task(name: "kith screen") { [weak self] in
            do throws(KithError) {
                while true {
                    let changes = try await source.nextChanges()
                    for change in changes { self?.changed(change) }
                }
            } catch {
                self?.lost(source, error)
            }
        }
        state.withLock { state in
            state.source = source
            state.pump = pump
        }
        return source
    }

    /// Gives the screen to `body`, for as long as it takes: it is not closed meanwhile.
    func withSource<Result>(_ body: (any ScreenSource) async throws -> Result) async throws -> Result {
        state.withLock { $0.users += 1 }
        let result: Swift.Result<Result, any Error>
        do {
            result = .success(try await body(try await source()))
        } catch {
            result = .failure(error)
        }
        state.withLock { $0.users -= 1 }
        await closeIfUnused()
        return try result.get()
    }

    /// Closes the screen when nobody sees it.
    func closeIfUnused() async {
        await gate.lock()
        defer { gate.unlock() }
        let (source, pump) = state.withLock { state -> ((any ScreenSource)?, Task<Void, Never>?) in
            guard state.users == 0, state.sessions.isEmpty, state.waiting.isEmpty else { return (nil, nil) }
            defer { state.forgetSource() }
            return (state.source, state.pump)
        }
        pump?.cancel()
        await source?.close()
    }

    private func changed(_ change: ScreenChange) {
        let (sessions, clipboards) = state.withLock { state in
            switch change {
            case .cursor: state.cursor = change
            case .pointer: state.pointer = change
            case .lit: state.isDark = false
            case .damage, .displays, .clipboard: break
            }
            return (Array(state.sessions.values), Array(state.clipboards.values))
        }
        if change == .lit {
            logger.warning("The screen is dark no more, although it was to be.")
            for session in sessions { session.forbidPrivacy() }
            return sessionsChanged()
        }
        for session in sessions { session.screenChanged(change) }
        if case .clipboard(let selection, let formats) = change {
            for clipboard in clipboards { clipboard.offer(selection, formats) }
        }
    }

    private func lost(_ source: any ScreenSource, _ error: KithError) {
        let sessions = state.withLock { state -> [HostSession] in
            guard let current = state.source, current === source else { return [] }
            state.forgetSource()
            return Array(state.sessions.values)
        }
        guard error.code != .cancelled, error.code != .closed else { return }
        for session in sessions { session.end(error) }
    }

    // MARK: - Sessions

    /// What is there: those that are shown, and those that wait.
    var descriptions: [ScreenSessions.Session] {
        let (shown, waiting) = state.withLock { (Array($0.sessions.values), Array($0.waiting.values)) }
        return (shown.map(\.description) + waiting.map(\.description)).sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }

    /// Counts a session that is about to begin, until ``insert(_:after:)`` or ``sessionDidNotBegin()``.
    ///
    /// - Throws: `.exhausted` when there are `limit` already, those that are about to begin included.
    func beginSession(within limit: Int) throws(KithError) {
        try state.withLock { state throws(KithError) in
            guard state.sessions.count + state.beginning < limit else {
                throw KithError(.exhausted, "As many devices see this screen as may: \(limit).")
            }
            state.beginning += 1
        }
    }

    /// Takes in that a session that was about to begin does not.
    func sessionDidNotBegin() { state.withLock { $0.beginning -= 1 } }

    /// How often all sessions were ended.
    var endings: UInt64 { state.withLock { $0.endings } }

    /// Adds a session that was let in when all had been ended `endings` times; once they were again it is, too.
    func insert(_ session: HostSession, after endings: UInt64) {
        let isOver = state.withLock { state in
            // Before any that comes later.
            for change in [state.cursor, state.pointer].compactMap(\.self) { session.screenChanged(change) }
            state.sessions[session.id] = session
            state.beginning -= 1
            return state.endings != endings
        }
        if isOver { session.end(KithError(.denied, "Somebody at the screen ended it.")) }
        sessionsChanged()
    }

    // MARK: - Darkness

    /// Has the screen be dark for whoever is in front of it, as far as `session` still may.
    ///
    /// What is seen by others is as ever. Without a session somebody begins one then, or calls ``lighten()``.
    ///
    /// - Throws: `KithError` `.unsupported` when this screen cannot.
    func darken(_ source: any ScreenSource, for session: HostSession? = nil) async throws {
        await darkening.lock()
        defer { darkening.unlock() }
        guard state.withLock({ !$0.isDark }), session?.permissions.privacy ?? true else { return }
        try await source.setDark(true)
        state.withLock { $0.isDark = true }
    }

    /// Ends the darkness when no session is left that may have it.
    func lighten() async {
        await darkening.lock()
        defer { darkening.unlock() }
        let source = state.withLock { state -> (any ScreenSource)? in
            guard state.isDark, !state.sessions.values.contains(where: { $0.permissions.privacy == true }) else {
                return nil
            }
            state.isDark = false
            return state.source
        }
        do {
            try await source?.setDark(false)
        } catch {
            logger.warning("\(error.message)")
        }
    }

    /// Lights the screen when the viewer for whom it is dark does not answer any more.
    func watch(_ session: HostSession) async throws {
        while session.permissions.privacy == true {
            switch session.watch(at: .now) {
            case .ask: continue
            case .wait(let time): try await Task.sleep(until: time, clock: .continuous)
            case .isGone:
                logger.notice("The screen is lit: \(session.name), for whom it was dark, does not answer.")
                session.forbidPrivacy()
                await lighten()
                sessionsChanged()
            }
        }
    }

    // MARK: - Lines between people

    /// Passes on a line that a viewer's person wrote, and shows it on the screen for a while.
    func said(_ line: Screen.ChatLine, by session: HostSession, at now: ContinuousClock.Instant, time: Int64) {
        // Its lines are forgotten when it is over.
        guard state.withLock({ $0.sessions[session.id] != nil }) else { return }
        chat.said(
            ScreenSessions.Talk.Line(session: session.id, name: session.name, isOwn: false, time: time, line: line),
            at: now)
        sessionsChanged()
        _ = timers.schedule(at: now + Screen.ChatLine.shownFor) { [weak self] in self?.sessionsChanged() }
    }

    /// Passes on a line of this device's person, to the session whose name begins so; to all for `nil`.
    ///
    /// - Returns: the lines that reached nobody, each with the reason.
    /// - Throws: `KithError` `.notFound` when there is no such session, `.invalid` when there is more than one.
    func say(
        _ line: Screen.ChatLine, to prefix: String?, time: Int64
    ) throws(KithError) -> [ScreenSessions.Talk.Line] {
        let sessions = try matching(prefix)
        guard !sessions.isEmpty else { throw KithError(.notFound, "Nobody sees this screen.") }
        return sessions.compactMap { session in
            var said = ScreenSessions.Talk.Line(
                session: session.id, name: session.name, isOwn: true, time: time, line: line)
            if chat.say(said) { return nil }
            said.failure = "\(session.name) sees this screen where no line can be read."
            return said
        }
    }

    /// Takes a session out; `isLost` says that its viewer did not leave by itself.
    func remove(_ session: HostSession, isLost: Bool, at now: ContinuousClock.Instant) async {
        await takeOut(session, isLost: isLost, at: now)
        await closeIfUnused()
    }

    private func takeOut(_ session: HostSession, isLost: Bool, at now: ContinuousClock.Instant) async {
        let release = state.withLock { state -> (any ScreenSource)? in
            state.sessions[session.id] = nil
            if isLost, session.mayResume {
                state.lost = state.lost.filter { $0.value.until > now }
                if state.lost.count < 64 {
                    state.lost[session.id] = LostSession(
                        caller: session.caller, former: session.former, until: now + LostSession.life)
                }
            }
            return state.arbiter.left(session.id) ? state.source : nil
        }
        session.close()
        chat.forget(session.id)
        if let release { await letGo(release) }
        sessionsChanged()
        await lighten()
    }

    /// What is left of a session that the same caller had and lost; used once.
    ///
    /// A viewer often knows of the loss before this end does: it takes the place of its session that is still there.
    func resume(_ id: String, of caller: Caller, at now: ContinuousClock.Instant) async -> FormerSession? {
        let (former, current) = state.withLock { state -> (FormerSession?, HostSession?) in
            if let current = state.sessions[id] { return (nil, current) }
            guard let lost = state.lost[id], lost.caller.device == caller.device else { return (nil, nil) }
            state.lost[id] = nil
            return (lost.until > now ? lost.former : nil, nil)
        }
        if let former { return former }
        guard let current, current.caller.device == caller.device, let former = current.handOver() else { return nil }
        await takeOut(current, isLost: false, at: now)
        return former
    }

    /// Forgets what a device had, so that it is asked about anew.
    func forget(_ device: DeviceID) {
        let sessions = state.withLock { state in
            state.lost = state.lost.filter { $0.value.caller.device != device }
            return state.sessions.values.filter { $0.caller.device == device }
        }
        for session in sessions { session.forbidResuming() }
    }

    /// The session of this name that is the caller's.
    ///
    /// - Throws: `.notFound`, for those of others too.
    func session(_ id: String, of caller: Caller) throws(KithError) -> HostSession {
        let session = state.withLock { $0.sessions[id] }
        guard let session, session.caller.device == caller.device else {
            throw KithError(.notFound, "That session of the screen is over.")
        }
        return session
    }

    /// Waits for a person to decide.
    func decision(about waiting: WaitingSession) async throws -> Screen.Permissions? {
        state.withLock { $0.waiting[waiting.id] = waiting }
        sessionsChanged()
        defer {
            state.withLock { $0.waiting[waiting.id] = nil }
            sessionsChanged()
        }
        return try await waiting.decision.valueUnlessCancelled()
    }

    /// Decides about the session whose name begins so.
    func decide(_ prefix: String, _ permissions: Screen.Permissions?) throws(KithError) -> ScreenSessions.Session {
        let found = state.withLock { state in state.waiting.values.filter { $0.id.hasPrefix(prefix) } }
        guard let only = found.first, found.count == 1, !prefix.isEmpty else {
            throw KithError(
                found.count > 1 ? .invalid : .notFound,
                found.count > 1
                    ? "\(prefix.prefix(16)) is the beginning of more than one name."
                    : "No device asks to see this screen under that name. kith screen sessions lists them.")
        }
        var description = only.description
        if let permissions {
            description.permissions = permissions.within(only.permissions)
        }
        only.decision.fulfil(permissions.map { _ in description.permissions })
        return description
    }

    /// Refuses those of a device that ask for more than its grants allow now.
    func refuseWaiting(of device: DeviceID, beyond granted: Screen.Permissions) {
        let waiting = state.withLock { state in state.waiting.values.filter { $0.caller.device == device } }
        for session in waiting where session.permissions.within(granted) != session.permissions {
            session.decision.fulfil(nil)
        }
    }

    /// The sessions whose names begin so; all of them for `nil`.
    func matching(_ prefix: String?) throws(KithError) -> [HostSession] {
        let found = state.withLock { state in
            state.sessions.values.filter { prefix.map($0.id.hasPrefix) ?? true }
        }
        guard let prefix else { return found }
        guard found.count == 1, !prefix.isEmpty else {
            throw KithError(
                found.count > 1 ? .invalid : .notFound,
                found.count > 1
                    ? "\(prefix.prefix(16)) is the beginning of more than one name."
                    : "There is no such session. kith screen sessions lists them.")
        }
        return found
    }

    /// Ends sessions at once, whatever their viewers do, and refuses those that wait when all are meant.
    ///
    /// `isByPerson` has their devices wait before they begin another.
    func end(
        _ prefix: String?, because reason: KithError, isByPerson: Bool = true
    ) async throws(KithError) -> [ScreenSessions.Session] {
        let sessions = try matching(prefix)
        var ended = sessions.map(\.description)
        for session in sessions { session.end(reason) }
        state.withLock { state in
            for session in sessions { state.lost[session.id] = nil }
            guard prefix == nil else { return }
            state.endings += 1
            state.lost = [:]
            for waiting in state.waiting.values {
                ended.append(waiting.description)
                waiting.decision.fulfil(nil)
            }
        }
        if isByPerson {
            let devices = Set(sessions.compactMap(\.caller.device))
            attempts.withLock { attempts in for device in devices { attempts.putOut(device, at: .now) } }
        }
        for session in sessions { await takeOut(session, isLost: false, at: .now) }
        return ended
    }

    /// All that are shown, of one device.
    func sessions(of device: DeviceID) -> [HostSession] {
        state.withLock { state in state.sessions.values.filter { $0.caller.device == device } }
    }

    // MARK: - Those who watch

    /// Tells whenever the sessions change, at once for the first time.
    func changes() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.nextWatcher += 1
            state.watchers[state.nextWatcher] = continuation
            return state.nextWatcher
        }
        continuation.onTermination = { [weak self] _ in self?.forget(watcher: number) }
        continuation.yield()
        return stream
    }

    private func forget(watcher number: UInt64) {
        state.withLock { _ = $0.watchers.removeValue(forKey: number) }
    }

    /// Tells those who watch, and whoever is at the screen.
    func sessionsChanged() {
        for watcher in state.withLock({ Array($0.watchers.values) }) { watcher.yield() }
        guard state.withLock({ $0.source != nil }) else { return }
        Task(name: "kith screen notice") { [weak self] in await self?.showNotices() }
    }

    /// Shows whoever is at the screen what is now, the last of several that come together as the others.
    private func showNotices() async {
        await noticing.lock()
        defer { noticing.unlock() }
        let (source, notices) = state.withLock { state in
            let waiting = state.waiting.values.map {
                ScreenNotice.waiting(session: $0.id, name: $0.description.name, $0.permissions)
            }
            // The owner knows what it looks at itself.
            let active = state.sessions.values.filter { $0.caller != .owner }.map {
                ScreenNotice.active(session: $0.id, name: $0.name, $0.permissions)
            }
            return (state.source, waiting + active)
        }
        let said = chat.latest(at: .now).map { ScreenNotice.said(name: $0.name, $0.line.text) }
        let answered: @Sendable (ScreenNotice.Answer) -> Void = { [weak self] answer in self?.answered(answer) }
        _ = await source?.show(notices + said, decide: answered)
    }

    private func answered(_ answer: ScreenNotice.Answer) {
        switch answer {
        case .decided(let session, let isLetIn):
            let (permissions, isShown) = state.withLock {
                ($0.waiting[session]?.permissions, $0.sessions[session] != nil)
            }
            // Whoever decided first, here or by the command, has decided.
            _ = try? decide(session, isLetIn ? permissions : nil)
            if !isLetIn, isShown { putOut(session) }
        case .panic: putOut(nil)
        }
    }

    /// Ends sessions for a person at the screen.
    private func putOut(_ session: String?) {
        Task(name: "kith screen end") {
            // One that is over has ended.
            _ = try? await end(session, because: KithError(.denied, "Somebody at the screen ended it."))
        }
    }

    // MARK: - Control

    /// Has an input take effect, unless somebody else is in control.
    ///
    /// - Returns: whether the session is in control, and who is.
    func perform(
        _ input: ScreenInput, of session: HostSession, at now: ContinuousClock.Instant
    ) async throws -> (isInControl: Bool, controller: String?) {
        await inputs.lock()
        defer { inputs.unlock() }
        // It was taken, and may be given back.
        guard session.permissions.control else { return (false, nil) }
        let (answer, source, controller) = state.withLock { state in
            let answer = state.arbiter.received(from: session.id, at: now)
            let controller = state.arbiter.controller.flatMap { state.sessions[$0] }
            // To the same device its own name says nothing.
            let isOther = controller?.caller.device != session.caller.device
            return (answer, state.source, isOther ? controller?.name : nil)
        }
        guard let source else { throw KithError(.unreachable, "The screen is gone.") }
        switch answer {
        case .leaveOut: return (false, controller)
        case .takeOver: await letGo(source)
        case .perform: break
        }
        note(input, of: session, at: now)
        switch input {
        case .release: await source.releaseAll()
        case .move(let x, let y):
            let bounds = session.display.bounds
            try await source.perform(
                .move(
                    x: bounds.x + min(max(x, 0), Int32(clamping: bounds.width) - 1),
                    y: bounds.y + min(max(y, 0), Int32(clamping: bounds.height) - 1)))
        default: try await source.perform(input)
        }
        return (true, nil)
    }

    /// Takes in that a session does not control any more.
    func stopControl(of session: HostSession) async {
        await inputs.lock()
        defer { inputs.unlock() }
        // What it did last may have come after its end was taken in.
        let source = state.withLock { state in
            state.arbiter.left(session.id) || state.arbiter.controller == nil ? state.source : nil
        }
        if let source { await letGo(source) }
    }

    private func letGo(_ source: any ScreenSource) async {
        state.withLock { $0.held = HeldInput() }
        await source.releaseAll()
    }

    /// Notes what is held; as long as something is, who holds it has to show that it is still there.
    private func note(_ input: ScreenInput, of session: HostSession, at now: ContinuousClock.Instant) {
        session.isThere(at: now)
        let begins = state.withLock { state in
            state.held.note(input)
            guard !state.held.isEmpty, !state.looksAfterHeld else { return false }
            state.looksAfterHeld = true
            return true
        }
        if begins { lookAfterHeld() }
    }

    /// Lets go what a viewer holds that has gone without a word, which its connection tells only after a minute and more.
    private func lookAfterHeld() {
        let holder = state.withLock { state -> HostSession? in
            let holder = state.held.isEmpty ? nil : state.arbiter.controller.flatMap { state.sessions[$0] }
            if holder == nil { state.looksAfterHeld = false }
            return holder
        }
        guard let holder else { return }
        let now = ContinuousClock.now
        switch holder.watchHolding(at: now) {
        case .ask: lookAfterHeld()
        case .wait(let time): _ = timers.schedule(at: time) { [weak self] in self?.lookAfterHeld() }
        case .isGone:
            logger.notice("\(holder.name) does not answer: what it held is let go.")
            state.withLock { $0.looksAfterHeld = false }
            Task(name: "kith screen release") { await self.stopHolding(holder) }
        }
    }

    private func stopHolding(_ session: HostSession) async {
        await inputs.lock()
        defer { inputs.unlock() }
        let source = state.withLock { $0.arbiter.controller == session.id ? $0.source : nil }
        if let source { await letGo(source) }
    }

    // MARK: - Clipboards

    func insert(_ clipboard: ClipboardLink) -> UInt64 {
        state.withLock { state in
            state.nextClipboard += 1
            state.clipboards[state.nextClipboard] = clipboard
            return state.nextClipboard
        }
    }

    func remove(clipboard number: UInt64) { state.withLock { _ = $0.clipboards.removeValue(forKey: number) } }
}
