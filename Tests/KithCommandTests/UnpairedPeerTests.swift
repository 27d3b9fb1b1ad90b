import Foundation
import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging
import Testing

/// The answers that an unpaired peer gets from the real daemon when it speaks the protocol itself.
@Suite(.timeLimit(.minutes(3))) struct UnpairedPeerTests {
    private static let logger = Logger(label: "unpaired") { _ in SwiftLogNoOpLogHandler() }

    /// A daemon; with an invitation that waits, unless `isInviting` says otherwise.
    private func withLaptop(
        isInviting: Bool = true, _ body: (Machine, Ticket) async throws -> Void
    ) async throws {
        let laptop = try Machine("laptop")
        do {
            try await laptop.up()
            if isInviting { try await laptop.expect("invite", "--text") }
            let status = try await laptop.expect("status", "--json")
            let ticket = try Ticket(text: String(try #require(status.firstMatch(of: /"ticket" : "([^"]+)"/)).1))
            try await body(laptop, ticket)
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    /// Runs `body` with an endpoint that has a key of its own, at an address of the loopback.
    private func withPeer<Result>(
        key: DeviceKey = DeviceKey(), at address: NetworkAddress = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0),
        _ body: (Endpoint) async throws -> Result
    ) async throws -> Result {
        var options = Endpoint.Options()
        options.bindAddresses = [address]
        let endpoint = try await Endpoint.bind(key: key, options: options, logger: Self.logger)
        do {
            let result = try await body(endpoint)
            await endpoint.shutdown()
            return result
        } catch {
            await endpoint.shutdown()
            throw error
        }
    }

    /// The laptop as seen from the loopback.
    private func nearby(_ ticket: Ticket) throws -> [NetworkAddress] {
        [NetworkAddress(ipv4: (127, 0, 0, 1), port: try #require(ticket.addresses.first).port)]
    }

    private struct Garbage: StreamMessage {
        var present = ["invitation": "0000000000000000"]
    }

    /// Presents garbage in place of an invitation, and hears that.
    private func present(_ connection: Connection) async throws {
        let stream = try await connection.openStream()
        let header = StreamHeader(method: PairingMethods.Present.name, input: try CBOREncoder().encode(Nothing()))
        let opened = try await HeaderExchange.request(header, over: stream, isCall: false)
        let messages = MethodStream<PairingMethods.FromInviter, Garbage>(opened.stream)
        try await messages.send(Garbage())
        guard case .refused? = try await messages.receive() else {
            Issue.record("garbage was taken for an invitation")
            return
        }
    }

    @Test func `an unpaired device can do nothing but present an invitation`() async throws {
        try await withLaptop { laptop, ticket in
            // What the daemon serves, by its own table.
            let table = try await laptop.expect("call", "api.describe")
            let methods = table.matches(of: /"name" : "([^"]+)"/).map { String($0.1) }
            #expect(methods.count > 15)
            try await withPeer { peer in
                for method in methods where method != PairingMethods.Present.name {
                    // The daemon hangs up on whoever asks for more than it may: every try is a new connection.
                    let connection = try await peer.connect(to: ticket.id, at: nearby(ticket))
                    let input = try CBOREncoder().encode(["path": "/", "device": "x"])
                    let header = StreamHeader(method: method, input: input)
                    do {
                        let stream = try await connection.openStream()
                        _ = try await HeaderExchange.request(header, over: stream, isCall: true)
                        Issue.record("\(method) answered an unpaired device")
                    } catch let error as KithError {
                        #expect([.unpaired, .closed].contains(error.code), "\(method): \(error.code)")
                    }
                }
            }
            try await withPeer { try await present(try await $0.connect(to: ticket.id, at: nearby(ticket))) }
        }
    }

    @Test
    func `where no invitation waits, an unpaired device can do nothing at an enrolled one but show a certificate`()
        async throws
    {
        try await withLaptop(isInviting: false) { laptop, ticket in
            try await laptop.expect("enrol", "--begin")
            let table = try await laptop.expect("call", "api.describe")
            let methods = table.matches(of: /"name" : "([^"]+)"/).map { String($0.1) }
            #expect(methods.contains(Trust.Introduce.name) && methods.contains(PairingMethods.Present.name))
            try await withPeer { peer in
                for method in methods where method != Trust.Introduce.name {
                    let connection = try await peer.connect(to: ticket.id, at: nearby(ticket))
                    let header = StreamHeader(method: method, input: try CBOREncoder().encode(["path": "/"]))
                    do {
                        let stream = try await connection.openStream()
                        _ = try await HeaderExchange.request(header, over: stream, isCall: true)
                        Issue.record("\(method) answered an unpaired device")
                    } catch let error as KithError {
                        #expect([.unpaired, .closed].contains(error.code), "\(method): \(error.code)")
                    }
                }
            }
            // The one thing it may do, and what it gets for a certificate that is none.
            try await withPeer { peer in
                let code = try await show([1], peer, ticket)
                #expect(code == .unpaired)
            }
            // Sixteen keys that hold the places of their address keep no other out.
            var crowd: [Endpoint] = []
            for _ in 0..<16 {
                var options = Endpoint.Options()
                options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
                let endpoint = try await Endpoint.bind(key: DeviceKey(), options: options, logger: Self.logger)
                crowd.append(endpoint)
                _ = try await endpoint.connect(to: ticket.id, at: nearby(ticket))
            }
            try await withPeer(at: NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)) { peer in
                let code = try await show([1], peer, ticket)
                #expect(code == .unpaired)
            }
            for endpoint in crowd { await endpoint.shutdown() }
            // Its person can close that, too.
            try await laptop.expect("trust", "--no-admit")
            try await withPeer { peer in
                _ = await #expect(throws: KithError.self) { try await show([1], peer, ticket) }
            }
            #expect(try await laptop.expect("audit", "--json").contains(Trust.Introduce.name))
        }
    }

    /// Shows something in place of a certificate; returns the code of the refusal.
    private func show(_ certificate: [UInt8], _ peer: Endpoint, _ ticket: Ticket) async throws -> KithError.Code? {
        let connection = try await peer.connect(to: ticket.id, at: nearby(ticket))
        let stream = try await connection.openStream()
        let header = StreamHeader(method: Trust.Introduce.name, input: try CBOREncoder().encode(Nothing()))
        let opened = try await HeaderExchange.request(header, over: stream, isCall: false)
        let messages = MethodStream<Trust.FromDialed, Trust.FromDialing>(opened.stream)
        try await messages.send(
            .introduction(
                Trust.Introduction(
                    certificate: ByteString(certificate), proof: ByteString([]), name: "raw", addresses: [])))
        guard case .refused(let code, _)? = try await messages.receive() else { return nil }
        return code
    }

    @Test
    func `where no invitation waits, an unpaired device gets a refusal of its handshake, and one line in the log`()
        async throws
    {
        try await withLaptop(isInviting: false) { laptop, ticket in
            try await withPeer { peer in
                for _ in 0..<12 {
                    do {
                        // A client completes its half before the other end judges its key (RFC 8446 §2).
                        let connection = try await peer.connect(to: ticket.id, at: nearby(ticket))
                        let reason = await connection.closed()
                        #expect(reason.origin == .transport)
                        #expect(reason.code == .unpaired)
                        await #expect(throws: KithError.self) { try await present(connection) }
                    } catch let error as KithError {
                        #expect(error.code == .unpaired)
                    }
                }
                let lines = try await laptop.expect("audit", "--json")
                // One line for each hour of the clock in which it tried: one, or two.
                let counts = lines.matches(of: /; (\d+) times within the hour/).compactMap { Int($0.1) }
                #expect((1...2).contains(lines.components(separatedBy: peer.id.description).count - 1), "\(lines)")
                #expect((10...12).contains(counts.reduce(0, +)), "\(lines)")
            }
            // The owner's own lines are where they were, and an invitation opens the door again.
            try await laptop.expect("invite", "--text")
            try await withPeer { try await present(try await $0.connect(to: ticket.id, at: nearby(ticket))) }
        }
    }

    @Test func `a device that was forgotten is refused in the handshake, ticket or not`() async throws {
        try await withLaptop(isInviting: false) { laptop, ticket in
            let phone = try Machine("phone")
            do {
                try await phone.up()
                try await laptop.invite(phone)
                try await phone.expect("ping", "laptop", "-c", "1")
                try await laptop.expect("forget", "phone")
                let outcome = try await phone.kith(["ping", "laptop", "-c", "1"])
                #expect(outcome.status != 0)
                #expect(outcome.error.contains("is not paired with this device any more"))
                #expect(try await laptop.expect("audit", "--json").contains("not paired, and no invitation waits"))
            } catch {
                await phone.remove()
                throw error
            }
            await phone.remove()
        }
    }

    @Test func `an unpaired device that announces a long header is refused before it has sent it`() async throws {
        try await withLaptop { _, ticket in
            try await withPeer { peer in
                let connection = try await peer.connect(to: ticket.id, at: nearby(ticket))
                let stream = try await connection.openStream()
                let whole = try StreamHeader(
                    method: PairingMethods.Present.name, input: [UInt8](repeating: 0, count: 8 << 10)
                ).encoded()
                // The length is said, the input never sent: whoever would take it waits.
                try await stream.write(Array(whole.prefix(64)))
                var answer: [UInt8] = []
                while let more = try await stream.read(upTo: 4_096) { answer += more }
                guard case .failure(let code, _, _)? = try ResponseHead.parse(answer)?.head else {
                    Issue.record("a header of 8 KiB was taken from an unpaired device")
                    return
                }
                #expect(code == .invalid)
                #expect(await connection.closed().origin == .remote)
            }
        }
    }

    @Test func `sixteen keys from one address block nobody else`() async throws {
        try await withLaptop { _, ticket in
            var crowd: [(Endpoint, Connection)] = []
            for _ in 0..<16 {
                var options = Endpoint.Options()
                options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
                let endpoint = try await Endpoint.bind(key: DeviceKey(), options: options, logger: Self.logger)
                crowd.append((endpoint, try await endpoint.connect(to: ticket.id, at: nearby(ticket))))
            }
            // Those that hold a place keep it only among themselves.
            for (_, connection) in crowd.prefix(12) { #expect(await connection.closed().code == .exhausted) }
            try await withPeer(at: NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)) { peer in
                try await present(try await peer.connect(to: ticket.id, at: nearby(ticket)))
            }
            for (endpoint, _) in crowd { await endpoint.shutdown() }
        }
    }
}
