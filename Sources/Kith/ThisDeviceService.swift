import KithAPI
import KithNode

/// What a device says of itself, and how it is told to stop.
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
