import Foundation
import KithAPI
import KithIO
import KithTesting
import KithWire
import Testing

@testable import KithForward

@Suite struct DatagramTests {
    @Test(arguments: [Forward.Rule.Option.local, .remote])
    func `datagrams go there and back, whole`(option: Forward.Rule.Option) async throws {
        let peer = try Peer("udp")
        try await forwarding(option, "udp:127.0.0.1:0:127.0.0.1:\(peer.port)", LocalCarrier("forward")) { endpoint in
            var random = SeededRandom.fromEnvironment()
            print(random)
            // Two programs at once: each hears its own.
            let sockets = [try loopbackSocket(), try loopbackSocket()]
            for size in [0, 1, 512, 1_400, 9_000, 65_507] {
                for socket in sockets {
                    let payload = random.bytes(size)
                    let answer = try await ask(socket, payload, at: endpoint)
                    #expect(answer == payload, "\(size) bytes, \(random)")
                }
            }
        }
    }

    @Test func `SOCKS5 carries datagrams to names and addresses, and drops fragments`() async throws {
        let peer = try Peer("udp")
        let carrier = try LocalCarrier("forward", names: ["echo.example": ["127.0.0.1:0"]])
        try await forwarding(.dynamic, "127.0.0.1:0", carrier) { endpoint in
            let control = try await dial(endpoint)
            try await control.write([5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0])
            let reply = try await control.read(exactly: 12)
            #expect(reply[..<6] == [5, 0, 5, 0, 0, 1])
            let relay = Forward.Endpoint.address(
                NetworkAddress(ipv4: 0x7F00_0001, port: UInt16(reply[10]) << 8 | UInt16(reply[11])))
            let socket = try loopbackSocket()
            let port = [UInt8(peer.port >> 8), UInt8(peer.port & 0xFF)]
            let source = [0, 0, 0, 1, 127, 0, 0, 1] + port
            #expect(
                try await ask(socket, [0, 0, 0, 1, 127, 0, 0, 1] + port + [1, 2, 3], at: relay) == source + [1, 2, 3])
            let name = [0, 0, 0, 3, 12] + Array("echo.example".utf8) + port
            // A fragment, and one of a stranger: not answered, so that the next answer is the next one's.
            socket.send([0, 0, 1, 1, 127, 0, 0, 1] + port + [9], to: try #require(relay.address))
            try loopbackSocket().send(source + [8], to: try #require(relay.address))
            #expect(try await ask(socket, name + [4, 5], at: relay) == source + [4, 5])
            #expect(carrier.lookups.value == ["echo.example"])

            // The association ends with the connection that asked for it.
            try await control.finish()
            while carrier.laptop.core.count > 0 { await Task.yield() }
        }
    }

    @Test func `a datagram goes only where a grant allows`() async throws {
        let (granted, other) = (try Peer("udp"), try Peer("udp"))
        let carrier = try LocalCarrier(
            "forward:to=127.0.0.1:\(granted.port)", names: ["a.example": ["127.0.0.1:0"]])
        let stream = try await Client(carrier).open(
            Forward.Datagrams.self, Forward.Datagrams.Input(to: nil), on: "laptop"
        ).stream.bytes
        for endpoint in [
            other.endpoint, "a.example:\(other.port)", "0.0.0.0:\(granted.port)", "127.0.0.1:0", granted.endpoint,
        ] {
            let frame = DatagramFrame(other: Forward.Endpoint(endpoint), payload: Array(endpoint.utf8))
            try await stream.write(frame.encoded)
        }
        var decoder = DatagramFrameDecoder()
        var answer: DatagramFrame?
        while answer == nil, let bytes = try await stream.read(upTo: 4_096) {
            decoder.append(bytes)
            answer = try decoder.next()
        }
        // Only the last was sent, and so the first to come back.
        #expect(answer?.other?.description == granted.endpoint)
        #expect(answer?.payload == Array(granted.endpoint.utf8))
        stream.abort(.cancelled)

        await #expect(throws: KithError(.denied, "")) {
            try await Client(carrier).open(
                Forward.Datagrams.self,
                Forward.Datagrams.Input(to: Forward.Endpoint(other.endpoint)), on: "laptop")
        }
    }

    @Test func `nobody answers who was not spoken to`() async throws {
        let peer = try Peer("udp")
        let carrier = try LocalCarrier("forward")
        let stream = try await Client(carrier).open(
            Forward.Datagrams.self, Forward.Datagrams.Input(to: nil), on: "laptop"
        ).stream.bytes
        // This one finds out the port of the association, and answers twice: from where it was asked, and from elsewhere.
        let spoken = try loopbackSocket()
        let frame = DatagramFrame(other: .address(spoken.address), payload: [1])
        try await stream.write(frame.encoded)
        let (_, association) = try await spoken.receive()
        try loopbackSocket().send([66], to: association)
        spoken.send([2], to: association)
        let echo = DatagramFrame(other: Forward.Endpoint(peer.endpoint), payload: [3])
        try await stream.write(echo.encoded)
        var decoder = DatagramFrameDecoder()
        var heard: [[UInt8]] = []
        while heard.count < 2, let bytes = try await stream.read(upTo: 4_096) {
            decoder.append(bytes)
            while let frame = try decoder.next() { heard.append(frame.payload) }
        }
        #expect(heard.sorted { $0[0] < $1[0] } == [[2], [3]])
        stream.abort(.cancelled)
    }

    @Test func `an association that is silent ends`() async throws {
        let carrier = try LocalCarrier("forward")
        let stream = try await Client(carrier).open(
            Forward.Datagrams.self, Forward.Datagrams.Input(to: nil, idleSeconds: 1), on: "laptop"
        ).stream.bytes
        #expect(try await stream.read(upTo: 1) == nil)
    }

    @Test(arguments: [0, 3_601] as [UInt32])
    func `an association is not for ever`(seconds: UInt32) async throws {
        await #expect(throws: KithError(.invalid, "")) {
            try await Client(LocalCarrier("forward")).open(
                Forward.Datagrams.self, Forward.Datagrams.Input(to: nil, idleSeconds: seconds), on: "laptop")
        }
    }

    @Test func `when there are too many the oldest go`() async {
        let queue = DatagramQueue<Int>(limit: 4, byteLimit: 100)
        for number in 0..<10 { queue.push(number, bytes: 1) }
        #expect(await queue.next() == 6)
        queue.push(10, bytes: 98)
        #expect(await queue.next() == 8)
        queue.push(11, bytes: 1_000)
        // The newest stays, however large.
        #expect(await queue.next() == 11)
        queue.finish()
        #expect(await queue.next() == nil)
    }

    @Test func `families take turns, each attempt has its time, a failure brings the next`() throws {
        let addresses = try ["[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1", "192.0.2.2:1"].map {
            try #require(NetworkAddress($0))
        }
        var engine = HappyEyeballs(addresses)
        let start = ContinuousClock.now
        #expect(engine.action(at: start) == .attempt(addresses[0]))
        #expect(engine.action(at: start) == .wait(until: start + .milliseconds(250)))
        #expect(engine.action(at: start + .milliseconds(249)) == .wait(until: start + .milliseconds(250)))
        #expect(engine.action(at: start + .milliseconds(250)) == .attempt(addresses[2]))
        engine.attemptFailed()
        #expect(engine.action(at: start + .milliseconds(251)) == .attempt(addresses[1]))
        engine.attemptFailed()
        #expect(engine.action(at: start + .milliseconds(252)) == .attempt(addresses[3]))
        #expect(engine.action(at: start + .seconds(9)) == .wait(until: nil))
        engine.attemptFailed()
        #expect(engine.action(at: start + .seconds(9)) == .wait(until: nil))
        engine.attemptFailed()
        #expect(engine.action(at: start + .seconds(9)) == .failed)
        var none = HappyEyeballs([])
        #expect(none.action(at: start) == .failed)
    }
}

private func loopbackSocket() throws -> DatagramSocket {
    try DatagramSocket(at: NetworkAddress(ipv4: 0x7F00_0001, port: 0), on: try .forForwarding())
}

/// Sends a datagram and waits for the answer.
private func ask(_ socket: DatagramSocket, _ payload: [UInt8], at endpoint: Forward.Endpoint) async throws -> [UInt8] {
    socket.send(payload, to: try #require(endpoint.address))
    return try await socket.receive().payload
}

extension Forward.Endpoint {
    fileprivate var address: NetworkAddress? { if case .address(let address) = self { address } else { nil } }
}
