import Glibc
import Testing

@Suite("The lab's NATs", .serialized, .enabled(if: Lab.isPossible), .timeLimit(.minutes(4)))
struct LabTests {
    /// What a kind of NAT does, as servers outside see it.
    struct Behaviour: Sendable {
        var kind: String
        /// All destinations see one source.
        var isOneMapping: Bool
        /// The source seen is the device's own address.
        var isPublic = false
        /// Ports follow each other.
        var counts = false
        /// A host that was never sent to reaches the device.
        var letsOthersIn: Bool
        /// A host that was sent to reaches it from another port.
        var letsOtherPortsIn: Bool
    }

    static let kinds = [
        Behaviour(kind: "open", isOneMapping: true, isPublic: true, letsOthersIn: true, letsOtherPortsIn: true),
        Behaviour(kind: "full-cone", isOneMapping: true, letsOthersIn: true, letsOtherPortsIn: true),
        Behaviour(kind: "restricted", isOneMapping: true, letsOthersIn: false, letsOtherPortsIn: true),
        Behaviour(kind: "port-restricted", isOneMapping: true, letsOthersIn: false, letsOtherPortsIn: false),
        Behaviour(kind: "symmetric", isOneMapping: false, letsOthersIn: false, letsOtherPortsIn: false),
        Behaviour(
            kind: "sequential", isOneMapping: false, counts: true, letsOthersIn: false, letsOtherPortsIn: false),
    ]

    @Test func `each kind of NAT maps and filters as its name says`() async throws {
        try await Lab.with("open", "port-restricted") { lab in
            let servers = [
                try await lab.socket(in: "relay1", at: "relay1", port: 4000),
                try await lab.socket(in: "internet", at: "first", port: 4001),
                try await lab.socket(in: "internet", at: "first", port: 4000),
            ]
            let second = try await lab.socket(in: "internet", at: "second", port: 4000)
            for expected in Self.kinds {
                try await lab.change("nat 1 \(expected.kind)")
                let device = try await lab.socket(in: "c1", port: 5000)
                try device.send([1], to: servers[2])
                let source = try servers[2].receiveFrom()
                let address = try lab.address(of: expected.isPublic ? "c1" : "r1")
                #expect(source.sin_addr.s_addr.bigEndian == address, "\(expected.kind)")

                // Those who may not send back go first: theirs would be there when the last one's is.
                for (server, isLetIn) in zip(servers, [expected.letsOthersIn, expected.letsOtherPortsIn, true]) {
                    try server.send([2], to: source)
                    guard isLetIn else { continue }
                    #expect(try device.receiveFrom().sin_port == server.address.sin_port, "\(expected.kind)")
                }
                #expect(!device.hasDatagram, "\(expected.kind)")

                try device.send([3], to: second)
                let step = Int(try second.receiveFrom().sin_port.bigEndian) - Int(source.sin_port.bigEndian)
                #expect((step == 0) == expected.isOneMapping, "\(expected.kind)")
                if expected.counts { #expect(step == 1) }
            }
        }
    }

    @Test func `a blocked network carries no UDP, and the change to another kind is at once`() async throws {
        try await Lab.with("blocked", "open") { lab in
            let server = try await lab.socket(in: "internet", at: "first", port: 4000)
            let device = try await lab.socket(in: "c1", port: 5000)
            try device.send([1], to: server)
            try await lab.change("nat 1 port-restricted")
            try device.send([2], to: server)
            #expect(try server.receive() == [2])
            #expect(!server.hasDatagram)
        }
    }

    @Test func `a device goes to another network, gets another address, and loses what is dropped`() async throws {
        try await Lab.with("port-restricted", "open") { lab in
            let server = try await lab.socket(in: "internet", at: "first", port: 4000)
            func source(_ byte: UInt8, at port: UInt16) async throws -> UInt32 {
                let device = try await lab.socket(in: "c1", port: port)
                try device.send([byte], to: server)
                return try server.receiveFrom().sin_addr.s_addr.bigEndian
            }
            let home = try lab.address(of: "r1")
            #expect(try await source(1, at: 5001) == home)
            try await lab.change("uplink 1 mobile dual")
            #expect(try await source(2, at: 5002) == home + 10)
            try await lab.change("uplink 1 home v4")
            try await lab.change("renumber 1")
            let moved = try await source(3, at: 5003)
            #expect(moved != home)
            try await lab.change("quality 1 1")
            #expect(try await source(4, at: 5004) == moved)
            try await lab.change("quality 1 0")
            try await lab.change("drop 1 udp")
            let device = try await lab.socket(in: "c1", port: 5005)
            try device.send([5], to: server)
            try await lab.change("pass 1 udp")
            try device.send([6], to: server)
            #expect(try server.receive() == [6])
            await #expect(throws: LinkError.self) { try await lab.change("nat 1 round") }
            await #expect(throws: LinkError.self) { try await lab.change("uplink 3 home") }
        }
    }
}
