import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithPixels
import KithVideo
import KithWire
import Synchronization

/// One viewer of this device's screen: what it has still to be told, and the loop that tells it.
///
/// The picture goes out as one change at a time: while one is on its way, what changes meanwhile becomes one more. So
/// nothing old is ever sent, and a slow link shows fewer pictures, not late ones.
final class HostSession: Sendable {
    /// What has come up since the loop looked last.
    private struct Pending {
        var damage = DamageLog()
        var displays: [Screen.Display]?
        var cursor: ScreenChange?
        var pointer: (x: Int32, y: Int32)?
        var permissions: Screen.Permissions?
        var received: [(number: UInt64, first: UInt64, last: UInt64, at: ContinuousClock.Instant)] = []
        var limits: (rate: UInt16, quality: UInt8)?
        var show: UInt32?
        var refresh = false
        var keyFrame = false
        var exactOnly = false
        /// The viewer is asked whether it is there.
        var asks = false
        var end: KithError?
    }

    private struct State {
        var pending = Pending()
        var permissions: Screen.Permissions
        /// What the device's grants allow; they may have changed since it was let in.
        var granted: Screen.Permissions
        var display: Screen.Display
        /// The name of the display that its viewer chose; while that is unplugged another one is shown.
        var chosen: String
        /// Where the pointer is on the screen.
        var pointer: (x: Int32, y: Int32)?
        var pictures: UInt64 = 0
        var bytes: UInt64 = 0
        var mayResume = true
        var watch: ViewerWatch
        /// The same, as long as it holds a key or a button.
        var holding: ViewerWatch
        /// When the picture that is being sent was begun.
        var sendingSince: ContinuousClock.Instant?
        /// When what was sent may be expected to have arrived.
        var arrival: ContinuousClock.Instant?
        /// Faster than that nobody writes, and nobody at the screen can read.
        var linePace = TokenBucket(perSecond: 1, burst: 5, at: .now)

    }

    /// The time for which one picture that is on its way excuses a viewer's silence, at most.
    private static let longestPicture = Duration.seconds(15)

    let id: String
    let caller: Caller
    let since: Int64
    /// What it may be given: it asked for it, and has the grants.
    private let most: Screen.Permissions
    private let holdingPatience: Duration
    private let state: Mutex<State>
    private let over = Promise<Void>()
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    init(
        id: String, caller: Caller, since: Int64, display: Screen.Display, chosen: String? = nil,
        permissions: Screen.Permissions, patience: Duration = ScreenService.patience,
        holdingPatience: Duration = ScreenService.holdingPatience
    ) {
        self.holdingPatience = holdingPatience
        self.id = id
        self.caller = caller
        self.since = since
        most = permissions
        state = Mutex(
            State(
                permissions: permissions, granted: permissions, display: display, chosen: chosen ?? display.name,
                watch: ViewerWatch(patience: patience, at: .now),
                holding: ViewerWatch(patience: holdingPatience, at: .now)))
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// The device's name, as its owner gave it.
    var name: String { if case .device(_, let name, _) = caller { name } else { "this device" } }

    var permissions: Screen.Permissions { state.withLock { $0.permissions } }
    var display: Screen.Display { state.withLock { $0.display } }

    /// The session as this device's person sees it.
    var description: ScreenSessions.Session {
        state.withLock { state in
            ScreenSessions.Session(
                id: id, device: caller.device, name: name, state: .active, permissions: state.permissions,
                display: state.display.number, since: since, pictures: state.pictures, bytes: state.bytes)
        }
    }

    // MARK: - What comes up

    /// Takes in a change of the screen.
    func screenChanged(_ change: ScreenChange) {
        note { state in
            switch change {
            case .damage(let areas):
                let (x, y) = (Int(state.display.bounds.x), Int(state.display.bounds.y))
                var region = PixelRegion()
                for area in areas { region.insert(PixelRectangle(area).moved(x: -x, y: -y)) }
                state.pending.damage.note(region, at: .now)
            case .displays(let displays): state.pending.displays = displays
            case .cursor: state.pending.cursor = change
            case .pointer(let x, let y):
                state.pointer = (x, y)
                state.pending.pointer = (x, y)
            case .clipboard, .lit: break
            }
        }
    }

    /// Takes in what the viewer says.
    func received(_ reply: ScreenReply, at now: ContinuousClock.Instant) {
        note { state in
            state.watch.confirmed(at: now)
            state.holding.confirmed(at: now)
            switch reply {
            case .received(let number, let first, let last):
                state.pending.received.append((number, first, last, now))
                // A viewer that confirms what it was never sent gains nothing.
                if state.pending.received.count > 256 { state.pending.received.removeFirst() }
            case .refresh: state.pending.refresh = true
            case .keyFrame: state.pending.keyFrame = true
            case .exactOnly: state.pending.exactOnly = true
            case .show(let number): state.pending.show = number
            case .limits(let rate, let quality): state.pending.limits = (rate, quality)
            }
        }
    }

    /// Takes in another sign of the viewer than a reply.
    func isThere(at now: ContinuousClock.Instant) {
        state.withLock { state in
            state.watch.confirmed(at: now)
            state.holding.confirmed(at: now)
        }
    }

    /// What is to be done about a viewer for whom the screen is dark, and that may have gone without a word; asking it is.
    func watch(at now: ContinuousClock.Instant) -> ViewerWatch.Action { watch(\.watch, at: now) }

    /// What is to be done about one that holds something.
    ///
    /// It confirms whole pictures, and what it is asked comes behind them: a large one on its way excuses it for a while.
    func watchHolding(at now: ContinuousClock.Instant) -> ViewerWatch.Action {
        let action = watch(\.holding, at: now)
        guard action == .isGone else { return action }
        let excuse = state.withLock { state in
            max(
                state.sendingSince.map { $0 + Self.longestPicture } ?? now,
                state.arrival.map { $0 + holdingPatience } ?? now)
        }
        return excuse > now ? .wait(until: min(excuse, now + .milliseconds(500))) : .isGone
    }

    private func watch(
        _ kind: WritableKeyPath<State, ViewerWatch>, at now: ContinuousClock.Instant
    ) -> ViewerWatch.Action {
        let action = state.withLock { state in
            let action = state[keyPath: kind].next(at: now)
            if action == .ask { state.pending.asks = true }
            return action
        }
        if action == .ask { signal.yield() }
        return action
    }

    /// Changes what the session may do, within what it was let in with and what its device's grants allow.
    ///
    /// A screen that was lit again stays so: it is darkened before a session, and for none that is seen already.
    func permit(_ wanted: Screen.Permissions) {
        note { state in
            var permissions = wanted.within(most).within(state.granted)
            if state.permissions.privacy != true { permissions.privacy = nil }
            guard state.permissions != permissions else { return }
            state.permissions = permissions
            state.pending.permissions = permissions
        }
    }

    /// Takes in that the screen is dark for it no more.
    func forbidPrivacy() {
        var permissions = permissions
        permissions.privacy = nil
        permit(permissions)
    }

    /// Takes from the session what its device's grants do not allow any more; what they allow again is not given back by
    /// that.
    func grantsChanged(to granted: Screen.Permissions) {
        state.withLock { $0.granted = granted }
        permit(permissions)
    }

    /// Whether its viewer may come back without a question once it is lost.
    var mayResume: Bool { state.withLock { $0.mayResume } }

    /// What it leaves to the session that takes its place.
    var former: FormerSession { state.withLock { former($0) } }

    private func former(_ state: State) -> FormerSession {
        FormerSession(permissions: state.permissions, chosen: state.chosen, since: since)
    }

    /// Ends the session for the one that takes its place; `nil`: none may.
    func handOver() -> FormerSession? {
        let former: FormerSession? = state.withLock { state in
            guard state.mayResume else { return nil }
            state.mayResume = false
            return self.former(state)
        }
        if former != nil { end(KithError(.closed, "The session goes on over another connection.")) }
        return former
    }

    /// Has a question asked of the viewer should it come back.
    func forbidResuming() { state.withLock { $0.mayResume = false } }

    /// Ends the session for good, with the reason for the viewer.
    func end(_ reason: KithError) {
        note { state in
            state.pending.end = state.pending.end ?? reason
            state.mayResume = false
        }
    }

    /// Takes in that it is shown no more: what was opened beside the pictures ends with them.
    func close() { over.fulfil(()) }

    /// Waits until it is shown no more.
    func untilOver() async throws { try await over.valueUnlessCancelled() }

    /// The time to wait before the next line of its viewer's person is taken in.
    func paceLine(at now: ContinuousClock.Instant) -> Duration {
        state.withLock { $0.linePace.take(1, at: now) }
    }

    /// Does something for as long as the session is shown; once it is not, `body` is cancelled.
    ///
    /// - Throws: What `body` throws.
    func whileShown(_ body: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await body() }
            group.addTask { [self] in try await untilOver() }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func note(_ body: (inout State) -> Void) {
        state.withLock { body(&$0) }
        signal.yield()
    }

    // MARK: - The loop

    /// Sends what comes up, until the session is ended or the viewer goes.
    func run(
        _ source: any ScreenSource, as input: Screen.View.Input, over stream: MethodStream<ScreenReply, ScreenUpdate>,
        _ timers: TimerQueue
    ) async throws {
        guard input.takesVideo == true, VideoCodec.isAvailable else {
            return try await run(source, as: input, video: nil, over: stream, timers)
        }
        let worker = VideoWorker { [signal] in signal.yield() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await worker.run() }
            group.addTask { [self] in
                let video = VideoSender(worker, quality: input.quality)
                try await run(source, as: input, video: video, over: stream, timers)
            }
            defer { group.cancelAll() }
            // The worker ends only when it is cancelled.
            try await group.next()
        }
    }

    private func run(
        _ source: any ScreenSource, as input: Screen.View.Input, video: VideoSender?,
        over stream: MethodStream<ScreenReply, ScreenUpdate>, _ timers: TimerQueue
    ) async throws {
        var sender = PictureSender(source, display: display.bounds, rate: input.rate, video: video, at: .now)
        var signals = signals.makeAsyncIterator()
        while true {
            var pending = state.withLock { state in
                defer { state.pending = Pending() }
                return state.pending
            }
            for note in pending.received {
                sender.acknowledged(note.number, first: note.first, last: note.last, at: note.at)
            }
            if let limits = pending.limits { sender.limit(rate: limits.rate, quality: limits.quality) }
            var displays = pending.displays
            if displays == nil, pending.show != nil { displays = try await source.displays }
            if let displays {
                let shown = try choose(pending.show, among: displays)
                if shown.bounds != sender.bounds || pending.displays == nil { sender.show(shown.bounds) }
                // Its place counts from the display's corner.
                pending.pointer = state.withLock { $0.pointer }
                try await stream.send(.displays(displays, shown: shown.number))
            }
            if let permissions = pending.permissions { try await stream.send(.permissions(permissions)) }
            if let end = pending.end {
                try await stream.send(.ended(end.code, message: end.message))
                return try await stream.finish()
            }
            try await sendPointer(pending, by: &sender, to: stream)
            if pending.exactOnly { sender.stopVideo() }
            if pending.keyFrame { sender.requestKeyFrame() }
            if pending.asks { try await sender.ask(over: stream) }
            if pending.refresh { sender.startAnew() }
            sender.damaged(pending.damage)
            state.withLock { $0.sendingSince = .now }
            let next = try await sender.send(to: stream) { [self] count in
                state.withLock { state in
                    state.pictures += 1
                    state.bytes += UInt64(count)
                }
            }
            let arrival = sender.timeOnTheWay.map { ContinuousClock.now + min($0, Self.longestPicture) }
            state.withLock { state in (state.sendingSince, state.arrival) = (nil, arrival ?? state.arrival) }
            let ticket = next.map { [signal] in timers.schedule(at: $0) { signal.yield() } }
            let isThere: Void? = await signals.next()
            if let ticket { timers.cancel(ticket) }
            guard isThere != nil else { throw KithError(.cancelled, "The session was called off.") }
        }
    }

    /// The display to show: one that is chosen now, or the one that was, wherever it is and whatever its number.
    private func choose(_ number: UInt32?, among displays: [Screen.Display]) throws(KithError) -> Screen.Display {
        try state.withLock { state throws(KithError) in
            if let number, let display = displays.first(where: { $0.number == number }) { state.chosen = display.name }
            // While its monitor is unplugged all that is left is shown.
            guard let display = displays.first(where: { $0.name == state.chosen }) ?? displays.first else {
                throw KithError(.notFound, "There is no display any more.")
            }
            state.display = display
            return display
        }
    }

    private func sendPointer(
        _ pending: Pending, by sender: inout PictureSender, to stream: MethodStream<ScreenReply, ScreenUpdate>
    ) async throws {
        if case .cursor(let shape)? = pending.cursor {
            for message in sender.show(shape) { try await stream.send(.cursor(ByteString(message))) }
        }
        if let (x, y) = pending.pointer, let message = sender.moved(x: x, y: y) {
            try await stream.send(.cursor(ByteString(message)))
        }
    }
}

extension PixelRectangle {
    /// The same rectangle, of 65,535 columns and rows at most.
    init(_ rectangle: Screen.Rectangle) {
        self.init(
            x: Int(rectangle.x), y: Int(rectangle.y), width: Int(min(rectangle.width, 65_535)),
            height: Int(min(rectangle.height, 65_535)))
    }
}
