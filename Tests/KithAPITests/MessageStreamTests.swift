import KithAPI
import KithWire
import Testing

@Suite struct `Messages over a stream` {
    private struct Note: Codable, Hashable, Sendable {
        var text: String
        var number: Int
    }

    @Test func `messages arrive whole, in order, then the end`() async throws {
        let pipe = Pipe(capacity: 5)
        let (sender, receiver) = (MessageStream(pipe.left), MessageStream(pipe.right))
        let notes = (0..<20).map { Note(text: String(repeating: "x", count: $0 * 10), number: $0) }
        let sending = Task {
            for note in notes { try await sender.send(note) }
            try await sender.stream.finish()
        }
        for note in notes { #expect(try await receiver.receive(Note.self) == note) }
        #expect(try await receiver.receive(Note.self) == nil)
        try await sending.value
    }

    @Test func `an end inside a message is an error`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([5, 0xA0])
        try await pipe.left.finish()
        await #expect(throws: KithError(.closed, "")) { try await MessageStream(pipe.right).receive(Note.self) }
    }

    @Test func `a length beyond the limit ends the stream before anything is kept`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([0xC0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF])
        await #expect(throws: KithError(.invalid, "")) {
            try await MessageStream(pipe.right, limit: 100).receive(Note.self)
        }
        await #expect(throws: KithError(.invalid, "")) { try await pipe.left.write([1]) }
    }

    @Test func `a message of another form is invalid`() async throws {
        let pipe = Pipe()
        try await pipe.left.write([1, 0xF6])
        await #expect(throws: KithError(.invalid, "")) { try await MessageStream(pipe.right).receive(Note.self) }
    }
}
