import KithAPI
import KithNode
import KithWire
import Logging
import Synchronization

/// Rules that are kept up together, for a caller that stays or until they are stopped.
final class KeptForward: Sendable {
    let id: UInt64
    private let plan: Forward.Plan
    private let isAttached: Bool
    private let runners: [RuleRunner]
    private let task = Mutex<(task: Task<Void, Never>?, isCancelled: Bool)>((nil, false))

    init(_ id: UInt64, _ plan: Forward.Plan, isAttached: Bool, runners: [RuleRunner]) {
        self.id = id
        self.plan = plan
        self.isAttached = isAttached
        self.runners = runners
    }

    /// How they do.
    var running: Forward.Running {
        Forward.Running(id: id, device: plan.device, isAttached: isAttached, rules: runners.map(\.status))
    }

    /// Begins to listen everywhere, or nowhere.
    func begin() async throws {
        for runner in runners { try await runner.begin() }
    }

    /// Runs until cancelled.
    func run() async {
        let runners = runners
        let running = Task(name: "kith forward") {
            await withDiscardingTaskGroup { group in
                for runner in runners { group.addTask { await runner.run() } }
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
        let connector = try core.connector()
        let runners = plan.rules.map { rule in
            RuleRunner(
                rule, device: plan.device, client: context.client, connector: connector, room: core.room,
                options: options,
                logger: logger)
        }
        let forward = try core.keep { KeptForward($0, plan, isAttached: isAttached, runners: runners) }
        do {
            try await forward.begin()
        } catch {
            _ = core.forget(forward.id)
            throw error
        }
        return forward
    }

    func run(
        _ plan: Forward.Plan, _ context: CallContext, _ pending: PendingStream<Forward.Running>
    ) async throws {
        let forward = try await keep(plan, isAttached: true, context)
        defer { _ = core.forget(forward.id) }
        let stream = try await pending.accept(forward.running)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await forward.run() }
            group.addTask {
                let messages = MessageStream(stream)
                var last = forward.running
                while true {
                    try await Task.sleep(for: .seconds(1))
                    let now = forward.running
                    if now != last { try await messages.send(now) }
                    last = now
                }
            }
            group.addTask {
                // The caller has nothing to say but that it has had enough.
                while try await stream.read(upTo: 4_096) != nil {}
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    func start(_ plan: Forward.Plan, _ context: CallContext) async throws -> Forward.Running {
        let forward = try await keep(plan, isAttached: false, context)
        Task(name: "kith forward") {
            await forward.run()
            _ = core.forget(forward.id)
        }
        return forward.running
    }

    func stop(_ input: Forward.Stop.Input) async throws -> Forward.Running {
        guard let forward = core.forget(input.id) else {
            throw KithError(.notFound, "No forward \(input.id) is up. `kith forward --list` shows them.")
        }
        defer { forward.cancel() }
        return forward.running
    }
}
