import KithAPI
import KithNode

/// The device's description of itself, and its stop, as a service.
struct ThisDeviceService: Service {
    let status: @Sendable () throws -> ThisDevice.Status.Output
    let stop: @Sendable () -> Void

    var handlers: [Handler] {
        [
            .call(ThisDevice.Status.self) { _, _ in try status() },
            .call(ThisDevice.Stop.self) { _, _ in
                stop()
                return Nothing()
            },
        ]
    }
}
