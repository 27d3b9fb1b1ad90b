import KithIdentity
import KithWire

/// How often each device may begin a session, and have a person asked about one.
///
/// A session that goes on after its connection was lost is not a new one. Whoever was refused, or got no answer, waits
/// before a person is disturbed again: 10 s, twice as long after each further time, ten minutes at most; it begins anew
/// when a person lets the device in, or after an hour. Whoever was put out waits likewise, also when nobody is asked.
struct SessionAttempts {
    /// The sessions that a device may begin within a minute.
    static let perMinute = 12
    static let firstPause = Duration.seconds(10)
    static let longestPause = Duration.seconds(600)
    static let memory = Duration.seconds(3_600)

    private struct Device {
        /// When it began a session, of the last minute.
        var begun: [ContinuousClock.Instant] = []
        var refusals = 0
        var refused: ContinuousClock.Instant?
        /// True while a person is asked.
        var isAsking = false

        func isOver(at now: ContinuousClock.Instant) -> Bool {
            !isAsking && begun.allSatisfy { now - $0 >= .seconds(60) } && !isRemembered(at: now)
        }

        /// Whether it was refused or put out within the last hour.
        func isRemembered(at now: ContinuousClock.Instant) -> Bool {
            refused.map { now - $0 < SessionAttempts.memory } ?? false
        }
    }

    private var devices: [DeviceID: Device] = [:]

    /// Takes in that a device begins a session.
    ///
    /// - Throws: `.exhausted` when it has begun as many as it may.
    mutating func begin(_ id: DeviceID, at now: ContinuousClock.Instant) throws(KithError) {
        devices = devices.filter { !$0.value.isOver(at: now) }
        var device = devices[id] ?? Device()
        device.begun.removeAll { now - $0 >= .seconds(60) }
        if let first = device.begun.first, device.begun.count >= Self.perMinute {
            throw KithError(
                .exhausted,
                "A device begins at most \(Self.perMinute) sessions a minute here. Try again in \(Self.seconds(.seconds(60) - (now - first)))."
            )
        }
        device.begun.append(now)
        devices[id] = device
    }

    /// Has a device wait that was refused or put out a moment ago.
    ///
    /// - Throws: `.denied` when that is too soon.
    func wait(_ id: DeviceID, at now: ContinuousClock.Instant) throws(KithError) {
        guard let device = devices[id], let refused = device.refused, device.isRemembered(at: now) else { return }
        let rest = Self.pause(after: device.refusals) - (now - refused)
        guard rest > .zero else { return }
        throw KithError(
            .denied,
            "The person at the other screen refused a moment ago, or ended it. Try again in \(Self.seconds(rest)).")
    }

    /// Takes in that a person put the device out.
    mutating func putOut(_ id: DeviceID, at now: ContinuousClock.Instant) {
        var device = devices[id] ?? Device()
        device.refusals = device.isRemembered(at: now) ? min(device.refusals + 1, 16) : 1
        device.refused = now
        devices[id] = device
    }

    /// Takes in that a person is about to be asked; ``answered(_:isLetIn:at:)`` or ``calledOff(_:)`` follows.
    ///
    /// - Throws: `.denied` when that is too soon, or they are being asked about this device already.
    mutating func ask(_ id: DeviceID, at now: ContinuousClock.Instant) throws(KithError) {
        var device = devices[id] ?? Device()
        if device.isAsking {
            throw KithError(.denied, "The person at the other screen is being asked about this device already.")
        }
        try wait(id, at: now)
        if !device.isRemembered(at: now) { device.refusals = 0 }
        device.isAsking = true
        devices[id] = device
    }

    /// Takes in what a person said, no answer being a refusal.
    mutating func answered(_ id: DeviceID, isLetIn: Bool, at now: ContinuousClock.Instant) {
        var device = devices[id] ?? Device()
        device.isAsking = false
        device.refusals = isLetIn ? 0 : min(device.refusals + 1, 16)
        device.refused = isLetIn ? nil : now
        devices[id] = device
    }

    /// Takes in that the device does not wait any more.
    mutating func calledOff(_ id: DeviceID) { devices[id]?.isAsking = false }

    /// Forgets the refusals of a device, whose grants have changed.
    mutating func forget(_ id: DeviceID) {
        devices[id]?.refusals = 0
        devices[id]?.refused = nil
    }

    private static func pause(after refusals: Int) -> Duration {
        refusals > 7 ? longestPause : min(longestPause, firstPause * (1 << max(refusals - 1, 0)))
    }

    private static func seconds(_ duration: Duration) -> String { "\(max(1, duration.components.seconds + 1)) s" }
}
