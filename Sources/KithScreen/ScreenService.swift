import Foundation
import KithAPI
import KithIO
package import KithIdentity
package import KithNode
import KithWire
package import Logging
import Synchronization

/// Shows this device's screen to the devices that hold a `screen` grant.
///
/// Seeing, controlling and exchanging clipboards are grants of their own, checked again whenever they change. Unless the
/// rules say otherwise a person at the screen is asked before; whoever is let in is shown there as long as it looks, and
/// can be put out at once.
package final class ScreenService: Service {
    /// Where the rules are kept, and what is known of devices.
    package struct Storage: Sendable {
        /// Reads the rules as they were written; `nil`: none were.
        package var load: @Sendable () throws -> String?
        /// Keeps the rules.
        package var save: @Sendable (String) throws -> Void
        /// Whether a device is one of this person's own.
        package var isOwn: @Sendable (DeviceID) -> Bool

        /// Describes a storage.
        package init(
            load: @escaping @Sendable () throws -> String?, save: @escaping @Sendable (String) throws -> Void,
            isOwn: @escaping @Sendable (DeviceID) -> Bool
        ) {
            self.load = load
            self.save = save
            self.isOwn = isOwn
        }
    }

    /// The time a viewer has to read why its session is over.
    private static let farewell = Duration.seconds(5)
    /// How often it is looked whether a session's time is over.
    private static let hoursInterval = Duration.seconds(15)

    private let storage: Storage
    private let host: ScreenHost
    private let rules: Mutex<ScreenSessions.Rules?>
    private let patience: Duration
    private let holdingPatience: Duration

    /// The time after which the screen is dark no longer for a viewer that gives no sign.
    package static let patience = Duration.seconds(30)
    /// The time after which what a viewer holds down is let go when it gives no sign.
    package static let holdingPatience = Duration.seconds(2)

    /// Makes the service; `opening` opens the screen, and throws `.notFound` when there is none.
    ///
    /// A viewer that gives no sign for the time of `patience` has the screen dark no longer, and after `holdingPatience`
    /// holds nothing down.
    package init(
        storage: Storage, logger: Logger, patience: Duration = patience, holdingPatience: Duration = holdingPatience,
        opening: @escaping @Sendable () async throws -> any ScreenSource
    ) {
        self.storage = storage
        self.patience = patience
        self.holdingPatience = holdingPatience
        host = ScreenHost(logger: logger, opening: opening)
        rules = Mutex(nil)
    }

    /// The methods of `Screen` and `ScreenSessions`.
    package var handlers: [Handler] {
        [
            .call(Screen.Displays.self) { _, _ in try await self.displays() }.limited(to: 2),
            .stream(Screen.View.self) { try await self.view($0, $1, $2) }.limited(to: 4),
            .stream(Screen.Control.self) { try await self.control($0, $1, $2) }.limited(to: 4),
            .stream(Screen.Clipboard.self) { try await self.clipboard($0, $1, $2) }.limited(to: 4),
            .stream(Screen.Chat.self) { try await self.chat($0, $1, $2) }.limited(to: 4),
            .call(ScreenSessions.List.self) { _, _ in ScreenSessions.List.Output(sessions: self.host.descriptions) },
            .stream(ScreenSessions.Watch.self) { _, _, pending in try await self.watch(pending) }.endingAtShutdown(),
            .stream(ScreenSessions.Talk.self) { input, _, pending in try await self.talk(input, pending) },
            .call(ScreenSessions.Decide.self) { input, _ in try self.host.decide(input.session, input.permissions) },
            .call(ScreenSessions.Change.self) { input, _ in try await self.change(input) },
            .call(ScreenSessions.End.self) { input, _ in
                ScreenSessions.End.Output(
                    ended: try await self.host.end(
                        input.session, because: KithError(.denied, "The other person ended the session.")))
            },
            .call(ScreenSessions.GetRules.self) { _, _ in try self.currentRules() },
            .call(ScreenSessions.SetRules.self) { input, _ in try await self.set(input) },
        ]
    }

    /// Takes from a device's sessions what it may not have any more.
    package func grantsChanged(for device: DeviceID, to grants: [Grant]) {
        host.forget(device)
        host.attempts.withLock { $0.forget(device) }
        for session in host.sessions(of: device) {
            session.grantsChanged(to: Screen.Permissions(grants))
        }
        host.refuseWaiting(of: device, beyond: Screen.Permissions(grants))
        host.sessionsChanged()
        Task(name: "kith screen light") { [host] in await host.lighten() }
    }

    /// Ends every session.
    package func stop() async {
        // There is none that does not match.
        _ = try? await host.end(nil, because: KithError(.closed, "The device stops."), isByPerson: false)
        await host.closeIfUnused()
    }

    // MARK: - Seeing

    private func displays() async throws -> Screen.Displays.Output {
        try await host.withSource { source in
            Screen.Displays.Output(source: source.name, displays: try await source.displays)
        }
    }

    private func view(
        _ input: Screen.View.Input, _ context: CallContext, _ pending: PendingStream<Screen.View>
    ) async throws {
        guard (1...240).contains(input.rate), (1...100).contains(input.quality) else {
            throw KithError(.invalid, "A screen has a rate of 1 to 240 and a quality of 1 to 100.")
        }
        let rules = try currentRules()
        let endings = host.endings
        // First: a session that goes on is none too many.
        let former: FormerSession? =
            if let id = input.resumes { await host.resume(id, of: context.caller, at: .now) } else { nil }
        if let former, let reason = Self.ends(context.caller, since: former.since, rules) {
            throw KithError(.denied, reason)
        }
        try host.beginSession(within: Int(rules.limit))
        var hasBegun = false
        defer { if !hasBegun { host.sessionDidNotBegin() } }
        try await host.withSource { source in
            let permissions = try await permissions(for: input, resuming: former?.permissions, context, rules)
            let displays = try await source.displays
            // A session that goes on shows the display it was for, whatever its number is now, or what is left, as one
            // that was not lost does.
            let wanted =
                displays.first { $0.name == former?.chosen } ?? displays.first { $0.number == input.display ?? 0 }
            guard let display = wanted ?? displays.first else { throw KithError(.notFound, "There is no display.") }
            guard input.display == nil || display.number == input.display || former != nil else {
                throw KithError(
                    .notFound, "There is no display \(input.display ?? 0). kith screen list DEVICE lists them.")
            }
            // Before anything is shown; who was let in without it is not.
            if permissions.privacy == true {
                try await host.darken(source)
            } else if input.wants.privacy == true, former == nil {
                throw KithError(.denied, "The person at the other screen lets nobody darken it.")
            }
            let session = HostSession(
                id: Self.freshName(), caller: context.caller, since: former?.since ?? Self.now, display: display,
                chosen: former?.chosen, permissions: permissions, patience: patience, holdingPatience: holdingPatience)
            let stream: MethodStream<ScreenReply, ScreenUpdate>
            do {
                stream = try await pending.accept(
                    Screen.View.Output(
                        session: session.id, source: source.name, display: display, displays: displays,
                        permissions: permissions))
            } catch {
                await host.lighten()
                throw error
            }
            host.insert(session, after: endings)
            hasBegun = true
            try await serve(session, source, input, stream, context)
        }
    }

    private func serve(
        _ session: HostSession, _ source: any ScreenSource, _ input: Screen.View.Input,
        _ stream: MethodStream<ScreenReply, ScreenUpdate>, _ context: CallContext
    ) async throws {
        let host = host
        do {
            // Somebody else's end may have lit it meanwhile.
            if session.permissions.privacy == true { try await host.darken(source, for: session) }
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    while let reply = try await stream.receive() { session.received(reply, at: .now) }
                    session.end(KithError(.cancelled, "The viewer left."))
                    return false
                }
                group.addTask { [self] in
                    // Both end with the session.
                    async let _ = host.watch(session)
                    async let _ = keepHours(of: session)
                    try await withTaskExecutorPreference(host.executor) {
                        try await session.run(source, as: input, over: stream, host.timers)
                    }
                    // It is over now, not when the viewer agrees.
                    await host.remove(session, isLost: false, at: .now)
                    return false
                }
                group.addTask {
                    try await session.untilOver()
                    // Whoever reads why it is over leaves; one that reads nothing is left.
                    try await Task.sleep(for: Self.farewell)
                    return true
                }
                defer { group.cancelAll() }
                // Both: the viewer has left, and was told the end.
                if try await group.next() == false { _ = try await group.next() }
            }
        } catch {
            // What was called off by losing the connection may go on; what somebody ended may not.
            let isLost = context.caller != .owner && context.calledOff()?.code != .denied
            await host.remove(session, isLost: isLost, at: .now)
            throw error
        }
        await host.remove(session, isLost: false, at: .now)
    }

    /// Ends a session when its time is over.
    private func keepHours(of session: HostSession) async throws {
        while true {
            do {
                await endIfOver(session, try currentRules())
            } catch {
                // They are read again; until then the session goes on as it was let in.
                host.logger.error("The screen's rules cannot be read.", metadata: ["error": "\(error)"])
            }
            try await Task.sleep(for: Self.hoursInterval)
        }
    }

    private func endIfOver(_ session: HostSession, _ rules: ScreenSessions.Rules) async {
        guard let reason = Self.ends(session.caller, since: session.since, rules) else { return }
        // Whatever its viewer does; one that is over already is not there any more.
        _ = try? await host.end(session.id, because: KithError(.denied, reason), isByPerson: false)
    }

    private static func ends(_ caller: Caller, since: Int64, _ rules: ScreenSessions.Rules) -> String? {
        ConsentPolicy(rules: rules).ends(caller, lasting: now - since, at: moment)
    }

    /// What a session may do, once a person was asked where the rules want it.
    private func permissions(
        for input: Screen.View.Input, resuming former: Screen.Permissions?, _ context: CallContext,
        _ rules: ScreenSessions.Rules
    ) async throws -> Screen.Permissions {
        let most =
            context.caller == .owner
            ? Screen.Permissions(control: true, clipboard: true, record: true, privacy: true)
            : Screen.Permissions(context.grants)
        // Before a person is asked in vain; a session that goes on has lost it, and goes on.
        if former == nil { try Self.check(input.wants, within: most) }
        let wanted = input.wants.within(most)
        if let former { return wanted.within(former) }
        let device = context.caller.device
        if let device {
            try host.attempts.withLock { attempts throws(KithError) in try attempts.begin(device, at: .now) }
        }
        let policy = ConsentPolicy(rules: rules)
        let isOwn = device.map(storage.isOwn) ?? true
        switch policy.decide(context.caller, holding: context.grants, isOwn: isOwn, at: Self.moment) {
        case .letIn:
            // It was put out a moment ago.
            if let device {
                try host.attempts.withLock { attempts throws(KithError) in try attempts.wait(device, at: .now) }
            }
            return wanted
        case .refuse(let reason): throw KithError(.denied, reason)
        case .ask: break
        }
        guard let device else { return wanted }
        try host.attempts.withLock { attempts throws(KithError) in try attempts.ask(device, at: .now) }
        let waiting = WaitingSession(
            id: Self.freshName(), caller: context.caller, permissions: wanted, since: Self.now,
            display: input.display ?? 0)
        let host = host
        let answer: Screen.Permissions?
        do {
            answer = try await withDeadline(.seconds(rules.waitSeconds)) { try await host.decision(about: waiting) }
        } catch let error as KithError where error.code == .timedOut {
            host.attempts.withLock { $0.answered(device, isLetIn: false, at: .now) }
            throw KithError(
                .denied,
                "Nobody at the other screen answered. Its owner can grant screen:unattended, or say "
                    + "kith screen rules --consent unattended.")
        } catch {
            host.attempts.withLock { $0.calledOff(device) }
            throw error
        }
        host.attempts.withLock { $0.answered(device, isLetIn: answer != nil, at: .now) }
        guard let answer else { throw KithError(.denied, "The person at the other screen refused.") }
        return answer
    }

    /// Refuses what is not to be had with less than was asked for.
    private static func check(_ wanted: Screen.Permissions, within most: Screen.Permissions) throws(KithError) {
        let missing: (what: String, grant: String)? =
            if wanted.record == true, most.record != true {
                ("A recording", "screen:record")
            } else if wanted.privacy == true, most.privacy != true {
                ("Keeping a screen dark", "screen:privacy")
            } else {
                nil
            }
        guard let missing else { return }
        throw KithError(
            .denied,
            "\(missing.what) needs the grant \(missing.grant) there: kith grant NAME --add \(missing.grant), on the "
                + "other device.")
    }

    // MARK: - Controlling

    private func control(
        _ input: Screen.Control.Input, _ context: CallContext, _ pending: PendingStream<Screen.Control>
    ) async throws {
        let session = try host.session(input.session, of: context.caller)
        guard session.permissions.control else {
            throw KithError(.denied, "This session of the screen is for viewing only.")
        }
        let stream = try await pending.accept()
        do {
            try await session.whileShown { [self] in try await control(session, stream) }
        } catch {
            await host.stopControl(of: session)
            throw error
        }
        await host.stopControl(of: session)
        try await stream.finish()
    }

    private func control(
        _ session: HostSession, _ stream: MethodStream<ScreenInput, Screen.ControlNotice>
    ) async throws {
        var done: UInt64 = 0
        var wasInControl = true
        var noticed: ContinuousClock.Instant?
        while let message = try await stream.receive() {
            let (isInControl, controller) = try await host.perform(message, of: session, at: .now)
            done += 1
            let now = ContinuousClock.now
            // Said again while it goes on: a viewer that hears nothing more takes it that the other one rests.
            let isRepeated = !isInControl && noticed.map { now - $0 >= .seconds(1) } ?? true
            // That it may not control it is told with the pictures.
            let isNews = session.permissions.control && (isInControl != wasInControl || isRepeated)
            if isNews || message == .release {
                noticed = now
                try await stream.send(
                    Screen.ControlNotice(isInControl: isInControl, controller: controller, done: done))
            }
            wasInControl = isInControl
        }
    }

    private func clipboard(
        _ input: Screen.Clipboard.Input, _ context: CallContext, _ pending: PendingStream<Screen.Clipboard>
    ) async throws {
        let session = try host.session(input.session, of: context.caller)
        guard session.permissions.clipboard else {
            throw KithError(.denied, "This session of the screen does not exchange clipboards.")
        }
        let host = host
        try await host.withSource { source in
            let link = ClipboardLink(
                ClipboardLink.Local(
                    read: { selection, format in
                        guard session.permissions.clipboard else {
                            throw KithError(.denied, "This session does not exchange clipboards any more.")
                        }
                        return try await source.clipboard(selection, as: format)
                    },
                    announce: { selection, formats, content in
                        guard session.permissions.clipboard else { return }
                        try await source.offerClipboard(selection, formats: formats, content: content)
                    }))
            let stream = try await pending.accept()
            let number = host.insert(link)
            defer { host.remove(clipboard: number) }
            try await session.whileShown { try await link.run(over: stream) }
            try await stream.finish()
        }
    }

    private func chat(
        _ input: Screen.Chat.Input, _ context: CallContext, _ pending: PendingStream<Screen.Chat>
    ) async throws {
        let (host, session) = (host, try host.session(input.session, of: context.caller))
        let stream = try await pending.accept()
        try await session.whileShown {
            try await host.chat.read(in: session.id) { lines in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        while let line = try await stream.receive() {
                            let wait = session.paceLine(at: .now)
                            if wait > .zero { try await Task.sleep(for: wait) }
                            host.said(line, by: session, at: .now, time: Self.now)
                        }
                    }
                    group.addTask { while let line = try await lines.receive() { try await stream.send(line) } }
                    defer { group.cancelAll() }
                    try await group.next()
                }
            }
        }
        try await stream.finish()
    }

    // MARK: - This device's person

    private func talk(
        _ input: ScreenSessions.Talk.Input, _ pending: PendingStream<ScreenSessions.Talk>
    ) async throws {
        let host = host
        // A name that means nothing is said at once.
        let session = try input.session.flatMap { try host.matching($0).first?.id }
        let stream = try await pending.accept()
        try await host.chat.readAll { lines in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while let line = try await stream.receive() {
                        let unread: [ScreenSessions.Talk.Line]
                        do throws(KithError) {
                            unread = try host.say(line, to: session, time: Self.now)
                        } catch {
                            unread = [
                                ScreenSessions.Talk.Line(
                                    session: session ?? "", name: "", isOwn: true, time: Self.now, line: line,
                                    failure: error.message)
                            ]
                        }
                        for line in unread { try await stream.send(line) }
                    }
                }
                group.addTask {
                    while let line = try await lines.receive() {
                        guard session == nil || line.session == session else { continue }
                        try await stream.send(line)
                    }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
        try await stream.finish()
    }

    private func watch(_ pending: PendingStream<ScreenSessions.Watch>) async throws {
        let stream = try await pending.accept()
        for await _ in host.changes() {
            try await stream.send(ScreenSessions.Watch.Update(sessions: host.descriptions))
        }
        try Task.checkCancellation()
    }

    private func change(_ input: ScreenSessions.Change.Input) async throws -> ScreenSessions.Session {
        guard let session = try host.matching(input.session).first else {
            throw KithError(.notFound, "There is no such session.")
        }
        session.permit(input.permissions)
        if !session.permissions.control { await host.stopControl(of: session) }
        await host.lighten()
        host.sessionsChanged()
        return session.description
    }

    private func currentRules() throws -> ScreenSessions.Rules {
        if let known = rules.withLock({ $0 }) { return known }
        let loaded = try storage.load().map {
            try JSONDecoder().decode(ScreenSessions.Rules.self, from: Data($0.utf8))
        }
        rules.withLock { $0 = $0 ?? loaded }
        return loaded ?? ScreenSessions.Rules()
    }

    private func set(_ new: ScreenSessions.Rules) async throws -> ScreenSessions.Rules {
        try ConsentPolicy.check(new)
        try storage.save(String(decoding: JSONEncoder().encode(new), as: UTF8.self))
        rules.withLock { $0 = new }
        for session in try host.matching(nil) { await endIfOver(session, new) }
        return new
    }

    // MARK: - Names and times

    /// A name that nobody guesses: 26 letters for 128 bits.
    private static func freshName() -> String {
        var random = SystemRandomNumberGenerator()
        return Base32.encode((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    private static var moment: ConsentPolicy.Moment {
        let parts = Calendar(identifier: .iso8601).dateComponents([.weekday, .hour, .minute], from: Date())
        let day = ((parts.weekday ?? 1) + 5) % 7 + 1
        return ConsentPolicy.Moment(
            day: UInt8(day), minute: UInt16((parts.hour ?? 0) * 60 + (parts.minute ?? 0)))
    }
}

extension Screen.Permissions {
    /// All that grants allow.
    fileprivate init(_ grants: [Grant]) {
        self.init(
            control: grants.allows(.screen(.control)), clipboard: grants.allows(.screen(.clipboard)),
            record: grants.allows(.screen(.record)), privacy: grants.allows(.screen(.privacy)))
    }
}
