import KithAPI
import KithIO
import KithWire
import Testing

@testable import KithFiles

/// The orders in which the ends of a copy between two other devices may leave it.
@Suite(.timeLimit(.minutes(4))) struct RelayTests {
    private enum Refusal {
        case everything
        case onlyTheEnd
    }

    /// A stream to an end that takes no more from a certain moment on, and says its last word only after that.
    private final class LeavingStream: ByteStream {
        private let refusal: Refusal
        private let words: BoundedQueue<[UInt8]>
        private let lastWord: [UInt8]

        init(_ refusal: Refusal, firstWord: TransferFrame, lastWord: TransferFrame?) throws {
            self.refusal = refusal
            words = BoundedQueue(capacity: 2)
            _ = try words.offer(try Self.bytes(firstWord))
            self.lastWord = try lastWord.map(Self.bytes) ?? []
        }

        private static func bytes(_ frame: TransferFrame) throws -> [UInt8] {
            var bytes: [UInt8] = []
            try frame.append(to: &bytes)
            return bytes
        }

        private func refuse() throws -> Never {
            if !lastWord.isEmpty { _ = try words.offer(lastWord) }
            words.finish()
            throw KithError(.closed, "The other device stopped reading.")
        }

        func read(upTo limit: Int) async throws -> [UInt8]? { try await words.receive() }
        func write(_ bytes: [UInt8]) async throws { if refusal == .everything { try refuse() } }
        func finish() async throws { try refuse() }
        func abort(_ code: KithError.Code) { words.finish(throwing: KithError(code, "")) }
    }

    private static let hello = TransferFrame.hello(version: TransferFrame.version, features: [])
    private static let summary = Files.Summary(files: 1)
    private static let failure = TransferFrame.failure(Files.Failure(KithError(.exhausted, "The disk is full.")))

    private func relay(from: any ByteStream, to: any ByteStream) async throws -> Files.Summary {
        let source = Files.Location(device: "laptop", path: Files.Path("/srv/file"))
        return try await TransferRelay(
            from: from, to: to, requested: try RequestedTree(source, recursive: true, selection: Files.Selection()),
            compress: .never, progress: TransferProgress()
        ).run()
    }

    @Test func `a receiver that has everything may leave before the sender has ended its direction`() async throws {
        let sender = Pipe()
        try await sender.right.say([.end(isComplete: true)])
        try await sender.right.finish()
        let receiver = try LeavingStream(
            .onlyTheEnd, firstWord: Self.hello, lastWord: .acknowledgement(Self.summary))
        #expect(try await relay(from: sender.left, to: receiver) == Self.summary)
    }

    @Test func `a sender that has read the acknowledgement may leave before the receiver's direction ends`()
        async throws
    {
        let receiver = Pipe()
        try await receiver.right.say([.acknowledgement(Self.summary)])
        let sender = try LeavingStream(.onlyTheEnd, firstWord: Self.hello, lastWord: nil)
        #expect(try await relay(from: sender, to: receiver.left) == Self.summary)
    }

    @Test func `a receiver that takes no more is heard out`() async throws {
        let sender = Pipe()
        try await sender.right.say([])
        let receiver = try LeavingStream(.everything, firstWord: Self.hello, lastWord: Self.failure)
        await #expect(throws: KithError(.exhausted, "")) { try await relay(from: sender.left, to: receiver) }
    }

    @Test func `a sender that takes no more is heard out`() async throws {
        let receiver = Pipe()
        try await receiver.right.say([.notNeeded(files: 0)])
        let sender = try LeavingStream(.everything, firstWord: Self.hello, lastWord: Self.failure)
        await #expect(throws: KithError(.exhausted, "")) { try await relay(from: sender, to: receiver.left) }
    }

    @Test func `a receiver that leaves without a word has not acknowledged anything`() async throws {
        let sender = Pipe()
        try await sender.right.say([.end(isComplete: true)])
        try await sender.right.finish()
        let receiver = try LeavingStream(.onlyTheEnd, firstWord: Self.hello, lastWord: nil)
        await #expect(throws: KithError(.closed, "")) { try await relay(from: sender.left, to: receiver) }
    }
}
