import KithAPI
import KithIdentity
import KithWire

/// The services that other devices have announced: the proxies of what this one does not serve itself.
///
/// A device announces them on each connection. Where there are several for a while, what counts is what was said on the
/// newest: another may be that of a program that has ended since, or deliver late what has changed since.
struct PeerServices {
    /// The most services and the most actions of one device; more are ignored.
    static let serviceLimit = 1_024
    static let actionLimit = 4_096

    /// A way to a method on another device.
    struct Provider: Hashable {
        var device: DeviceID
        var action: Registry.Action
    }

    /// What was announced on a connection.
    private struct Announced {
        var services: [String: Registry.Service] = [:]
        var version: UInt64 = 0
    }

    /// By the numbers of their connections, which rise.
    private var announced: [DeviceID: [UInt64: Announced]] = [:]
    /// The connection whose announcement counts.
    private var current: [DeviceID: UInt64] = [:]
    /// By the paths of methods, as text.
    private var concrete: [String: [Provider]] = [:]
    private var templates: [(path: TopicPath, provider: Provider)] = []

    init() {}

    /// All of them, by device and path.
    var all: [Registry.Service] {
        current.keys.sorted { $0.description < $1.description }
            .flatMap { (shown(of: $0)?.services ?? [:]).sorted { $0.key < $1.key }.map(\.value) }
    }

    private func shown(of device: DeviceID) -> Announced? { current[device].flatMap { announced[device]?[$0] } }

    /// The version of the last change a device has announced; `nil` when there was none.
    func version(of device: DeviceID) -> UInt64? { shown(of: device)?.version }

    /// Takes a change that a device announces of its own services on the connection with that number.
    mutating func receive(_ change: Services.Change, from device: DeviceID, over connection: UInt64) {
        // Only what a change names is looked at, whatever else was announced.
        let isShown = current[device] == connection
        var own = announced[device]?[connection]?.services ?? [:]
        if change.isWhole {
            if isShown { forget(own.values.flatMap(\.actions), of: device) }
            own = [:]
        }
        for path in change.removed {
            if let service = own.removeValue(forKey: path), isShown { forget(service.actions, of: device) }
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
            if let old = own[path], isShown { forget(old.actions, of: device) }
            service.device = device
            service.name = service.name.prefix(bytes: 128)
            service.version = service.version.prefix(bytes: 64)
            service.description = service.description.prefix(bytes: 256)
            if case .failed(let reason) = service.state { service.state = .failed(reason.prefix(bytes: 256)) }
            own[path] = service
            if isShown { add(service, of: device) }
            actions += service.actions.count
        }
        announced[device, default: [:]][connection] = Announced(services: own, version: change.version)
        // What comes in pieces counts once the last is there.
        if !isShown, change.hasMore != true, current[device] ?? 0 <= connection { show(connection, of: device) }
    }

    /// Forgets what a device has announced on a connection; false when that did not count.
    @discardableResult mutating func remove(_ device: DeviceID, over connection: UInt64) -> Bool {
        let isShown = current[device] == connection
        if isShown { show(announced[device]?.keys.filter { $0 != connection }.max(), of: device) }
        announced[device]?[connection] = nil
        if announced[device]?.isEmpty == true { announced[device] = nil }
        return isShown
    }

    /// Has the announcement of another connection count, or none.
    private mutating func show(_ connection: UInt64?, of device: DeviceID) {
        forget((shown(of: device)?.services ?? [:]).values.flatMap(\.actions), of: device)
        current[device] = connection
        for (_, service) in (shown(of: device)?.services ?? [:]).sorted(by: { $0.key < $1.key }) {
            add(service, of: device)
        }
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
