public import KithAPI
import KithIO
import KithIdentity
import KithWire
import Logging

/// The services of a node.
extension Node {
    /// Begins to serve the methods of `service`, and starts it; calls wait until it has started.
    ///
    /// - Returns: the identifier with which to remove it.
    /// - Throws: `KithError` `.conflict` when its path or one of its methods is there already, `.invalid` when one of
    ///   them is no path; nothing is added then.
    @discardableResult public func add(_ service: any Service) throws -> ServiceID {
        let id = ServiceID()
        try add(service, with: service.handlers, as: id)
        return id
    }

    /// Begins to serve `handlers`, which are those of `service`.
    ///
    /// Without `startsAtOnce`, for a caller that holds a lock, ``startServices()`` follows.
    package func add(
        _ service: any Service, with handlers: [Handler], as id: ServiceID, startsAtOnce: Bool = true
    ) throws {
        let limit = service is ExternalHandlers ? options.externalServices : nil
        let listeners = try handlers.compactMap(\.events).map { try EventListener($0, hub, of: self) }
        let called = handlers.filter { $0.events == nil }
        let added = try methods.add(service.info, called, limit: limit) { info, topic in
            AddedService(
                id: id, service: service, info: info, topic: topic,
                calls: ServiceCalls(name: info.path, logger: logger(of: info.path)),
                addedAt: Self.now, listeners: listeners)
        }
        stateChanged(.created, of: added)
        if startsAtOnce { start(added) }
    }

    /// Stops serving the methods of a service, ends those of its calls that run, and stops it.
    ///
    /// The calls end with `.unsupported`, as later ones do. They get ``Options/drain`` to end; then the service is
    /// stopped whether they have or not. Does nothing if it is not there any more.
    public func remove(_ id: ServiceID) async {
        await remove(id, because: KithError(.unsupported, "The service was removed."))
    }

    /// Removes a service, and ends those of its calls that run with `reason`.
    func remove(_ id: ServiceID, because reason: KithError) async {
        guard let removed = methods.remove(id) else { return }
        serviceChanges.happen()
        removed.calls.end(reason)
        for listener in removed.listeners { listener.stop() }
        // The limit is kept by cancelling the wait.
        try? await withDeadline(options.drain, on: clock) {
            await removed.calls.waitUntilIdle()
            for listener in removed.listeners { await listener.waitUntilIdle() }
        }
        await stop(removed)
    }

    /// Stops serving methods; calls that run go on.
    public func remove(_ methods: [String]) { self.methods.remove(methods) }

    // MARK: - States

    /// Returns the state of the service at a path; `nil` when there is none.
    public func state(of path: String) -> ServiceState? {
        (try? TopicPath(path)).flatMap { methods.service(at: $0) }?.calls.state
    }

    /// Has a service answer nothing until it is resumed.
    ///
    /// Its calls, here and from other devices, are refused with `.unreachable`; those that run go on. Again does nothing.
    ///
    /// - Throws: `KithError` `.notFound` for no service, `.conflict` for one that does not run, `.invalid` for one of the
    ///   node itself, as `$registry`.
    public func pause(_ path: String) throws { try change(path, from: .running, to: .paused) }

    /// Has a paused service answer again.
    ///
    /// Again does nothing.
    ///
    /// - Throws: `KithError` `.notFound` for no service, `.conflict` for one that is not paused.
    public func resume(_ path: String) throws { try change(path, from: .paused, to: .running) }

    private func change(_ path: String, from old: ServiceState, to new: ServiceState) throws {
        let service = try service(at: TopicPath(path))
        guard service.info.path.first != "$" else {
            throw KithError(.invalid, "\(service.info.path) is the device's own, and always answers.")
        }
        if try service.calls.change(from: old, to: new) { stateChanged(new, of: service) }
    }

    func service(at path: TopicPath) throws(KithError) -> AddedService {
        guard let service = methods.service(at: path) else {
            throw KithError(.notFound, "There is no service \(path.methodName.prefix(bytes: 128)) on this device.")
        }
        return service
    }

    /// Starts a service that does not run, in a task of its own.
    private func start(_ added: AddedService) {
        guard added.calls.beginStart() else { return }
        stateChanged(.starting, of: added)
        let context = StartContext(
            device: id, path: added.topic, client: client, logger: logger(of: added.info.path), events: hub,
            shutdown: shutdown, protection: protection)
        let work: @Sendable () async -> Void = { [self] in
            var failure: String?
            do {
                try await within(options.serviceStart) { try await added.service.start(context) }
            } catch {
                failure = Self.outward(error is CancellationError ? Self.stopping : error).message
                logger.error(
                    "a service did not start", metadata: ["service": "\(added.info.path)", "error": "\(error)"])
            }
            if let state = added.calls.finishStart(failure, at: Self.now) { stateChanged(state, of: added) }
        }
        // One that is ready at once is so before this returns.
        if #available(macOS 26, iOS 26, *) {
            added.calls.keep(Task.immediate(name: "kith start \(added.info.path)") { await work() })
        } else {
            added.calls.keep(Task(name: "kith start \(added.info.path)") { await work() })
        }
    }

    /// Runs `body` on the same task, and cancels it when the time is up.
    private func within(_ timeout: Duration, _ body: @escaping @Sendable () async throws -> Void) async throws {
        let scope = CallScope(timers: timers)
        try await scope.run("kith start", until: clock.now + timeout, isImmediate: true, body)
    }

    private func stop(_ service: AddedService) async {
        guard await service.calls.beginStop() else { return }
        stateChanged(.stopping, of: service)
        // The limit is kept by cancelling the wait.
        try? await withDeadline(options.drain, on: clock) {
            for listener in service.listeners { await listener.waitUntilIdle() }
        }
        await service.service.stop()
        service.calls.finishStop()
        stateChanged(.stopped, of: service)
    }

    /// Starts the services that do not run: new ones, stopped ones, and those that did not start before.
    package func startServices() {
        for service in methods.services { start(service) }
    }

    /// Stops the services, the last one added first.
    package func stopServices() async {
        for service in methods.services.reversed() { await stop(service) }
    }

    /// Notes that the state of a service has changed: it reacts to events while it runs, and only then.
    private func stateChanged(_ state: ServiceState, of service: AddedService) {
        for listener in service.listeners {
            guard state == .running else {
                listener.stop(finishesPresent: state == .paused)
                continue
            }
            do {
                try listener.start()
            } catch {
                logger.error(
                    "a service could not subscribe", metadata: ["service": "\(service.info.path)", "error": "\(error)"])
            }
        }
        publish(state, of: service)
        logger.debug(
            "a service changed its state", metadata: ["service": "\(service.info.path)", "state": "\(state)"])
        serviceChanges.happen()
        proxyChanges.happen()
    }

    /// Publishes the state of a service: `$registry/services/math/state`, for whoever looks back, too.
    private func publish(_ state: ServiceState, of service: AddedService) {
        do {
            let topic = try TopicPath("$registry/services/\(service.info.path)/state", network: service.topic.network)
            try hub.publish(
                Events.Message(state), value: state, to: topic, options: PublishOptions(retain: .seconds(86_400)),
                isOwn: true)
        } catch {
            logger.error(
                "the state of a service could not be published",
                metadata: ["service": "\(service.info.path)", "error": "\(error)"])
        }
    }

    /// The logger of a service.
    func logger(of service: String) -> Logger {
        var logger = logger
        logger[metadataKey: "service"] = "\(service)"
        return logger
    }

    // MARK: - Methods

    /// The methods served, in the order of their names.
    var table: [API.Describe.Entry] {
        let services = methods.services
        return methods.served.map { handler in
            let method = handler.method
            let service = services.first { $0.calls === handler.calls }?.service as? ExternalHandlers
            let isStream = method.kind == .stream
            return API.Describe.Entry(
                name: method.name, kind: method.kind, summary: method.header.summary,
                upstream: isStream ? method.upstream.form : nil,
                downstream: isStream ? method.downstream.form : nil, service: service?.name)
        }
    }

    func handler(_ name: String) throws(KithError) -> Handler {
        guard let handler = methods.handler(name) else {
            throw KithError(
                .unsupported,
                name.contains("/")
                    ? "No service of “\(name.prefix(bytes: 128))” is there now."
                    : "That version of Kith does not know “\(name.prefix(bytes: 128))”.")
        }
        return handler
    }

    func method(_ name: String) throws(KithError) -> AnyMethod {
        guard let method = knownMethod(name) else {
            throw KithError(.unsupported, "This device does not know the method \(name.prefix(bytes: 128)).")
        }
        return method
    }

    func knownMethod(_ name: String) -> AnyMethod? { methods.method(name) ?? methods.handler(name)?.method }

    /// Returns the description that another device gave of one of its methods; `nil` when there is none.
    func remoteMethod(_ name: RemoteName) -> AnyMethod? { methods.remoteMethod(name) }

    /// Stores another device's description of one of its methods; `nil` forgets it.
    func remember(_ method: AnyMethod?, for name: RemoteName) { methods.remember(method, for: name) }
}
