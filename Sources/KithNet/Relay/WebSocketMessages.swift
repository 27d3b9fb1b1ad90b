import Crypto
import KithWire
package import NIOCore
package import NIOWebSocket

/// Why a WebSocket peer is disconnected.
package enum WebSocketError: Error, Hashable, Sendable {
    /// It breaks RFC 6455.
    case notAllowed(String)
    /// A message is longer than any may be.
    case tooLong(Int)
}

/// Puts the messages of a WebSocket together, and says what else its frames ask for.
package struct WebSocketInbox {
    /// What a frame comes to.
    package enum Event: Hashable {
        /// A message of the kind that is expected.
        case message(ByteBuffer)
        /// To be answered with a pong of the same bytes.
        case ping(ByteBuffer)
        /// The peer closes.
        case close
        /// Nothing to do: a pong, a message of the other kind, or a part of one.
        case nothing
    }

    private enum Partial {
        case none
        case expected(ByteBuffer)
        case other
    }

    /// The most bytes of a message.
    private let limit: Int
    private let expectsMask: Bool
    private let kind: WebSocketOpcode
    private let partLimit: Int
    private var partial = Partial.none
    /// The frames of the message that has not ended.
    private var parts = 0

    /// Starts without a message; a server expects masked frames, a client others.
    ///
    /// `kind` is that of the messages that count, `partLimit` the most frames that one may come in.
    package init(limit: Int, expectsMask: Bool, kind: WebSocketOpcode = .binary, partLimit: Int = .max) {
        (self.limit, self.expectsMask, self.kind, self.partLimit) = (limit, expectsMask, kind, partLimit)
    }

    /// The bytes of memory that the parts of a message hold which has not ended.
    package var held: Int { if case .expected(let message) = partial { message.storageCapacity } else { 0 } }

    /// Takes the next frame.
    package mutating func received(_ frame: WebSocketFrame) throws(WebSocketError) -> Event {
        guard (frame.maskKey != nil) == expectsMask else { throw .notAllowed("a frame with the other end's masking") }
        guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else { throw .notAllowed("an extension nobody agreed on") }
        switch frame.opcode {
        case .ping: return .ping(Self.contents(of: frame))
        case .pong: return .nothing
        case .connectionClose: return .close
        case .binary, .text:
            guard case .none = partial else { throw .notAllowed("a message inside another") }
            parts = 1
            guard frame.opcode == kind else {
                if !frame.fin { partial = .other }
                return .nothing
            }
            guard frame.length <= limit else { throw .tooLong(frame.length) }
            if frame.fin { return .message(Self.contents(of: frame)) }
            partial = .expected(Self.contents(of: frame))
        case .continuation:
            parts = min(parts, partLimit) + 1
            guard parts <= partLimit else { throw .notAllowed("a message in too many parts") }
            switch partial {
            case .none: throw .notAllowed("the rest of no message")
            case .other: if frame.fin { partial = .none }
            case .expected(var message):
                guard message.readableBytes + frame.length <= limit else {
                    throw .tooLong(message.readableBytes + frame.length)
                }
                partial = .none
                message.writeImmutableBuffer(Self.contents(of: frame))
                if frame.fin { return .message(message) }
                partial = .expected(message)
            }
        default: throw .notAllowed("a frame of a kind that does not exist")
        }
        return .nothing
    }

    private static func contents(of frame: WebSocketFrame) -> ByteBuffer {
        var data = frame.data
        if let key = frame.maskKey {
            data.applyWebSocketMask(key.reduce(0) { $0 << 8 | UInt32($1) }, from: data.readerIndex)
        }
        return data
    }
}

extension WebSocketInbox {
    /// What a server answers to a client's `Sec-WebSocket-Key` (RFC 6455 §4.2.2).
    package static func accept(_ key: String) -> String {
        Base64.encode(Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    }
}

extension ByteBuffer {
    /// Writes a whole frame: header and `contents`, masked with `mask` when there is one.
    ///
    /// Several of them in one buffer make one write, and few records of TLS.
    package mutating func writeWebSocketFrame(_ opcode: WebSocketOpcode, _ contents: ByteBuffer, mask: UInt32?) {
        writeWebSocketHeader(opcode, length: contents.readableBytes, isMasked: mask != nil)
        if let mask { writeInteger(mask) }
        let start = writerIndex
        writeImmutableBuffer(contents)
        if let mask { applyWebSocketMask(mask, from: start) }
    }

    /// Writes a whole frame that is not masked.
    package mutating func writeWebSocketFrame(_ opcode: WebSocketOpcode, _ contents: [UInt8]) {
        writeWebSocketHeader(opcode, length: contents.count, isMasked: false)
        writeBytes(contents)
    }

    private mutating func writeWebSocketHeader(_ opcode: WebSocketOpcode, length: Int, isMasked: Bool) {
        writeInteger(0x80 | UInt8(webSocketOpcode: opcode))
        let bit: UInt8 = isMasked ? 0x80 : 0
        if length < 126 {
            writeInteger(bit | UInt8(length))
        } else if let short = UInt16(exactly: length) {
            writeInteger(bit | 126)
            writeInteger(short)
        } else {
            writeInteger(bit | 127)
            writeInteger(UInt64(length))
        }
    }

    /// Applies a masking key, its first byte the highest, to all bytes from an index on.
    fileprivate mutating func applyWebSocketMask(_ mask: UInt32, from index: Int) {
        let skipped = index - readerIndex
        // Eight bytes at a time: every byte of every datagram passes here.
        let half = UInt64(mask.byteSwapped)
        let word = UInt64(littleEndian: half << 32 | half)
        unsafe withUnsafeMutableReadableBytes { bytes in
            var position = skipped
            while position + 8 <= bytes.count {
                let value = unsafe bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self) ^ word
                unsafe bytes.storeBytes(of: value, toByteOffset: position, as: UInt64.self)
                position += 8
            }
            while position < bytes.count {
                unsafe bytes[position] ^= UInt8(truncatingIfNeeded: half >> UInt64(8 * ((position - skipped) % 4)))
                position += 1
            }
        }
    }
}
