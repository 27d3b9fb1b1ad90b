import KithReach
import KithWire
import Testing

extension NetworkAddress {
    /// The same with another port.
    func with(port: UInt16) -> NetworkAddress {
        var address = self
        address.port = port
        return address
    }
}

@Suite("Candidates") struct CandidateTableTests {
    private func table(_ addresses: [(String, LocalAddress.Interface)]) throws -> CandidateTable {
        var table = CandidateTable()
        table.set(try addresses.map { LocalAddress(try #require(NetworkAddress($0.0)), on: $0.1) })
        return table
    }

    private func told(_ table: CandidateTable, _ preference: ReachPreference = .auto) -> [String] {
        table.list(for: preference).candidates.map(\.candidate.address.description)
    }

    @Test func `addresses that lead to this device alone never leave it`() throws {
        let table = try table([
            ("127.0.0.1:4433", .ordinary), ("[::1]:4433", .loopback), ("0.0.0.0:4433", .ordinary),
            ("[::]:4433", .ordinary), ("224.0.0.251:4433", .ordinary), ("[ff02::fb]:4433", .ordinary),
            ("255.255.255.255:4433", .ordinary), ("172.17.0.1:4433", .containers), ("[fd00::1]:4433", .containers),
            ("[fe80::1%2]:4433", .ordinary), ("169.254.3.4:4433", .ordinary), ("192.168.1.2:0", .ordinary),
            ("192.168.1.2:4433", .ordinary),
        ])
        #expect(told(table) == ["192.168.1.2:4433"])
    }

    @Test func `an address that is given up is not told, and a temporary one comes first`() throws {
        var table = CandidateTable()
        let addresses = try ["[2001:db8::3]:1", "[2001:db8::5]:1", "[2001:db8::1]:1", "[2001:db8::4]:1"].map {
            try #require(NetworkAddress($0))
        }
        table.set([
            LocalAddress(addresses[0]), LocalAddress(addresses[1], isTemporary: true),
            LocalAddress(addresses[2], isDeprecated: true, isTemporary: true), LocalAddress(addresses[3]),
        ])
        #expect(told(table) == ["[2001:db8::5]:1", "[2001:db8::3]:1", "[2001:db8::4]:1"])
    }

    @Test func `an IPv4 address of the link is told where there is no other`() throws {
        #expect(told(try table([("169.254.3.4:4433", .ordinary)])) == ["169.254.3.4:4433"])
    }

    @Test(arguments: [
        ("lo", LocalAddress.Interface.loopback), ("docker0", .containers), ("br-3f2a", .containers),
        ("virbr0", .containers), ("veth12", .containers), ("bridge100", .containers), ("wg0", .tunnel),
        ("utun3", .tunnel), ("tailscale0", .tunnel), ("wwan0", .cellular), ("pdp_ip0", .cellular), ("eth0", .ordinary),
        ("wlan0", .ordinary), ("br0", .ordinary), ("en0", .ordinary),
    ])
    func `an interface is known by its name`(name: String, expected: LocalAddress.Interface) {
        #expect(LocalAddress.Interface(named: name) == expected)
    }

    @Test func `a preference decides what is told`() throws {
        var table = try table([
            ("192.168.1.2:4433", .ordinary), ("[2001:db8::2]:4433", .ordinary), ("203.0.113.2:4433", .ordinary),
            ("10.8.0.2:4433", .tunnel),
        ])
        table.set([try #require(NetworkAddress("203.0.113.9:5000"))], of: .reflexive)
        #expect(told(table, .relay).isEmpty)
        #expect(told(table, .local) == ["[2001:db8::2]:4433", "192.168.1.2:4433"])
        let all = [
            "[2001:db8::2]:4433", "192.168.1.2:4433", "203.0.113.2:4433", "203.0.113.9:5000", "10.8.0.2:4433",
        ]
        #expect(Set(told(table, .auto)) == Set(all) && told(table, .auto) == told(table, .direct))
        #expect(told(table).first == "[2001:db8::2]:4433" && told(table).last == "10.8.0.2:4433", "VPN last")
    }

    @Test func `kinds come in order, and an address known in two ways is told once`() throws {
        var table = try table([("192.168.1.2:4433", .ordinary)])
        let mapped = try #require(NetworkAddress("203.0.113.9:4433"))
        let reflexive = try #require(NetworkAddress("203.0.113.9:5000"))
        let changes = [Candidate.Kind.reflexive, .reflexive, .mapped].map { kind in
            table.set(kind == .mapped ? [mapped] : [mapped, reflexive], of: kind)
        }
        #expect(changes == [true, false, true])
        #expect(
            table.list(for: .auto).candidates.map(\.candidate) == [
                Candidate(try #require(NetworkAddress("192.168.1.2:4433")), .host), Candidate(mapped, .mapped),
                Candidate(reflexive, .reflexive),
            ])
        let priorities = table.list(for: .auto).candidates.map(\.priority)
        #expect(priorities == priorities.sorted(by: >) && Set(priorities).count == 3)
    }

    @Test func `another network begins another generation without the old addresses`() throws {
        var table = try table([("192.168.1.2:4433", .ordinary)])
        #expect(table.list(for: .auto).generation == 1)
        table.networkChanged()
        #expect(table.list(for: .auto) == CandidateList(generation: 2))
    }

    @Test func `no more candidates are told or taken than may be`() throws {
        var table = CandidateTable()
        let many = (0..<300).map { NetworkAddress(ipv4: 0xC0A8_0100 + UInt32($0), port: 4_433) }
        table.set(many.map { LocalAddress($0) })
        table.set(many.map { $0.with(port: 9) }, of: .reflexive)
        #expect(table.list(for: .auto).candidates.count == CandidateTable.maxCandidates)

        var peer = PeerCandidates()
        let isNew = peer.receive(
            CandidateList(generation: 1, candidates: many.map { RankedCandidate(Candidate($0, .host), priority: 1) }))
        #expect(isNew && peer.list?.candidates.count == CandidateTable.maxCandidates)
    }

    @Test func `a list of an older generation is dropped`() {
        let address = NetworkAddress(ipv4: (192, 168, 1, 2), port: 4_433)
        let new = CandidateList(
            generation: 4, candidates: [RankedCandidate(Candidate(address, .host), priority: 1)])
        var peer = PeerCandidates()
        let results = [
            new, new, CandidateList(generation: 3), CandidateList(generation: 5), CandidateList(generation: 4),
        ].map { peer.receive($0) }
        #expect(results == [true, false, false, true, false])
        #expect(peer.list == CandidateList(generation: 5))
    }

    @Test(arguments: [
        "224.0.0.1:9", "255.255.255.255:9", "127.0.0.1:9", "0.0.0.0:9", "0.1.2.3:9", "240.0.0.1:9", "192.0.2.1:0",
        "[::]:9", "[::1]:9", "[ff02::1]:9", "[fe80::1]:9", "[fe80::1%3]:9",
    ])
    func `a peer's address that no packet may go to is left out`(text: String) throws {
        let address = try #require(NetworkAddress(text))
        var peer = PeerCandidates()
        _ = peer.receive(
            CandidateList(generation: 1, candidates: [RankedCandidate(Candidate(address, .host), priority: 1)]))
        #expect(peer.list?.candidates.isEmpty == true)
    }
}
