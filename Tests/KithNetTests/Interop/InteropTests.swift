import Crypto
import KithAPI
import KithIdentity
import KithNet
import KithWire
import Testing

/// Conversations with implementations that are not ours; the words of the exchange are in `Tests/Interop/exchange.py`.
@Suite(.serialized) struct InteropTests {
    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")))
    func `aioquic as server exchanges ten megabytes both ways`() async throws {
        try await PythonPeer.run("aioquic_peer.py", ["serve", "kith/1"]) { peer in
            struct Listening: Decodable { var port: UInt16 }
            let port = try await peer.next(Listening.self).port
            try await withEndpoint(.v4, foreignOptions) { endpoint in
                let connection = try await endpoint.connectForeign(
                    at: [NetworkAddress(ipv4: (127, 0, 0, 1), port: port)], serverName: "localhost")
                guard case .certificates(let chain) = connection.peer else {
                    throw TestError("aioquic has no device key")
                }
                #expect(chain.count == 1)
                try await ask(connection, count: 10_000_000)
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("aioquic")))
    func `aioquic as client exchanges ten megabytes both ways`() async throws {
        try await withEndpoint(.v4, foreignOptions) { endpoint in
            let arguments = ["dial", "kith/1", "127.0.0.1", "\(endpoint.port)", "10000000"]
            try await PythonPeer.run("aioquic_peer.py", arguments) { peer in
                let connection = try await next(endpoint.established)
                #expect(connection.peerID == nil)
                try await answer(connection)
                struct Judged: Decodable { var verdict: String }
                #expect(try await peer.next(Judged.self).verdict == "ok")
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("iroh")))
    func `iroh is dialed by its key and exchanges a hundred megabytes both ways`() async throws {
        try await PythonPeer.run("iroh_peer.py", ["serve", "kith/1"]) { peer in
            let listening = try await peer.next(IrohListening.self)
            let address = try #require(listening.addresses.lazy.compactMap { NetworkAddress($0) }.first)
            try await withEndpoint { endpoint in
                let id = try DeviceID(publicKey: try #require(Hex.decode(listening.id)))
                let connection = try await endpoint.connect(to: id, at: [address])
                #expect(connection.peerID == id)
                try await ask(connection, count: 100_000_000)
                #expect(try await peer.next(IrohRemote.self).remote == Hex.encode(endpoint.id.bytes))
            }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("iroh")))
    func `iroh dials us by our key and exchanges a hundred megabytes both ways`() async throws {
        try await withEndpoint { endpoint in
            let arguments = [
                "dial", "kith/1", Hex.encode(endpoint.id.bytes), "127.0.0.1:\(endpoint.port)", "100000000",
            ]
            try await PythonPeer.run("iroh_peer.py", arguments) { peer in
                let connection = try await next(endpoint.established)
                try await answer(connection)
                let remote = try await peer.next(IrohRemote.self)
                #expect(remote.remote == Hex.encode(endpoint.id.bytes))
                #expect(connection.peerID.map { Hex.encode($0.bytes) } == remote.id)
                struct Judged: Decodable { var verdict: String }
                #expect(try await peer.next(Judged.self).verdict == "ok")
            }
        }
    }

    private struct IrohListening: Decodable {
        var id: String
        var addresses: [String]
    }

    private struct IrohRemote: Decodable {
        var id: String?
        var remote: String
    }

    private var foreignOptions: Endpoint.Options {
        var options = Endpoint.Options()
        options.foreign = .acceptCertificates
        return options
    }

    /// The dialer's part.
    private func ask(_ connection: Connection, count: Int) async throws {
        let stream = try await connection.openStream()
        let sending = Task { () -> [UInt8] in
            var random = SplitMix(seed: 7)
            var hash = SHA256()
            try await stream.write((0..<8).map { UInt8(truncatingIfNeeded: UInt64(count) >> (56 - 8 * $0)) })
            var left = count
            while left > 0 {
                let piece = random.bytes(min(1 << 20, left))
                hash.update(data: piece)
                try await stream.write(piece)
                left -= piece.count
            }
            try await stream.finish()
            return Array(hash.finalize())
        }
        let head = try await read(32, from: stream)
        var hash = SHA256()
        var left = count
        while left > 0 {
            guard let piece = try await stream.read(upTo: min(left, 256 << 10)) else { break }
            hash.update(data: piece)
            left -= piece.count
        }
        #expect(left == 0)
        #expect(try await stream.readAll() == Array(hash.finalize()))
        #expect(try await sending.value == head)
    }

    /// The answerer's part.
    private func answer(_ connection: Connection) async throws {
        let stream = try await next(connection.incomingStreams)
        let count = try await read(8, from: stream).reduce(0) { $0 << 8 | Int($1) }
        try await stream.write(try await stream.readDigest().digest)
        var random = SplitMix(seed: 8)
        var hash = SHA256()
        var left = count
        while left > 0 {
            let piece = random.bytes(min(1 << 20, left))
            hash.update(data: piece)
            try await stream.write(piece)
            left -= piece.count
        }
        try await stream.write(Array(hash.finalize()))
        // The dialer closes the connection once it has everything, so its last acknowledgement may never come.
        try await stream.finish()
    }

    private func read(_ count: Int, from stream: QUICStream) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = try await stream.read(upTo: count - bytes.count) else {
                throw TestError("the stream ended after \(bytes.count) of \(count) bytes")
            }
            bytes += more
        }
        return bytes
    }
}
