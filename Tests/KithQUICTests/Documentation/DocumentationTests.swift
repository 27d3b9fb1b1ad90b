import Crypto
import Foundation
import KithQUIC
import KithTesting
import KithWire
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The client and the server of the documentation's first page, run over real sockets.
@Suite struct DocumentationTests {
    private func client(
        _ socket: Socket, to server: NetworkAddress, key serverKey: [UInt8], as seed: [UInt8]
    ) throws -> [UInt8] {
        var answer: [UInt8] = []
        var configuration = QUICConfiguration(credentials: [.rawPublicKey(seed: seed)], alpn: ["echo"])
        configuration.verify = { $0 == .rawPublicKey(serverKey) }
        var connection = try QUICConnection.client(configuration, remote: server, at: socket.now)
        try socket.drive(&connection) { connection, event in
            if case .connected = event, let stream = connection.openStream(.bidirectional) {
                _ = try connection.write(Array("hello".utf8), to: stream)
                try connection.finish(stream)
            } else if case .readable(let stream) = event {
                let (bytes, isFinished) = try connection.read(stream)
                answer += bytes
                if isFinished { connection.close(code: 0, at: socket.now) }
            }
        }
        return answer
    }

    private func server(_ socket: Socket, for clientKey: [UInt8], as seed: [UInt8]) throws {
        var configuration = QUICConfiguration(credentials: [.rawPublicKey(seed: seed)], alpn: ["echo"])
        configuration.verify = { $0 == .rawPublicKey(clientKey) }
        guard let (first, client) = socket.receive(until: nil), let initial = DatagramHeader(first) else { return }
        var connection = try QUICConnection.server(configuration, remote: client, initial: initial, at: socket.now)
        connection.receive(first, from: client, at: socket.now)
        try socket.drive(&connection) { connection, event in
            guard case .readable(let stream) = event else { return }
            let (bytes, isFinished) = try connection.read(stream)
            _ = try connection.write(bytes, to: stream)
            if isFinished { try connection.finish(stream) }
        }
    }

    @Test func `the documentation's client and server understand each other`() async throws {
        let (alice, bob) = (Curve25519.Signing.PrivateKey(), Curve25519.Signing.PrivateKey())
        let (near, far) = (try Socket(), try Socket())
        let serving = Thread.run {
            try server(far, for: Array(alice.publicKey.rawRepresentation), as: Array(bob.rawRepresentation))
        }
        let asking = Thread.run {
            try client(
                near, to: far.address, key: Array(bob.publicKey.rawRepresentation), as: Array(alice.rawRepresentation))
        }
        #expect(try await asking.value == Array("hello".utf8))
        try await serving.value
    }

    @Test func `the page shows the code that runs here`() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(
            contentsOf: root.appendingPathComponent("Sources/KithQUIC/KithQUIC.docc/KithQUIC.md"), encoding: .utf8)
        let code = lines(try String(contentsOf: here, encoding: .utf8))
        let blocks = page.components(separatedBy: "```swift\n").dropFirst()
        #expect(blocks.count == 3)
        for block in blocks {
            let shown = lines(block.components(separatedBy: "```")[0])
            let isHere = code.indices.contains { code[$0...].starts(with: shown) }
            #expect(isHere, "not run: \(shown.first ?? "")")
        }
    }

    private func lines(_ text: String) -> [Substring] {
        text.split(separator: "\n").map { $0.drop { $0 == " " } }
    }
}

extension Thread {
    /// Runs work that waits for sockets beside the tasks' threads.
    fileprivate static func run<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) -> Task<Value, any Error> {
        Task { try await onThread(body) }
    }
}

/// A UDP socket on the IPv4 loopback.
private final class Socket: Sendable {
    private let descriptor: Int32
    let address: NetworkAddress

    init() throws {
        #if canImport(Darwin)
        let descriptor = socket(AF_INET, SOCK_DGRAM, 0)
        #else
        let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        #endif
        self.descriptor = descriptor
        var name = Self.name(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                bind(descriptor, name, size) == 0 && getsockname(descriptor, name, &size) == 0
            }
        }
        try #require(port)
        address = NetworkAddress(ipv4: (127, 0, 0, 1), port: UInt16(bigEndian: name.sin_port))
    }

    deinit { close(descriptor) }

    var now: Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Timestamp(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    func send(_ bytes: [UInt8], to remote: NetworkAddress) {
        var name = Self.name(port: remote.port)
        withUnsafeMutablePointer(to: &name) { pointer in
            _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                sendto(descriptor, bytes, bytes.count, 0, name, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    func receive(until deadline: Timestamp?) -> ([UInt8], NetworkAddress)? {
        let milliseconds = deadline.map { max(0, ($0 - now) / 1_000_000 + 1) } ?? 10_000
        var question = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&question, 1, Int32(min(milliseconds, 10_000))) == 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        var name = Self.name(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let count = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
                recvfrom(descriptor, &bytes, bytes.count, 0, name, &size)
            }
        }
        guard count >= 0 else { return nil }
        return (Array(bytes[..<count]), NetworkAddress(ipv4: (127, 0, 0, 1), port: UInt16(bigEndian: name.sin_port)))
    }

    func drive(
        _ connection: inout QUICConnection, _ react: (inout QUICConnection, QUICConnection.Event) throws -> Void
    ) throws {
        while !connection.isDrained {
            while let event = connection.nextEvent() { try react(&connection, event) }
            for (bytes, remote) in connection.datagrams(at: now) { send(bytes, to: remote) }
            if let (bytes, remote) = receive(until: connection.nextDeadline) {
                connection.receive(bytes, from: remote, at: now)
            } else {
                connection.timedOut(at: now)
            }
        }
    }

    private static func name(port: UInt16) -> sockaddr_in {
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = port.bigEndian
        name.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return name
    }
}
