/// The part of a packet that can be read before its protection is removed (RFC 9000 §17).
@safe struct PacketHeader {
    /// The type of a packet.
    enum Kind: UInt8, Hashable {
        case initial = 0
        case zeroRTT = 1
        case handshake = 2
        case retry = 3
        case short = 4
        case versionNegotiation = 5
    }

    var kind: Kind
    /// The version of a long header other than a Version Negotiation.
    var version = QUICVersion.one
    var destination: ConnectionID
    /// Empty in a short header.
    var source: ConnectionID
    /// The token of an Initial; the token and the integrity tag of a Retry; the versions of a Version Negotiation.
    var token: UnsafeRawBufferPointer
    /// The offset of the packet number from the packet's first byte.
    var numberOffset: Int
    /// The packet's length: what follows in the datagram is another packet.
    var length: Int

    /// Reads the header of the packet at the front of `bytes`.
    ///
    /// - Returns: nil when it is not a packet of a version spoken here; the rest of the datagram is then dropped.
    @inline(__always)
    static func read(_ bytes: UnsafeRawBufferPointer, localConnectionIDLength: Int) -> PacketHeader? {
        guard bytes.count > localConnectionIDLength else { return nil }
        if unsafe bytes[0] & 0x80 == 0 {
            // Nobody looks at the fixed bit: a peer that was told so may grease it (RFC 9287 §3).
            return unsafe PacketHeader(
                kind: .short,
                destination: ConnectionID(
                    copying: UnsafeRawBufferPointer(rebasing: bytes[1..<1 + localConnectionIDLength])),
                source: ConnectionID(), token: UnsafeRawBufferPointer(start: nil, count: 0),
                numberOffset: 1 + localConnectionIDLength, length: bytes.count)
        }
        return unsafe readLong(bytes)
    }

    private static func readLong(_ bytes: UnsafeRawBufferPointer) -> PacketHeader? {
        do {
            return unsafe try parseLong(bytes)
        } catch {
            return nil
        }
    }

    private static func parseLong(_ bytes: UnsafeRawBufferPointer) throws(Truncated) -> PacketHeader? {
        var reader = unsafe PacketReader(bytes)
        let first = try reader.byte()
        let version = try reader.uint32()
        guard let destination = try connectionID(&reader), let source = try connectionID(&reader) else { return nil }
        let nothing = unsafe UnsafeRawBufferPointer(start: nil, count: 0)
        if version == QUICVersion.negotiation {
            return unsafe PacketHeader(
                kind: .versionNegotiation, destination: destination, source: source, token: reader.rest,
                numberOffset: bytes.count, length: bytes.count)
        }
        guard let version = QUICVersion(rawValue: version) else { return nil }
        let kind = version.kind(typeBits: first >> 4)
        if kind == .retry {
            return unsafe PacketHeader(
                kind: .retry, version: version, destination: destination, source: source, token: reader.rest,
                numberOffset: bytes.count, length: bytes.count)
        }
        let token = unsafe kind == .initial ? try reader.prefixedBytes() : nothing
        let length = try reader.varint()
        // Room for a packet number and the sample of header protection (RFC 9001 §5.4.2).
        guard length <= UInt64(reader.remaining), length >= 20 else { return nil }
        let numberOffset = bytes.count - reader.remaining
        return unsafe PacketHeader(
            kind: kind, version: version, destination: destination, source: source, token: token,
            numberOffset: numberOffset,
            length: numberOffset + Int(length))
    }

    static func connectionID(_ reader: inout PacketReader) throws(Truncated) -> ConnectionID? {
        let length = Int(try reader.byte())
        guard length <= ConnectionID.maximumLength else { return nil }
        return unsafe ConnectionID(copying: try reader.bytes(length))
    }
}

extension PacketWriter {
    /// Writes a long header up to and including the packet number; answers where the length field stands.
    mutating func longHeader(
        _ kind: PacketHeader.Kind, _ version: QUICVersion, destination: ConnectionID, source: ConnectionID,
        token: [UInt8], number: UInt64, numberLength: Int
    ) -> Int {
        byte(0xC0 | version.typeBits(kind) << 4 | UInt8(numberLength - 1))
        uint32(version.rawValue)
        byte(UInt8(destination.count))
        connectionID(destination)
        byte(UInt8(source.count))
        connectionID(source)
        if kind == .initial {
            varint(UInt64(token.count))
            bytes(token)
        }
        let lengthOffset = count
        uint16(0)
        packetNumber(number, length: numberLength)
        return lengthOffset
    }

    /// The size of what ``longHeader(_:_:destination:source:token:number:numberLength:)`` writes.
    static func longHeaderLength(
        _ kind: PacketHeader.Kind, destination: ConnectionID, source: ConnectionID, token: [UInt8], numberLength: Int
    ) -> Int {
        let tokenLength = kind == .initial ? varintLength(UInt64(token.count)) + token.count : 0
        return 9 + destination.count + source.count + tokenLength + numberLength
    }

    /// Puts the length of the rest of the packet into the two bytes reserved for it.
    func patchLength(_ length: Int, at offset: Int) {
        precondition(length < 1 << 14, "a packet of the handshake fits a two-byte length")
        unsafe base.storeBytes(of: (UInt16(length) | 0x4000).bigEndian, toByteOffset: offset, as: UInt16.self)
    }

    /// Writes a short header (RFC 9000 §17.3.1).
    @inline(__always)
    mutating func shortHeader(
        destination: ConnectionID, keyPhase: Bool, number: UInt64, numberLength: Int, fixedBit: UInt8 = 0x40
    ) {
        byte(fixedBit | (keyPhase ? 0x04 : 0) | UInt8(numberLength - 1))
        connectionID(destination)
        packetNumber(number, length: numberLength)
    }

    /// Writes the low `length` bytes of a packet number.
    @inline(__always)
    mutating func packetNumber(_ number: UInt64, length: Int) {
        for index in stride(from: length - 1, through: 0, by: -1) {
            byte(UInt8(truncatingIfNeeded: number >> (8 * UInt64(index))))
        }
    }
}
