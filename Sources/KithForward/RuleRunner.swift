import KithAPI
import KithNode
import KithWire
import Logging
import Synchronization

/// Keeps one rule up: listens here or there, and carries what arrives.
final class RuleRunner: Sendable {
    let rule: Forward.Rule
    private let device: String
    private let client: Client
    private let connector: Connector
    private let room: WindowBudget
    private let options: ForwardService.Options
    private let logger: Logger
    private let traffic = Traffic()
    private let state = Mutex(State())

    private struct State {
        var listening: [Forward.Endpoint] = []
        var open = 0
        var total: UInt64 = 0
        var failed: UInt64 = 0
        var lastFailure: String?
        var here: Listening?
        var there: OpenedStream<Forward.Listen>?
    }

    init(
        _ rule: Forward.Rule, device: String, client: Client, connector: Connector, room: WindowBudget,
        options: ForwardService.Options,
        logger: Logger
    ) {
        self.rule = rule
        self.device = device
        self.client = client
        self.connector = connector
        self.room = room
        self.options = options
        self.logger = logger
    }

    /// The current state of the rule.
    var status: Forward.Status {
        var shown = rule
        if shown.credentials != nil { shown.credentials = "…" }
        return state.withLock { state in
            Forward.Status(
                rule: shown, listening: state.listening, open: state.open, total: state.total, failed: state.failed,
                sent: traffic.sent, received: traffic.received, lastFailure: state.lastFailure)
        }
    }

    /// The rule, with the port that the system has chosen where none was asked for.
    var resolvedRule: Forward.Rule {
        guard rule.listen.port == 0, let port = state.withLock({ $0.listening.first?.port }) else { return rule }
        var resolved = rule
        resolved.listen = rule.listen.with(port: port)
        return resolved
    }

    /// Begins to listen.
    ///
    /// - Throws: why that is not possible, here or there.
    func begin() async throws {
        switch rule.direction {
        case .local:
            if rule.transport == .udp, rule.target == nil {
                throw KithError(.invalid, "A UDP forward leads to one endpoint: give its host and port.")
            }
            let listening = try Listening.open(rule.listen, rule.transport, on: connector.reactor)
            state.withLock { state in
                state.here = listening
                state.listening = listening.endpoints
            }
        case .remote:
            if rule.transport == .udp, rule.target == nil {
                throw KithError(.invalid, "A UDP forward leads to one endpoint: give its host and port.")
            }
            _ = try await listenThere(at: rule.listen)
        }
        try rule.target?.checkAsTarget()
    }

    /// Runs until cancelled.
    func run() async {
        do {
            switch rule.direction {
            case .local: try await runHere()
            case .remote: await runThere()
            }
        } catch is CancellationError {
            // As asked.
        } catch {
            note(failure: error)
        }
        state.withLock { state in
            state.listening = []
            state.here = nil
        }
    }

    /// Runs until cancelled, beginning again as often as that ends: when a port is taken, or the device is away.
    func keepUp() async {
        var pause = Duration.milliseconds(250)
        while !Task.isCancelled {
            let start = options.clock.now
            do {
                if rule.direction == .local, state.withLock({ $0.here == nil }) { try await begin() }
                await run()
            } catch {
                note(failure: error)
            }
            if options.clock.now - start > .seconds(60) { pause = .milliseconds(250) }
            guard (try? await options.clock.sleep(for: pause)) != nil else { return }  // cancelled
            pause = min(pause * 2, .seconds(15))
        }
    }

    // MARK: - This device listens

    private func runHere() async throws {
        guard let listening = state.withLock({ $0.here }) else { return }
        switch listening {
        case .connections(let listeners):
            try await withThrowingTaskGroup(of: Void.self) { group in
                for listener in listeners {
                    group.addTask {
                        try await withThrowingDiscardingTaskGroup { connections in
                            while true {
                                while self.isFull { try await self.options.clock.sleep(for: .milliseconds(10)) }
                                let (connection, _) = try await listener.accept()
                                self.begun()
                                connections.addTask { await self.carried { try await self.serve(connection) } }
                            }
                        }
                    }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        case .datagrams(let sockets):
            let (partners, found) = AsyncStream.makeStream(of: DatagramPartner.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await DatagramListener(sockets).run { found.yield($0) } }
                group.addTask {
                    await withDiscardingTaskGroup { group in
                        for await partner in partners {
                            self.begun()
                            group.addTask { await self.carried { try await self.serve(partner) } }
                        }
                        group.cancelAll()
                    }
                    try Task.checkCancellation()
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
    }

    /// Carries a connection that was made to this device.
    private func serve(_ connection: any ByteStream) async throws {
        guard let target = rule.target else {
            let proxy = ProxySession(
                client: connection, credentials: rule.credentials, open: { try await self.openThere($0) },
                associate: { try await self.associateThere($0) }, reactor: connector.reactor,
                idle: options.datagramIdle, clock: options.clock, traffic: traffic)
            return try await proxy.run()
        }
        let (opening, stream) = try await openThere(target)
        guard let stream else {
            connection.abort(.unreachable)
            throw opening.error
        }
        try await carry(connection, stream)
    }

    private func serve(_ partner: DatagramPartner) async throws {
        defer { partner.close() }
        guard let target = rule.target else { return }
        let stream = try await associateThere(target)
        try await partner.carry(over: stream, idle: options.datagramIdle, on: options.clock, traffic: traffic)
    }

    private func openThere(_ endpoint: Forward.Endpoint) async throws -> (Forward.Opening, (any ByteStream)?) {
        let opened = try await client.open(
            Forward.Connect.self, Forward.Connect.Input(to: endpoint), on: device,
            options: CallOptions(timeout: Connector.patience))
        guard opened.output.outcome == .connected else {
            try? await opened.stream.finish()  // it has ended already
            return (opened.output, nil)
        }
        return (opened.output, ForwardStream(opened.stream.bytes, room: room))
    }

    private func associateThere(_ endpoint: Forward.Endpoint?) async throws -> any ByteStream {
        let idle = UInt32(clamping: max(1, options.datagramIdle.components.seconds))
        let opened = try await client.open(
            Forward.Datagrams.self, Forward.Datagrams.Input(to: endpoint, idleSeconds: idle), on: device,
            options: CallOptions(timeout: Connector.patience))
        guard opened.output.outcome == .connected else { throw opened.output.error }
        return opened.stream.bytes
    }

    // MARK: - The other device listens

    private func listenThere(at endpoint: Forward.Endpoint) async throws -> OpenedStream<Forward.Listen> {
        let opened = try await client.open(
            Forward.Listen.self, Forward.Listen.Input(at: endpoint, transport: rule.transport), on: device,
            options: CallOptions(timeout: Connector.patience))
        state.withLock { state in
            state.there = opened
            state.listening = opened.output.endpoints
        }
        return opened
    }

    private func runThere() async {
        var pause = Duration.milliseconds(250)
        // The port the system there chose stays the same when that device comes back.
        let endpoint = state.withLock { state in
            state.listening.first?.port.map { rule.listen.with(port: $0) } ?? rule.listen
        }
        while !Task.isCancelled {
            do {
                let opened = try await take(orOpenAt: endpoint)
                pause = .milliseconds(250)
                try await follow(opened)
                throw KithError(.closed, "\(device) stopped listening.")
            } catch is CancellationError {
                return
            } catch {
                note(failure: error)
                state.withLock { $0.listening = [] }
            }
            guard (try? await options.clock.sleep(for: pause)) != nil else { return }  // cancelled
            pause = min(pause * 2, .seconds(15))
        }
    }

    private func take(orOpenAt endpoint: Forward.Endpoint) async throws -> OpenedStream<Forward.Listen> {
        let opened = state.withLock { state in
            defer { state.there = nil }
            return state.there
        }
        if let opened { return opened }
        defer { state.withLock { $0.there = nil } }
        return try await listenThere(at: endpoint)
    }

    private func follow(_ opened: OpenedStream<Forward.Listen>) async throws {
        defer { opened.stream.abort(.cancelled) }
        try await withThrowingDiscardingTaskGroup { group in
            for try await arrival in opened.stream.messages {
                while isFull { try await options.clock.sleep(for: .milliseconds(10)) }
                begun()
                group.addTask { await self.carried { try await self.serve(arrival, opened.output.listener) } }
            }
            group.cancelAll()
        }
    }

    /// Carries a connection that was made to the other device.
    private func serve(_ arrival: Forward.Arrival, _ listener: ByteString) async throws {
        func takeUp() async throws -> any ByteStream {
            try await client.open(
                Forward.Accept.self, Forward.Accept.Input(listener: listener, number: arrival.number), on: device,
                options: CallOptions(timeout: Connector.patience)
            ).stream.bytes
        }
        guard let target = rule.target else {
            let proxy = ProxySession(
                client: ForwardStream(try await takeUp(), room: room), credentials: rule.credentials,
                open: { try await self.openHere($0) },
                associate: nil, reactor: connector.reactor, idle: options.datagramIdle, clock: options.clock,
                traffic: traffic)
            return try await proxy.run()
        }
        if rule.transport == .udp {
            let addresses = try await connector.addresses(of: target, permission: OwnersPermission())
            guard let address = addresses.first else { throw KithError(.notFound, "\(target) has no address.") }
            let association = try DatagramAssociation(connector, permission: OwnersPermission(), fixed: [address])
            return try await association.carry(over: try await takeUp(), idle: options.datagramIdle, traffic: traffic)
        }
        let opening: Forward.Opening
        let stream: (any ByteStream)?
        do {
            (opening, stream) = try await openHere(target)
        } catch {
            try? await takeUp().abort(.unreachable)  // else it is reset there a little later
            throw error
        }
        guard let stream else {
            try? await takeUp().abort(.unreachable)  // else it is reset there a little later
            throw opening.error
        }
        do {
            try await carry(ForwardStream(try await takeUp(), room: room), stream)
        } catch {
            stream.abort(.cancelled)
            throw error
        }
    }

    private func openHere(_ endpoint: Forward.Endpoint) async throws -> (Forward.Opening, (any ByteStream)?) {
        let connection = try await connector.connect(to: endpoint, permission: OwnersPermission())
        return (connection.opening, connection.stream)
    }

    // MARK: - Counting

    private func carry(_ near: any ByteStream, _ far: any ByteStream) async throws {
        let traffic = traffic
        do {
            try await splice(near, far) { count, isSent in
                if isSent { traffic.sent(count) } else { traffic.received(count) }
            }
        } catch {
            // It stood, and one end gave up or was lost: that is how connections end, no failure to open one.
            logger.debug("a forwarded connection was cut", metadata: ["rule": "\(rule.listen)", "why": "\(error)"])
        }
    }

    private var isFull: Bool { state.withLock { $0.open >= options.limitPerRule } }

    private func begun() {
        state.withLock { state in
            state.open += 1
            state.total += 1
        }
    }

    private func carried(_ body: () async throws -> Void) async {
        do {
            try await body()
        } catch is CancellationError {
            // As asked.
        } catch {
            state.withLock { $0.failed += 1 }
            note(failure: error)
        }
        state.withLock { $0.open -= 1 }
    }

    private func note(failure error: any Error) {
        let text = (error as? KithError)?.message ?? "\(error)"
        logger.debug("forwarding failed", metadata: ["rule": "\(rule.listen)", "why": "\(text)"])
        state.withLock { $0.lastFailure = text }
    }
}

extension Forward.Opening {
    /// The same as an error, where one is wanted.
    var error: KithError {
        let message = message ?? "The connection could not be opened (\(outcome.rawValue))."
        return switch outcome {
        case .timedOut: KithError(.timedOut, message)
        case .notFound: KithError(.notFound, message)
        default: KithError(.unreachable, message)
        }
    }
}

extension Forward.Endpoint {
    fileprivate func with(port: UInt16) -> Forward.Endpoint {
        switch self {
        case .address(var address):
            address.port = port
            return .address(address)
        case .name(let name, _): return .name(name, port: port)
        case .every: return .every(port: port)
        case .socket: return self
        }
    }
}
