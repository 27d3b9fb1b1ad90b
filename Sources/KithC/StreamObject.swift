import KithAPI
import KithWire
import Synchronization

/// A stream that C holds: what it sends is queued, and sent in order once the stream is open.
final class StreamObject: Work, @unchecked Sendable {
    private enum Piece: Sendable {
        case message([UInt8])
        case bytes([UInt8])
        case finish
    }

    private struct Room {
        var pieces = 0
        var bytes = 0
        var isFinished = false
    }

    private static let pieceLimit = 64
    private static let byteLimit = 4 << 20

    private let room = Mutex(Room())
    private let queue = AsyncStream.makeStream(of: Piece.self)

    /// Queues a message or bytes.
    func send(_ bytes: [UInt8], areBytes: Bool) throws {
        try room.withLock { room throws in
            guard !room.isFinished else { throw KithError(.closed, "The stream takes no more: it was finished.") }
            guard room.pieces < Self.pieceLimit, room.bytes + bytes.count <= Self.byteLimit else {
                throw KithError(.exhausted, "The stream is slower than its sender; send that again a little later.")
            }
            room.pieces += 1
            room.bytes += bytes.count
            queue.continuation.yield(areBytes ? .bytes(bytes) : .message(bytes))
        }
    }

    /// Queues the end of our direction.
    func finish() throws {
        try room.withLock { room throws in
            guard !room.isFinished else { throw KithError(.closed, "The stream was finished already.") }
            room.isFinished = true
            queue.continuation.yield(.finish)
            queue.continuation.finish()
        }
    }

    /// Sends what is queued until our direction ends or the task is cancelled.
    func pump(into stream: any NamedStream) async throws {
        for await piece in queue.stream {
            let count: Int
            switch piece {
            case .message(let json):
                try await stream.send(json)
                count = json.count
            case .bytes(let bytes):
                try await stream.send(bytes: bytes)
                count = bytes.count
            case .finish: return try await stream.finish()
            }
            room.withLock { room in
                room.pieces -= 1
                room.bytes -= count
            }
        }
    }
}
