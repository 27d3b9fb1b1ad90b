import KithAPI
import KithIO
import KithWire
import Logging
import Synchronization

/// A service that was added, so that it can be removed.
public struct ServiceID: Hashable, Sendable {
    private static let last = Atomic<UInt64>(0)
    private let number: UInt64

    /// Makes an id that nothing else in this process has.
    package init() { number = Self.last.wrappingAdd(1, ordering: .relaxed).newValue }
}

/// A service of a node, and what runs of it.
struct AddedService: Sendable {
    let id: ServiceID
    let service: any Service
    /// Its path is that of no other service of the node.
    let info: ServiceInfo
    let topic: TopicPath
    let calls: ServiceCalls
    /// Milliseconds since 1970.
    let addedAt: Int64
    /// Those of its handlers that react to events.
    var listeners: [EventListener] = []
}

/// The state of one service and the calls of it that run, so that its removal ends them.
final class ServiceCalls: Sendable {
    private struct Content {
        var state = ServiceState.created
        var ended: KithError?
        let idle = AsyncEvent()
        /// Of the present start.
        var start: (task: Task<Void, Never>?, done: AsyncEvent)?
        /// When it ran last: milliseconds since 1970.
        var startedAt: Int64?
    }

    /// The path of the service.
    let name: String
    /// What it logs to, with its path among the metadata.
    let logger: Logger
    private let content = Mutex(Content())
    private let running = RunningCalls(.waiting)
    private let isEnding = Atomic(false)

    /// Begins with a service that was just added.
    init(name: String, logger: Logger) {
        self.name = name
        self.logger = logger
    }

    /// The state of the service.
    var state: ServiceState { content.withLock { $0.state } }

    /// True when it answers, or will as soon as it has started.
    var isAvailable: Bool { running.mayBegin }

    /// The time at which it ran last, in milliseconds since 1970.
    var startedAt: Int64? { content.withLock { $0.startedAt } }

    /// Puts a call among those that a removal ends; ``leave(_:)`` follows.
    ///
    /// - Returns: whether it may go on at once; else it first waits for ``ready()``.
    /// - Throws: why there are no calls now.
    func enter(_ scope: CallScope) throws(KithError) -> Bool { try running.enter(scope) }

    /// Waits until the service has started.
    ///
    /// - Throws: why it has not.
    func ready() async throws {
        while true {
            let (state, ended, start) = content.withLock { ($0.state, $0.ended, $0.start?.done) }
            if let ended { throw ended }
            if let refusal = refusal(in: state) { throw refusal }
            guard state != .running, let start else { return }
            guard await start.wait() else { throw CancellationError() }
        }
    }

    private func refusal(in state: ServiceState) -> KithError? {
        switch state {
        case .created, .starting, .running: nil
        case .paused:
            KithError(
                .unreachable, "The service \(name) is paused. Try again when it is resumed.",
                detail: KithError.Detail("service.paused"))
        case .stopping, .stopped: KithError(.closed, "The service \(name) is stopped.")
        case .failed(let reason): KithError(.unreachable, "The service \(name) did not start: \(reason)")
        @unknown default: nil
        }
    }

    /// A call is over.
    func leave(_ scope: CallScope) {
        running.leave(scope)
        if isEnding.load(ordering: .sequentiallyConsistent), running.isEmpty {
            content.withLock { $0.idle }.happen()
        }
    }

    /// Calls off everything, and whatever would begin later.
    func end(_ reason: KithError) {
        let idle = change { content in
            content.ended = reason
            return content.idle
        }
        // Before the calls are counted: the last one that leaves afterwards says so.
        isEnding.store(true, ordering: .sequentiallyConsistent)
        let scopes = running.all
        if scopes.isEmpty { idle.happen() }
        for scope in scopes { scope.cancel(reason) }
    }

    /// Waits until, after ``end(_:)``, no call runs.
    func waitUntilIdle() async { await content.withLock { $0.idle }.wait() }

    // MARK: - Changes of state

    /// Changes the state, and what calls that would begin are told.
    private func change<Result: Sendable>(_ body: (inout Content) -> Result) -> Result {
        content.withLock { content in
            defer {
                if let reason = content.ended ?? refusal(in: content.state) {
                    running.set(.closed(reason))
                } else {
                    running.set(content.state == .running ? .open : .waiting)
                }
            }
            return body(&content)
        }
    }

    /// Begins a start, unless the service runs, or is about to.
    ///
    /// - Returns: whether it is to be started; ``finishStart(_:at:)`` follows then.
    func beginStart() -> Bool {
        change { content in
            switch content.state {
            case .created, .stopped, .failed: break
            default: return false
            }
            guard content.ended == nil else { return false }
            content.state = .starting
            content.start = (nil, AsyncEvent())
            return true
        }
    }

    /// Keeps the task of a start, to be cancelled by a stop.
    func keep(_ task: Task<Void, Never>) { content.withLock { $0.start?.task = task } }

    /// Ends a start, with the reason for which it failed, if it did.
    ///
    /// - Returns: the new state; `nil` when the service is being stopped already.
    func finishStart(_ failure: String?, at time: Int64) -> ServiceState? {
        let (state, done) = change { content -> (ServiceState?, AsyncEvent?) in
            let done = content.start?.done
            content.start = nil
            guard content.state == .starting else { return (nil, done) }
            content.state = failure.map { .failed($0) } ?? .running
            if failure == nil { content.startedAt = time }
            return (content.state, done)
        }
        done?.happen()
        return state
    }

    /// Changes from one state to another; false when the service is in neither.
    ///
    /// - Throws: `KithError` `.conflict` when it is in another state than those.
    func change(from old: ServiceState, to new: ServiceState) throws(KithError) -> Bool {
        let present = change { content -> ServiceState in
            let present = content.state
            if present == old { content.state = new }
            return present
        }
        if present == new { return false }
        guard present == old else {
            throw KithError(.conflict, "The service \(name) is \(present), not \(old).")
        }
        return true
    }

    /// Begins to stop; cancels a start that runs, and waits for it.
    ///
    /// - Returns: false when it was never started, or is stopped already.
    func beginStop() async -> Bool {
        let (isDue, task) = change { content -> (Bool, Task<Void, Never>?) in
            switch content.state {
            case .created, .stopping, .stopped: return (false, nil)
            default: break
            }
            content.state = .stopping
            return (true, content.start?.task)
        }
        task?.cancel()
        await task?.value
        return isDue
    }

    /// Ends a stop.
    func finishStop() { change { $0.state = .stopped } }
}
