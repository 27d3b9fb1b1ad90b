import KithAPI
import KithIdentity
import KithWire

/// The services that other devices have announced: the proxies of what this one does not serve itself.
struct PeerServices {
    /// The most services and the most actions of one device; more are ignored.
    static let serviceLimit = 1_024
    static let actionLimit = 4_096

    /// A way to a method on another device.
    struct Provider: Hashable {
        var device: DeviceID
        var action: Registry.Action
    }

    private var services: [DeviceID: [String: Registry.Service]] = [:]
    private var versions: [DeviceID: UInt64] = [:]
    /// By the paths of methods, as text.
    private var concrete: [String: [Provider]] = [:]
    private var templates: [(path: TopicPath, provider: Provider)] = []

    init() {}

    /// All of them, by device and path.
    var all: [Registry.Service] {
        services.sorted { $0.key.description < $1.key.description }
            .flatMap { $0.value.sorted { $0.key < $1.key }.map(\.value) }
    }

    /// The version of the last change a device has announced; `nil` when there was none.
    func version(of device: DeviceID) -> UInt64? { versions[device] }

    /// Takes a change that a device announces of its own services.
    mutating func receive(_ change: Services.Change, from device: DeviceID) {
        // Only what a change names is looked at, whatever else was announced.
        if change.isWhole { remove(device) }
        var own = services[device] ?? [:]
        for path in change.removed {
            if let service = own.removeValue(forKey: path) { forget(service.actions, of: device) }
        }
        var actions = own.values.reduce(0) { $0 + $1.actions.count }
        for var service in change.changed {
            // A name that makes no sense here, or is every device's own, cannot be called.
            guard let topic = try? TopicPath(service: service.path, network: service.network),
                service.path.utf8.first != UInt8(ascii: "$")
            else { continue }
            let path = ServiceAnnouncement.path(service)
            if own[path] == nil, own.count >= Self.serviceLimit { continue }
            actions -= own[path]?.actions.count ?? 0
            service.actions = service.actions.filter { (try? TopicPath(method: $0.name))?.starts(with: topic) == true }
                .prefix(Self.actionLimit - actions)
                .map { action in
                    // Nobody asks a proxy for schemas, and they may be large.
                    Registry.Action(
                        name: action.name, kind: action.kind, summary: action.summary.prefix(bytes: 256),
                        isIdempotent: action.isIdempotent)
                }
            if let old = own[path] { forget(old.actions, of: device) }
            service.device = device
            service.name = service.name.prefix(bytes: 128)
            service.version = service.version.prefix(bytes: 64)
            service.description = service.description.prefix(bytes: 256)
            if case .failed(let reason) = service.state { service.state = .failed(reason.prefix(bytes: 256)) }
            own[path] = service
            add(service, of: device)
            actions += service.actions.count
        }
        services[device] = own
        versions[device] = change.version
    }

    /// Forgets the services of a device; false when there are none.
    @discardableResult mutating func remove(_ device: DeviceID) -> Bool {
        versions[device] = nil
        guard let own = services.removeValue(forKey: device) else { return false }
        forget(own.values.flatMap(\.actions), of: device)
        return true
    }

    private mutating func add(_ service: Registry.Service, of device: DeviceID) {
        guard service.state == .running || service.state == .starting else { return }
        for action in service.actions {
            guard let path = try? TopicPath(method: action.name) else { continue }
            let provider = Provider(device: device, action: action)
            if path.isConcrete {
                var all = concrete[path.description] ?? []
                all.insert(provider, at: all.firstIndex { $0.device > device } ?? all.endIndex)
                concrete[path.description] = all
            } else {
                let place = templates.firstIndex { $0.provider.device > device } ?? templates.endIndex
                templates.insert((path, provider), at: place)
            }
        }
    }

    private mutating func forget(_ actions: [Registry.Action], of device: DeviceID) {
        let names = Set(actions.map(\.name))
        templates.removeAll { $0.provider.device == device && names.contains($0.provider.action.name) }
        for action in actions {
            guard let path = try? TopicPath(method: action.name), path.isConcrete,
                var all = concrete[path.description]
            else { continue }
            all.removeAll { $0.device == device && $0.action.name == action.name }
            concrete[path.description] = all.isEmpty ? nil : all
        }
    }

    /// The devices that have a method at this path, in the order of their identifiers.
    func providers(of path: TopicPath) -> [Provider] {
        if let found = concrete[path.description] { return found }
        return templates.filter { path.network == $0.path.network && path.matches(template: $0.path) }.map(\.provider)
    }
}
