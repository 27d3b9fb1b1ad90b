import CKith
import Kith
import KithWire
import Synchronization

/// A device that C holds, with all that runs on it.
final class DeviceObject: Sendable {
    private struct State {
        var work: [kith_handle: Task<Void, Never>] = [:]
        var services: Set<kith_handle> = []
        var running: Task<Void, Never>?
        var hasRun = false
        var isFreed = false
    }

    let device: Device
    private let state = Mutex(State())

    init(_ device: Device) { self.device = device }

    // MARK: - Running

    /// Runs the device; `tell` is called as `kith_running` is.
    func start(_ tell: @escaping @Sendable (Bool, KithError?) -> Void) throws {
        try state.withLock { state throws in
            guard !state.isFreed else { throw Handles.stale }
            guard state.running == nil else { throw KithError(.conflict, "The device \(device.name) runs already.") }
            state.hasRun = true
            state.running = Task(name: "kith_device_start") {
                var failure: KithError?
                do {
                    try await device.run(started: { tell(true, nil) })
                } catch {
                    // Freeing it is no failure.
                    if !Task.isCancelled { failure = told(error) }
                }
                // Before anybody can find that it runs no more, and say that nothing comes after.
                self.state.withLock { state in
                    tell(false, failure)
                    state.running = nil
                }
            }
        }
    }

    /// Tells it to stop, if it runs.
    func stop() {
        if state.withLock({ $0.running != nil }) { device.beginGracefulShutdown() }
    }

    // MARK: - Work

    /// Has `body` run until it is cancelled or the device freed, under the number of `object`.
    ///
    /// `number` is called with that before it begins.
    func work(
        _ object: Work, number: (kith_handle) -> Void, _ body: @escaping @Sendable (kith_handle) async -> Void
    ) throws {
        let handle = try Handles.all.add(object)
        let isTaken = state.withLock { state in
            guard !state.isFreed else { return false }
            number(handle)
            // It cannot take itself away before it is there: that waits for the lock.
            state.work[handle] = Task(name: "kith_call") {
                await body(handle)
                self.state.withLock { $0.work[handle] = nil }
            }
            return true
        }
        guard isTaken else {
            Handles.all.remove(handle, as: Work.self)
            throw Handles.stale
        }
    }

    /// Cancels what has this number.
    func cancel(_ handle: kith_handle) { state.withLock { $0.work[handle] }?.cancel() }

    // MARK: - Services

    func keep(_ service: kith_handle) throws {
        try state.withLock { state throws in
            guard !state.isFreed else { throw Handles.stale }
            state.services.insert(service)
        }
    }

    func forget(_ service: kith_handle) { state.withLock { _ = $0.services.remove(service) } }

    // MARK: - The end

    /// Ends everything; returns when no callback is left to be asked for.
    func free() async {
        let (work, services, running, hasRun) = state.withLock { state in
            state.isFreed = true
            return (Array(state.work.values), state.services, state.running, state.hasRun)
        }
        for task in work { task.cancel() }
        for task in work { await task.value }
        for handle in services {
            guard let service = Handles.all.remove(handle, as: ServiceObject.self) else { continue }
            await device.remove(service.id)
        }
        if let running {
            running.cancel()
            await running.value
        } else if !hasRun {
            // One that never ran still holds its directory and its sockets; what closing them says is of no use any more.
            device.beginGracefulShutdown()
            try? await device.run()
        }
    }
}

/// A call or a stream that C holds.
class Work: @unchecked Sendable {  // nothing changes but a stream's queue, which is behind a lock
    let device: DeviceObject

    init(_ device: DeviceObject) { self.device = device }
}

/// A service that C holds.
final class ServiceObject: Sendable {
    let device: DeviceObject
    let id: ServiceID

    init(_ device: DeviceObject, _ id: ServiceID) {
        self.device = device
        self.id = id
    }
}
