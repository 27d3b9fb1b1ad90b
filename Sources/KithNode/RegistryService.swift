import KithAPI
import KithIdentity
import KithWire

/// Describes the services of a node, counts their calls, and pauses and resumes them.
struct RegistryService: Service {
    private weak let node: Node?

    let info = ServiceInfo("$registry", "Describes the services of this device.")

    init(node: Node) { self.node = node }

    var handlers: [Handler] {
        [
            .query("services/list", "Lists the services of this device, and those announced to it.") { _ in
                try own.registered
            },
            .query("services/{path}", "Describes a service.") { (query: Registry.Query, context) in
                let node = try own
                return node.description(of: try service(query, context), withSchemas: true)
            },
            .query("services/{path}/state", "Tells the state of a service.") { (query: Registry.Query, context) in
                let service = try? service(query, context)
                return Registry.State(state: service?.calls.state)
            },
            .action("services/{path}/pause", isIdempotent: true, "Has a service answer nothing until it is resumed.") {
                (query: Registry.Query, context) in
                let service = try service(query, context)
                try own.pause(service.topic.description)
                return Registry.State(state: service.calls.state)
            },
            .action("services/{path}/resume", isIdempotent: true, "Has a paused service answer again.") {
                (query: Registry.Query, context) in
                let service = try service(query, context)
                try own.resume(service.topic.description)
                return Registry.State(state: service.calls.state)
            },
            .query("services/{path}/stats", "Counts the calls of a service.") { (query: Registry.Query, context) in
                try own.statistics(of: try service(query, context))
            },
            .query("stats", "Counts the calls of all services.") { _ in try own.statistics },
            .query("providers", "Tells how requests to other devices went.") { _ in
                let records = try own.providers.records.sorted {
                    ($0.path, $0.device?.description ?? "") < ($1.path, $1.device?.description ?? "")
                }
                return Registry.ProviderStates(
                    providers: records.map { path, device, record in
                        Registry.ProviderState(
                            path: path, device: device, calls: record.calls, errors: record.errors,
                            running: UInt64(record.running), latency: record.latency,
                            breaker: Registry.ProviderState.text(record.breaker))
                    })
            },
        ]
    }

    private var own: Node { get throws { try node.orThrow(Node.stopping) } }

    private func service(_ query: Registry.Query, _ context: CallContext) throws -> AddedService {
        try own.service(
            at: TopicPath(
                service: context.parameters["path"] ?? "", network: query.network ?? TopicPath.defaultNetwork))
    }
}

/// Tells whether the services of a node answer.
struct HealthService: Service {
    private weak let node: Node?

    let info = ServiceInfo("$health", "Tells whether the services of this device answer.")

    init(node: Node) { self.node = node }

    var handlers: [Handler] {
        [
            .query("status", "Tells whether every service runs.") { _ in
                let node = try node.orThrow(Node.stopping)
                let states = Dictionary(node.methods.services.map { ($0.topic.methodName, $0.calls.state) }) { $1 }
                return Registry.Health(
                    isHealthy: states.values.allSatisfy { $0 == .running }, services: states,
                    peers: UInt64(node.peerStates.connected.count))
            }
        ]
    }
}

extension Optional {
    fileprivate func orThrow(_ error: KithError) throws(KithError) -> Wrapped {
        guard let self else { throw error }
        return self
    }
}

extension Node {
    /// The services of this device, then those announced to it.
    fileprivate var registered: Registry.Services {
        Registry.Services(
            services: methods.services.map { description(of: $0, withSchemas: $0.info.isDeclared) }
                + providers.announced)
    }

    /// Describes a service of this device.
    fileprivate func description(of service: AddedService, withSchemas: Bool) -> Registry.Service {
        let handlers = methods.handlers(of: service)
        let document = withSchemas ? OpenRPC(describing: handlers.map(\.method)) : nil
        let described = Dictionary((document?.methods ?? []).map { ($0.name, $0) }) { $1 }
        return Registry.Service(
            path: service.info.path, network: service.info.network, name: service.info.name,
            version: service.info.version.isEmpty && !service.info.isDeclared ? options.version : service.info.version,
            description: service.info.description, state: service.calls.state,
            actions: handlers.map { handler in
                let header = handler.method.header
                let method = described[header.name]
                return Registry.Action(
                    name: header.name, kind: header.kind, summary: header.summary,
                    isIdempotent: header.isIdempotent, access: header.callersText,
                    input: method.map { method in
                        method.input
                            ?? .object(method.params.map { ($0.name, $0.schema, $0.required ?? false) })
                    }, output: method?.result.schema)
            }, addedAt: service.addedAt, startedAt: service.calls.startedAt,
            schemas: document.flatMap { $0.components.schemas.isEmpty ? nil : $0.components.schemas })
    }

    /// The counts of all services.
    fileprivate var statistics: Registry.AllStatistics {
        Registry.AllStatistics(
            services: Dictionary(methods.services.map { ($0.topic.methodName, statistics(of: $0)) }) { $1 })
    }

    /// The counts of one service.
    fileprivate func statistics(of service: AddedService) -> Registry.Statistics {
        Registry.Statistics(
            actions: Dictionary(methods.handlers(of: service).map { ($0.method.name, $0.statistics.value) }) { $1 })
    }
}
