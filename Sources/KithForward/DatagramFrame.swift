package import KithAPI
import KithIdentity
package import KithWire

/// One UDP datagram on a stream of ``Forward/Datagrams`` or ``Forward/Accept``.
///
/// | part | bytes |
/// | --- | --- |
/// | length of all that follows | varint (RFC 9000 §16), at most ``longest`` |
/// | kind of the other end | 1: `0` the only one there is, `3` a name, `4` and `6` an address |
/// | the other end | `3`: length (1), name, port (2); `4`, `6`: 4 or 16 bytes, port (2) |
/// | payload | the rest |
///
/// To the device the other end is where the datagram goes, from the device where it came from.
package struct DatagramFrame: Hashable, Sendable {
    /// The other end; `nil` when the stream has only one.
    package var other: Forward.Endpoint?
    /// The payload.
    package var payload: [UInt8]

    /// The longest payload UDP carries.
    package static let longestPayload = 65_527
    /// The most that may follow a length.
    package static let longest = longestPayload + 1 + 1 + 255 + 2

    /// Makes a frame.
    package init(other: Forward.Endpoint?, payload: [UInt8]) {
        self.other = other
        self.payload = payload
    }

    /// The bytes.
    package var encoded: [UInt8] {
        var body = ByteWriter()
        switch other {
        case .address(let address): body.address(address)
        case .name(let name, let port):
            body.integer(3 as UInt8)
            body.integer(UInt8(truncatingIfNeeded: name.utf8.count))
            body.bytes(name.utf8)
            body.integer(port)
        case .every, .socket, nil: body.integer(0 as UInt8)
        }
        var writer = ByteWriter(capacity: body.bytes.count + payload.count + 8)
        writer.varint(UInt64(body.bytes.count + payload.count))
        writer.bytes(body.bytes)
        writer.bytes(payload)
        return writer.bytes
    }
}

/// Takes frames out of bytes as they come.
package struct DatagramFrameDecoder: Sendable {
    private var bytes: [UInt8] = []
    private var start = 0

    /// Makes a decoder.
    package init() {}

    /// Takes more bytes.
    package mutating func append(_ more: [UInt8]) {
        if start > 0 {
            bytes.removeFirst(start)
            start = 0
        }
        bytes += more
    }

    /// The next whole frame; `nil` when there is none yet.
    ///
    /// - Throws: `.invalid` for a frame that is too long or malformed.
    package mutating func next() throws(KithError) -> DatagramFrame? {
        guard start < bytes.count else { return nil }
        let prefix = 1 << Int(bytes[start] >> 6)
        guard bytes.count - start >= prefix else { return nil }
        var length = UInt64(bytes[start] & 0x3F)
        for byte in bytes[(start + 1)..<(start + prefix)] { length = length << 8 | UInt64(byte) }
        guard length <= UInt64(DatagramFrame.longest) else {
            throw KithError(.invalid, "The other device announced a UDP packet of \(length) bytes, which cannot be.")
        }
        let end = start + prefix + Int(length)
        guard bytes.count >= end else { return nil }
        let body = Array(bytes[(start + prefix)..<end])
        start = end
        do {
            return try Self.frame(body)
        } catch {
            throw KithError(.invalid, "The other device sent a malformed UDP packet.", cause: error)
        }
    }

    private static func frame(_ body: [UInt8]) throws(WireError) -> DatagramFrame {
        var reader = ByteReader(body)
        let kind: UInt8 = try reader.integer()
        let other: Forward.Endpoint?
        switch kind {
        case 0: other = nil
        case 3:
            let count: UInt8 = try reader.integer()
            let text = String(decoding: try reader.bytes(Int(count)), as: UTF8.self)
            let port: UInt16 = try reader.integer()
            guard let name = HostName.normalised(text) else { throw .invalid("a name of a host") }
            other = .name(name, port: port)
        case 4, 6:
            let ip = try reader.bytes(kind == 4 ? 4 : 16)
            let port: UInt16 = try reader.integer()
            guard let address = NetworkAddress(ip: ip, port: port) else { throw .invalid("an address") }
            other = .address(address)
        default: throw .invalid("kind of the other end")
        }
        return DatagramFrame(other: other, payload: try reader.bytes(reader.remaining))
    }
}
