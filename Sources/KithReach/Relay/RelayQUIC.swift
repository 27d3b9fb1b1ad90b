package import KithIdentity
import KithWire

/// The relay protocol over QUIC, between Kith's devices and Kith's relays.
///
/// QUIC v1 or v2 with ALPN `kith-relay/1`. Both ends prove themselves by their raw public keys in TLS (RFC 7250): the
/// relay by the one that its URL names, so no authority has a say; the device by its own, so there is no challenge.
///
/// **The stream.** The client opens one bidirectional stream, the only one. Each way it carries messages
///
///     length 2 ‖ type 1 ‖ body           integers are big-endian; the length counts type and body, 1…2048
///
/// | type | from | body |
/// | --- | --- | --- |
/// | 2 confirmed | relay | empty |
/// | 3 denied | relay | LEB128 length ‖ UTF-8 reason |
/// | 4, 6 datagram | client, relay | as below, for one that fits no DATAGRAM frame |
/// | 8 gone | relay | key 32 |
/// | 12 restarting | relay | reconnect in ms 4 ‖ try for ms 4 |
/// | 13 status | relay | 1 |
/// | 14 hello | client | the token, UTF-8, 0…512 bytes; empty for none |
///
/// The client's first message is hello, which it sends once, in the first flight where it resumes a session. The relay
/// answers 2 or 3; until then it sends nothing else. Types 2 to 13 have the bodies of ``RelayFrame``. Pings are QUIC's.
///
/// **Datagrams.** A DATAGRAM frame (RFC 9221) holds one frame of ``RelayFrame`` without a length: type 4 or 5 from the
/// client, 6 or 7 from the relay. Both ends send single ones, 4 and 6:
///
///     type 1 ‖ key 32 ‖ ECN 1 ‖ datagram
///
/// So a packet has room for an inner datagram of 66 bytes less than its own UDP payload: 1386 of 1452. What is longer is
/// dropped, and the inner connection finds that bound as it finds any path's (RFC 8899). What has 1200 bytes or less must
/// get through wherever QUIC does; where a frame holds less than that, which is until the outer path has proven 1266 bytes
/// and along tunnels that carry no more, it goes on the stream, in order and repeated when lost.
///
/// Whatever is not listed, another stream, or the end of the one there is, ends the connection.
package enum RelayQUIC {
    /// The application protocol.
    package static let alpn = "kith-relay/1"
    /// The port to try after 443, where that is taken or filtered.
    package static let secondPort: UInt16 = 7_842
    /// The bytes before a single datagram in its frame.
    package static let headerLength = 34
    /// The size of datagrams that must get through: QUIC needs it of every path (RFC 9000 §14).
    package static let guaranteed = 1_200

    /// The UDP ports at which a relay may be, the likeliest first.
    package static func ports(of relay: RelayAddress) -> [UInt16] {
        relay.port == 443 ? [443, secondPort] : [relay.port]
    }

    /// The way a datagram's frame goes.
    package enum Carriage: Hashable, Sendable {
        /// In a DATAGRAM frame.
        case datagram
        /// On the stream.
        case stream
        /// Not at all: too long for the path.
        case none
    }

    /// The way of a frame of `length` bytes, when a DATAGRAM frame holds `limit`.
    package static func carriage(of length: Int, limit: Int) -> Carriage {
        if length <= limit { return .datagram }
        return length <= headerLength + guaranteed ? .stream : .none
    }
}

/// A message of the stream.
package enum RelayStreamMessage: Hashable, Sendable {
    /// 14: the client's first, with its token.
    case hello(token: String?)
    /// One that the other carriers have, too.
    case frame(RelayFrame)

    static let helloType: UInt8 = 14
    /// The most bytes of type and body.
    package static let maxLength = 2_048

    /// The bytes on the stream.
    package var bytes: [UInt8] {
        let body: [UInt8] =
            switch self {
            case .hello(let token): [Self.helloType] + Array((token ?? "").utf8.prefix(RelayAccess.maxToken))
            case .frame(let frame): frame.bytes
            }
        return Self.framed(body)
    }

    /// A frame, type and body, with its length before it.
    package static func framed(_ frame: [UInt8]) -> [UInt8] {
        precondition((1...maxLength).contains(frame.count), "frames of the stream are short")
        return [UInt8(frame.count >> 8), UInt8(truncatingIfNeeded: frame.count)] + frame
    }
}

/// Reads the messages of one direction of the stream, however its bytes come.
package struct RelayStreamReader: Hashable, Sendable {
    private let sender: RelayFrame.Sender
    private var bytes: [UInt8] = []
    private var isFirst = true

    /// Reads what `sender` says.
    package init(from sender: RelayFrame.Sender) { self.sender = sender }

    /// Takes the next bytes; returns the messages that are complete.
    package mutating func receive(_ more: [UInt8]) throws(RelayFrameError) -> [RelayStreamMessage] {
        bytes += more
        var messages: [RelayStreamMessage] = []
        var start = 0
        while bytes.count - start >= 2 {
            let length = Int(bytes[start]) << 8 | Int(bytes[start + 1])
            guard length > 0 else { throw .empty }
            guard length <= RelayStreamMessage.maxLength else { throw .tooLong(length) }
            guard bytes.count - start - 2 >= length else { break }
            messages.append(try read(Array(bytes[(start + 2)..<(start + 2 + length)])))
            start += 2 + length
        }
        bytes.removeFirst(start)
        return messages
    }

    private mutating func read(_ frame: [UInt8]) throws(RelayFrameError) -> RelayStreamMessage {
        let type = frame[0]
        defer { isFirst = false }
        if sender == .client, isFirst != (type == RelayStreamMessage.helloType) { throw .type(UInt64(type)) }
        if type == RelayStreamMessage.helloType {
            guard sender == .client else { throw .type(UInt64(type)) }
            guard frame.count <= 1 + RelayAccess.maxToken else { throw .tooLong(frame.count) }
            guard let token = String(validating: frame[1...], as: UTF8.self) else { throw .text }
            return .hello(token: token.isEmpty ? nil : token)
        }
        let isConfirmation = type == 2 || type == 3
        if sender == .relay, isFirst != isConfirmation { throw .type(UInt64(type)) }
        switch type {
        case 2, 3, 4, 6, 8, 12, 13: return .frame(try RelayFrame(frame, version: .v2, from: sender))
        default: throw .type(UInt64(type))
        }
    }
}

/// The front of a frame of datagrams, read without a copy of what follows.
package struct RelayedHeader: Hashable, Sendable {
    /// The device it is for, or of.
    package let device: DeviceID
    /// The length of each datagram but the last; `nil` for a single one.
    package let segmentSize: Int?
    /// The index of the first byte of the datagrams.
    package let start: Int

    /// Reads the front of a frame of type 4 or 5 from a client, 6 or 7 from a relay.
    package init(_ frame: [UInt8], from sender: RelayFrame.Sender) throws(RelayFrameError) {
        guard let type = frame.first else { throw .empty }
        let single: UInt8 = sender == .client ? 4 : 6
        guard type == single || type == single + 1 else { throw .type(UInt64(type)) }
        start = type == single ? 34 : 36
        guard frame.count >= start else { throw .wire(.truncated(needed: start, left: frame.count)) }
        guard frame.count > start else { throw .empty }
        guard frame[33] <= 3 else { throw .ecn(frame[33]) }
        device = Self.device(in: frame)
        if type == single {
            segmentSize = nil
        } else {
            let size = Int(frame[34]) << 8 | Int(frame[35])
            guard size > 0 else { throw .empty }
            segmentSize = size
        }
    }

    private static func device(in frame: [UInt8]) -> DeviceID {
        unsafe frame.withUnsafeBytes { bytes in
            let words = (0..<4).map {
                unsafe UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 1 + 8 * $0, as: UInt64.self))
            }
            return DeviceID(words: (words[0], words[1], words[2], words[3]))
        }
    }

    /// Makes a client's frame the relay's, in place: the type and the key change.
    package static func turn(_ frame: inout [UInt8], toFrameFrom device: DeviceID) {
        precondition(frame.count > RelayQUIC.headerLength, "a frame that was read")
        let words = device.words
        frame[0] += 2
        unsafe frame.withUnsafeMutableBytes { bytes in
            unsafe bytes.storeBytes(of: words.0.bigEndian, toByteOffset: 1, as: UInt64.self)
            unsafe bytes.storeBytes(of: words.1.bigEndian, toByteOffset: 9, as: UInt64.self)
            unsafe bytes.storeBytes(of: words.2.bigEndian, toByteOffset: 17, as: UInt64.self)
            unsafe bytes.storeBytes(of: words.3.bigEndian, toByteOffset: 25, as: UInt64.self)
        }
    }
}

/// Datagrams that wait together, cut into frames of one each.
package struct RelayedSegments: Hashable, Sendable {
    private let header: [UInt8]
    private let contents: [UInt8]
    private let segmentSize: Int
    private var offset: Int

    /// Cuts `contents` from `start` on, for a device (from a client) or of one (from a relay).
    package init(
        _ contents: [UInt8], from start: Int = 0, segmentSize: Int?, device: DeviceID, sender: RelayFrame.Sender,
        ecn: UInt8 = 0
    ) {
        header = [sender == .client ? 4 : 6] + device.bytes + [ecn]
        self.contents = contents
        self.segmentSize = max(segmentSize ?? contents.count, 1)
        offset = start
    }

    /// Indicates whether nothing is left.
    package var isEmpty: Bool { offset >= contents.count }

    /// The next frame; `nil` when nothing is left.
    package mutating func next() -> [UInt8]? {
        guard offset < contents.count else { return nil }
        let (sum, isOver) = offset.addingReportingOverflow(segmentSize)
        let end = isOver ? contents.count : min(sum, contents.count)
        defer { offset = end }
        var frame: [UInt8] = []
        frame.reserveCapacity(header.count + end - offset)
        frame += header
        frame += contents[offset..<end]
        return frame
    }
}

/// The transport by which a relay is reached.
package enum RelayCarrier: String, Hashable, Sendable, Codable {
    /// QUIC, on UDP.
    case quic
    /// A WebSocket, on TCP.
    case tcp
}
