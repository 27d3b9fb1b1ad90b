public import KithAPI
import KithIO
import KithIdentity
import KithWire
import Logging

// What this device has for others is announced to them, and what they have is remembered while they are connected.

extension Node {
    // MARK: - What others are told

    /// Tells a caller which services there are for it, until it goes or this device stops.
    func announceServices(to context: CallContext, _ pending: PendingStream<Services.Watch>) async throws {
        let stream = try await pending.accept()
        await withTaskGroup(of: Void.self) { group in
            let signals = serviceChanges.signals()
            group.addTask {
                var announcement = ServiceAnnouncement()
                for await _ in signals {
                    let version = self.serviceChanges.version
                    for piece in announcement.update(to: self.services(for: context.caller), version: version) {
                        // A caller that is gone is noticed by the other task.
                        guard (try? await stream.send(piece)) != nil else { return }
                    }
                }
            }
            // Nobody is to be sent here by an announcement of a device that stops.
            group.addTask { await self.shutdown.wait() }
            group.addTask { try? await stream.end() }
            await group.next()
            group.cancelAll()
        }
        try await stream.finish()
    }

    /// The services whose actions a caller may call, with those actions.
    func services(for caller: Caller) -> [Registry.Service] {
        var grants: [Grant] = []
        if case .device(let id, _, _) = caller {
            grants = sessions(with: id).lazy.compactMap(\.known).first?.grants ?? []
        }
        return methods.services.compactMap { service in
            guard service.info.isDeclared, service.info.path.first != "$" else { return nil }
            let actions = methods.handlers(of: service).map(\.method)
                .filter { $0.header.access.refusal(of: caller, holding: grants) == nil }
                .map { method in
                    Registry.Action(
                        name: method.name, kind: method.kind, summary: method.header.summary.prefix(bytes: 256),
                        isIdempotent: method.header.isIdempotent)
                }
            guard !actions.isEmpty else { return nil }
            return Registry.Service(
                path: service.info.path, network: service.info.network, name: service.info.name,
                version: service.info.version, description: service.info.description.prefix(bytes: 256),
                state: service.calls.state, actions: actions)
        }
    }

    // MARK: - What others tell

    /// Follows the services of the other end of a connection until the task is cancelled.
    func followServices(_ session: Session) async {
        guard followsServices, await session.link.handshakeCompleted() else { return }
        let device = session.link.peer
        defer {
            if providers.remove(device, over: session.arrival) { proxiesChanged() }
        }
        var pause = Duration.seconds(1)
        while session.link.isOpen {
            // Whoever asks before the other end has stored the pairing is an unpaired peer that is hung up on.
            for await _ in serviceChanges.signals() where session.isMutual || !session.link.isOpen { break }
            guard session.isMutual, session.link.isOpen, !Task.isCancelled else { return }
            do {
                // To its end: the other device has stopped.
                return try await followServices(of: device, over: session)
            } catch let error as KithError where error.code == .unsupported {
                return  // a device of an earlier version
            } catch {
                logger.debug("cannot follow a device's services", metadata: ["error": "\(error)"])
            }
            guard (try? await clock.sleep(for: pause)) != nil else { return }  // over
            pause = min(pause * 2, .seconds(60))
        }
    }

    /// Notes that a connected device has this one among its own: it may be asked for its services.
    func noteMutual(_ device: DeviceID) { noteMutual(device, sessions(with: device)) }

    func noteMutual(_ device: DeviceID, _ sessions: [Session]) {
        // Each of them, and not only the first.
        let isNews = sessions.reduce(false) { $1.noteMutual() || $0 }
        if isNews { becameMutual(device) }
    }

    /// Has the services do what they do with a connected device that has this one among its own.
    func becameMutual(_ device: DeviceID) {
        serviceChanges.happen()
        for service in methods.services.map(\.service) { service.connected(to: device) }
    }

    private func followServices(of device: DeviceID, over session: Session) async throws {
        let coding = AnyMethod(Services.Watch.self)
        guard case .cbor(let bytes) = try coding.input.encode(Nothing(), .cbor) else { throw Self.otherForm }
        let header = StreamHeader(method: coding.name, millisecondsLeft: nil, trace: nil, input: bytes)
        let opened = try await session.link.openStream()
        session.link.isInBackground(opened)
        try await withTaskCancellationHandler {
            do {
                let (_, rest) = try await HeaderExchange.request(header, over: opened, isCall: false)
                let stream = MethodStream<Services.Change, Nothing>(rest)
                while let change = try await stream.receive() {
                    providers.receive(change, from: device, over: session.arrival)
                    proxiesChanged()
                }
            } catch {
                opened.abort(.cancelled)
                throw error
            }
        } onCancel: {
            opened.abort(.cancelled)
        }
    }

    private func proxiesChanged() {
        logger.debug("the services of other devices have changed")
        proxyChanges.happen()
    }

    /// The services that connected devices have announced to this one.
    public var announcedServices: [Registry.Service] { providers.announced }

    /// Waits until this device or a connected one serves a path.
    ///
    /// - Throws: `KithError` `.invalid` for what is no path, `.cancelled` when the task is.
    public func waitUntilServed(_ path: String) async throws {
        let topic = try TopicPath(method: path)
        for await _ in proxyChanges.signals()
        where methods.handler(path) != nil || !providers.providers(of: topic).isEmpty {
            return
        }
        throw KithError(.cancelled, "The wait for \(path.prefix(bytes: 128)) was cancelled.")
    }

    // MARK: - Who is there

    /// Notes whether a device has a connection.
    func notePeer(_ device: DeviceID) {
        let all = sessions(with: device)
        peerStates.note(device, isConnected: all.contains { $0.isPaired && $0.link.isOpen })
    }

    /// The paired devices that are connected, then each that comes or goes, until the node stops.
    ///
    /// A device comes once, however many connections lead to it, and has gone when it had none for
    /// ``Options/peerGrace``.
    public func peerChanges() -> AsyncStream<Registry.Peer> { peerStates.changes() }
}
