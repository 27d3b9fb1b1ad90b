import KithIdentity
import KithNet
import KithQUIC
import KithWire

/// What one case does to the link and asks of the peers.
struct Scenario: Sendable {
    /// What decides which packets the link spoils.
    static let seed = 7

    /// What there is to look at after the conversation.
    struct Outcome: Sendable {
        /// What the link did.
        var statistics: Link.Statistics
        /// What our ends logged.
        var events: Events
        /// Every datagram, in order.
        var datagrams: [Capture.Datagram]
    }

    /// The link's options; those of the runner's simulated network unless the case says otherwise.
    var link: [String: String] = ["rate": "10mbit", "delay": "15ms", "queue": "50ms", "seed": "\(seed)"]
    var ipv6 = false
    /// How many bytes the dialer sends on each stream.
    var up = 1000
    /// How many bytes it asks for on each stream.
    var down = 1000
    /// How many streams at once, on each connection.
    var streams = 1
    /// How many connections at once, each from an endpoint of its own.
    var connections = 1
    /// How many connections one after the other, of which the later ones may use what an earlier one was given.
    var rounds = 1
    /// Whether the later ones ask before the handshake is complete.
    var isEarly = false
    /// Whether our end sends Retry to everybody.
    var sendsRetry = false
    /// How our end differs when it dials.
    var client: @Sendable (inout QUICConfiguration) -> Void = { _ in }
    /// How our end differs when it serves.
    var server: @Sendable (inout QUICConfiguration) -> Void = { _ in }
    /// Whether the dialer moves to another address once the conversation is under way.
    var moves = false
    /// What happens to the link once the conversation is under way.
    var event: (@Sendable (Link) async throws -> Void)?
    /// Looks at the outcome; returns a remark for the table.
    var check: (@Sendable (Outcome) throws -> String)?

    /// What `name` asks for when done with `peer`.
    static func of(_ name: Case, with peer: Peer) -> Scenario {
        var scenario = Scenario()
        // Python takes milliseconds for a packet.
        let isSlow = peer == .aioquicServer || peer == .aioquicClient
        let bulk = isSlow ? 500_000 : 2_000_000
        switch name {
        case .chacha20: scenario.useChaCha20()
        // An iroh endpoint that comes back offers the ticket it got, if it got one.
        case .handshake: scenario.rounds = peer == .irohClient ? 2 : 1
        case .resumption: scenario.resume()
        case .zerortt: scenario.askEarly(delay: peer == .ngtcp2Server ? 520 : 250)
        case .retry: scenario.proveAddress()
        case .transfer: (scenario.up, scenario.down) = (bulk, bulk)
        case .longrtt: scenario.waitLong()
        case .multiplexing: scenario.multiplex(isSlow ? 200 : 1000)
        case .blackhole: scenario.fallSilent()
        case .keyupdate: scenario.updateKeys(down: bulk, peerBegins: peer == .aioquicClient || peer == .ngtcp2Client)
        case .ecn: scenario.mark(down: bulk, peerReadsMarks: !isSlow)
        case .amplificationlimit: scenario.overwhelm()
        case .handshakeloss: scenario.spoil("loss", "30%", connections: isSlow ? 4 : 8)
        case .handshakecorruption: scenario.spoil("corrupt", "30%", connections: isSlow ? 4 : 8)
        case .transferloss: scenario.spoil("loss", "2%", bytes: bulk / 2)
        case .transfercorruption: scenario.spoil("corrupt", "2%", bytes: bulk / 2)
        case .ipv6: (scenario.ipv6, scenario.down) = (true, bulk / 2)
        case .v2: scenario.changeVersion(down: bulk / 2, serverPrefers: peer != .aioquicServer)
        case .rebindPort: scenario.rebind("port")
        case .rebindAddress: scenario.rebind("address")
        case .connectionmigration: scenario.migrate(down: bulk)
        case .goodput: scenario.down = isSlow ? bulk * 2 : bulk * 3 / 2
        case .crosstraffic: scenario.down = isSlow ? bulk * 2 : bulk * 3 / 2
        }
        return scenario
    }

    /// A client that gives up waiting too early sends its first flight again and again.
    private mutating func waitLong() {
        link["delay"] = "750ms"
        check = { outcome in
            let packets = outcome.statistics.up.packets
            guard packets < 40 else { throw LinkError("\(packets) packets were sent") }
            return "\(packets) packets up"
        }
    }

    private mutating func useChaCha20() {
        client = { $0.cipherPreference = .chaCha20Only }
        server = { $0.cipherPreference = .chaCha20Only }
        check = { outcome in
            guard outcome.events.ciphers == ["TLS_CHACHA20_POLY1305_SHA256"] else {
                throw LinkError("the packets are protected by \(outcome.events.ciphers)")
            }
            return ""
        }
    }

    private mutating func resume() {
        rounds = 2
        check = { outcome in
            guard outcome.events.resumed > 0 else { throw LinkError("no session was resumed") }
            return ""
        }
    }

    /// Over a link that takes `delay` milliseconds: on a short one the handshake of a busy machine is complete before
    /// the first request is written.
    ///
    /// GnuTLS, which is ngtcp2's, refuses early data when a ticket's age by the client is more than its own; BoringSSL
    /// counts whole seconds, and is up to one ahead. There a round trip takes longer than that.
    private mutating func askEarly(delay: Int) {
        (rounds, isEarly) = (2, true)
        link["delay"] = "\(delay)ms"
        check = { outcome in
            let early = outcome.datagrams.filter { $0.isFromLeft && $0.hasEarlyData }
            guard !early.isEmpty else { throw LinkError("no 0-RTT packet was sent") }
            guard outcome.events.early > 0 else { throw LinkError("early data was not accepted") }
            return "\(early.count) datagrams with 0-RTT packets"
        }
    }

    private mutating func multiplex(_ count: Int) {
        (up, down, streams) = (32, 32, count)
        check = { _ in "\(count) streams" }
    }

    private mutating func fallSilent() {
        down = 2_000_000
        event = { link in
            try await link.carried(100, from: .right)
            try await link.set("blackhole=on")
            try await Task.sleep(for: .seconds(2))  // Real time: so long the link is silent.
            try await link.set("blackhole=off")
        }
        check = { outcome in
            let packets = outcome.statistics.down.blackholed
            guard packets > 0 else { throw LinkError("nothing was sent into the black hole") }
            return "silent for 2 s, \(packets) packets down were lost"
        }
    }

    private mutating func updateKeys(down bytes: Int, peerBegins: Bool) {
        down = bytes
        if !peerBegins {
            client = { $0.packetsPerKey = 50 }
            server = { $0.packetsPerKey = 100 }
        }
        check = { outcome in
            // One record for each direction.
            let local = outcome.events.count("local_update") / 2
            let remote = outcome.events.count("remote_update") / 2
            guard (peerBegins ? remote : local) > 0 else { throw LinkError("nobody updated the keys") }
            return "\(local) updates by us, \(remote) followed"
        }
    }

    /// Some packets meet congestion; whoever reads marks says so, and then ours stay marked to the end.
    private mutating func mark(down bytes: Int, peerReadsMarks: Bool) {
        (up, down) = (bytes, bytes)
        link["congest"] = "1%"
        check = { outcome in
            let (up, down) = (outcome.datagrams.filter(\.isFromLeft), outcome.datagrams.filter { !$0.isFromLeft })
            func marks(_ datagrams: [Capture.Datagram]) -> Int { datagrams.count { $0.ecn != 0 } }
            if peerReadsMarks {
                let met = outcome.statistics.up.marked + outcome.statistics.down.marked
                guard marks(up) > up.count * 9 / 10, marks(down) > down.count * 9 / 10, met > 0 else {
                    throw LinkError("only \(marks(up)) of \(up.count) packets up are marked, \(marks(down)) down")
                }
                return "\(marks(up)) of \(up.count) packets up are marked, \(marks(down)) of \(down.count) down"
            }
            // The peer marks nothing, so every mark is ours.
            let tried = marks(outcome.datagrams)
            guard tried > 0, tried < 50 else {
                throw LinkError("\(tried) packets are marked for a peer that reads no marks")
            }
            return "the peer reads no marks: ours end after \(tried) packets"
        }
    }

    /// A server whose first flight, nine certificates, is larger than what it may answer a datagram with.
    private mutating func overwhelm() {
        link["up-first"] = "1"
        // The whole ClientHello in one datagram.
        client = { $0.offersPostQuantumKeyShare = false }
        // So that the server has something to answer.
        client = { $0.offersPostQuantumKeyShare = false }
        server = { configuration in
            let keys = (0..<9).map { _ in DeviceKey() }
            // Making one fails only if the library does.
            let chain = keys.compactMap { try? SelfSignedCertificate.make(for: $0) }
            configuration.credentials = [.x509(chain: chain, seed: keys[0].seed)]
        }
    }

    private mutating func spoil(_ what: String, _ share: String, connections count: Int = 1, bytes: Int = 1000) {
        link[what] = share
        (connections, up, down) = (count, bytes, bytes)
        check = { outcome in
            let (up, down) = (outcome.statistics.up, outcome.statistics.down)
            let spoiled = up.lost + up.corrupted + down.lost + down.corrupted
            guard spoiled > 0 else { throw LinkError("the link spoiled nothing") }
            return (count > 1 ? "\(count) connections, " : "")
                + "\(spoiled) of \(up.packets + down.packets) packets spoiled"
        }
    }

    /// A client may prove its address before the server spends anything on it.
    private mutating func proveAddress() {
        sendsRetry = true
        check = { outcome in
            let retries = outcome.datagrams.count { datagram in
                // RFC 9000 §17.2.5: a long header of type 3.
                !datagram.isFromLeft && datagram.version == QUICVersion.one.rawValue
                    && datagram.payload[0] & 0x30 == 0x30
            }
            // One for each datagram of the first flight.
            guard (1...2).contains(retries) else { throw LinkError("the server sent \(retries) Retry packets") }
            return "\(retries) Retry packet\(retries == 1 ? "" : "s")"
        }
    }

    /// The client begins with version 1, and the server prefers the version 2 it offers; or it begins with version 2,
    /// for a server that leaves the choice to the client.
    private mutating func changeVersion(down bytes: Int, serverPrefers: Bool) {
        down = bytes
        client = { $0.versions = serverPrefers ? [.one, .two] : [.two, .one] }
        server = { configuration in
            configuration.versions = [.two, .one]
            configuration.prefersOwnVersion = true
        }
        check = { outcome in
            let long = outcome.datagrams.filter { $0.version != nil }
            let (one, two) = (QUICVersion.one.rawValue, QUICVersion.two.rawValue)
            guard long.first?.version == (serverPrefers ? one : two) else {
                throw LinkError("it began with another version")
            }
            guard long.contains(where: { $0.isFromLeft && $0.version == two }),
                long.last(where: { !$0.isFromLeft })?.version == two
            else { throw LinkError("the handshake did not end in version 2") }
            return serverPrefers ? "from version 1 to 2" : "version 2 from the start"
        }
    }

    private mutating func rebind(_ what: String) {
        down = 2_000_000
        event = { link in
            try await link.carried(100, from: .right)
            try await link.set("rebind=\(what)")
        }
        check = { outcome in
            let answers = outcome.datagrams.filter { !$0.isFromLeft }.map(\.destination)
            // Most of the last: a server may go on asking whether the old address is still there (RFC 9000 §9.3.3).
            let new = answers.suffix(50).count { answer in
                what == "port" ? answer.port != answers[0].port : answer.host != answers[0].host
            }
            guard new > 25 else { throw LinkError("of the last 50 packets \(new) went to the new address") }
            return "\(outcome.statistics.down.unbound) packets went to the old address"
        }
    }

    /// The client goes elsewhere by itself, with other connection ids, so that nobody on the way links the two.
    private mutating func migrate(down bytes: Int) {
        (down, moves) = (bytes, true)
        check = { outcome in
            let up = outcome.datagrams.filter(\.isFromLeft)
            let old = up.filter { $0.source == up.first?.source }
            let new = up.filter { $0.source != up.first?.source }
            guard let last = outcome.datagrams.last(where: { !$0.isFromLeft }),
                new.contains(where: { $0.source == last.destination })
            else { throw LinkError("the server did not follow") }
            // The shortest id any of our peers asks for has eight bytes.
            let ids = Set(old.filter { $0.version == nil }.map { $0.payload[1..<9] })
            guard !new.contains(where: { ids.contains($0.payload[1..<9]) }) else {
                throw LinkError("both addresses were used with one connection id")
            }
            return "\(new.count) of \(up.count) packets up from the new address"
        }
    }
}
