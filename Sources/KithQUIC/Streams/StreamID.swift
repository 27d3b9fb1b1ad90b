/// Indicates whether a stream carries bytes both ways or only from the end that opened it.
@frozen
public enum StreamDirection: Hashable, Sendable, CaseIterable {
    /// Both ends send.
    case bidirectional
    /// Only the end that opened the stream sends.
    case unidirectional
}

/// The number of a stream, which also tells who opened it and which ways it carries bytes (RFC 9000 §2.1).
public struct StreamID: Hashable, Comparable, Sendable {
    /// The number on the wire, 0…2⁶²−1.
    public let rawValue: UInt64

    /// Names the stream of that number.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Names the `index`-th stream (from 0) of one of the four kinds.
    package init(index: UInt64, isClientInitiated: Bool, direction: StreamDirection) {
        rawValue = index << 2 | (direction == .unidirectional ? 2 : 0) | (isClientInitiated ? 0 : 1)
    }

    /// Indicates whether the client opened it.
    public var isClientInitiated: Bool { rawValue & 1 == 0 }

    /// The directions in which it carries bytes.
    public var direction: StreamDirection { rawValue & 2 == 0 ? .bidirectional : .unidirectional }

    /// The how-manieth of its kind it is, from 0.
    package var index: UInt64 { rawValue >> 2 }

    /// Orders streams by their number.
    public static func < (left: StreamID, right: StreamID) -> Bool { left.rawValue < right.rawValue }
}

/// The reasons a call on a stream is refused.
@nonexhaustive
public enum StreamError: Error, Hashable, Sendable {
    /// There is no such stream, or no longer.
    case unknown
    /// A read from a stream only we send on, or a write to one only they send on.
    case wrongDirection
    /// A write after our direction was finished or reset.
    case finished
    /// A read from a stream the peer reset, with its code.
    case reset(UInt64)
    /// A write to a stream the peer asked us to stop sending on, with its code.
    case stopped(UInt64)
}

/// The result of one read from a stream.
public struct ReadResult: Hashable, Sendable {
    /// The number of bytes stored.
    public var count: Int
    /// Indicates whether these were the last: the peer finished its direction and everything has been read.
    public var isFinished: Bool

    /// Makes a result.
    public init(count: Int, isFinished: Bool) {
        self.count = count
        self.isFinished = isFinished
    }
}

/// A violation of the protocol by the peer on a stream; the connection closes with its code.
package enum StreamViolation: Error, Hashable, Sendable {
    /// It sent more than it was allowed.
    case flowControl
    /// It opened more streams than it was allowed.
    case streamLimit
    /// A frame for a stream that cannot get one.
    case streamState
    /// The size of a stream changed, or bytes lie beyond it.
    case finalSize
    /// So many holes that keeping them would cost more than the data.
    case tooFragmented

    /// The QUIC transport error code (RFC 9000 §20.1).
    package var transportErrorCode: UInt64 {
        switch self {
        case .flowControl: 0x3
        case .streamLimit: 0x4
        case .streamState: 0x5
        case .finalSize: 0x6
        case .tooFragmented: 0x1
        }
    }
}

/// Something the application wants to know about a stream.
package enum StreamEvent: Hashable, Sendable {
    /// The peer opened it; comes before any other event of that stream.
    case opened(StreamID)
    /// There are bytes, or the end, to read. Comes again only after a read emptied the stream.
    case readable(StreamID)
    /// There is room again after a write that was not taken whole.
    case writable(StreamID)
    /// The peer abandoned its direction.
    case reset(StreamID, code: UInt64)
    /// The peer wants no more of ours.
    case stopped(StreamID, code: UInt64)
    /// All we wrote, and our end, has been acknowledged.
    case finished(StreamID)
    /// Streams of that direction can be opened again after `open` was refused.
    case available(StreamDirection)
}
