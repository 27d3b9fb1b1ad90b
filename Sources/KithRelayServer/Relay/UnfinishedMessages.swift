import NIOCore
import NIOWebSocket
import Synchronization

/// The memory that the messages of all clients hold which have not come to their end yet.
///
/// Bounded: when there is too much of it the client goes that has not finished for the longest time. An honest one needs
/// moments.
final class UnfinishedMessages: Sendable {
    private struct State {
        var entries: [UInt64: (bytes: Int, close: @Sendable () -> Void)] = [:]
        var bytes = 0
        var next: UInt64 = 0
        /// No number below it is there.
        var oldest: UInt64 = 0

        mutating func takeOldest() -> (@Sendable () -> Void)? {
            while oldest < next {
                defer { oldest += 1 }
                if let entry = entries.removeValue(forKey: oldest) {
                    bytes -= entry.bytes
                    return entry.close
                }
            }
            return nil
        }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Begins without any; `limit` is the most bytes.
    init(limit: Int) { self.limit = limit }

    /// The bytes that are held.
    var bytes: Int { state.withLock { $0.bytes } }

    /// Counts a message that has begun, and returns its number.
    func begin(_ bytes: Int, _ close: @escaping @Sendable () -> Void) -> UInt64 {
        let (number, closes) = state.withLock { state in
            let number = state.next
            state.next += 1
            state.entries[number] = (bytes, close)
            state.bytes += bytes
            return (number, trim(&state))
        }
        for close in closes { close() }
        return number
    }

    /// Notes what a message holds by now.
    func update(_ number: UInt64, _ bytes: Int) {
        let closes = state.withLock { state -> [@Sendable () -> Void] in
            guard let old = state.entries[number]?.bytes else { return [] }
            state.entries[number]?.bytes = bytes
            state.bytes += bytes - old
            return trim(&state)
        }
        for close in closes { close() }
    }

    /// The message is whole, or its client is gone.
    func end(_ number: UInt64) {
        state.withLock { state in
            guard let entry = state.entries.removeValue(forKey: number) else { return }
            state.bytes -= entry.bytes
        }
    }

    private func trim(_ state: inout State) -> [@Sendable () -> Void] {
        var closes: [@Sendable () -> Void] = []
        while state.bytes > limit, let close = state.takeOldest() { closes.append(close) }
        return closes
    }
}

/// Reads frames of WebSocket, and knows what one holds that is not complete.
final class RelayFrameDecoder: ByteToMessageDecoder {
    typealias InboundOut = WebSocketFrame

    private let decoder: WebSocketFrameDecoder
    /// The bytes of memory that a part of a frame holds.
    private(set) var held = 0
    /// Set for a client that is being closed: what it still sends is not read.
    var isEnded = false

    init(maxFrameSize: Int) { decoder = WebSocketFrameDecoder(maxFrameSize: maxFrameSize) }

    func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        let state: DecodingState
        if isEnded {
            buffer.moveReaderIndex(to: buffer.writerIndex)
            state = .needMoreData
        } else {
            state = try decoder.decode(context: context, buffer: &buffer)
        }
        held = buffer.readableBytes > 0 ? buffer.storageCapacity : 0
        return state
    }
}
