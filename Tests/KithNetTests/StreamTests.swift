import KithIdentity
import KithNet
import KithWire
import Testing

@Suite struct StreamTests {
    @Test(arguments: Family.allCases)
    func `bulk arrives unchanged both ways at once`(family: Family) async throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        try await withPair(family) { pair in
            let (near, far) = try await pair.stream()
            let size = 24 << 20
            async let upSent = near.writeSeeded(size, seed: seed)
            async let downSent = far.writeSeeded(size, seed: seed ^ 1, piece: 100_003)
            async let up = far.readDigest()
            async let down = near.readDigest()
            let (upRead, downRead) = try await (up, down)
            #expect(upRead.count == size && downRead.count == size)
            #expect(try await upSent == upRead.digest)
            #expect(try await downSent == downRead.digest)
        }
    }

    @Test func `a thousand concurrent streams echo`() async throws {
        try await withPair { pair in
            let server = Task { [incoming = pair.incoming] in
                await withTaskGroup { group in
                    for await stream in incoming.incomingStreams {
                        group.addTask {
                            // A failure shows at the other end.
                            guard let bytes = try? await stream.readAll() else { return }
                            try? await stream.write(bytes)
                            try? await stream.finish()
                            try? await stream.flushed()
                        }
                    }
                }
            }
            try await withThrowingTaskGroup { group in
                for index in 0..<1000 {
                    group.addTask { [outgoing = pair.outgoing] in
                        let stream = try await outgoing.openStream()
                        let bytes = (0..<32).map { UInt8(truncatingIfNeeded: index &* 31 &+ $0) }
                        try await stream.write(bytes)
                        try await stream.finish()
                        #expect(try await stream.readAll() == bytes)
                    }
                }
                try await group.waitForAll()
            }
            pair.outgoing.close()
            await server.value
        }
    }

    @Test func `readers that stand still stop nobody else`() async throws {
        try await withPair { pair in
            var still: [(QUICStream, QUICStream)] = []
            for _ in 0..<4 { still.append(try await pair.stream()) }
            let writers = still.map { near, _ in
                Task { while true { try await near.write([UInt8](repeating: 1, count: 1 << 20)) } }
            }
            let (near, far) = try await pair.stream()
            for _ in 0..<100 {
                try await near.write([UInt8](repeating: 2, count: 100_000))
                var count = 0
                while count < 100_000 { count += try #require(try await far.read(upTo: 100_000 - count)).count }
            }
            for writer in writers { writer.cancel() }
            for (near, _) in still { near.abort(.cancelled) }
        }
    }

    @Test func `each direction ends on its own`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            try await near.finish()
            #expect(try await far.read(upTo: 10) == nil)
            #expect(try await far.read(upTo: 10) == nil)
            try await far.write([1, 2, 3])
            #expect(try await near.read(upTo: 10) == [1, 2, 3])
            try await far.finish()
            #expect(try await near.read(upTo: 10) == nil)
            try await far.flushed()
            await #expect(throws: KithError(.invalid, "")) { try await near.write([1]) }
        }
    }

    @Test func `the last bytes bring the end with them`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            try await near.finish(writing: [1, 2, 3])
            #expect(try await far.readAll() == [1, 2, 3])
            await #expect(throws: KithError(.invalid, "")) { try await near.write([4]) }
            await #expect(throws: KithError(.invalid, "")) { try await near.finish(writing: [4]) }
            try await far.finish(writing: [])
            #expect(try await near.read(upTo: 10) == nil)
            try await near.flushed()
        }
    }

    @Test func `an abort carries its code to both directions of the other end`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            near.abort(.denied)
            await #expect(throws: KithError(.denied, "")) { try await far.read(upTo: 1) }
            await #expect(throws: KithError(.denied, "")) {
                while true { try await far.write([UInt8](repeating: 0, count: 64 << 10)) }
            }
            await #expect(throws: KithError(.denied, "")) { try await near.read(upTo: 1) }
        }
    }

    @Test func `stopping to read leaves the other direction open`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            far.stopReading(.exhausted)
            await #expect(throws: KithError(.exhausted, "")) {
                while true { try await near.write([UInt8](repeating: 0, count: 64 << 10)) }
            }
            try await far.write([7])
            try await far.finish()
            #expect(try await near.readAll() == [7])
        }
    }

    @Test func `a stream nobody holds is aborted`() async throws {
        try await withPair { pair in
            var (near, far): (QUICStream?, QUICStream) = try await pair.stream()
            _ = near?.id
            near = nil
            await #expect(throws: KithError(.cancelled, "")) { try await far.read(upTo: 1) }
            far.abort(.closed)
        }
    }

    @Test func `a finished stream nobody holds still arrives`() async throws {
        try await withPair { pair in
            let bytes = SplitMixBytes.make(300_000)
            try await sendAndLetGo(bytes, on: pair.outgoing)
            let far = try await next(pair.incoming.incomingStreams)
            #expect(try await far.readAll() == bytes)
        }
    }

    private func sendAndLetGo(_ bytes: [UInt8], on connection: Connection) async throws {
        let stream = try await connection.openStream()
        try await stream.write(bytes)
        try await stream.finish()
    }

    @Test func `a cancelled read loses no byte`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let bytes = SplitMixBytes.make(200_000)
            let writer = Task {
                var rest = bytes[...]
                while !rest.isEmpty {
                    try await near.write(Array(rest.prefix(997)))
                    rest = rest.dropFirst(997)
                    await Task.yield()
                }
                try await near.finish()
            }
            var received: [UInt8] = []
            while true {
                let reader = Task { try await far.read(upTo: 5000) }
                reader.cancel()
                do {
                    guard let more = try await reader.value else { break }
                    received += more
                } catch is CancellationError {
                    continue
                }
            }
            #expect(received == bytes)
            try await writer.value
        }
    }

    @Test func `a writer waits for a reader that does not read`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let piece = [UInt8](repeating: 1, count: 1 << 20)
            let writer = Task { () -> Int in
                var written = 0
                do {
                    while true {
                        try await near.write(piece)
                        written += piece.count
                    }
                } catch is CancellationError {
                    return written
                }
            }
            // Other streams of the connection still move while this one stands.
            for _ in 0..<20 {
                let (one, other) = try await pair.stream()
                try await one.finish()
                try await other.finish()
                #expect(try await one.readAll().isEmpty)
            }
            writer.cancel()
            let written = try await writer.value
            try await near.finish()
            let (count, _) = try await far.readDigest()
            #expect(count == written)
        }
    }

    @Test func `opening waits while the other end's limit is reached`() async throws {
        var options = Endpoint.Options()
        options.maxIncomingStreams = 3
        try await withPair(serverOptions: options) { pair in
            var held: [(near: QUICStream, far: QUICStream)] = []
            for _ in 0..<3 { held.append(try await pair.stream()) }
            let cancelled = Task { try await pair.outgoing.openStream() }
            cancelled.cancel()
            await #expect(throws: KithError(.cancelled, "")) { try await cancelled.value }
            let fourth = Task { try await pair.outgoing.openStream() }
            let (near, far) = held.removeFirst()
            try await near.finish()
            #expect(try await far.readAll().isEmpty)
            try await far.finish()
            #expect(try await near.readAll().isEmpty)
            let stream = try await fourth.value
            try await stream.write([9])
            #expect(try await next(pair.incoming.incomingStreams).read(upTo: 1) == [9])
        }
    }

    @Test func `urgent streams pass bulk`() async throws {
        try await withPair { pair in
            let (bulk, bulkFar) = try await pair.stream()
            bulk.setPriority(StreamPriority.bulk)
            let writer = Task { try await bulk.writeSeeded(16 << 20, seed: 1) }
            let (urgent, urgentFar) = try await pair.stream()
            urgent.setPriority(StreamPriority.input)
            try await urgent.write([5])
            #expect(try await urgentFar.read(upTo: 1) == [5])
            let (count, digest) = try await bulkFar.readDigest()
            #expect(count == 16 << 20)
            #expect(try await writer.value == digest)
        }
    }
}

enum SplitMixBytes {
    static func make(_ count: Int, seed: UInt64 = 42) -> [UInt8] {
        var random = SplitMix(seed: seed)
        return random.bytes(count)
    }
}
