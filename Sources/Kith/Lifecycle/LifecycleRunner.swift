import KithIO
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// Starts and stops a device as its app comes and goes.
///
/// The device stays one object: in the background it has no socket, no thread and no task; in the foreground it is the
/// same device, with the same services, and reaches the devices again that were connected. The platform's word is an
/// asynchronous sequence of events; a test's is one it makes itself.
///
/// ```swift
/// let (events, platform) = AsyncStream.makeStream(of: LifecycleEvent.self)
/// let runner = LifecycleRunner(device)
/// async let ended: Void = runner.run(events)
/// platform.yield(.background)
/// ```
public final class LifecycleRunner: Sendable {
    /// The options of a runner.
    public struct Options: Sendable {
        /// The times it goes by.
        public var limits = LifecycleMachine.Limits()
        /// False when the app begins in the background.
        public var isInForeground = true

        /// The defaults.
        public init() {}
    }

    private enum Input: Sendable {
        case event(LifecycleEvent)
        case started
        case ended((any Error)?)
        case deadline
    }

    private struct State {
        var machine: LifecycleMachine
        var failure: (any Error)?
        var running: Task<Void, Never>?
        var timer: TimerQueue.Ticket?
        /// The devices that were connected when this one was told to stop, or lost its network.
        var peers: Set<DeviceID> = []
    }

    private let device: Device
    private let options: Options
    private let clock: any Ticker
    private let timers: TimerQueue
    private let state: Mutex<State>

    /// Makes the runner of a device that does not run yet; nobody else runs it meanwhile.
    public convenience init(_ device: Device, options: Options = Options()) {
        self.init(device, options: options, clock: ContinuousClock())
    }

    package init(_ device: Device, options: Options, clock: any Ticker) {
        self.device = device
        self.options = options
        self.clock = clock
        timers = TimerQueue(on: clock)
        state = Mutex(State(machine: LifecycleMachine(limits: options.limits)))
    }

    /// The state of the device.
    public var deviceState: LifecycleMachine.State { state.withLock { $0.machine.state } }

    /// The reason the device could not start, or ended by itself, while that is so.
    public var failure: (any Error)? { state.withLock { $0.failure } }

    /// Does what the events ask for; returns when the app has ended, the events have, or the task is cancelled.
    ///
    /// The device has stopped then.
    public func run<Events: AsyncSequence & Sendable>(_ events: Events) async
    where Events.Element == LifecycleEvent, Events.Failure == Never {
        // Bounded by the platform, which says little, and by one answer to each thing that was begun.
        let (inputs, mailbox) = AsyncStream.makeStream(of: Input.self)
        let listener = Task(name: "kith lifecycle events") {
            for await event in events { mailbox.yield(.event(event)) }
            mailbox.yield(.event(.terminate))
        }
        await withTaskCancellationHandler {
            if options.isInForeground { mailbox.yield(.event(.foreground)) }
            for await input in inputs {
                for action in take(input) { perform(action, mailbox) }
                schedule(mailbox)
            }
        } onCancel: {
            mailbox.finish()
        }
        listener.cancel()
        timers.removeAll()
        let running = state.withLock { $0.running }
        running?.cancel()
        await running?.value
        await listener.value
    }

    private func take(_ input: Input) -> [LifecycleMachine.Action] {
        let now = clock.now
        return state.withLock { state in
            switch input {
            case .event(let event): return state.machine.received(event, at: now)
            case .started:
                state.failure = nil
                return state.machine.started(at: now)
            case .ended(let failure):
                state.failure = failure
                state.running = nil
                return state.machine.ended(at: now, jitter: .random(in: 0...1))
            case .deadline: return state.machine.timedOut(at: now)
            }
        }
    }

    private func schedule(_ mailbox: AsyncStream<Input>.Continuation) {
        state.withLock { state in
            if let timer = state.timer { timers.cancel(timer) }
            state.timer = state.machine.nextDeadline.map { time in
                timers.schedule(at: time) { mailbox.yield(.deadline) }
            }
        }
    }

    private func perform(_ action: LifecycleMachine.Action, _ mailbox: AsyncStream<Input>.Continuation) {
        switch action {
        case .start:
            let peers = state.withLock { state in
                defer { state.peers = [] }
                return state.peers
            }
            let running = Task(name: "kith lifecycle") { [device] in
                do {
                    try await device.run(reaching: peers) { mailbox.yield(.started) }
                    mailbox.yield(.ended(nil))
                } catch {
                    mailbox.yield(.ended(error))
                }
            }
            state.withLock { $0.running = running }
        case .drain:
            notePeers()
            device.beginGracefulShutdown()
        case .cancel: state.withLock { $0.running }?.cancel()
        case .shrinkCaches: device.shrinkCaches()
        case .reduce: device.reduceActivity(true)
        case .resume: device.reduceActivity(false)
        case .suspendNetwork: device.networkChanged(isReachable: false)
        case .resumeNetwork: device.networkChanged(isReachable: true)
        case .finish: mailbox.finish()
        }
    }

    /// Remembers who is connected, beside those that were not reached again since the last time.
    private func notePeers() {
        let online = device.onlineDevices
        state.withLock { $0.peers.formUnion(online) }
    }
}
