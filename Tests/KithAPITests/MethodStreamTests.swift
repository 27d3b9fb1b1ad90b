import KithAPI
import KithWire
import Testing

@Suite struct `Messages over a stream` {
    private struct Note: StreamMessage, Hashable {
        static var sizeLimit: Int { 1_000 }
        var text: String
        var number: Int
    }

    private typealias Notes = MethodStream<Note, Nothing>

    @Test func `messages arrive whole, in order, then the end`() async throws {
        let pipe = Pipe(capacity: 5)
        let sender = MethodStream<Nothing, Note>(pipe.left)
        let receiver = MethodStream<Note, Nothing>(pipe.right)
        let notes = (0..<20).map { Note(text: String(repeating: "x", count: $0 * 10), number: $0) }
        let sending = Task {
            for note in notes { try await sender.send(note) }
            try await sender.finish()
        }
        for note in notes { #expect(try await receiver.receive() == note) }
        #expect(try await receiver.receive() == nil)
        try await sending.value
    }

    @Test func `an end inside a message is an error`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([5, 0xA0])
        try await pipe.left.finish()
        await #expect(throws: KithError(.closed, "")) { try await Notes(pipe.right).receive() }
    }

    @Test func `a length beyond the limit ends the stream before anything is kept`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([0xC0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF])
        await #expect(throws: KithError(.invalid, "")) {
            try await Notes(pipe.right).receive()
        }
        await #expect(throws: KithError(.invalid, "")) { try await pipe.left.write([1]) }
    }

    @Test func `a message of another form is invalid`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([1, 0xF6])
        await #expect(throws: KithError(.invalid, "")) { try await Notes(pipe.right).receive() }
    }

    @Test func `bytes that are a message travel as a byte string, not as text`() throws {
        var sent: [UInt8] = []
        try StreamItem(ByteString([1, 2, 3])).append(to: &sent)
        #expect(sent == [4, 0x43, 1, 2, 3])
        var buffer = ReceiveBuffer()
        buffer.append(sent)
        #expect(try StreamItem<ByteString>.next(from: &buffer)?.value == ByteString([1, 2, 3]))
    }
}
