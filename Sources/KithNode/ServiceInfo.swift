import KithWire

/// The metadata of a service: its path, and what a person is told of it.
///
/// ```swift
/// let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
/// ```
public struct ServiceInfo: Hashable, Sendable {
    /// The first segment of the paths of its actions: `math`.
    public var path: String
    /// Its name for a person; the path, unless another is given.
    public var name: String
    /// Its version.
    public var version: String
    /// One line for a person.
    public var description: String
    /// The network its paths belong to.
    public var network: String
    /// False for one that was made from the name of a type: only this device knows of it.
    let isDeclared: Bool

    /// Describes a service.
    public init(
        _ path: String, name: String? = nil, version: String = "", _ description: String = "",
        network: String = TopicPath.defaultNetwork
    ) {
        self.path = path
        self.name = name ?? path
        self.version = version
        self.description = description
        self.network = network
        isDeclared = true
    }

    /// Describes a service that does not describe itself: `DoorService` is at the path `door`.
    init(of type: Any.Type) {
        let name = "\(type)".prefix { $0 != "<" }.filter { $0.isLetter || $0.isNumber || $0 == "_" }
        let short =
            name.hasSuffix("Service") && name != "Service" ? String(name.dropLast("Service".count)) : String(name)
        path = short.isEmpty ? "service" : short.lowercased()
        self.name = name.isEmpty ? "Service" : name
        version = ""
        description = ""
        network = TopicPath.defaultNetwork
        isDeclared = false
    }

    /// The path of the service as a topic path.
    ///
    /// - Throws: `KithError` `.invalid` when it is not one segment.
    public var topic: TopicPath { get throws(KithError) { try TopicPath(service: path, network: network) } }
}
