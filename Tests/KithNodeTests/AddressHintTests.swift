import KithAPI
import KithIO
import KithIdentity
import KithNet
@testable import KithNode
import KithTesting
import KithWire
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct `A device at the name of a host` {
    private func place(_ number: UInt8) -> NetworkAddress { NetworkAddress(ipv4: (192, 0, 2, number), port: 4433) }

    @Test func `is given by a name and a port`() {
        #expect(HostAndPort("Nas.Example.org.:4433")?.description == "nas.example.org:4433")
        for wrong in ["", "nas", "nas:", ":4433", "nas:0", "nas:65536", "nas:1:2", "192.0.2.7:1", "-a:1", "[::1]:1"] {
            #expect(HostAndPort(wrong) == nil, "\(wrong)")
        }
    }

    @Test func `is looked up at each attempt, after what is heard and before what was known`() async throws {
        let friends = try Friends(grants: [])
        let known = KnownDevice(id: friends.laptopID, name: "laptop", grants: [], addresses: [place(9)])
        let answers = Mutex([[place(1), place(9)], [place(2)]])
        var hints = AddressHints(fixed: ["laptop": [place(7)]])
        let host = try #require(HostAndPort("nas.example.org:4433"))
        hints.hosts = [known.id.description: [host], "other": [host]]
        hints.lookUp = { name, port in
            #expect(name == "nas.example.org" && port == 4433)
            return answers.withLock { $0.removeFirst() }
        }
        friends.phone.hints = hints
        #expect(await friends.phone.places(of: known) == [place(7), place(1), place(9)])
        #expect(await friends.phone.places(of: known) == [place(7), place(2), place(9)])
    }

    @Test func `does not hold up what is known for long, and is named where it is all there is`() async throws {
        let clock = ManualClock()
        let friends = try Friends(grants: [], clock: clock)
        let host = try #require(HostAndPort("nas.example.org:4433"))
        friends.phone.hints = AddressHints(hosts: ["laptop": [host]]) { _, _ in
            // Only cancelling ends it, as a resolver that gets no answer.
            try? await untilCancelled()
            return []
        }
        let start = clock.now
        let answer = try await clock.advance(by: .milliseconds(100)) {
            try await friends.phone.client.call(Ask.self, "hi", on: "laptop")
        }
        #expect(answer == "hi!" && clock.now - start >= .seconds(3))
        let phone = try Friends.id(7)
        let other = Node(
            id: phone,
            directory: MemoryDirectory(KnownDevice(id: friends.laptopID, name: "laptop", grants: [], addresses: [])),
            logger: .quiet)
        other.use(PipeDialer(phone, peers: [:]))
        other.hints = AddressHints(hosts: ["laptop": [host]]) { _, _ in [] }
        let error = await #expect(throws: KithError.self) {
            try await other.client.call(API.Describe.self, Nothing(), on: "laptop")
        }
        #expect(error?.code == .unreachable && error?.message.contains("nas.example.org") == true)
    }
}
