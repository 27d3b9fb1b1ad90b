import KithAPI
import KithTesting
import KithWire
import Testing

@Suite struct `Pipes` {
    @Test func `bytes arrive in order, then the end`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([1, 2, 3])
        try await pipe.left.write([4])
        try await pipe.left.finish()
        try await pipe.left.finish()
        #expect(try await pipe.right.read(upTo: 2) == [1, 2])
        #expect(try await pipe.right.read(upTo: 9) == [3])
        #expect(try await pipe.right.read(upTo: 9) == [4])
        #expect(try await pipe.right.read(upTo: 9) == nil)
        #expect(try await pipe.right.read(upTo: 9) == nil)
    }

    @Test(arguments: [1, 7, 1000, 100_000])
    func `both directions carry everything through any capacity`(capacity: Int) async throws {
        let pipe = Pipe(capacity: capacity)
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        async let toRight = transfer(from: pipe.left, to: pipe.right, count: 20_000, seed: seed)
        async let toLeft = transfer(from: pipe.right, to: pipe.left, count: 20_000, seed: seed &+ 1)
        #expect(try await toRight)
        #expect(try await toLeft)
    }

    private func transfer(from: any ByteStream, to: any ByteStream, count: Int, seed: UInt64) async throws -> Bool {
        let sent = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        async let received = { () async throws -> [UInt8] in
            var random = SplitMix(state: seed)
            var bytes: [UInt8] = []
            while let more = try await to.read(upTo: Int.random(in: 1..<3000, using: &random)) { bytes += more }
            return bytes
        }()
        var random = SplitMix(state: seed &+ 7)
        var rest = sent[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1..<5000, using: &random))
            try await from.write(Array(piece))
            rest = rest.dropFirst(piece.count)
        }
        try await from.finish()
        return try await received == sent
    }

    @Test func `one direction may end before the other begins`() async throws {
        let pipe = Pipe()
        try await pipe.left.finish()
        #expect(try await pipe.right.read(upTo: 1) == nil)
        try await pipe.right.write([5])
        #expect(try await pipe.left.read(upTo: 1) == [5])
    }

    @Test func `an abort carries its code to whoever waits at either end`() async throws {
        let pipe = Pipe(capacity: 1)
        let right = pipe.right
        let reading = Task { try await right.read(upTo: 1) }
        pipe.left.abort(.denied)
        await #expect(throws: KithError(.denied, "")) { try await reading.value }
        await #expect(throws: KithError(.denied, "")) { try await pipe.right.write([1]) }
        await #expect(throws: KithError(.denied, "")) { try await pipe.left.read(upTo: 1) }
        pipe.right.abort(.cancelled)
        await #expect(throws: KithError(.denied, "")) { try await pipe.left.read(upTo: 1) }
    }

    @Test func `an abort after both ends changes nothing`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([1])
        try await pipe.left.finish()
        try await pipe.right.finish()
        #expect(try await pipe.right.read(upTo: 1) == [1])
        pipe.right.abort(.cancelled)
        #expect(try await pipe.right.read(upTo: 1) == nil)
    }

    @Test func `a cancelled read loses no byte`() async throws {
        let pipe = Pipe()
        let right = pipe.right
        let reading = Task { try await right.read(upTo: 10) }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        try await pipe.left.write([1, 2])
        #expect(try await pipe.right.read(upTo: 10) == [1, 2])
    }

    @Test func `a cancelled write ends`() async throws {
        let pipe = Pipe(capacity: 1)
        let left = pipe.left
        try await left.write([1])
        let writing = Task { try await left.write([2, 3]) }
        writing.cancel()
        await #expect(throws: CancellationError.self) { try await writing.value }
        #expect(try await pipe.right.read(upTo: 10) == [1])
    }

    @Test func `an end nobody holds any more closes the other`() async throws {
        var left: (any ByteStream)?
        let right: any ByteStream
        do {
            let pipe = Pipe()
            left = pipe.left
            right = pipe.right
        }
        try await left?.write([1])
        left = nil
        await #expect(throws: KithError(.closed, "")) { try await right.read(upTo: 1) }
    }

    @Test func `what was finished before it was let go still arrives`() async throws {
        var left: (any ByteStream)?
        let right: any ByteStream
        do {
            let pipe = Pipe()
            left = pipe.left
            right = pipe.right
        }
        try await left?.write([1])
        try await left?.finish()
        left = nil
        #expect(try await right.read(upTo: 1) == [1])
        #expect(try await right.read(upTo: 1) == nil)
    }
}

@Suite struct `A reader that stops` {
    @Test func `is seen by the writer, who may still read`() async throws {
        let pipe = Pipe()
        let left = pipe.left
        let stopped = Task { try await left.stopped() }
        pipe.right.stopReading(.closed)
        try await stopped.value
        try await pipe.left.stopped()
        await #expect(throws: KithError(.closed, "")) { try await left.write([1]) }
        try await pipe.right.write([2])
        try await pipe.right.finish()
        #expect(try await pipe.left.read(upTo: 9) == [2])
        #expect(try await pipe.left.read(upTo: 9) == nil)
    }

    @Test func `is one who let go of the stream after its end`() async throws {
        var right: (any ByteStream)?
        let left: any ByteStream
        do {
            let pipe = Pipe()
            (left, right) = (pipe.left, pipe.right)
        }
        try await right?.finish()
        right = nil
        try await left.stopped()
        #expect(try await left.read(upTo: 9) == nil)
    }

    @Test func `is not one who abandons the stream, or of whom nothing is known`() async throws {
        let pipe = Pipe()
        let left = pipe.left
        let cancelled = Task { try await left.stopped() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        pipe.right.abort(.denied)
        await #expect(throws: KithError(.denied, "")) { try await left.stopped() }
    }
}

@Suite struct `Splicing` {
    @Test func `who takes no more stops the other's reading, and may go on`() async throws {
        let (near, far) = (Pipe(), Pipe())
        async let splicing: Void = splice(near.right, far.left)
        far.right.stopReading(.cancelled)
        try await near.left.stopped()
        try await far.right.write([3])
        #expect(try await near.left.read(upTo: 9) == [3])
        try await far.right.finish()
        #expect(try await near.left.read(upTo: 9) == nil)
        // Over, though the near end has never finished.
        try await splicing
    }

    @Test func `a failure passes with its message and detail`() async throws {
        let (near, far) = (Pipe(), Pipe())
        let splicing = Task { try await splice(near.right, far.left) }
        far.right.fail(KithError(.conflict, "Too much.", detail: KithError.Detail("test.much")))
        for reading in [Task { _ = try await near.left.read(upTo: 1) }, splicing] {
            let error = await #expect(throws: KithError.self) { try await reading.value }
            #expect(error?.code == .conflict && error?.message == "Too much." && error?.detail?.code == "test.much")
        }
    }

    @Test func `both directions pass, with their ends`() async throws {
        let (near, far) = (Pipe(), Pipe())
        async let splicing: Void = splice(near.right, far.left)
        try await near.left.write([1, 2])
        try await near.left.finish()
        #expect(try await far.right.read(upTo: 9) == [1, 2])
        #expect(try await far.right.read(upTo: 9) == nil)
        try await far.right.write([3])
        try await far.right.finish()
        #expect(try await near.left.read(upTo: 9) == [3])
        #expect(try await near.left.read(upTo: 9) == nil)
        try await splicing
    }

    @Test func `an abort passes with its code`() async throws {
        let (near, far) = (Pipe(), Pipe())
        let splicing = Task { try await splice(near.right, far.left) }
        far.right.abort(.unpaired)
        await #expect(throws: KithError(.unpaired, "")) { try await near.left.read(upTo: 1) }
        await #expect(throws: KithError(.unpaired, "")) { try await splicing.value }
    }
}

@Suite struct `Deadlines` {
    @Test func `what is done in time is returned`() async throws {
        #expect(try await withDeadline(.seconds(60)) { 7 } == 7)
        #expect(try await withDeadline(nil as Duration?) { 7 } == 7)
    }

    @Test func `what is not is cancelled and timed out`() async throws {
        await #expect(throws: KithError(.timedOut, "")) {
            try await withDeadline(.milliseconds(1)) { try await untilCancelled() }
        }
    }

    @Test func `its own error comes through`() async throws {
        await #expect(throws: KithError(.denied, "")) {
            try await withDeadline(.seconds(60)) { throw KithError(.denied, "") }
        }
    }
}
