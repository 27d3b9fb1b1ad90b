public import KithAPI
import KithIdentity
import KithNode
import KithWire
import Logging
import Synchronization

/// Rules that are kept up together, for a caller that stays or until they are stopped.
final class KeptForward: Sendable {
    let id: UInt64
    private let plan: Forward.Plan
    private let isAttached: Bool
    private let kept: SavedForward?
    /// True when it was there before this process.
    let isRestored: Bool
    private let runners: [RuleRunner]
    private let task = Mutex<(task: Task<Void, Never>?, isCancelled: Bool)>((nil, false))

    init(
        _ id: UInt64, _ plan: Forward.Plan, isAttached: Bool, saved: SavedForward? = nil, isRestored: Bool = false,
        runners: [RuleRunner]
    ) {
        self.id = id
        self.plan = plan
        self.isAttached = isAttached
        kept = saved
        self.isRestored = isRestored
        self.runners = runners
    }

    /// As it is written down, when it is to outlive this process.
    var saved: SavedForward? {
        guard var saved = kept else { return nil }
        saved.rules = runners.map(\.resolvedRule)
        return saved
    }

    /// The rules and their current state.
    var running: Forward.Running {
        Forward.Running(
            id: id, device: plan.device, isAttached: isAttached, isKept: kept == nil ? nil : true,
            rules: runners.map(\.status))
    }

    /// Begins to listen everywhere, or nowhere.
    func begin() async throws {
        for runner in runners { try await runner.begin() }
    }

    /// Runs until cancelled.
    func run() async {
        let (runners, isKept) = (runners, kept != nil)
        let running = Task(name: "kith forward") {
            await withDiscardingTaskGroup { group in
                for runner in runners { group.addTask { isKept ? await runner.keepUp() : await runner.run() } }
            }
        }
        let isCancelled = task.withLock { task in
            task.task = running
            return task.isCancelled
        }
        if isCancelled { running.cancel() }
        await withTaskCancellationHandler {
            await running.value
        } onCancel: {
            running.cancel()
        }
    }

    /// Ends them, with every connection.
    func cancel() {
        let running = task.withLock { task in
            task.isCancelled = true
            return task.task
        }
        running?.cancel()
    }
}

extension ForwardService {
    private func keep(_ plan: Forward.Plan, isAttached: Bool, _ context: CallContext) async throws -> KeptForward {
        guard (1...64).contains(plan.rules.count) else {
            throw KithError(.invalid, "A forward has 1 to 64 rules.")
        }
        let saved = plan.isKept == true && !isAttached ? try saved(plan) : nil
        try await refuseDenied(plan, context.client)
        let runners = try runners(of: plan.rules, to: saved?.device ?? plan.device, context.client)
        let forward = try core.keep { KeptForward($0, plan, isAttached: isAttached, saved: saved, runners: runners) }
        do {
            try await forward.begin()
            if saved != nil { try core.withSaved { try storage?.save($0) } }
        } catch {
            _ = core.forget(forward.id)
            forward.cancel()
            throw error
        }
        return forward
    }

    private func runners(of rules: [Forward.Rule], to device: String, _ client: Client) throws -> [RuleRunner] {
        let connector = try core.connector()
        return rules.map { rule in
            RuleRunner(
                rule, device: device, client: client, connector: connector, room: core.room, options: options,
                logger: logger)
        }
    }

    private func saved(_ plan: Forward.Plan) throws -> SavedForward {
        guard let storage else { throw KithError(.unsupported, "This device keeps no forwards beyond its end.") }
        guard plan.rules.allSatisfy({ $0.credentials == nil }) else {
            throw KithError(.invalid, "A proxy with a password is not kept beyond the end of this device.")
        }
        let (id, name) = try storage.resolve(plan.device)
        return SavedForward(device: id, name: name, rules: plan.rules)
    }

    /// Refuses what the other device is known not to allow, before anybody connects.
    ///
    /// One that does not answer, or is too old to say, is taken for one that will.
    private func refuseDenied(_ plan: Forward.Plan, _ client: Client) async throws {
        let rules = plan.rules.filter { $0.direction == .local }
        guard !rules.isEmpty else { return }
        let grants: [Grant]
        do {
            grants = try await client.call(
                Reach.Standing.self, Reach.Standing.Input(), on: plan.device, options: CallOptions(timeout: .seconds(3))
            ).grants
        } catch let error as KithError {
            switch error.code {
            case .unreachable, .timedOut, .closed, .unsupported: return
            default: throw error
            }
        }
        for rule in rules where !grants.mightForward(to: rule.target) {
            let grant = rule.target.map { "forward:to=\($0)" } ?? "forward"
            throw KithError(
                .denied,
                "This needs the grant \(grant). On the other device: "
                    + "kith grant \(storage?.own ?? "DEVICE") --add \(grant)")
        }
    }

    /// Takes up the forwards that were to outlive the process before this one; ``runRestored()`` begins them.
    ///
    /// What cannot be read is left as it is, and logged.
    public func restore(client: Client) {
        do {
            for saved in try storage?.forwards() ?? [] {
                let plan = Forward.Plan(device: saved.name, rules: saved.rules, isKept: true)
                let runners = try runners(of: saved.rules, to: saved.device, client)
                _ = try core.keep {
                    KeptForward($0, plan, isAttached: false, saved: saved, isRestored: true, runners: runners)
                }
            }
        } catch {
            logger.error("the forwards that are kept are not up", metadata: ["why": "\(error)"])
        }
    }

    /// Keeps up the forwards that were taken up, until they are stopped.
    public func runRestored() {
        for forward in core.restored { run(forward) }
    }

    private func run(_ forward: KeptForward) {
        Task(name: "kith forward") {
            await forward.run()
            _ = core.forget(forward.id)
        }
    }

    func run(
        _ plan: Forward.Plan, _ context: CallContext, _ pending: PendingStream<Forward.Run>
    ) async throws {
        let forward = try await keep(plan, isAttached: true, context)
        defer { _ = core.forget(forward.id) }
        let stream = try await pending.accept(forward.running)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await forward.run() }
            group.addTask {
                var last = forward.running
                while true {
                    try await self.options.clock.sleep(for: .seconds(1))
                    let now = forward.running
                    if now != last { try await stream.send(now) }
                    last = now
                }
            }
            group.addTask {
                // The caller has nothing to say but that it has had enough.
                try await stream.end()
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    func start(_ plan: Forward.Plan, _ context: CallContext) async throws -> Forward.Running {
        let forward = try await keep(plan, isAttached: false, context)
        run(forward)
        return forward.running
    }

    func stop(_ input: Forward.Stop.Input) async throws -> Forward.Running {
        guard let forward = core.forget(input.id) else {
            throw KithError(.notFound, "No forward \(input.id) is up. `kith forward --list` shows them.")
        }
        defer { forward.cancel() }
        if forward.saved != nil { try core.withSaved { try storage?.save($0) } }
        return forward.running
    }
}

extension Sequence<Grant> {
    /// Tells whether a connection to an endpoint could be allowed; `nil` stands for a proxy, which has no fixed place.
    fileprivate func mightForward(to endpoint: Forward.Endpoint?) -> Bool {
        switch endpoint {
        case .address(let address): allowForwarding(to: address, name: nil, isOwn: address.isLoopback)
        case .name(let name, let port): mightAllowForwarding(toName: name, port: port)
        case .socket(let path): allowForwarding(toSocket: path)
        case .every: true
        case nil: contains { $0.kind == .forward }
        }
    }
}
