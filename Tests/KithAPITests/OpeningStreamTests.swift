import KithAPI
import KithWire
import Testing

@Suite struct `A stream that is not answered yet` {
    private func opening(_ pipe: Pipe) -> OpeningStream<[UInt8]> {
        OpeningStream(asked: "test.stream", over: pipe.left) { $0 }
    }

    @Test(arguments: [1, 2, 100])
    func `what is written goes out before the answer, and what follows the answer is read`(piece: Int) async throws {
        let pipe = Pipe()
        let stream = opening(pipe)
        try await stream.write([1, 2, 3])
        #expect(try await pipe.right.read(upTo: 10) == [1, 2, 3])
        let answer = try ResponseHead.success([9, 8, 7]).encoded() + [4, 5, 6]
        for start in stride(from: 0, to: answer.count, by: piece) {
            try await pipe.right.write(Array(answer[start...].prefix(piece)))
        }
        try await pipe.right.finish()
        var read: [UInt8] = []
        while let bytes = try await stream.read(upTo: 2) { read += bytes }
        #expect(read == [4, 5, 6])
        #expect(try await stream.answer() == [9, 8, 7])
        #expect(stream.refusal == nil)
    }

    @Test func `a refusal is what every read throws`() async throws {
        let pipe = Pipe()
        let stream = opening(pipe)
        #expect(stream.refusal == nil)
        try await pipe.right.write(try ResponseHead(KithError(.denied, "Not you.")).encoded())
        for _ in 0..<2 {
            await #expect(throws: KithError(.denied, "")) { _ = try await stream.read(upTo: 10) }
        }
        #expect(stream.refusal?.message == "Not you.")
    }

    @Test func `an end before the answer, and an answer that is none, are errors`() async throws {
        let ended = Pipe()
        try await ended.right.finish()
        await #expect(throws: KithError(.closed, "")) { try await opening(ended).answer() }
        let garbled = Pipe()
        try await garbled.right.write([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])
        await #expect(throws: KithError.self) { try await opening(garbled).answer() }
        let undecodable = Pipe()
        try await undecodable.right.write(try ResponseHead.success([1]).encoded())
        let stream = OpeningStream<Int>(asked: "test.stream", over: undecodable.left) { _ in
            throw KithError(.corrupt, "not a number")
        }
        await #expect(throws: KithError(.corrupt, "")) { try await stream.answer() }
    }

    @Test func `a wait that is cancelled loses nothing`() async throws {
        // One byte at a time: the second is written when the first has been read.
        let pipe = Pipe(capacity: 1)
        let stream = opening(pipe)
        let answer = try ResponseHead.success([9]).encoded() + [4]
        let waiting = Task { try await stream.answer() }
        try await pipe.right.write(Array(answer[..<2]))
        waiting.cancel()
        await #expect(throws: (any Error).self) { try await waiting.value }
        async let rest: Void = pipe.right.write(Array(answer[2...]))
        #expect(try await stream.answer() == [9])
        #expect(try await stream.read(upTo: 10) == [4])
        try await rest
    }
}
