import KithAPI
import KithIdentity
import KithNet
import KithQUIC
import KithWire
import Logging

/// Both ends in this process, over real sockets on loopback.
enum Bench {
    struct Pair {
        let client: Endpoint
        let server: Endpoint
        let outgoing: Connection
        let incoming: Connection
    }

    static func endpoint(maxIncomingStreams: Int? = nil, isClassical: Bool = false) async throws -> Endpoint {
        var options = Endpoint.Options()
        options.offersPostQuantumKeyShare = !isClassical
        options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        options.maxHandshakesPerSecond = 100_000
        if let maxIncomingStreams { options.maxIncomingStreams = maxIncomingStreams }
        var logger = Logger(label: "bench")
        logger.logLevel = .error
        return try await Endpoint.bind(key: DeviceKey(), options: options, logger: logger)
    }

    static func pair(maxIncomingStreams: Int? = nil) async throws -> Pair {
        let client = try await endpoint()
        let server = try await endpoint(maxIncomingStreams: maxIncomingStreams)
        let outgoing = try await client.connect(to: server.id, at: server.localAddresses)
        var connections = server.established.makeAsyncIterator()
        guard let incoming = await connections.next() else { throw KithError(.closed, "no connection") }
        return Pair(client: client, server: server, outgoing: outgoing, incoming: incoming)
    }

    static func close(_ pair: Pair) async {
        await pair.client.shutdown()
        await pair.server.shutdown()
    }

    /// One stream, one direction, `mebibytes` MiB.
    static func bulk(mebibytes: Int, into report: inout Report) async throws {
        let pair = try await pair()
        // One small round first: what is allocated once is not what a packet costs.
        _ = try await transfer(16, pair)
        let before = await pair.outgoing.statistics()
        let meter = Meter()
        let count = try await transfer(mebibytes, pair)
        let (seconds, processor, allocations) = (meter.seconds, meter.processorSeconds, meter.allocationCount)
        let after = await pair.outgoing.statistics()
        guard count == mebibytes << 20 else { throw KithError(.corrupt, "\(count) bytes arrived.") }
        let packets = Double(after.packetsSent - before.packetsSent)
        report.add("bulk, one stream", Double(count) / 1e6 / seconds, "MB/s", atLeast: 400)
        report.add(
            "bulk, processor time of both ends", processor / (Double(count) / Double(1 << 30)), "s/GiB", atMost: 4)
        report.add("bulk, allocations per packet sent", Double(allocations) / packets, "", atMost: 0.01)
        report.add("bulk, packets lost", Double(after.packetsLost - before.packetsLost) / packets * 100, "%")
        await close(pair)
    }

    private static func transfer(_ mebibytes: Int, _ pair: Pair) async throws -> Int {
        let outgoing = pair.outgoing
        let sending = Task {
            let stream = try await outgoing.openStream()
            let piece = [UInt8](repeating: 0x5A, count: 256 << 10)
            for _ in 0..<mebibytes * 4 { try await stream.write(piece) }
            try await stream.finish()
            // The other end finishes when it has everything.
            while try await stream.read(upTo: 1) != nil {}
        }
        var streams = pair.incoming.incomingStreams.makeAsyncIterator()
        guard let stream = await streams.next() else { throw KithError(.closed, "no stream") }
        var count = 0
        while let bytes = try await stream.read(upTo: 256 << 10) { count += bytes.count }
        try await stream.finish()
        try await sending.value
        return count
    }

    /// A new connection, to the moment streams can be opened.
    ///
    /// Once with X25519MLKEM768, as devices do, and once with X25519 alone.
    static func connect(rounds: Int, into report: inout Report) async throws {
        for isClassical in [false, true] { try await connect(rounds: rounds, isClassical: isClassical, into: &report) }
    }

    private static func connect(rounds: Int, isClassical: Bool, into report: inout Report) async throws {
        let name = isClassical ? "connect with X25519 alone" : "connect"
        let server = try await endpoint()
        let accepting = Task { for await _ in server.established {} }
        var samples: [Double] = []
        let meter = Meter()
        let client = try await endpoint(isClassical: isClassical)
        for _ in 0..<rounds {
            let began = ContinuousClock.now
            let connection = try await client.connect(to: server.id, at: server.localAddresses)
            samples.append((ContinuousClock.now - began).inSeconds * 1000)
            connection.close()
            _ = await connection.closed()
        }
        report.add("\(name), p50", percentile(0.5, of: samples), "ms", atMost: 2)
        report.add("\(name), p99", percentile(0.99, of: samples), "ms")
        report.add(
            "\(name), processor time of both ends", meter.processorSeconds / Double(rounds) * 1000, "ms", atMost: 0.8)
        await client.shutdown()
        await server.shutdown()
        await accepting.value
    }

    /// The first request of a connection and its answer, where a round trip takes 50 ms: dialed anew, and resumed.
    static func firstRequest(rounds: Int, into report: inout Report) async throws {
        let server = try await endpoint()
        let path = try await DelayedPath(toPort: server.port, delay: .milliseconds(25))
        let serving = Task {
            await withDiscardingTaskGroup { group in
                for await connection in server.established {
                    group.addTask {
                        for await stream in connection.incomingStreams {
                            do {
                                guard let bytes = try await stream.read(upTo: 64) else { continue }
                                try await stream.write(bytes)
                                try await stream.finish()
                            } catch {
                                stream.abort(.closed)
                            }
                        }
                    }
                }
            }
        }
        var fresh: [Double] = []
        var resumed: [Double] = []
        for _ in 0..<rounds {
            let client = try await endpoint()
            for isEarly in [false, true] {
                let began = ContinuousClock.now
                let connection =
                    isEarly
                    ? try await client.connectEarly(to: server.id, at: [path.address])
                    : try await client.connect(to: server.id, at: [path.address])
                let stream = try await connection.openStream()
                try await stream.write([UInt8](repeating: 1, count: 64))
                _ = try await stream.read(upTo: 64)
                let milliseconds = (ContinuousClock.now - began).inSeconds * 1000
                if isEarly { resumed.append(milliseconds) } else { fresh.append(milliseconds) }
                // The ticket comes behind the handshake.
                try await Task.sleep(for: .milliseconds(120))
                connection.close()
                _ = await connection.closed()
            }
            await client.shutdown()
        }
        report.add("first request at 50 ms, dialed anew, p50", percentile(0.5, of: fresh), "ms", atMost: 110)
        report.add("first request at 50 ms, resumed (0-RTT), p50", percentile(0.5, of: resumed), "ms", atMost: 55)
        await server.shutdown()
        await serving.value
        try await path.close()
    }

    /// One byte there and back on an open stream: a keystroke.
    static func echo(rounds: Int, into report: inout Report) async throws {
        let pair = try await pair()
        let incoming = pair.incoming
        let echoing = Task {
            var streams = incoming.incomingStreams.makeAsyncIterator()
            guard let stream = await streams.next() else { return }
            while let bytes = try await stream.read(upTo: 4096) { try await stream.write(bytes) }
            try await stream.finish()
        }
        let stream = try await pair.outgoing.openStream()
        var samples: [Double] = []
        for round in 0..<rounds + 100 {
            let began = ContinuousClock.now
            try await stream.write([UInt8(truncatingIfNeeded: round)])
            _ = try await stream.read(upTo: 1)
            if round >= 100 { samples.append((ContinuousClock.now - began).inSeconds * 1000) }
        }
        try await stream.finish()
        try await echoing.value
        report.add("stream echo, p50", percentile(0.5, of: samples), "ms", atMost: 0.6)
        report.add("stream echo, p99", percentile(0.99, of: samples), "ms", atMost: 3)
        await close(pair)
    }

    /// Many streams at once, 32 bytes there and back on each.
    static func streams(_ count: Int, into report: inout Report) async throws {
        let pair = try await pair()
        let incoming = pair.incoming
        let serving = Task {
            await withTaskGroup { group in
                for await stream in incoming.incomingStreams {
                    group.addTask {
                        do {
                            while let bytes = try await stream.read(upTo: 4096) { try await stream.write(bytes) }
                            try await stream.finish()
                        } catch {
                            // The other end's half of the benchmark reports it.
                            stream.abort(.closed)
                        }
                    }
                }
            }
        }
        let outgoing = pair.outgoing
        let meter = Meter()
        try await withThrowingTaskGroup { group in
            for _ in 0..<count {
                group.addTask {
                    let stream = try await outgoing.openStream()
                    try await stream.write([UInt8](repeating: 1, count: 32))
                    try await stream.finish()
                    while try await stream.read(upTo: 64) != nil {}
                }
            }
            try await group.waitForAll()
        }
        report.add("\(count) concurrent streams, 32-byte echo", meter.seconds, "s", atMost: 0.15)
        await close(pair)
        await serving.value
    }

    /// Streams that carried a byte each way and then wait, at both ends.
    static func idleStreams(_ count: Int, into report: inout Report) async throws {
        let pair = try await pair(maxIncomingStreams: count)
        var incoming = pair.incoming.incomingStreams.makeAsyncIterator()
        var kept: [QUICStream] = []
        kept.reserveCapacity(2 * count)
        let meter = Meter()
        for _ in 0..<count {
            let near = try await pair.outgoing.openStream()
            try await near.write([1])
            guard let far = await incoming.next() else { throw KithError(.closed, "no stream") }
            try await far.write([1])
            _ = try await far.read(upTo: 1)
            _ = try await near.read(upTo: 1)
            kept += [near, far]
        }
        report.add(
            "idle stream, memory at each end", Double(meter.liveBytes) / Double(kept.count) / 1000, "kB", atMost: 3)
        kept = []
        await close(pair)
    }

    /// One stream through two engines in memory, without sockets, tasks or copies between them.
    static func engine(mebibytes: Int, into report: inout Report) throws {
        let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)
        var now = Timestamp(nanoseconds: 1_000_000_000)
        var client = try QUICConnection.client(engineConfiguration(1), remote: address, at: now)
        let first = client.datagrams(at: now)
        guard let initial = first.first.flatMap({ DatagramHeader($0.bytes) }) else {
            throw KithError(.internal, "no first datagram")
        }
        var server = try QUICConnection.server(engineConfiguration(2), remote: address, initial: initial, at: now)
        for datagram in first { server.receive(datagram.bytes, from: address, at: now) }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 64)
        let wire = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 64)
        let sink = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 64)
        piece.initializeMemory(as: UInt8.self, repeating: 0x5A)
        defer { for buffer in [piece, wire, sink] { buffer.deallocate() } }
        var stream: StreamID?
        var written = 0
        var received = 0
        let warm = 16 << 20
        let total = warm + mebibytes << 20
        var meter = Meter()
        var packetsBefore: UInt64 = 0
        var isWarm = false
        while received < total {
            now = now.advanced(nanoseconds: 20_000)
            if client.nextDeadline ?? .distantFuture <= now { client.timedOut(at: now) }
            if server.nextDeadline ?? .distantFuture <= now { server.timedOut(at: now) }
            while client.nextEvent() != nil {}
            while server.nextEvent() != nil {}
            if stream == nil, client.isConnected { stream = client.openStream(.unidirectional) }
            if let stream {
                while written < total {
                    let count = min(piece.count, total - written)
                    let taken = try client.write(UnsafeRawBufferPointer(rebasing: piece[..<count]), to: stream)
                    written += taken
                    if taken < count { break }
                }
            }
            while let transmit = client.nextTransmit(into: wire, at: now) {
                var start = 0
                while start < transmit.length {
                    let end = min(start + max(1, transmit.segmentSize), transmit.length)
                    server.receive(
                        UnsafeMutableRawBufferPointer(rebasing: wire[start..<end]), from: address, ecn: 0, at: now)
                    start = end
                }
                if let stream, server.isConnected {
                    while let part = try? server.read(stream, into: sink), part.count > 0 { received += part.count }
                }
            }
            while let transmit = server.nextTransmit(into: wire, at: now) {
                client.receive(
                    UnsafeMutableRawBufferPointer(rebasing: wire[..<transmit.length]), from: address, ecn: 0, at: now)
            }
            if !isWarm, received >= warm {
                isWarm = true
                meter = Meter()
                packetsBefore = client.statistics.packetsSent
            }
        }
        let packets = Double(client.statistics.packetsSent - packetsBefore)
        let gibibytes = Double(total - warm) / Double(1 << 30)
        report.add("engines alone, processor time of both ends", meter.processorSeconds / gibibytes, "s/GiB")
        report.add(
            "engines alone, allocations per packet sent", Double(meter.allocationCount) / packets, "", atMost: 0.01)
    }

    private static func engineConfiguration(_ seed: UInt8) -> QUICConfiguration {
        var configuration = QUICConfiguration(
            credentials: [.rawPublicKey(seed: [UInt8](repeating: seed, count: 32))], alpn: ["bench"])
        configuration.verify = { _ in true }
        return configuration
    }

    /// Connections after their handshake and one kilobyte each way, in memory: what the engine keeps for each end.
    static func idleConnections(_ count: Int, into report: inout Report) throws {
        let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)
        final class Ends {
            var client: QUICConnection
            var server: QUICConnection
            init(_ client: consuming QUICConnection, _ server: consuming QUICConnection) {
                self.client = client
                self.server = server
            }
        }
        var kept: [Ends] = []
        kept.reserveCapacity(count)
        var now = Timestamp(nanoseconds: 1_000_000_000)
        let meter = Meter()
        for _ in 0..<count {
            var client = try QUICConnection.client(engineConfiguration(1), remote: address, at: now)
            let first = client.datagrams(at: now)
            guard let initial = first.first.flatMap({ DatagramHeader($0.bytes) }) else {
                throw KithError(.internal, "no first datagram")
            }
            var server = try QUICConnection.server(engineConfiguration(2), remote: address, initial: initial, at: now)
            for datagram in first { server.receive(datagram.bytes, from: address, at: now) }
            var stream: StreamID?
            for round in 0..<12 {
                now = now.advanced(nanoseconds: 30_000_000)
                if client.nextDeadline ?? .distantFuture <= now { client.timedOut(at: now) }
                if server.nextDeadline ?? .distantFuture <= now { server.timedOut(at: now) }
                for datagram in server.datagrams(at: now) { client.receive(datagram.bytes, from: address, at: now) }
                for datagram in client.datagrams(at: now) { server.receive(datagram.bytes, from: address, at: now) }
                while client.nextEvent() != nil {}
                while server.nextEvent() != nil {}
                if round == 4 {
                    stream = client.openStream(.bidirectional)
                    if let stream { _ = try client.write([UInt8](repeating: 1, count: 1000), to: stream) }
                } else if round == 6, let stream {
                    _ = try server.read(stream)
                    _ = try server.write([UInt8](repeating: 1, count: 1000), to: stream)
                } else if round == 8, let stream {
                    _ = try client.read(stream)
                }
            }
            guard client.isConnected, server.isConnected else { throw KithError(.internal, "no handshake") }
            kept.append(Ends(client, server))
        }
        report.add(
            "idle connection, memory at each end", Double(meter.liveBytes) / Double(2 * count) / 1000, "kB",
            atMost: 32.768)
        withExtendedLifetime(kept) {}
    }
}
