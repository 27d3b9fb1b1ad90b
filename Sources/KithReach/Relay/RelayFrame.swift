package import KithIdentity
package import KithWire

/// A frame of the relay protocol: one binary WebSocket message.
///
///     type (QUIC varint, one byte) ‖ body       integers are big-endian
///
/// The protocol is iroh's, to the byte, so that its endpoints and Kith's use each other's relays.
package enum RelayFrame: Hashable, Sendable {
    /// 0: what a client has to sign (relay).
    case challenge([UInt8])
    /// 1: a client's key, and its signature (client).
    case proof(DeviceID, signature: [UInt8])
    /// 2: the client is who it says (relay).
    case confirmed
    /// 3: the client may not use the relay, and why (relay).
    case denied(String)
    /// 4, 5: for another client (client).
    case send(to: DeviceID, RelayedDatagrams)
    /// 6, 7: of another client (relay).
    case received(from: DeviceID, RelayedDatagrams)
    /// 8: a device that is not there, or no longer (relay).
    case gone(DeviceID)
    /// 9: answered with the same bytes.
    case ping([UInt8])
    /// 10: the answer.
    case pong([UInt8])
    /// 11: text about the connection, empty when all is well again (relay, v1 only).
    case health(String)
    /// 12: the relay is about to go: when to come back, and how long to try, in milliseconds (relay).
    case restarting(reconnectIn: UInt32, tryFor: UInt32)
    /// 13: the state of the connection (relay, v2 only).
    case status(RelayStatus)

    /// The most bytes of a body.
    package static let maxBody = 65_536
    /// The most bytes of a frame.
    package static let maxLength = maxBody + 1
    /// The bytes of a challenge.
    package static let challengeLength = 16
    /// The bytes of a ping.
    package static let pingLength = 8
    /// The most bytes of a text that is written.
    package static let maxText = 1_024

    /// The end that sent a frame.
    package enum Sender: Hashable, Sendable {
        /// A device.
        case client
        /// The relay.
        case relay
    }
}

/// Datagrams that travel together.
package struct RelayedDatagrams: Hashable, Sendable {
    /// The congestion mark: 0 none, 1 ECT(1), 2 ECT(0), 3 CE.
    package var ecn: UInt8
    /// The length of each but the last; `nil` for a single one.
    package var segmentSize: UInt16?
    /// One or more datagrams, back to back.
    package var contents: [UInt8]

    /// The most bytes of contents.
    package static let maxLength = RelayFrame.maxBody - 35

    /// Makes datagrams.
    package init(_ contents: [UInt8], segmentSize: UInt16? = nil, ecn: UInt8 = 0) {
        (self.contents, self.segmentSize, self.ecn) = (contents, segmentSize, ecn)
    }
}

/// The state of a client's connection, as the relay sees it.
package enum RelayStatus: Hashable, Sendable {
    /// All is well again.
    case healthy
    /// The same key is connected elsewhere, and datagrams go there.
    case elsewhere
    /// It sends faster than the relay lets it.
    case rateLimited
    /// One that is not known here.
    case other(UInt8)

    /// Its number.
    package var number: UInt8 {
        switch self {
        case .healthy: 0
        case .elsewhere: 1
        case .rateLimited: 2
        case .other(let number): number
        }
    }

    /// The status of a number.
    package init(number: UInt8) {
        switch number {
        case 0: self = .healthy
        case 1: self = .elsewhere
        case 2: self = .rateLimited
        default: self = .other(number)
        }
    }

    /// What clients of version 1 are sent in its place.
    package var healthText: String {
        switch self {
        case .healthy: ""
        case .elsewhere: "another endpoint connected with the same key"
        case .rateLimited: "rate limited"
        case .other(let number): "status \(number)"
        }
    }
}

/// The reason a relay frame was not accepted, which ends the connection.
package enum RelayFrameError: Error, Hashable, Sendable {
    /// There is no such type, or not in this version, or not from this end.
    case type(UInt64)
    /// It is longer than a frame may be.
    case tooLong(Int)
    /// Datagrams without contents, or a segment size of 0.
    case empty
    /// A congestion mark above 3.
    case ecn(UInt8)
    /// Not a key, or a key with another form of signature.
    case proof
    /// Text that is not UTF-8.
    case text
    /// It ends too early, or something follows it.
    case wire(WireError)
}

// MARK: - Reading

extension RelayFrame {
    /// Reads the frame in a message.
    package init(_ bytes: [UInt8], version: RelayVersion, from sender: Sender) throws(RelayFrameError) {
        guard bytes.count <= Self.maxLength else { throw .tooLong(bytes.count) }
        do {
            var reader = ByteReader(bytes)
            self = try Self.read(&reader, version, sender)
            try reader.finish()
        } catch let error as RelayFrameError {
            throw error
        } catch let error as WireError {
            throw .wire(error)
        } catch {
            preconditionFailure("a reader throws nothing else: \(error)")
        }
    }

    @_lifetime(reader: copy reader)
    private static func read(
        _ reader: inout ByteReader, _ version: RelayVersion, _ sender: Sender
    ) throws -> RelayFrame {
        let type = try reader.varint()
        switch (type, sender) {
        case (0, .relay): return .challenge(try reader.bytes(challengeLength))
        case (1, .client):
            let key = try device(&reader)
            // The length of a signature, as the encoding it comes from writes it.
            guard try reader.integer(as: UInt8.self) == 64 else { throw RelayFrameError.proof }
            return .proof(key, signature: try reader.bytes(64))
        case (2, .relay): return .confirmed
        case (3, .relay):
            let length = try leb128(&reader)
            return .denied(try text(&reader, length))
        case (4, .client), (5, .client):
            let key = try device(&reader)
            return .send(to: key, try datagrams(&reader, isBatch: type == 5))
        case (6, .relay), (7, .relay):
            let key = try device(&reader)
            return .received(from: key, try datagrams(&reader, isBatch: type == 7))
        case (8, .relay): return .gone(try device(&reader))
        case (9, _): return .ping(try reader.bytes(pingLength))
        case (10, _): return .pong(try reader.bytes(pingLength))
        case (11, .relay) where version == .v1: return .health(try text(&reader, reader.remaining))
        case (12, .relay):
            let reconnectIn = try reader.integer(as: UInt32.self)
            return .restarting(reconnectIn: reconnectIn, tryFor: try reader.integer())
        case (13, .relay) where version == .v2:
            return .status(RelayStatus(number: try reader.integer()))
        default: throw RelayFrameError.type(type)
        }
    }

    @_lifetime(reader: copy reader)
    private static func device(_ reader: inout ByteReader) throws -> DeviceID {
        guard let id = try? DeviceID(publicKey: try reader.bytes(32)) else {
            throw WireError.truncated(needed: 32, left: reader.remaining)
        }
        return id
    }

    @_lifetime(reader: copy reader)
    private static func text(_ reader: inout ByteReader, _ length: Int) throws -> String {
        guard let text = String(validating: try reader.bytes(length), as: UTF8.self) else { throw RelayFrameError.text }
        return text
    }

    @_lifetime(reader: copy reader)
    private static func datagrams(_ reader: inout ByteReader, isBatch: Bool) throws -> RelayedDatagrams {
        let ecn = try reader.integer(as: UInt8.self)
        guard ecn <= 3 else { throw RelayFrameError.ecn(ecn) }
        let size: UInt16? = isBatch ? try reader.integer() : nil
        guard reader.remaining > 0, size != 0 else { throw RelayFrameError.empty }
        return RelayedDatagrams(try reader.bytes(reader.remaining), segmentSize: size, ecn: ecn)
    }

    /// Reads seven bits a byte, the lowest first, in at most three bytes.
    @_lifetime(reader: copy reader)
    private static func leb128(_ reader: inout ByteReader) throws -> Int {
        var value = 0
        for shift in [0, 7, 14] {
            let byte = try reader.integer(as: UInt8.self)
            value |= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return value }
        }
        throw WireError.tooLong(limit: maxBody, actual: .max)
    }
}

// MARK: - Writing

extension RelayFrame {
    /// The number of its type.
    package var type: UInt8 {
        switch self {
        case .challenge: 0
        case .proof: 1
        case .confirmed: 2
        case .denied: 3
        case .send(_, let datagrams): datagrams.segmentSize == nil ? 4 : 5
        case .received(_, let datagrams): datagrams.segmentSize == nil ? 6 : 7
        case .gone: 8
        case .ping: 9
        case .pong: 10
        case .health: 11
        case .restarting: 12
        case .status: 13
        }
    }

    /// The message that carries it.
    package var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.varint(UInt64(type))
        switch self {
        case .challenge(let bytes), .ping(let bytes), .pong(let bytes): writer.bytes(bytes)
        case .proof(let key, let signature):
            writer.bytes(key.bytes)
            writer.integer(UInt8(64))
            writer.bytes(signature)
        case .confirmed: break
        case .denied(let reason):
            let text = Self.bounded(reason)
            var length = text.count
            while length >= 0x80 {
                writer.integer(UInt8(length & 0x7F | 0x80))
                length >>= 7
            }
            writer.integer(UInt8(length))
            writer.bytes(text)
        case .send(let key, let datagrams), .received(let key, let datagrams):
            writer.bytes(key.bytes)
            writer.integer(datagrams.ecn)
            if let size = datagrams.segmentSize { writer.integer(size) }
            writer.bytes(datagrams.contents)
        case .gone(let key): writer.bytes(key.bytes)
        case .health(let text): writer.bytes(Self.bounded(text))
        case .restarting(let reconnectIn, let tryFor):
            writer.integer(reconnectIn)
            writer.integer(tryFor)
        case .status(let status): writer.integer(status.number)
        }
        return writer.bytes
    }

    /// As many whole characters as fit.
    private static func bounded(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        for character in text {
            let more = Array(character.utf8)
            guard bytes.count + more.count <= maxText else { break }
            bytes += more
        }
        return bytes
    }
}
