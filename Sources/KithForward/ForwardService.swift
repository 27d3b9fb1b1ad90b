import KithAPI
import KithIO
public import KithNode
package import KithWire
public import Logging
import Synchronization

/// Connections, datagrams and listeners for the devices that hold a `forward` grant, and this device's own forwards.
///
/// Nothing is reachable without a grant, which is checked against what is asked for and against the address it turns out
/// to be; a grant that is taken away ends what relied on it. Each connection is a stream of its own, opened without any
/// other waiting for it, and read no faster than the other end takes it.
public struct ForwardService: Service {
    /// The settings an owner may change.
    public struct Options: Sendable {
        /// The most connections, associations and listeners one device may have here.
        public var limitPerCaller = 1_024
        /// The most connections one of this device's own rules carries at once; more wait in the system's queue.
        public var limitPerRule = 1_024
        /// The time something that arrived at a listener waits to be taken up.
        public var arrivalPatience = Duration.seconds(30)
        /// The time partners of datagrams may be silent.
        public var datagramIdle = Duration.seconds(120)
        /// The clock of its waits and limits.
        package var clock: any Ticker = ContinuousClock()

        /// Makes the default options.
        public init() {}
    }

    let options: Options
    let logger: Logger
    let core: Core
    let storage: ForwardStorage?

    /// Makes the service; without storage it keeps no forward beyond this process.
    public init(options: Options = Options(), storage: ForwardStorage? = nil, logger: Logger) {
        self.init(options: options, storage: storage, logger: logger, resolver: Resolver())
    }

    init(options: Options, storage: ForwardStorage? = nil, logger: Logger, resolver: Resolver) {
        self.options = options
        self.storage = storage
        self.logger = logger
        core = Core(resolver, options.clock)
    }

    /// The handlers of the methods of ``Forward``.
    public var handlers: [Handler] {
        [
            .stream(Forward.Connect.self) { try await connect($0, $1, $2) },
            .stream(Forward.Datagrams.self) { try await datagrams($0, $1, $2) },
            .stream(Forward.Listen.self) { try await listen($0, $1, $2) },
            .stream(Forward.Accept.self) { try await accept($0, $1, $2) },
            .stream(Forward.Run.self) { try await run($0, $1, $2) },
            .call(Forward.Start.self) { try await start($0, $1) },
            .call(Forward.Stop.self) { input, _ in try await stop(input) },
            .call(Forward.List.self) { _, _ in core.list },
        ]
    }

    /// Ends the forwards that were started here and are still up; what other devices do here ends with their calls.
    public func stop() async { core.close() }

    // MARK: - For other devices

    private func connect(
        _ input: Forward.Connect.Input, _ context: CallContext, _ pending: PendingStream<Forward.Connect>
    ) async throws {
        let call = try core.enter(context, Forward.Connect.name, "\(input.to)", limit: options.limitPerCaller)
        defer { core.leave(call) }
        let permission = GrantedPermission(context)
        var connector = try core.connector()
        connector.protection = context.foreignProtection
        let connection = try await connector.connect(
            to: input.to, permission: permission, deadline: context.deadline)
        let stream = try await pending.accept(connection.opening).bytes
        guard let socket = connection.stream else { return try await stream.finish() }
        try await splice(ForwardStream(stream, room: core.room), socket) { count, isSent in
            if isSent { call.traffic.sent(count) } else { call.traffic.received(count) }
        }
    }

    private func datagrams(
        _ input: Forward.Datagrams.Input, _ context: CallContext, _ pending: PendingStream<Forward.Datagrams>
    ) async throws {
        guard (1...3_600).contains(input.idleSeconds) else {
            throw KithError(.invalid, "A UDP forward can be idle for 1 to 3600 seconds, not \(input.idleSeconds).")
        }
        let shown = "udp \(input.to.map(\.description) ?? "to any")"
        let call = try core.enter(context, Forward.Datagrams.name, shown, limit: options.limitPerCaller)
        defer { core.leave(call) }
        let connector = try core.connector()
        let permission = GrantedPermission(context)
        let association: DatagramAssociation
        var opening = Forward.Opening(outcome: .connected)
        if let endpoint = input.to {
            try endpoint.checkAsTarget()
            if case .socket = endpoint { throw KithError(.invalid, "UDP cannot be forwarded to a Unix socket.") }
            let addresses = try await withDeadline(
                context.deadline ?? options.clock.now + Connector.patience, on: options.clock
            ) {
                try await connector.addresses(of: endpoint, permission: permission)
            }
            guard let address = addresses.first else {
                opening = Forward.Opening(outcome: .notFound, message: "\(endpoint) has no address there.")
                return try await pending.accept(opening).finish()
            }
            try permission.check(address, of: endpoint)
            opening.address = .address(address)
            association = try DatagramAssociation(connector, permission: permission, fixed: [address])
        } else {
            association = try DatagramAssociation(
                connector, permission: RoamingPermission(context), fixed: nil)
        }
        let stream = try await pending.accept(opening).bytes
        try await association.carry(over: stream, idle: .seconds(input.idleSeconds), traffic: call.traffic)
    }
}

extension CallContext {
    /// The files the caller may not reach; `nil` for this device's own person.
    var foreignProtection: ProtectedFiles? { caller == .owner ? nil : protection }
}

extension ForwardService {
    /// The state that all calls share.
    final class Core: Sendable {
        private struct State {
            var reactor: Reactor?
            var calls: [UInt64: InboundCall] = [:]
            var listeners: [[UInt8]: DeviceListener] = [:]
            var forwards: [UInt64: KeptForward] = [:]
            var last: UInt64 = 0
            var isClosed = false
        }

        /// Something another device, or this one's person, does here.
        final class InboundCall: Sendable {
            let number: UInt64
            let caller: Caller
            let method: String
            let endpoint: String
            let traffic = Traffic()
            let start = ContinuousClock.now

            init(_ number: UInt64, _ caller: Caller, _ method: String, _ endpoint: String) {
                self.number = number
                self.caller = caller
                self.method = method
                self.endpoint = endpoint
            }

            fileprivate var shown: Forward.Inbound? {
                guard case .device(_, let name, _) = caller else { return nil }
                return Forward.Inbound(
                    device: name, method: method, endpoint: endpoint, sent: traffic.sent, received: traffic.received,
                    seconds: UInt64(max(0, (ContinuousClock.now - start).components.seconds)))
            }
        }

        /// The room that the windows of all connections may grow by.
        let room = WindowBudget()
        private let resolver: Resolver
        private let clock: any Ticker
        private let state = Mutex(State())

        init(_ resolver: Resolver, _ clock: any Ticker) {
            self.resolver = resolver
            self.clock = clock
        }

        /// Opens connections; its thread starts with the first.
        func connector() throws -> Connector {
            try state.withLock { state throws in
                if let reactor = state.reactor { return Connector(reactor: reactor, resolver: resolver, clock: clock) }
                let reactor = try Reactor.forForwarding()
                state.reactor = reactor
                return Connector(reactor: reactor, resolver: resolver, clock: clock)
            }
        }

        /// Counts a call, unless its caller has too many.
        func enter(_ context: CallContext, _ method: String, _ endpoint: String, limit: Int) throws -> InboundCall {
            try state.withLock { state throws in
                if context.caller != .owner {
                    let count = state.calls.values.count { Self.isSame($0.caller, context.caller) }
                    guard count < limit else {
                        throw KithError(
                            .exhausted, "This device carries \(limit) connections for one caller already. Close some.")
                    }
                }
                state.last += 1
                let call = InboundCall(state.last, context.caller, method, endpoint)
                state.calls[call.number] = call
                return call
            }
        }

        func leave(_ call: InboundCall) { state.withLock { _ = $0.calls.removeValue(forKey: call.number) } }

        static func isSame(_ left: Caller, _ right: Caller) -> Bool {
            switch (left, right) {
            case (.owner, .owner): true
            case (.device(let one, _, _), .device(let other, _, _)): one == other
            default: false
            }
        }

        func add(_ listener: DeviceListener) { state.withLock { $0.listeners[listener.token] = listener } }
        func remove(_ listener: DeviceListener) {
            state.withLock { _ = $0.listeners.removeValue(forKey: listener.token) }
        }
        func listener(_ token: [UInt8]) -> DeviceListener? { state.withLock { $0.listeners[token] } }

        /// Keeps a forward, or refuses it when the service is closed.
        func keep(_ make: (UInt64) -> KeptForward) throws -> KeptForward {
            try state.withLock { state throws in
                guard !state.isClosed else { throw KithError(.closed, "This device is stopping.") }
                guard state.forwards.count < 256 else {
                    throw KithError(.exhausted, "256 forwards are up already. `kith forward --list` shows them.")
                }
                state.last += 1
                let forward = make(state.last)
                state.forwards[state.last] = forward
                return forward
            }
        }

        /// The forwards that are to outlive this process, in the order in which they came.
        func withSaved(_ body: ([SavedForward]) throws -> Void) throws {
            // One after the other: what is written last is what is there.
            try state.withLock { state throws in
                try body(state.forwards.values.sorted { $0.id < $1.id }.compactMap(\.saved))
            }
        }

        /// The forwards that were there before this process.
        var restored: [KeptForward] { state.withLock { $0.forwards.values.filter(\.isRestored) } }

        func forget(_ id: UInt64) -> KeptForward? { state.withLock { $0.forwards.removeValue(forKey: id) } }

        func close() {
            let forwards = state.withLock { state in
                state.isClosed = true
                defer { state.forwards = [:] }
                return Array(state.forwards.values)
            }
            for forward in forwards { forward.cancel() }
        }

        var list: Forward.List.Output {
            let (forwards, calls) = state.withLock { (Array($0.forwards.values), Array($0.calls.values)) }
            return Forward.List.Output(
                running: forwards.sorted { $0.id < $1.id }.map(\.running),
                inbound: calls.sorted { $0.number < $1.number }.compactMap(\.shown))
        }
    }
}
