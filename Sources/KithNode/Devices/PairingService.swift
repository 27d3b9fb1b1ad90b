import KithAPI
import KithIdentity
public import KithStore
public import KithWire
import Logging
import Synchronization

/// How devices come to be paired, as a service: invitations, and both ends of ``Pairing``.
public final class PairingService: Service {
    /// The node owns its services, and outlives their calls.
    private unowned let node: Node
    private let store: Store
    private let name: @Sendable () -> String
    private let addresses: @Sendable () -> [NetworkAddress]
    private let now: @Sendable () -> Int64
    private let desk = PairingDesk()
    /// Invitations somebody is pairing by right now.
    private let busy = Mutex<Set<String>>([])

    private static let messageLimit = 16 << 10

    /// Makes the service.
    ///
    /// `name` is what this device calls itself, `addresses` where it listens, `now` the time in seconds since 1970.
    public init(
        node: Node, store: Store, name: @escaping @Sendable () -> String,
        addresses: @escaping @Sendable () -> [NetworkAddress], now: @escaping @Sendable () -> Int64
    ) {
        self.node = node
        self.store = store
        self.name = name
        self.addresses = addresses
        self.now = now
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Invitations.Create.self) { input, _ in try self.invite(input) },
            .call(Invitations.List.self) { _, _ in
                try self.store.invitations(now: self.now()).map(Invitations.Info.init)
            },
            .call(Invitations.Revoke.self) { input, _ in
                guard try self.store.revokeInvitation(input.id) else {
                    throw KithError(
                        .notFound, "No invitation \(input.id) waits; `kith invite --list` shows those that do.")
                }
                return Nothing()
            },
            .call(PairingMethods.Waiting.self) { _, _ in self.desk.waiting },
            .call(PairingMethods.Decide.self) { input, _ in
                try self.desk.decide(input.id, accept: input.accept)
                return Nothing()
            },
            .stream(PairingMethods.Watch.self) { _, _, pending in
                let events = self.desk.watch()
                let messages = MessageStream(try await pending.accept(Nothing()))
                for await event in events { try await messages.send(event) }
            },
            .stream(PairingMethods.Join.self) { input, _, pending in try await self.join(input, pending) },
            .stream(PairingMethods.Present.self) { _, context, pending in try await self.receive(context, pending) },
        ]
    }

    /// Ends the streams of those who watch, so that a device that stops need not wait for them.
    public func close() { desk.close() }

    // MARK: - Inviting

    private func invite(_ input: Invitations.Create.Input) throws -> Invitations.Create.Output {
        guard (1...604_800).contains(input.lifetimeSeconds) else {
            throw KithError(.invalid, "An invitation lives for a second to a week.")
        }
        let addresses = addresses()
        guard !addresses.isEmpty else {
            throw KithError(.unreachable, "This device listens on no address another one could reach.")
        }
        let now = now()
        let invitation = Invitation(
            ticket: Ticket(id: node.id, addresses: addresses), name: name(), expiresAt: now + input.lifetimeSeconds)
        let record = InvitationRecord(invitation, grants: input.grants, isAutomatic: input.isAutomatic)
        try store.add(record, now: now)
        var info = Invitations.Info(record)
        info.warnings = try store.overlaps(of: input.grants, to: nil, called: "The invited device")
        return Invitations.Create.Output(text: invitation.text, info: info)
    }

    /// The inviting end of ``Pairing``.
    private func receive(_ context: CallContext, _ pending: PendingStream<Nothing>) async throws {
        guard case .device(let joiner, _, _) = context.caller, let export = context.exportKeyingMaterial else {
            throw KithError(.invalid, "An invitation is presented by another device.")
        }
        let channel = Pairing.Channel(
            inviter: node.id, joiner: joiner, exporter: try await export(Pairing.exporterLabel, []))
        let messages = MessageStream(try await pending.accept(Nothing()), limit: Self.messageLimit)
        do {
            try await pair(messages, channel)
        } catch let error as KithError where error.code != .closed {
            try noteRefusal(of: joiner, error.message)
            try await messages.send(PairingMethods.FromInviter.refused(code: error.code, message: error.message))
            try await messages.stream.finish()
            // The refusal must arrive before the stream goes: the joiner ends it when it has read it.
            _ = try? await messages.receive(PairingMethods.FromJoiner.self)
        }
    }

    /// Writes down that a pairing came to nothing; what unpaired devices try is counted only.
    private func noteRefusal(of joiner: DeviceID, _ detail: String) throws {
        let method = PairingMethods.Present.name
        guard let known = try store.device(joiner) else {
            let attempt = UnpairedAttempt(device: joiner, address: nil, method: method, detail: detail)
            return store.countAttempt(attempt, now: now())
        }
        try store.record(
            AuditEntry(time: now(), device: known.name, method: method, decision: .denied, detail: detail))
    }

    private func pair(_ messages: MessageStream, _ channel: Pairing.Channel) async throws {
        guard case .present(let present)? = try await messages.receive(PairingMethods.FromJoiner.self),
            present.name.utf8.count <= 256, present.addresses.count <= Ticket.maxAddresses
        else { throw KithError(.invalid, "A pairing begins with an invitation.") }
        let invitation = try store.usableInvitation(present.invitation, now: now())
        let inviter = try Pairing.Inviter(
            present, proofKey: invitation.proofKey, channel: channel, name: name(), addresses: addresses())
        guard busy.withLock({ $0.insert(invitation.id).inserted }) else {
            throw KithError(.conflict, "Somebody else is pairing by that invitation right now.")
        }
        defer { _ = busy.withLock { $0.remove(invitation.id) } }

        try await messages.send(PairingMethods.FromInviter.challenge(inviter.challenge))
        guard case .reveal(let reveal)? = try await messages.receive(PairingMethods.FromJoiner.self) else {
            throw KithError(.invalid, "The other device left the order of a pairing.")
        }
        let name = try store.freeName(like: present.name, for: channel.joiner)
        let held = try store.device(channel.joiner)?.grants
        let fresh = invitation.grants.filter { held?.contains($0) != true }
        var request = PairingMethods.Request(
            id: Hex.encode((0..<4).map { _ in UInt8.random(in: 0 ... .max) }), invitation: invitation.id, name: name,
            device: channel.joiner,
            code: try inviter.code(for: reveal), grants: (held ?? []) + fresh, held: held,
            isAutomatic: invitation.isAutomatic)
        request.warnings = try store.overlaps(of: request.grants, to: channel.joiner, called: name)
        do {
            let device = try await agree(on: request, messages, present, invitation)
            desk.report(.paired(request))
            try store.record(
                AuditEntry(
                    time: now(), device: device.name, method: PairingMethods.Present.name, decision: .allowed,
                    detail: "paired by invitation \(invitation.id)"))
            node.paired(device.id)
            try await messages.send(PairingMethods.FromInviter.verdict(Pairing.Verdict(accept: true)))
            try await messages.stream.finish()
            // The other end closes when it has stored the pairing, too.
            _ = try await messages.receive(PairingMethods.FromJoiner.self)
        } catch {
            let reason = (error as? KithError)?.message ?? "the other device gave up"
            desk.report(.ended(request, reason: reason))
            throw error
        }
    }

    /// Waits for both persons, and stores the pairing when both agree.
    private func agree(
        on request: PairingMethods.Request, _ messages: MessageStream, _ present: Pairing.Present,
        _ invitation: InvitationRecord
    ) async throws -> PairedDevice {
        defer { desk.forget(request.id) }
        // Whoever says no, or goes away, first ends it for both.
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { await self.desk.decision(on: request) }
            group.addTask {
                guard case .verdict(let verdict)? = try await messages.receive(PairingMethods.FromJoiner.self) else {
                    throw KithError(.closed, "The other device gave up.")
                }
                if !verdict.accept { throw KithError(.cancelled, "It was refused at the other device.") }
                return true
            }
            defer { group.cancelAll() }
            while let accepted = try await group.next() {
                guard accepted else { throw KithError(.denied, "It was refused at the inviting device.") }
            }
        }
        let now = now()
        return try store.pair(
            PairedDevice(
                id: request.device, name: present.name, addresses: present.addresses, grants: invitation.grants,
                pairedAt: now, lastSeen: now),
            invitation: invitation.id, now: now)
    }

    // MARK: - Joining

    /// The joining end of ``Pairing``.
    private func join(_ input: PairingMethods.Join.Input, _ pending: PendingStream<Nothing>) async throws {
        let invitation = try Invitation(text: input.invitation)
        guard invitation.ticket.id != node.id else {
            throw KithError(.invalid, "This device made that invitation itself. Use it on the other one.")
        }
        let remote = try await node.open(
            PairingMethods.Present.self, Nothing(), at: invitation.ticket.id, addresses: invitation.ticket.addresses)
        let stream = remote.opened.stream
        let there = MessageStream(stream, limit: Self.messageLimit)
        let channel = Pairing.Channel(
            inviter: invitation.ticket.id, joiner: node.id,
            exporter: try await remote.exportKeyingMaterial(Pairing.exporterLabel, []))
        let here = MessageStream(try await pending.accept(Nothing()), limit: Self.messageLimit)
        do {
            let device = try await join(invitation, input.grants, channel, here: here, there: there)
            try await stream.finish()
            var info = await Devices.Info(device, node: node)
            info.warnings = try store.overlaps(of: input.grants, to: device.id, called: device.name)
            try await here.send(PairingMethods.JoinEvent.paired(info))
        } catch let error as KithError {
            stream.abort(error.code)
            try await here.send(PairingMethods.JoinEvent.failed(code: error.code, message: error.message))
        } catch {
            stream.abort(.cancelled)
            throw error
        }
    }

    private func join(
        _ invitation: Invitation, _ grants: [Grant], _ channel: Pairing.Channel, here: MessageStream,
        there: MessageStream
    ) async throws -> PairedDevice {
        let joiner = Pairing.Joiner(invitation, channel: channel, name: name(), addresses: addresses())
        try await there.send(PairingMethods.FromJoiner.present(joiner.present))
        guard case .challenge(let challenge) = try await next(there) else { throw Self.disorder }
        guard challenge.name.utf8.count <= 256, challenge.addresses.count <= Ticket.maxAddresses else {
            throw Self.disorder
        }
        let (reveal, code) = try joiner.answer(challenge)
        try await there.send(PairingMethods.FromJoiner.reveal(reveal))
        let name = try store.freeName(like: challenge.name, for: channel.inviter)
        try await here.send(PairingMethods.JoinEvent.compare(code: code, name: name, id: channel.inviter))
        let decision = try await here.receive(PairingMethods.Decision.self)
        let accepts = decision?.accept ?? false
        try await there.send(PairingMethods.FromJoiner.verdict(Pairing.Verdict(accept: accepts)))
        guard accepts else { throw KithError(.cancelled, "Not paired: it was refused at this device.") }
        guard case .verdict(let verdict) = try await next(there), verdict.accept else { throw Self.disorder }

        var known = invitation.ticket.addresses
        known += challenge.addresses.filter { !known.contains($0) }
        let now = now()
        let device = try store.add(
            PairedDevice(
                id: channel.inviter, name: name, addresses: known, relays: invitation.ticket.relays, grants: grants,
                pairedAt: now, lastSeen: now))
        node.paired(device.id)
        return device
    }

    private func next(_ messages: MessageStream) async throws -> PairingMethods.FromInviter {
        switch try await messages.receive(PairingMethods.FromInviter.self) {
        case .refused(let code, let message)?: throw KithError(code, message)
        case let message?: return message
        case nil: throw KithError(.closed, "The other device gave up.")
        }
    }

    private static var disorder: KithError { KithError(.invalid, "The other device left the order of a pairing.") }
}

extension Invitations.Info {
    /// Describes a stored invitation.
    init(_ record: InvitationRecord) {
        self.init(
            id: record.id, grants: record.grants, expiresAt: record.expiresAt, isAutomatic: record.isAutomatic)
    }
}
