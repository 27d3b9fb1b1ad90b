import KithIdentity
import KithWire
import Testing

@testable import KithNet

/// Machines that say of themselves that nobody listens there, on the loopback, where the system always says so.
@Suite(.timeLimit(.minutes(1))) struct ClosedPortTests {
    /// Where somebody listened a moment ago.
    private func closedPort(_ family: Family = .v4) async throws -> NetworkAddress {
        try await withEndpoint(family) { $0.localAddresses[0] }
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
                    while await client.dialed != [address] { try await Task.sleep(for: .milliseconds(5)) }
                    cable.mend()
                    #expect(try await dialed.statistics().remoteAddress == address)
                }
            }
        }
    }

    @Test func `an established connection outlives a machine that says nobody is there`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                var place: NetworkAddress?
                var ends: (outgoing: Connection, near: QUICStream, far: QUICStream)?
                try await Cable.to(server.localAddresses[0]) { _, address in
                    let outgoing = try await client.connect(to: server.id, at: [address])
                    let near = try await outgoing.openStream()
                    try await near.write([1])
                    let far = try await next(try await next(server.established).incomingStreams)
                    #expect(try await far.read(upTo: 1) == [1])
                    (place, ends) = (address, (outgoing, near, far))
                }
                let (address, (outgoing, near, far)) = (try #require(place), try #require(ends))
                // Nobody is at the port now: the system refuses whatever is sent there.
                #expect(await Reachability.refusal(by: address) == .closed)
                let sent = await outgoing.statistics().packetsSent
                try await near.write([2])
                while await outgoing.statistics().packetsSent < sent + 2 { try await Task.sleep(for: .milliseconds(5)) }
                try await Cable.to(server.localAddresses[0], port: address.port) { _, _ in
                    let arrived = try await far.read(upTo: 1)
                    #expect(arrived == [2])
                }
                #expect(outgoing.isOpen)
            }
        }
    }
}

extension Endpoint {
    /// Where handshakes are under way, or connections open.
    fileprivate var dialed: Set<NetworkAddress> {
        get async {
            let addresses = OneShot<Set<NetworkAddress>>()
            let driver = self.driver
            driver.loop.execute {
                addresses.fulfil(Set(driver.drivers.values.filter { !$0.isClosed }.map(\.dialed)))
            }
            return await addresses.value()
        }
    }
}
