import KithAPI
import KithIO
import KithIdentity
import KithNet
public import KithStore
public import KithWire
import Logging
import Synchronization

/// Pairing as a service: invitations, and both ends of `Pairing`.
public final class PairingService: Service {
    /// The node owns its services, and outlives their calls.
    private unowned let node: Node
    private let store: Store
    private let name: @Sendable () -> String
    private let addresses: @Sendable () -> [NetworkAddress]
    private let now: @Sendable () -> Int64
    private let limits: Limits
    private let desk = PairingDesk()
    private let state: Mutex<State>

    /// The time limits of an attempt to pair.
    package struct Limits: Sendable {
        /// The longest wait for a message that no person has to think about.
        package var message = Duration.seconds(10)
        /// The time the two people have to compare the codes.
        package var verdict = Duration.seconds(240)
        var presentations = PresentationLimiter.Limits()

        /// The defaults.
        package init() {}
    }

    private struct State {
        var limiter: PresentationLimiter
        /// Attempts that run, by their invitations: one at a time.
        var running: [String: Attempt] = [:]
        var isClosed = false
    }

    /// Makes the service.
    ///
    /// `name` is what this device calls itself, `addresses` where it listens, `now` the time in seconds since 1970.
    public convenience init(
        node: Node, store: Store, name: @escaping @Sendable () -> String,
        addresses: @escaping @Sendable () -> [NetworkAddress], now: @escaping @Sendable () -> Int64
    ) {
        self.init(node: node, store: store, limits: Limits(), name: name, addresses: addresses, now: now)
    }

    package init(
        node: Node, store: Store, limits: Limits, name: @escaping @Sendable () -> String,
        addresses: @escaping @Sendable () -> [NetworkAddress], now: @escaping @Sendable () -> Int64
    ) {
        self.limits = limits
        state = Mutex(State(limiter: PresentationLimiter(limits.presentations)))
        self.node = node
        self.store = store
        self.name = name
        self.addresses = addresses
        self.now = now
    }

    /// The stream to this end's person.
    private typealias Person = MethodStream<PairingMethods.Decision, PairingMethods.JoinEvent>
    /// The stream to the inviting end, and the exporter of the connection.
    private typealias Remote = (
        opened: OpenedStream<PairingMethods.Present>,
        exportKeyingMaterial: @Sendable (_ label: String, _ context: [UInt8]) async throws -> [UInt8]
    )
    /// The inviting end, as the joining one sees it.
    private typealias Inviter = MethodStream<PairingMethods.FromInviter, PairingMethods.FromJoiner>
    /// The joining end, as the inviting one sees it.
    private typealias Joiner = MethodStream<PairingMethods.FromJoiner, PairingMethods.FromInviter>

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Invitations.Create.self) { input, _ in try self.invite(input) },
            .call(Invitations.List.self) { _, _ in
                try self.store.invitations(now: self.now()).map(Invitations.Info.init)
            },
            .call(Invitations.Revoke.self) { input, _ in try self.revoke(input.id) },
            .call(PairingMethods.Failed.self) { _, _ in try self.failed() },
            .call(PairingMethods.Waiting.self) { _, _ in self.desk.waiting },
            .call(PairingMethods.Decide.self) { input, _ in
                try self.desk.decide(input.id, accept: input.accept)
                return Nothing()
            },
            .stream(PairingMethods.Watch.self) { _, _, pending in
                let events = self.desk.watch()
                let stream = try await pending.accept()
                for await event in events { try await stream.send(event) }
            },
            .stream(PairingMethods.Join.self) { input, _, pending in try await self.join(input, pending) },
            .stream(PairingMethods.Present.self) { _, context, pending in try await self.receive(context, pending) },
        ]
    }

    /// Ends running attempts and the streams of watchers, so that stopping the device need not wait for people.
    public func close() {
        let attempts = state.withLock { state in
            state.isClosed = true
            return Array(state.running.values)
        }
        for attempt in attempts { attempt.end(.stopped) }
        desk.close()
    }

    // MARK: - Inviting

    private func invite(_ input: Invitations.Create.Input) throws -> Invitations.Create.Output {
        guard (1...604_800).contains(input.lifetimeSeconds) else {
            throw KithError(.invalid, "An invitation lives for a second to a week.")
        }
        let addresses = addresses()
        let relays = node.dialer?.relays ?? []
        guard !addresses.isEmpty || !relays.isEmpty else {
            throw KithError(.unreachable, "This device listens on no address another one could reach.")
        }
        let now = now()
        let invitation = Invitation(
            ticket: Ticket(id: node.id, addresses: addresses, relays: relays), name: name(),
            expiresAt: now + input.lifetimeSeconds, relayTokens: node.dialer?.relayTokens ?? [:])
        let record = InvitationRecord(invitation, grants: input.grants, isAutomatic: input.isAutomatic)
        try store.add(record, now: now)
        node.logger.debug("made an invitation", metadata: ["invitation": "\(record.id)"])
        var info = Invitations.Info(record)
        info.warnings = try store.overlaps(of: input.grants, to: nil, called: "The invited device")
        return Invitations.Create.Output(text: invitation.text, info: info)
    }

    private func revoke(_ id: String) throws -> Nothing {
        guard try store.revokeInvitation(id) else {
            throw KithError(.notFound, "No invitation \(id) waits; `kith invite --list` shows those that do.")
        }
        state.withLock { $0.running[id] }?.end(.revoked)
        return Nothing()
    }

    private func failed() throws -> [PairingMethods.Attempt] {
        let running = state.withLock { state in Set(state.running.values.map(\.device)) }
        return try store.failedAttempts(now: now()).compactMap { attempt in
            if attempt.ending == nil, running.contains(attempt.device) { return nil }
            return PairingMethods.Attempt(attempt)
        }
    }

    /// One attempt to pair by an invitation of this device.
    private final class Attempt: Sendable {
        let device: DeviceID
        let scope: CallScope
        private let ending = Mutex<PairingEnding?>(nil)

        init(_ device: DeviceID, timers: TimerQueue) {
            self.device = device
            scope = CallScope(timers: timers)
        }

        /// The reason it was called off; `nil` while it goes on.
        var calledOff: PairingEnding? { ending.withLock { $0 } }

        /// Calls it off; the first reason counts.
        func end(_ reason: PairingEnding) {
            ending.withLock { if $0 == nil { $0 = reason } }
            scope.cancel(reason.there)
        }
    }

    /// The inviting end of ``Pairing``.
    private func receive(
        _ context: CallContext, _ pending: PendingStream<PairingMethods.Present>
    ) async throws {
        guard case .device(let joiner, _, _) = context.caller, let export = context.exportKeyingMaterial else {
            throw KithError(.invalid, "An invitation is presented by another device.")
        }
        let address = await context.callerAddress?()
        let channel = Pairing.Channel(
            inviter: node.id, joiner: joiner, exporter: try await export(Pairing.exporterLabel, []))
        let messages = try await pending.accept()
        node.watch(joiner, closely: true)
        defer { node.watch(joiner, closely: false) }
        do {
            try await pair(messages, channel, address)
        } catch let refusal as Refusal {
            try? await messages.send(
                PairingMethods.FromInviter.refused(code: refusal.error.code, message: refusal.error.message))
            try? await messages.finish()
            // The refusal must arrive before the stream goes: the joiner ends it when it has read it.
            _ = try? await withDeadline(.seconds(2), on: node.clock) { try await messages.receive() }
        }
    }

    /// An error sent to the joiner in place of a pairing; it may be gone.
    private struct Refusal: Error {
        var error: KithError
    }

    private func pair(_ messages: Joiner, _ channel: Pairing.Channel, _ address: NetworkAddress?) async throws {
        let attempt = Attempt(channel.joiner, timers: node.timers)
        let present: Pairing.Present
        var inviter: Pairing.Inviter
        let invitation: InvitationRecord
        let number: Int64
        do {
            let first = try await withDeadline(limits.message, on: node.clock) {
                try await messages.receive()
            }
            guard case .present(let received)? = first, received.name.utf8.count <= 256,
                received.addresses.count <= Ticket.maxAddresses
            else { throw KithError(.invalid, "A pairing begins with an invitation.") }
            present = received
            try admit { $0.present(channel.joiner, at: $1) }
            do {
                invitation = try store.usableInvitation(present.invitation, now: now())
                inviter = try Pairing.Inviter(
                    present, proofKey: invitation.proofKey, channel: channel, name: name(), addresses: addresses())
            } catch {
                // Only an attempt that proves nothing counts against the address: others behind it may hold an invitation.
                try admit { $0.present(nil, from: address, at: $1) }
                throw error
            }
            do {
                try begin(attempt, by: invitation.id)
            } catch {
                // It has proven the invitation: two devices hold it.
                reportBroken(channel.joiner, address, invitation.id, "another device was pairing by it at that moment.")
                throw error
            }
            do {
                (number, inviter.challenge.attempts) = try store.beginAttempt(
                    by: invitation.id, from: channel.joiner, at: address?.description ?? "", now: now())
            } catch {
                end(by: invitation.id)
                throw error
            }
        } catch let error as KithError where error.code != .closed {
            log("refused an invitation that was presented", channel.joiner, outcome: error.code.rawValue)
            try noteRefusal(of: channel.joiner, address, error.message)
            throw Refusal(error: error)
        }
        defer { end(by: invitation.id) }
        log("an invitation is presented", channel.joiner)

        let shown = Locked<PairingMethods.Request?>(nil)
        let ready = inviter
        let device: PairedDevice
        do {
            device = try await attempt.scope.run("kith pairing", until: nil) {
                try await self.exchange(messages, channel, present, ready, invitation, number) { shown.set($0) }
            }
        } catch {
            let ending = attempt.calledOff ?? self.ending(error)
            let left: Int
            do {
                left = try store.endAttempt(number, ending.here, burning: ending == .refusedHere, now: now())
            } catch {
                left = 0  // it was counted when it began; the people are told all the same
            }
            if ending.isBreach { state.withLock { $0.limiter.brokeOff(channel.joiner, at: node.clock.now) } }
            log("a pairing ended", channel.joiner, outcome: "\(ending.here)")
            let reason = "\(ending.here). \(PairingEnding.rest(left))"
            if let request = shown.value {
                desk.report(.ended(request, reason: reason))
            } else {
                reportBroken(channel.joiner, address, invitation.id, reason)
            }
            let there = ending.there
            throw Refusal(error: KithError(there.code, "\(there.message) \(PairingEnding.restThere(left))"))
        }
        state.withLock { $0.limiter.paired(channel.joiner) }
        if let request = shown.value { desk.report(.paired(request)) }
        node.paired(device.id)
        log("paired", device.id, outcome: "done")
        try await messages.send(PairingMethods.FromInviter.verdict(Pairing.Verdict(accept: true)))
        try await messages.finish()
        // The other end closes when it has stored the pairing, too; that this is heard changes nothing.
        _ = try? await withDeadline(limits.message, on: node.clock) { try await messages.receive() }
    }

    /// Logs a step of a pairing; never the code, nor what the invitation says.
    private func log(_ what: Logger.Message, _ device: DeviceID, outcome: String? = nil) {
        var metadata: Logger.Metadata = ["peer": "\(device.short)"]
        if let outcome { metadata["outcome"] = "\(outcome)" }
        node.logger.debug(what, metadata: metadata)
    }

    private func reportBroken(_ device: DeviceID, _ address: NetworkAddress?, _ invitation: String, _ reason: String) {
        desk.report(
            .brokenOff(
                PairingMethods.Attempt(
                    invitation: invitation, device: device, address: address?.description ?? "", time: now(),
                    reason: reason)))
    }

    /// The messages from the challenge on, to the pairing.
    private func exchange(
        _ messages: Joiner, _ channel: Pairing.Channel, _ present: Pairing.Present, _ inviter: Pairing.Inviter,
        _ invitation: InvitationRecord, _ number: Int64, showing: @Sendable (PairingMethods.Request) -> Void
    ) async throws -> PairedDevice {
        try await messages.send(PairingMethods.FromInviter.challenge(inviter.challenge))
        let answer = try await within(limits.message, else: .noReveal) {
            try await messages.receive()
        }
        guard let answer else { throw PairingEnding.disconnected }
        guard case .reveal(let reveal) = answer else { throw PairingEnding.disorder }
        let code: String
        do {
            code = try inviter.code(for: reveal)
        } catch {
            throw PairingEnding.changedNonce
        }
        let held = try store.device(channel.joiner)?.grants
        let fresh = invitation.grants.filter { held?.contains($0) != true }
        let name = try store.freeName(like: present.name, for: channel.joiner)
        var wanted = PairingMethods.Request(
            id: Hex.encode((0..<4).map { _ in UInt8.random(in: 0 ... .max) }), invitation: invitation.id,
            name: name, device: channel.joiner, code: code, grants: (held ?? []) + fresh, held: held,
            isAutomatic: invitation.isAutomatic)
        wanted.warnings = try store.overlaps(of: wanted.grants, to: channel.joiner, called: name)
        let request = wanted
        showing(request)
        log("the codes are compared", channel.joiner)
        // It is void once it expires, even while the two people compare codes.
        let lifetime = Duration.seconds(max(0, invitation.expiresAt - now()))
        try await within(min(limits.verdict, lifetime), else: lifetime < limits.verdict ? .expired : .unanswered) {
            try await self.agree(on: request, messages)
        }
        let now = now()
        return try store.pair(
            PairedDevice(
                id: request.device, name: present.name, addresses: present.addresses, grants: invitation.grants,
                pairedAt: now, lastSeen: now),
            invitation: invitation.id, attempt: number, now: now)
    }

    /// Waits for both people.
    private func agree(on request: PairingMethods.Request, _ messages: Joiner) async throws {
        enum Word { case here(Bool), there(Bool), gone }
        // The first end that refuses or goes away ends it for both.
        try await withThrowingTaskGroup(of: Word.self) { group in
            group.addTask { .here(await self.desk.decision(on: request)) }
            group.addTask {
                guard let word = try await messages.receive() else { return .gone }
                guard case .verdict(let verdict) = word else { throw PairingEnding.disorder }
                return .there(verdict.accept)
            }
            defer { group.cancelAll() }
            var (here, there) = (false, false)
            while !(here && there), let word = try await group.next() {
                try Task.checkCancellation()
                switch word {
                case .here(true): here = true
                case .here(false): throw PairingEnding.refusedHere
                case .there(true):
                    there = true
                    // It sends nothing more before this end has answered: it can only close.
                    group.addTask {
                        let word = try await messages.receive()
                        if word != nil { throw PairingEnding.disorder }
                        return .gone
                    }
                case .there(false): throw PairingEnding.refusedThere
                case .gone: throw PairingEnding.disconnected
                }
            }
        }
    }

    /// Runs `body`, which `late` ends when it takes longer.
    private func within<Result: Sendable>(
        _ limit: Duration, else late: PairingEnding, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        do {
            return try await withDeadline(limit, on: node.clock, body)
        } catch let error as KithError where error.code == .timedOut {
            throw late
        }
    }

    /// Returns the ending that an error of an attempt stands for.
    private func ending(_ error: any Error) -> PairingEnding {
        switch error {
        case let ending as PairingEnding: ending
        case _ where node.isShuttingDown: .stopped
        case is DecodingError, is WireError: .disorder
        case let error as KithError where error.code == .invalid: .disorder
        // The store refuses: expired or revoked at the last moment, or a full disk.
        case let error as KithError where [.unpaired, .exhausted, .internal, .conflict].contains(error.code):
            .failed(error)
        default: .disconnected
        }
    }

    // MARK: - Limits

    /// Counts a presentation.
    ///
    /// - Throws: `.exhausted` when there were too many by this key, or from its address.
    private func admit(_ count: (inout PresentationLimiter, ContinuousClock.Instant) -> Duration?) throws {
        let wait = try state.withLock { state throws in
            if state.isClosed { throw Node.stopping }
            return count(&state.limiter, node.clock.now)
        }
        guard let wait else { return }
        let seconds = max(1, Int((wait / .seconds(1)).rounded(.up)))
        throw KithError(.exhausted, "Too many attempts to pair from there. Try again in \(seconds) s.")
    }

    /// Binds an invitation to the attempt of one key.
    ///
    /// - Throws: `.conflict` while it is bound to another.
    private func begin(_ attempt: Attempt, by invitation: String) throws {
        try state.withLock { state throws in
            if state.isClosed { throw Node.stopping }
            guard state.running[invitation] == nil else {
                throw KithError(
                    .conflict,
                    "Another device is pairing by that invitation right now. If it is not yours, tell whoever made it.")
            }
            state.running[invitation] = attempt
        }
    }

    private func end(by invitation: String) { state.withLock { state in state.running[invitation] = nil } }

    /// Logs that a presentation was refused; repeated ones are only counted.
    private func noteRefusal(of joiner: DeviceID, _ address: NetworkAddress?, _ detail: String) throws {
        let method = PairingMethods.Present.name
        guard let known = try store.device(joiner) else {
            let attempt = UnpairedAttempt(device: joiner, address: address, method: method, detail: detail)
            return store.countAttempt(attempt, now: now())
        }
        try store.record(
            calls: [AuditEntry(time: now(), device: known.name, method: method, decision: .denied, detail: detail)])
    }

    // MARK: - Joining

    /// The joining end of ``Pairing``.
    private func join(_ input: PairingMethods.Join.Input, _ pending: PendingStream<PairingMethods.Join>) async throws {
        let invitation = try Invitation(text: input.invitation)
        guard invitation.ticket.id != node.id else {
            throw KithError(.invalid, "This device made that invitation itself. Use it on the other one.")
        }
        node.dialer?.learn(relayTokens: invitation.relayTokens)
        let remote = try await present(at: invitation.ticket)
        let there = remote.opened.stream
        log("presents an invitation", invitation.ticket.id)
        node.watch(invitation.ticket.id, closely: true)
        defer { node.watch(invitation.ticket.id, closely: false) }
        let channel = Pairing.Channel(
            inviter: invitation.ticket.id, joiner: node.id,
            exporter: try await remote.exportKeyingMaterial(Pairing.exporterLabel, []))
        let here = try await pending.accept()
        do {
            let device = try await join(invitation, input.grants, channel, here: here, there: there)
            // Both ends have stored it: whether this arrives changes nothing.
            try? await there.finish()
            var info = await Devices.Info(device, node: node)
            info.warnings = try store.overlaps(of: input.grants, to: device.id, called: device.name)
            log("paired", device.id, outcome: "done")
            try await here.send(PairingMethods.JoinEvent.paired(info))
        } catch let error as KithError {
            log("a pairing ended", invitation.ticket.id, outcome: error.code.rawValue)
            there.abort(error.code)
            try await here.send(PairingMethods.JoinEvent.failed(code: error.code, message: error.message))
        } catch {
            there.abort(.cancelled)
            throw error
        }
    }

    private func present(at ticket: Ticket) async throws -> Remote {
        do {
            return try await node.open(
                PairingMethods.Present.self, Nothing(), at: ticket.id, addresses: ticket.addresses,
                relays: ticket.relays)
        } catch let error as KithError where error.code == .unpaired {
            // It refuses the handshakes of those it does not know, unless it waits for somebody.
            throw KithError(
                .unpaired,
                "No invitation waits there: it has expired, was used, or was taken back. Ask for a new one.",
                cause: error)
        }
    }

    private func join(
        _ invitation: Invitation, _ grants: [Grant], _ channel: Pairing.Channel, here: Person,
        there: Inviter
    ) async throws -> PairedDevice {
        let joiner = Pairing.Joiner(invitation, channel: channel, name: name(), addresses: addresses())
        try await there.send(PairingMethods.FromJoiner.present(joiner.present))
        let first: PairingMethods.FromInviter?
        do {
            first = try await withDeadline(limits.message, on: node.clock) {
                try await there.receive()
            }
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(.timedOut, "The inviting device did not answer. Nothing was stored.", cause: error)
        }
        if case .refused(let code, let message)? = first { throw Self.refusal(code, message) }
        guard first != nil else { throw KithError(.closed, "The inviting device gave up. Nothing was stored.") }
        guard case .challenge(let challenge)? = first, challenge.name.utf8.count <= 256,
            challenge.addresses.count <= Ticket.maxAddresses, challenge.attempts?.isPlausible != false
        else { throw Self.disorder }
        let (reveal, code) = try joiner.answer(challenge)
        let name = try store.freeName(like: challenge.name, for: channel.inviter)

        // From here on the other end knows the code: the attempt counts, whatever becomes of it.
        let (number, earlier) = try store.beginJoining(by: invitation.id, of: channel.inviter, now: now())
        do {
            try await there.send(PairingMethods.FromJoiner.reveal(reveal))
            try await here.send(
                PairingMethods.JoinEvent.compare(
                    code: code, name: name, id: channel.inviter, attempts: challenge.attempts))
            try await agree(here: here, there: there, earlier: earlier, left: challenge.attempts?.left)
        } catch {
            try store.endJoining(number, isPaired: false)
            throw error
        }
        var known = invitation.ticket.addresses
        known += challenge.addresses.filter { !known.contains($0) }
        let now = now()
        let device = try store.add(
            PairedDevice(
                id: channel.inviter, name: name, addresses: known, relays: invitation.ticket.relays, grants: grants,
                pairedAt: now, lastSeen: now))
        try store.endJoining(number, isPaired: true)
        node.paired(device.id)
        // Devices of one circle meet at one place.
        await node.dialer?.adopt(invitation.ticket.relays)
        return device
    }

    /// Waits for this end's person, and for the inviter's verdict.
    private func agree(here: Person, there: Inviter, earlier: Int, left: Int?) async throws {
        enum Word { case decided(Bool), left, answer(PairingMethods.FromInviter), gone(KithError?), late }
        enum Phase { case pending, accepted, refused }
        let listen: @Sendable () async throws -> Word = {
            do {
                return try await there.receive().map { .answer($0) } ?? .gone(nil)
            } catch let error as KithError where error.code != .invalid {
                return .gone(error)
            }
        }
        try await withThrowingTaskGroup(of: Word.self) { group in
            group.addTask { try await here.receive().map { .decided($0.accept) } ?? .left }
            group.addTask { try await listen() }
            defer { group.cancelAll() }
            var phase = Phase.pending
            while let word = try await group.next() {
                switch (phase, word) {
                case (.pending, .decided(let accept)):
                    phase = accept ? .accepted : .refused
                    try await there.send(PairingMethods.FromJoiner.verdict(Pairing.Verdict(accept: accept)))
                    if accept {
                        // This end's person has nothing more to send: they can only close.
                        group.addTask {
                            _ = try await here.receive()
                            return .left
                        }
                    } else {
                        // The refusal must arrive before the stream goes: the inviter answers it.
                        group.addTask {
                            try await self.node.clock.sleep(for: .seconds(2))
                            return .late
                        }
                    }
                case (.refused, _):
                    let rest = left.map { " \(PairingEnding.restThere($0))" } ?? ""
                    throw KithError(.cancelled, "Not paired: it was refused at this device.\(rest)")
                case (.accepted, .answer(.verdict(let verdict))) where verdict.accept: return
                case (_, .answer(.refused(let code, let message))): throw Self.refusal(code, message)
                case (_, .gone(let error)):
                    throw Self.brokenOff(hasAccepted: phase == .accepted, earlier: earlier, error)
                case (_, .left): throw KithError(.cancelled, "Not paired: this device gave up.")
                default: throw Self.disorder
                }
            }
        }
    }

    /// Makes the inviter's refusal in place of a pairing, for a person.
    private static func refusal(_ code: KithError.Code, _ message: String) -> KithError {
        KithError(code, "Not paired. \(message.prefix(500))")
    }

    /// Makes the error that the other device went away between the code and the pairing.
    ///
    /// Both it and this end's person knew the code by then: an attacker who looks for a matching code must try repeatedly.
    private static func brokenOff(hasAccepted: Bool, earlier: Int, _ error: KithError?) -> KithError {
        let rest =
            hasAccepted
            ? "Nothing was stored here. Should the other device list this one, use `kith forget` there."
            : "Nothing was stored here."
        let what = error?.cause is PortClosed ? "is not running any more: it broke off" : "broke off"
        return KithError(
            .closed,
            """
            Not paired. The other device \(what) after the code was shown, attempt \(earlier + 1) of \(Pairing.attemptLimit). \
            \(rest) If it happens again, ask for a new invitation and get it another way.
            """, cause: error)
    }

    private static var disorder: KithError {
        KithError(.invalid, "The other device left the order of a pairing. Nothing was stored here.")
    }
}

extension Invitations.Info {
    /// Describes a stored invitation.
    init(_ record: InvitationRecord) {
        self.init(
            id: record.id, grants: record.grants, expiresAt: record.expiresAt, isAutomatic: record.isAutomatic,
            attemptsLeft: record.attemptsLeft)
    }
}

extension PairingMethods.Attempt {
    /// Describes a stored attempt.
    init(_ attempt: PairingAttempt) {
        self.init(
            invitation: attempt.invitation, device: attempt.device, address: attempt.address, time: attempt.beganAt,
            reason: attempt.ending ?? "this device was stopped")
    }
}
