/// Frames without a payload of their own that a packet carried, as one bit each.
package struct ControlFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// PING; never sent again.
    package static let ping = ControlFlags(rawValue: 1 << 0)
    /// HANDSHAKE_DONE.
    package static let handshakeDone = ControlFlags(rawValue: 1 << 1)
    /// MAX_DATA; the newest value is sent instead.
    package static let maxData = ControlFlags(rawValue: 1 << 2)
    /// MAX_STREAMS for bidirectional streams.
    package static let maxStreamsBidirectional = ControlFlags(rawValue: 1 << 3)
    /// MAX_STREAMS for unidirectional streams.
    package static let maxStreamsUnidirectional = ControlFlags(rawValue: 1 << 4)
    /// DATA_BLOCKED.
    package static let dataBlocked = ControlFlags(rawValue: 1 << 5)
    /// STREAMS_BLOCKED for bidirectional streams.
    package static let streamsBlockedBidirectional = ControlFlags(rawValue: 1 << 6)
    /// STREAMS_BLOCKED for unidirectional streams.
    package static let streamsBlockedUnidirectional = ControlFlags(rawValue: 1 << 7)
    /// A probe of the path's packet size, whose loss says nothing about congestion (RFC 9000 §14.4).
    package static let pathProbe = ControlFlags(rawValue: 1 << 8)
}

/// A run of one stream's bytes that a packet carried.
package struct StreamRange: Hashable, Sendable {
    /// The stream.
    package var id: StreamID
    /// The stream offset at which the run starts.
    package var offset: UInt64
    /// Its length in bytes; 0 for a bare FIN.
    package var length: Int
    /// Indicates whether the frame carried the FIN bit.
    package var isFinished: Bool

    package init(id: StreamID, offset: UInt64, length: Int, isFinished: Bool) {
        self.id = id
        self.offset = offset
        self.length = length
        self.isFinished = isFinished
    }
}

/// A rarer thing a packet carried.
package enum SentItem: Hashable, Sendable {
    /// A second or later STREAM frame.
    case stream(StreamRange)
    /// A second or later CRYPTO frame.
    case crypto(offset: UInt64, length: Int)
    /// RESET_STREAM.
    case resetStream(StreamID)
    /// STOP_SENDING.
    case stopSending(StreamID)
    /// MAX_STREAM_DATA; the newest value is sent instead.
    case maxStreamData(StreamID)
    /// STREAM_DATA_BLOCKED.
    case streamDataBlocked(StreamID)
    /// NEW_CONNECTION_ID.
    case newConnectionID(sequence: UInt64)
    /// RETIRE_CONNECTION_ID.
    case retireConnectionID(sequence: UInt64)
    /// NEW_TOKEN.
    case newToken
    /// PATH_CHALLENGE.
    case pathChallenge(UInt64)
    /// OBSERVED_ADDRESS, along a path; the newest observation is sent instead.
    case observedAddress(PathAddress)
    /// A PLPMTUD probe of that many bytes, sent along the path with that number.
    case plpmtudProbe(Int, path: UInt32)
}

/// The content of a packet, to be sent again should it be lost, and forgotten once it is acknowledged.
///
/// One stream range, one crypto range and the flags lie inline; anything more spills into an array, so that an ordinary
/// data packet costs no allocation.
package struct SentContent: Hashable, Sendable {
    private static let none = UInt64.max

    /// Frames without payload.
    package var control: ControlFlags = []
    private var length: UInt32 = 0
    private var cryptoLength: UInt32 = 0
    private var hasFIN = false
    private var streamID = SentContent.none
    private var offset: UInt64 = 0
    private var cryptoOffset = SentContent.none
    private var acknowledged = SentContent.none
    /// The items that did not fit inline.
    package private(set) var items: [SentItem] = []

    package init() {}

    /// The largest packet number an ACK frame in the packet acknowledged, if it carried one.
    package var largestAcknowledged: UInt64? {
        get { acknowledged == Self.none ? nil : acknowledged }
        set { acknowledged = newValue ?? Self.none }
    }

    /// Indicates whether nothing in it would ever be sent again or needs to be forgotten.
    package var isEmpty: Bool {
        control.isEmpty && streamID == Self.none && cryptoOffset == Self.none && acknowledged == Self.none
            && items.isEmpty
    }

    /// The inline stream range, if any; further ones are ``items``.
    package var stream: StreamRange? {
        guard streamID != Self.none else { return nil }
        return StreamRange(
            id: StreamID(rawValue: streamID), offset: offset, length: Int(length), isFinished: hasFIN)
    }

    /// The inline run of handshake bytes, if any; further ones are ``items``.
    package var crypto: Range<UInt64>? {
        cryptoOffset == Self.none ? nil : cryptoOffset..<cryptoOffset + UInt64(cryptoLength)
    }

    /// Adds a STREAM frame.
    package mutating func add(stream: StreamID, offset: UInt64, length: Int, isFinished: Bool) {
        guard streamID == Self.none else {
            items.append(
                .stream(StreamRange(id: stream, offset: offset, length: length, isFinished: isFinished)))
            return
        }
        streamID = stream.rawValue
        self.offset = offset
        self.length = UInt32(length)
        hasFIN = isFinished
    }

    /// Adds a CRYPTO frame.
    package mutating func add(crypto offset: UInt64, length: Int) {
        guard cryptoOffset == Self.none else {
            items.append(.crypto(offset: offset, length: length))
            return
        }
        cryptoOffset = offset
        cryptoLength = UInt32(length)
    }

    /// Adds a rarer frame.
    package mutating func add(_ item: SentItem) {
        items.append(item)
    }
}
