import KithAPI
import KithWire

/// What one caller has been told of this device's services: the differences to be sent.
struct ServiceAnnouncement {
    /// The most services in one message.
    private static let pieceSize = 16

    private var told: [String: Registry.Service]?

    init() {}

    /// The messages that say that these are the services now; none when that is known.
    mutating func update(to services: [Registry.Service], version: UInt64) -> [Services.Change] {
        let before = told ?? [:]
        let now = Dictionary(services.map { (Self.path($0), $0) }) { $1 }
        let isFirst = told == nil
        told = now
        let changed = services.filter { before[Self.path($0)] != $0 }
        let removed = before.keys.filter { now[$0] == nil }.sorted()
        if !isFirst, changed.isEmpty, removed.isEmpty { return [] }
        var pieces = [Services.Change(version: version, isWhole: isFirst, changed: [], removed: removed)]
        for (index, service) in changed.enumerated() {
            if index > 0, index % Self.pieceSize == 0 {
                pieces[pieces.count - 1].hasMore = true
                pieces.append(Services.Change(version: version, isWhole: false, changed: [], removed: []))
            }
            pieces[pieces.count - 1].changed.append(service)
        }
        return pieces
    }

    /// The path of a service, with its network unless that is the default one.
    static func path(_ service: Registry.Service) -> String {
        service.network == TopicPath.defaultNetwork ? service.path : "\(service.network):\(service.path)"
    }
}
