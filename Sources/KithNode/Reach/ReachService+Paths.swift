import KithAPI
package import KithIdentity
import KithNet
package import KithReach
package import KithStore
import KithWire

// The ways by which devices are reached, as their person wants them.
extension ReachService {
    private static let setting = "path"

    private static func setting(of device: DeviceID) -> String { "path \(device)" }

    /// The ways that are stored: the general one, and those of single devices.
    package static func paths(
        in store: Store
    ) throws(KithError) -> (general: ReachPreference, devices: [DeviceID: ReachPreference]) {
        var devices: [DeviceID: ReachPreference] = [:]
        for device in try store.devices() {
            devices[device.id] = try store.setting(setting(of: device.id)).flatMap { ReachPreference(rawValue: $0) }
        }
        return (try store.setting(setting).flatMap { ReachPreference(rawValue: $0) } ?? .auto, devices)
    }

    /// Forgets the way of a device.
    static func forgetPath(of device: DeviceID, in store: Store) throws(KithError) {
        if try store.setting(setting(of: device)) != nil { try store.setSetting(setting(of: device), "") }
    }

    /// Sets a way, keeps it, and tells what holds.
    func prefer(_ input: Reach.Prefer.Input) async throws -> Reach.Prefer.Output {
        let device = try input.device.map { try node.resolve($0) }
        if let path = input.path {
            try store.setSetting(device.map { Self.setting(of: $0.id) } ?? Self.setting, path.rawValue)
            await node.dialer?.reach?.set(ReachPreference(path), for: device?.id)
            node.announceEverywhere()
        }
        let paths = try Self.paths(in: store)
        var names: [String: Reach.Path] = [:]
        for device in try store.devices() {
            if let path = paths.devices[device.id] { names[device.name] = Reach.Path(path) }
        }
        return Reach.Prefer.Output(general: Reach.Path(paths.general), devices: names, device: device?.name)
    }

    /// Has a device be reached one way, until the caller ends the stream.
    func hold(_ input: Reach.Hold.Input, _ pending: PendingStream<Reach.Hold>) async throws {
        let device = try node.resolve(input.device)
        guard let reach = node.dialer?.reach else {
            throw KithError(.unreachable, "This device is not on the network now; `kith up` starts it.")
        }
        let number = await reach.hold(ReachPreference(input.path), for: device.id)
        do {
            try await node.reconnect(to: device.id)
            guard let status = await node.link(to: device.id) else {
                throw KithError(.unreachable, "The connection to \(device.name) ended.")
            }
            let stream = try await pending.accept(
                Reach.Hold.Output(path: status.relay ?? status.address?.description ?? ""))
            try await stream.end()
        } catch {
            await reach.release(number, of: device.id)
            throw error
        }
        await reach.release(number, of: device.id)
    }
}

extension ReachPreference {
    init(_ path: Reach.Path) { self = ReachPreference(rawValue: path.rawValue) ?? .auto }
}

extension Reach.Path {
    init(_ preference: ReachPreference) { self = Reach.Path(rawValue: preference.rawValue) ?? .auto }
}
