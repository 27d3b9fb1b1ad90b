import CKithSystem
import KithIO
import KithIdentity
import KithTesting
import KithWire
import Logging
import NIOCore
import Synchronization
import Testing

@testable import KithNet

/// Machines that say of themselves that nobody listens there, on the loopback, where the system always says so.
@Suite(.timeLimit(.minutes(4))) struct ClosedPortTests {
    /// Where somebody listened a moment ago.
    private func closedPort(_ family: Family = .v4) async throws -> NetworkAddress {
        var options = Endpoint.Options()
        if family == .v4 { options.bindAddresses = [.ownLoopback()] }
        return try await withEndpoint(family, options) { $0.localAddresses[0] }
    }

    @Test(arguments: Family.allCases)
    func `a machine without Kith is told from one that is silent, long before the time is up`(family: Family)
        async throws
    {
        let closed = try await closedPort(family)
        try await withEndpoint(family) { client in
            // Were it not for the machine's word, the handshake would end the attempt after ten seconds, as timed out.
            let error = await #expect(throws: KithError(.unreachable, "")) {
                try await client.connect(to: DeviceKey().id, at: [closed], timeout: .seconds(600))
            }
            #expect(error?.cause as? PortClosed == PortClosed(address: closed))
            #expect(error?.message.contains("no Kith is running there") == true)
        }
    }

    @Test func `of several addresses only the closed one is given up`() async throws {
        let closed = try await closedPort()
        try await withEndpoint { server in
            try await Cable.to(server.localAddresses[0]) { cable, address in
                try await withEndpoint { client in
                    cable.cut()
                    async let dialed = client.connect(to: server.id, at: [closed, address])
                    // The closed one is dialed first: it has been given up when only the other is still tried.
                    try await eventually { await client.dialed == [address] }
                    cable.mend()
                    #expect(try await dialed.statistics().remoteAddress == address)
                }
            }
        }
    }

    @Test func `a connection ends at both ends when nobody listens at the other any more`() async throws {
        try await withEndpoint(.v4, patient) { server in
            try await withEndpoint(.v4, patient) { client in
                var ends: Ends?
                var place: NetworkAddress?
                try await Cable.to(server.localAddresses[0]) { cable, address in
                    ends = try await Ends(client, server, at: address)
                    // A machine that refuses while the peer is there is not believed later.
                    try await eventually { cable.probeCount >= 2 }
                    place = address
                }
                // Nobody is at the ports between them now: the system refuses whatever is sent there.
                let (open, address) = (try #require(ends), try #require(place))
                // Either may find out before it has anything to send.
                try? await open.near.write([2])
                try? await open.far.write([2])
                let reason = await open.outgoing.closed()
                #expect(reason.error.cause as? PortClosed == PortClosed(address: address))
                #expect(reason.message.contains("no Kith is running there"))
                #expect(await open.incoming.closed().error.cause is PortClosed)
                await #expect(throws: KithError(.unreachable, "")) { try await open.near.read(upTo: 1) }
                await #expect(throws: KithError(.unreachable, "")) { try await open.far.read(upTo: 1) }
                #expect(client.connections.isEmpty && server.connections.isEmpty)
            }
        }
    }

    @Test func `a connection that says nothing is looked after while somebody waits`() async throws {
        // Without that nothing would ever be said.
        try await withEndpoint(.v4, patient) { server in
            try await withEndpoint(.v4, patient) { client in
                var ends: Ends?
                try await Cable.to(server.localAddresses[0]) { cable, address in
                    ends = try await Ends(client, server, at: address)
                    // A machine that refuses while the peer is there is not believed later.
                    try await eventually { cable.probeCount >= 2 }
                }
                let open = try #require(ends)
                open.outgoing.watch(closely: true)
                open.incoming.watch(closely: true)
                #expect(await open.outgoing.closed().error.cause is PortClosed)
                #expect(await open.incoming.closed().error.cause is PortClosed)
            }
        }
    }

    @Test func `a machine that refuses whom it does not know while its device lives is not believed`() async throws {
        try await withEndpoint(.v4, patient) { server in
            try await withEndpoint(.v4, patient) { client in
                // As a firewall does: only what comes from the client's own port is let in.
                try await server.listen(onlyTo: client.localAddresses[0])
                let open = try await Ends(client, server, at: server.localAddresses[0])
                #expect(await Reachability.refusal(by: server.localAddresses[0]) == .closed)
                try await server.listen(onlyTo: NetworkAddress(ipv4: (127, 0, 0, 1), port: 9))
                let probes = await open.outgoing.statistics().packetsSent + 10
                try await open.near.write([2])
                try await eventually {
                    try #require(open.outgoing.isOpen)
                    return await open.outgoing.statistics().packetsSent >= probes
                }
                try await server.listen(onlyTo: client.localAddresses[0])
                #expect(try await open.far.read(upTo: 1) == [2])
                #expect(open.outgoing.isOpen)
            }
        }
    }

    @Test func `a peer that is heard is there, whatever its machine says`() async throws {
        // On a busy machine the peer is silent for a moment, too: then nothing was shown.
        while try await !isKeptWhileHeard() {}
    }

    /// Returns whether a connection stayed open whose machine refused the port while its peer was heard; false when it
    /// was closed and the peer had been silent for a while, too.
    private func isKeptWhileHeard() async throws -> Bool {
        var isShown = true
        try await withEndpoint(.v4, patient) { server in
            try await withEndpoint(.v4, patient) { client in
                let open = try await Ends(client, server, at: server.localAddresses[0])
                try await server.listen(onlyTo: NetworkAddress(ipv4: (127, 0, 0, 1), port: 9))
                #expect(await Reachability.refusal(by: server.localAddresses[0]) == .closed)
                let probes = await open.outgoing.statistics().packetsSent + 20
                try await open.near.write([2])
                var heard = ContinuousClock.now
                var silence = Duration.zero
                while open.outgoing.isOpen, await open.outgoing.statistics().packetsSent < probes {
                    try? await open.far.write([3])
                    try await Task.sleep(for: .milliseconds(5))  // Real time: it is heard again and again.
                    silence = max(silence, ContinuousClock.now - heard)
                    heard = .now
                }
                isShown = open.outgoing.isOpen
                // Silent for less than lies between two questions, it was heard.
                if !isShown { try #require(silence > .milliseconds(20)) }
                guard isShown else { return }
                try await server.listen(onlyTo: client.localAddresses[0])
                do {
                    #expect(try await open.far.read(upTo: 1) == [2])
                } catch {
                    // It has been silent since the last byte above, on a busy machine for long enough.
                    if open.outgoing.isOpen { throw error }
                    isShown = false
                }
            }
        }
        return isShown
    }

    @Test func `one refusal is no answer`() async throws {
        let closed = try await closedPort()
        try await withEndpoint { endpoint in
            let refusals = Mutex(0)
            let listener = Mutex<UDPSocket.Bound?>(nil)
            defer { listener.withLock { $0?.close() } }
            let loop = endpoint.driver.loop
            let made = Promise<PortProbe?>()
            loop.execute {
                made.fulfil(
                    PortProbe(closed, loop: loop) { count in
                        refusals.withLock { $0 = count }
                        // Somebody listens there before it is asked again, however busy the machine is.
                        listener.withLock { $0 = $0 ?? (try? UDPSocket.open(at: closed, buffer: 0)) }
                    })
            }
            let probe = try #require(await made.value())
            try await eventually { await !loop.answer({ probe.isAsking }) }
            #expect(listener.withLock { $0 } != nil)
            #expect(refusals.withLock { $0 } == 1)
        }
    }

    @Test(arguments: [true, false])
    func `a peer that was killed and is back ends the connections it has lost`(isDialer: Bool) async throws {
        let key = DeviceKey()
        try await withEndpoint(.v4, patient) { survivor in
            let old = try await Endpoint.bind(key: key, options: patient(at: Family.v4.loopback), logger: .quiet)
            let address = old.localAddresses[0]
            let open: Connection
            if isDialer {
                _ = try await old.connect(to: survivor.id, at: survivor.localAddresses)
                open = try await next(survivor.established)
            } else {
                open = try await survivor.connect(to: key.id, at: [address])
            }
            // Neither end says anything that the other could still have to hear.
            try await eventually { await open.statistics().quiet >= .milliseconds(200) }
            let stream = try await open.openStream()
            await old.driver.vanish()
            let new = try await Endpoint.bind(key: key, options: patient(at: address), logger: .quiet)
            // One that is new is not in the way of hearing of the old one.
            _ = try await new.connect(to: survivor.id, at: survivor.localAddresses)
            try await stream.write([UInt8](repeating: 1, count: 100))
            let reason = await open.closed()
            #expect(reason.code == .closed && reason.message.contains("restarted"), "\(reason)")
            #expect(stream.isUndelivered)
            await new.shutdown()
        }
    }
}

/// Never says anything of itself, and waits for ever.
private let patient: Endpoint.Options = {
    var options = Endpoint.Options()
    options.idleTimeout = .seconds(600)
    options.keepAlive = nil
    return options
}()

private func patient(at address: NetworkAddress) -> Endpoint.Options {
    var options = patient
    options.bindAddresses = [address]
    return options
}

extension Logger {
    fileprivate static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// Both ends of a connection and of one stream, of which one byte has been read.
private struct Ends {
    let outgoing, incoming: Connection
    let near, far: QUICStream

    init(_ client: Endpoint, _ server: Endpoint, at address: NetworkAddress) async throws {
        outgoing = try await client.connect(to: server.id, at: [address])
        near = try await outgoing.openStream()
        try await near.write([1])
        incoming = try await next(server.established)
        far = try await next(incoming.incomingStreams)
        #expect(try await far.read(upTo: 1) == [1])
    }
}

extension EndpointLoop {
    fileprivate func answer<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        let answer = Promise<Value>()
        execute { answer.fulfil(body()) }
        return await answer.value()
    }
}

extension EndpointDriver {
    /// Goes as a process does that is killed: without a word.
    fileprivate func vanish() async {
        let closed = await loop.answer {
            let channels = self.sockets.map(\.channel)
            self.stopAccepting()
            let reason = CloseReason(origin: .local, code: .closed, message: "The process is gone.")
            for driver in Array(self.drivers.values) { driver.abandon(reason) }
            self.terminate()
            return channels
        }
        for channel in closed { try? await channel.closeFuture.get() }
    }
}

extension Endpoint {
    /// Where handshakes are under way, or connections open.
    fileprivate var dialed: Set<NetworkAddress> {
        get async {
            let addresses = Promise<Set<NetworkAddress>>()
            let driver = self.driver
            driver.loop.execute {
                addresses.fulfil(Set(driver.drivers.values.filter { !$0.isClosed }.map(\.dialed)))
            }
            return await addresses.value()
        }
    }

    /// Has the system refuse what comes to this endpoint's socket from anywhere else.
    fileprivate func listen(onlyTo address: NetworkAddress) async throws {
        let driver = self.driver
        let status = await driver.loop.answer {
            var remote = kith_udp_address(address)
            return unsafe kith_udp_connect(driver.sockets[0].descriptor, &remote)
        }
        try #require(status == 0)
    }
}
