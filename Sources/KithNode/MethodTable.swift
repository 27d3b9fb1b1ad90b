import KithAPI
import KithWire
import Synchronization

/// The methods a node serves, found by name or path, and those it knows besides.
///
/// A method is found under both spellings of its path without its name being read: `math.add` and `math/add`.
final class MethodTable: Sendable {
    private struct Content {
        /// By the method's name.
        var handlers: [String: Handler] = [:]
        /// Of other spellings, the method's name.
        var spellings: [String: String] = [:]
        /// Those whose path has parameters, and their names by their paths with all parameters called the same.
        var templates = TopicTree<String>()
        var shapes: [String: String] = [:]
        /// The services, in the order in which they were added.
        var services: [AddedService] = []
        /// The methods known, served here or not.
        var methods: [String: AnyMethod] = [:]

        /// Tells whether a method has a path below that of a service.
        func serves(_ service: TopicPath) -> Bool {
            handlers.keys.contains { (try? TopicPath(method: $0))?.starts(with: service) == true }
        }

        func handler(_ name: String) -> Handler? {
            handlers[name] ?? spellings[name].flatMap { handlers[$0] }
        }
    }

    /// The names under which a method is found.
    private struct Names {
        let path: TopicPath
        let name: String
        let others: [String]

        init(_ method: AnyMethod) throws {
            path = try TopicPath(method: method.name)
            guard !path.isPattern else {
                throw KithError(.invalid, "\(method.name.prefix(bytes: 100)) is a pattern: a method has one path.")
            }
            name = method.name
            var spellings: Set = [path.methodName, path.description]
            if path.network == TopicPath.defaultNetwork {
                spellings.insert(String(path.description.dropFirst(path.network.count + 1)))
            }
            spellings.remove(name)
            others = Array(spellings)
        }
    }

    private let content: ReadMostly<Content>
    /// The methods of other devices that this one does not know itself, as they described them.
    private let remoteMethods = Mutex<[RemoteName: AnyMethod]>([:])

    /// Knows `methods`, and serves none.
    init(knowing methods: [AnyMethod]) {
        content = ReadMostly(Content(methods: Dictionary(methods.map { ($0.name, $0) }) { $1 }))
    }

    // MARK: - Services

    /// The services, in the order in which they were added.
    var services: [AddedService] { content.read { $0.services } }

    /// The service at a path; `nil` when there is none.
    func service(at path: TopicPath) -> AddedService? { services.first { $0.topic == path } }

    /// The handlers of a service, in the order of their names.
    func handlers(of service: AddedService) -> [Handler] {
        content.read { $0.handlers.values.filter { $0.calls === service.calls } }
            .sorted { $0.method.name < $1.method.name }
    }

    /// Serves methods that belong to no service.
    func serve(_ handlers: [Handler]) throws {
        try content.update { content throws in
            for handler in handlers { try Self.insert(handler, Names(handler.method), in: &content) }
        }
    }

    /// Begins to serve the methods of a service.
    ///
    /// `make` gets the path it has among the services there are, which is another than its own only if it did not choose
    /// one.
    ///
    /// - Throws: `KithError` `.conflict` when its path, or one of its methods, is there already; none is added then.
    func add(_ info: ServiceInfo, _ handlers: [Handler], limit: Int?, _ make: (ServiceInfo, TopicPath) -> AddedService)
        throws -> AddedService
    {
        try content.update { content throws in
            if let limit {
                guard content.services.count(where: { $0.service is ExternalHandlers }) < limit else {
                    throw KithError(.exhausted, "More than \(limit) services of other programs are registered.")
                }
            }
            var info = info
            var number = 1
            let taken = Set(content.services.map(\.topic))
            while try !info.isDeclared && taken.contains(info.topic) {
                number += 1
                info.path = "\(info.path.prefix { $0 != "-" })-\(number)"
            }
            let added = try make(info, info.topic)
            // What another program registers is called by whoever was granted its path: nobody else's is there.
            guard !taken.contains(added.topic), limit == nil || !content.serves(added.topic) else {
                throw KithError(.conflict, "There is a service \(info.path) already. Give this one another name.")
            }
            var entries: [(Handler, Names)] = []
            var paths: Set<String> = []
            for handler in handlers {
                let handler = try handler.added(to: added.topic, calls: added.calls)
                let names = try Names(handler.method)
                guard paths.insert(Self.shape(names.path)).inserted else { throw Self.conflict(names.name) }
                try Self.check(names, in: content)
                entries.append((handler, names))
            }
            for (handler, names) in entries { try Self.insert(handler, names, in: &content) }
            content.services.append(added)
            return added
        }
    }

    /// Stops serving the methods of a service; returns it, unless it is not there any more.
    func remove(_ id: ServiceID) -> AddedService? {
        content.update { content in
            guard let index = content.services.firstIndex(where: { $0.id == id }) else { return nil }
            let removed = content.services.remove(at: index)
            for handler in content.handlers.values where handler.calls === removed.calls {
                Self.remove(handler.method.name, from: &content)
                // Methods that only its service knew are unknown again.
                if !handler.method.isShared { content.methods[handler.method.name] = nil }
            }
            return removed
        }
    }

    /// Stops serving methods.
    func remove(_ names: [String]) {
        content.update { content in
            for name in names { Self.remove(content.spellings[name] ?? name, from: &content) }
        }
    }

    private static func check(_ names: Names, in content: Content) throws(KithError) {
        for name in [names.name] + names.others where content.handlers[name] != nil || content.spellings[name] != nil {
            throw conflict(name)
        }
        guard content.shapes[shape(names.path)] == nil else { throw conflict(names.name) }
    }

    private static func conflict(_ name: String) -> KithError {
        KithError(
            .conflict, "\(name) is served already. Give the method another name, or remove the service that has it.")
    }

    /// The path with all its parameters called the same.
    private static func shape(_ path: TopicPath) -> String {
        path.network + ":"
            + path.segments.map { if case .parameter = $0 { "{}" } else { $0.description } }.joined(separator: "/")
    }

    private static func insert(_ handler: Handler, _ names: Names, in content: inout Content) throws {
        try check(names, in: content)
        content.handlers[names.name] = handler
        content.methods[names.name] = handler.method
        for spelling in names.others { content.spellings[spelling] = names.name }
        guard names.path.isTemplate else { return }
        content.templates.insert(names.name, at: names.path)
        content.shapes[shape(names.path)] = names.name
    }

    private static func remove(_ name: String, from content: inout Content) {
        guard let handler = content.handlers.removeValue(forKey: name),
            let names = try? Names(handler.method)
        else { return }
        for spelling in names.others { content.spellings[spelling] = nil }
        guard names.path.isTemplate else { return }
        content.templates.removeAll(at: names.path)
        content.shapes[shape(names.path)] = nil
    }

    // MARK: - Methods

    /// The methods served, in the order of their names.
    var served: [Handler] { content.read { Array($0.handlers.values) }.sorted { $0.method.name < $1.method.name } }

    /// Finds the handler of a method by its name or its path; `nil` when none serves it.
    func handler(_ name: String) -> Handler? {
        if let handler = content.read({ $0.handler(name) }) { return handler }
        guard let path = try? TopicPath(method: name), path.isConcrete else { return nil }
        let candidates = content.read { content -> [(template: TopicPath, handler: Handler)] in
            if let handler = content.handler(path.description) { return [(path, handler)] }
            return content.templates.entries(for: path).compactMap { entry in
                content.handlers[entry.value].map { (entry.path, $0) }
            }
        }
        // A segment that is spelled out comes before one that may be anything.
        let best = candidates.max { left, right in
            if case .parameter? = zip(left.template.segments, right.template.segments).first(where: { $0 != $1 })?.0 {
                return true
            }
            return false
        }
        guard let template = best?.template, var handler = best?.handler else { return nil }
        if template.isTemplate, let values = try? path.parameters(in: template) { handler.parameters = values }
        return handler
    }

    /// The method of this name or path; `nil` when it is not known.
    func method(_ name: String) -> AnyMethod? {
        if let method = content.read({ content in
            content.methods[name] ?? content.spellings[name].flatMap { content.methods[$0] }
        }) {
            return method
        }
        guard let path = try? TopicPath(method: name), path.methodName != name else { return nil }
        return content.read { $0.methods[path.methodName] }
    }

    /// Forgets what other devices described: they can be asked again.
    func forgetRemoteMethods() { remoteMethods.withLock { $0 = [:] } }

    /// Returns the description that another device gave of one of its methods; `nil` when there is none.
    func remoteMethod(_ name: RemoteName) -> AnyMethod? { remoteMethods.withLock { $0[name] } }

    /// Stores another device's description of one of its methods; `nil` forgets it.
    func remember(_ method: AnyMethod?, for name: RemoteName) {
        remoteMethods.withLock { methods in
            if method != nil, methods.count >= 256 { methods = [:] }
            methods[name] = method
        }
    }
}
