import KithAPI
import KithIdentity
import KithNet
import KithStore
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithNode

/// What those get who do not keep to the rules of a pairing, over real sockets.
@Suite(.timeLimit(.minutes(4))) struct `Pairing over QUIC` {
    @Test func `a joiner that holds its nonce back blocks the invitation for no longer than the limit`() async throws {
        var limits = unhurried
        limits.message = .seconds(3)  // the honest joiner below has to keep it, however busy the machine is
        try await withInviter(limits) { laptop in
            let invitation = try await laptop.invite()
            var events = try await laptop.events()
            let slow = try await Joining(invitation)
            guard case .challenge? = try await slow.present() else {
                Issue.record("no challenge")
                return
            }
            // It says nothing more. The end of the attempt is what its person and the inviting one hear.
            guard case .brokenOff(let attempt)? = try await events.next() else {
                Issue.record("nobody was told")
                return
            }
            #expect(attempt.device == slow.key.id && attempt.reason.contains("did not go on"), "\(attempt)")
            guard case .refused(.timedOut, _)? = try await slow.next() else {
                Issue.record("the joiner was not told")
                return
            }
            let other = try await Joining(invitation)
            #expect(try await other.pair(laptop, &events))
            await slow.close()
            await other.close()
        }
    }

    @Test func `a verdict that is held back ends with the time for it, and so does a person's`() async throws {
        var limits = unhurried
        limits.verdict = .milliseconds(300)
        try await withInviter(limits) { laptop in
            var asked = try await Asked(laptop)
            let (slow, request) = (asked.joining, asked.request)
            // Its person may say yes: the other end's silence ends it all the same.
            do {
                try await laptop.decide(request, true)
            } catch let error as KithError where error.code == .notFound {
                // On a busy machine the time is over by now.
            }
            guard case .ended(_, let reason)? = try await asked.events.next() else {
                Issue.record("nobody was told")
                return
            }
            #expect(reason.contains("in time") && reason.contains("tried twice more"), "\(reason)")
            #expect(try laptop.store.devices().isEmpty)
            await slow.close()
        }
    }

    @Test func `an invitation belongs to the first key that proves it, and the second is seen`() async throws {
        try await withInviter { laptop in
            var asked = try await Asked(laptop)
            let (first, request) = (asked.joining, asked.request)
            #expect(request.code == asked.code)
            let second = try await Joining(asked.invitation)
            guard case .refused(.conflict, _)? = try await second.present() else {
                Issue.record("two keys at once")
                return
            }
            guard case .brokenOff(let attempt)? = try await asked.events.next() else {
                Issue.record("nobody was told of the second key")
                return
            }
            #expect(attempt.device == second.key.id)
            // It has cost the first key nothing, nor the invitation an attempt.
            #expect(try laptop.store.invitations(now: 0).map(\.attemptsLeft) == [2])
            try await first.agree()
            try await laptop.decide(request, true)
            guard case .verdict(let verdict)? = try await first.next(), verdict.accept else {
                Issue.record("the first key was not paired")
                return
            }
            #expect(try laptop.store.devices().map(\.id) == [first.key.id])
            await first.close()
            await second.close()
        }
    }

    @Test func `an invitation that is taken back ends the attempt by it at both ends`() async throws {
        try await withInviter { laptop in
            var asked = try await Asked(laptop)
            let (joining, request) = (asked.joining, asked.request)
            try await joining.agree()
            _ = try await laptop.node.client.call(
                Invitations.Revoke.self, Invitations.Revoke.Input(id: asked.invitation.id))
            guard case .ended(request, let reason)? = try await asked.events.next() else {
                Issue.record("nobody was told")
                return
            }
            #expect(reason.contains("taken back"))
            guard case .refused(.denied, _)? = try await joining.next() else {
                Issue.record("the joiner was not told")
                return
            }
            await #expect(throws: KithError(.notFound, "")) { try await laptop.decide(request, true) }
            #expect(try laptop.store.devices().isEmpty)
            await joining.close()
        }
    }

    @Test func `a no at the inviting end uses the invitation up`() async throws {
        try await withInviter { laptop in
            let asked = try await Asked(laptop)
            let (joining, request) = (asked.joining, asked.request)
            try await laptop.decide(request, false)
            guard case .refused(.denied, let message)? = try await joining.next() else {
                Issue.record("the joiner was not told")
                return
            }
            #expect(message.contains("refused at the inviting device") && message.contains("ask for a new one"))
            let again = try await Joining(asked.invitation)
            guard case .refused(.unpaired, _)? = try await again.present() else {
                Issue.record("it can be tried again")
                return
            }
            await joining.close()
            await again.close()
        }
    }

    @Test func `a joiner that goes away after its yes is heard before this end has answered`() async throws {
        try await withInviter { laptop in
            var asked = try await Asked(laptop)
            let (joining, request) = (asked.joining, asked.request)
            try await joining.agree()
            joining.messages.abort(.cancelled)
            guard case .ended(request, let reason)? = try await asked.events.next() else {
                Issue.record("nobody was told")
                return
            }
            #expect(reason.contains("gave up"))
            await #expect(throws: KithError(.notFound, "")) { try await laptop.decide(request, true) }
            // Whoever broke off lets others go first.
            guard case .refused(.exhausted, _)? = try await joining.again().present() else {
                Issue.record("it was let in again at once")
                return
            }
            let other = try await Joining(asked.invitation)
            #expect(try await other.pair(laptop, &asked.events))
            await joining.close()
            await other.close()
        }
    }

    @Test func `wrong proofs cost the invitation nothing, and the one who tries them soon its turn`() async throws {
        try await withInviter { laptop in
            let invitation = try await laptop.invite()
            // Of the same device, but with another secret.
            let wrong = Invitation(ticket: invitation.ticket, name: invitation.name, expiresAt: invitation.expiresAt)
            let guessing = try await Joining(invitation)
            var answers: [KithError.Code] = []
            for _ in 0..<10 {
                let attempt = try await guessing.again(with: wrong, naming: invitation.id)
                if case .refused(let code, _)? = try await attempt.present() { answers.append(code) }
                attempt.messages.abort(.cancelled)
            }
            #expect(answers.count == 10 && answers.first == .unpaired && answers.last == .exhausted, "\(answers)")
            #expect(try laptop.store.invitations(now: 0).map(\.attemptsLeft) == [3])
            var events = try await laptop.events()
            let good = try await Joining(invitation)
            #expect(try await good.pair(laptop, &events))
            await guessing.close()
            await good.close()
        }
    }

    @Test func `a count of attempts that no device can have made ends the pairing`() async throws {
        for count in [-1, 1_001, Int.max, Int.min] {
            let fake = try await Fake(counting: count)
            try await withInviter { phone in
                let join = try await phone.node.client.open(
                    PairingMethods.Join.self, PairingMethods.Join.Input(invitation: fake.invitation.text, grants: []))
                guard
                    case .failed(.invalid, _)? = try await join.stream.receive()
                else {
                    Issue.record("\(count) was taken for a number of attempts")
                    return
                }
            }
            #expect(fake.revealed.value == 0)
            await fake.close()
        }
    }

    @Test func `a fake inviter that looks for a code is seen each time, and gets three`() async throws {
        let fake = try await Fake()
        try await withInviter { phone in
            var shown: Set<String> = []
            var endings: [String] = []
            for _ in 0..<5 {
                let join = try await phone.node.client.open(
                    PairingMethods.Join.self, PairingMethods.Join.Input(invitation: fake.invitation.text, grants: []))
                let messages = join.stream
                while let event = try await messages.receive() {
                    switch event {
                    case .compare(let code, _, _, _): shown.insert(code)
                    case .failed(_, let message): endings.append(message)
                    case .paired: Issue.record("paired with nobody")
                    }
                }
            }
            #expect(endings.count == 5)
            for (number, ending) in endings.prefix(3).enumerated() {
                #expect(ending.contains("broke off after the code was shown, attempt \(number + 1) of 3"), "\(ending)")
            }
            for ending in endings.dropFirst(3) { #expect(ending.contains("came to nothing"), "\(ending)") }
            // Each code that it learned was on the screen, and there was no fourth.
            #expect(fake.revealed.value == 3 && shown.count == 3)
        }
        await fake.close()
    }
}

// MARK: - The parts

/// A device that makes invitations, without a person's door.
private struct Inviter {
    let folder: TemporaryFolder
    let store: Store
    let endpoint: Endpoint
    let node: Node
    let pairing: PairingService

    init(_ limits: PairingService.Limits) async throws {
        let key = DeviceKey()
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
        let endpoint = try await Endpoint.bind(key: key, logger: .quiet)
        self.endpoint = endpoint
        var options = Node.Options()
        options.unpairedIdle = .seconds(600)
        options.unpairedLifetime = .seconds(600)
        node = Node(id: key.id, store: store, options: options, logger: .quiet)
        pairing = PairingService(
            node: node, store: store, limits: limits, name: { "laptop" }, addresses: { endpoint.localAddresses },
            now: { 1_000 })
        try node.add(pairing)
    }

    func invite() async throws -> Invitation {
        let made = try await node.client.call(
            Invitations.Create.self,
            Invitations.Create.Input(grants: [.shell], lifetimeSeconds: 604_800, isAutomatic: false))
        return try Invitation(text: made.text)
    }

    /// What its person sees from now on.
    func events() async throws -> Events {
        Events(messages: try await node.client.open(PairingMethods.Watch.self, Nothing()).stream)
    }

    struct Events {
        let messages: MethodStream<PairingMethods.Event, Nothing>
        mutating func next() async throws -> PairingMethods.Event? {
            try await messages.receive()
        }
    }

    func decide(_ request: PairingMethods.Request, _ accept: Bool) async throws {
        _ = try await node.client.call(
            PairingMethods.Decide.self, PairingMethods.Decide.Input(id: request.id, accept: accept))
    }
}

/// Limits that no machine is too busy for.
private let unhurried: PairingService.Limits = {
    var limits = PairingService.Limits()
    limits.message = .seconds(200)
    limits.presentations.perKey.interval = .seconds(600)
    limits.presentations.pause = .seconds(600)
    return limits
}()

private func withInviter(
    _ limits: PairingService.Limits = unhurried, _ body: (Inviter) async throws -> Void
) async throws {
    let inviter = try await Inviter(limits)
    let serving = Task { await inviter.node.serve(inviter.endpoint) }
    while !inviter.node.isOnNetwork { await Task.yield() }
    do {
        try await body(inviter)
    } catch {
        Issue.record(error)
    }
    inviter.pairing.close()
    serving.cancel()
    await serving.value
    await inviter.endpoint.shutdown()
    inviter.store.close()
}

/// A joiner that has gone as far as the code, and the question whether it is to be paired.
private struct Asked {
    let invitation: Invitation
    var events: Inviter.Events
    let joining: Joining
    let code: String
    let request: PairingMethods.Request

    init(_ laptop: Inviter) async throws {
        invitation = try await laptop.invite()
        events = try await laptop.events()
        joining = try await Joining(invitation)
        code = try await joining.reveal()
        guard case .requested(let request)? = try await events.next() else {
            throw KithError(.closed, "Nobody was asked.")
        }
        self.request = request
    }
}

/// A joiner that does what a test says.
private struct Joining {
    let key: DeviceKey
    let endpoint: Endpoint
    let connection: Connection
    let messages: MethodStream<PairingMethods.FromInviter, PairingMethods.FromJoiner>
    private let joiner: Pairing.Joiner
    private let name: String?

    init(_ invitation: Invitation) async throws {
        let key = DeviceKey()
        let endpoint = try await Endpoint.bind(key: key, logger: .quiet)
        let connection = try await endpoint.connect(to: invitation.ticket.id, at: invitation.ticket.addresses)
        try await self.init(invitation, key, endpoint, connection, naming: nil)
    }

    private init(
        _ invitation: Invitation, _ key: DeviceKey, _ endpoint: Endpoint, _ connection: Connection, naming name: String?
    ) async throws {
        (self.key, self.endpoint, self.connection, self.name) = (key, endpoint, connection, name)
        let header = StreamHeader(method: PairingMethods.Present.name, input: try CBOREncoder().encode(Nothing()))
        let opened = try await HeaderExchange.request(header, over: try await connection.openStream(), isCall: false)
        messages = MethodStream(opened.stream)
        let exporter = try await connection.exportKeyingMaterial(label: Pairing.exporterLabel, context: [], count: 32)
        joiner = Pairing.Joiner(
            invitation,
            channel: Pairing.Channel(inviter: invitation.ticket.id, joiner: key.id, exporter: exporter), name: "phone",
            addresses: [])
        self.invitation = invitation
    }

    private let invitation: Invitation

    /// The same key on another stream.
    func again(with other: Invitation? = nil, naming name: String? = nil) async throws -> Joining {
        while true {
            do {
                return try await Joining(other ?? invitation, key, endpoint, connection, naming: name)
            } catch let error as KithError where error.code == .exhausted {
                await Task.yield()  // the call before is still being ended
            }
        }
    }

    func present() async throws -> PairingMethods.FromInviter? {
        var present = joiner.present
        if let name { present.invitation = name }
        try await messages.send(PairingMethods.FromJoiner.present(present))
        return try await next()
    }

    /// Goes as far as the code.
    func reveal() async throws -> String {
        guard case .challenge(let challenge)? = try await present() else {
            throw KithError(.closed, "There was no challenge.")
        }
        let (reveal, code) = try joiner.answer(challenge)
        try await messages.send(PairingMethods.FromJoiner.reveal(reveal))
        return code
    }

    func agree() async throws {
        try await messages.send(PairingMethods.FromJoiner.verdict(Pairing.Verdict(accept: true)))
    }

    func next() async throws -> PairingMethods.FromInviter? {
        try await messages.receive()
    }

    /// Pairs as an honest device does; whether it did.
    func pair(_ inviter: Inviter, _ events: inout Inviter.Events) async throws -> Bool {
        let code = try await reveal()
        guard case .requested(let request)? = try await events.next(), request.code == code else { return false }
        try await agree()
        try await inviter.decide(request, true)
        guard case .verdict(let verdict)? = try await next() else { return false }
        return verdict.accept
    }

    func close() async { await endpoint.shutdown() }
}

/// An inviter that hangs up when it has the joiner's nonce.
private final class Fake: Service {
    let invitation: Invitation
    let revealed = Locked(0)
    private let endpoint: Endpoint
    private let node: Node
    private let store: Store
    private let folder: TemporaryFolder
    private let challenge: WireChallenge
    private let serving = Mutex<Task<Void, Never>?>(nil)

    /// `count` is what it says of earlier attempts; `nil`: nothing, as a device of before.
    init(counting count: Int? = nil) async throws {
        challenge = WireChallenge(
            nonce: ByteString([UInt8](repeating: 7, count: 16)), name: "laptop",
            attempts: count.map { Pairing.Attempts(earlier: $0, byOthers: $0, left: $0) })
        let key = DeviceKey()
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
        endpoint = try await Endpoint.bind(key: key, logger: .quiet)
        var options = Node.Options()
        options.unpairedIdle = .seconds(600)
        options.unpairedLifetime = .seconds(600)
        node = Node(id: key.id, store: store, options: options, logger: .quiet)
        invitation = Invitation(
            ticket: Ticket(id: key.id, addresses: endpoint.localAddresses), name: "laptop", expiresAt: 2_000_000_000)
        try node.add(self)
        let (node, endpoint) = (node, endpoint)
        serving.withLock { $0 = Task { await node.serve(endpoint) } }
    }

    var handlers: [Handler] {
        [
            .stream(PairingMethods.Present.self) { [revealed, challenge] _, _, pending in
                let stream = try await pending.accept()
                let messages = stream
                _ = try await messages.receive()
                try await messages.send(
                    PairingMethods.FromInviter.challenge(
                        try CBORDecoder().decode(Pairing.Challenge.self, from: CBOREncoder().encode(challenge))))
                if case .reveal? = try await messages.receive() {
                    revealed.set(revealed.value + 1)
                }
                stream.abort(.cancelled)
            }
        ]
    }

    /// A challenge as on the wire; without `attempts`, that of a device built before they were counted.
    private struct WireChallenge: Encodable {
        var nonce: ByteString
        var name: String
        var addresses: [NetworkAddress] = []
        var attempts: Pairing.Attempts?
    }

    func close() async {
        let task = serving.withLock { $0 }
        task?.cancel()
        await task?.value
        await endpoint.shutdown()
        store.close()
    }
}
