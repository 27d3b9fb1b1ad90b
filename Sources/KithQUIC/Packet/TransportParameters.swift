/// The parameters by which each end tells the other its limits in the handshake (RFC 9000 §18, RFC 9221 §3).
struct TransportParameters: Hashable {
    var originalDestination: ConnectionID?
    /// Milliseconds; 0 for none.
    var maxIdleTimeout: UInt64 = 0
    var statelessResetToken: ResetToken?
    var maxUDPPayloadSize: UInt64 = 65527
    var initialMaxData: UInt64 = 0
    var initialMaxStreamDataBidiLocal: UInt64 = 0
    var initialMaxStreamDataBidiRemote: UInt64 = 0
    var initialMaxStreamDataUni: UInt64 = 0
    var initialMaxStreamsBidi: UInt64 = 0
    var initialMaxStreamsUni: UInt64 = 0
    var ackDelayExponent: UInt64 = 3
    /// Milliseconds.
    var maxAckDelay: UInt64 = 25
    var disableActiveMigration = false
    var preferredAddress: [UInt8]?
    var activeConnectionIDLimit: UInt64 = 2
    var initialSource: ConnectionID?
    var retrySource: ConnectionID?
    /// 0 when DATAGRAM frames are not accepted.
    var maxDatagramFrameSize: UInt64 = 0
    /// The versions of QUIC the sender speaks (RFC 9368 §3).
    var versions: VersionInformation?
    /// Indicates whether the fixed bit of packets to the sender may have any value (RFC 9287 §3).
    var greaseQUICBit = false
    /// Indicates whether the sender lets a server move as a client may; a parameter of our own.
    var eitherEndMoves = false
    /// The sender's part in address discovery; nil for none (draft-ietf-quic-address-discovery §4).
    var addressDiscovery: AddressDiscoveryRole?

    private enum Identifier: UInt64, CaseIterable {
        case originalDestination = 0x00
        case maxIdleTimeout = 0x01
        case statelessResetToken = 0x02
        case maxUDPPayloadSize = 0x03
        case initialMaxData = 0x04
        case initialMaxStreamDataBidiLocal = 0x05
        case initialMaxStreamDataBidiRemote = 0x06
        case initialMaxStreamDataUni = 0x07
        case initialMaxStreamsBidi = 0x08
        case initialMaxStreamsUni = 0x09
        case ackDelayExponent = 0x0A
        case maxAckDelay = 0x0B
        case disableActiveMigration = 0x0C
        case preferredAddress = 0x0D
        case activeConnectionIDLimit = 0x0E
        case initialSource = 0x0F
        case retrySource = 0x10
        case versionInformation = 0x11
        case maxDatagramFrameSize = 0x20
        case greaseQUICBit = 0x2AB2
        /// "KITH", from the range nobody registers in (RFC 9000 §22.3).
        case eitherEndMoves = 0x4B49_5448
        case addressDiscovery = 0x9F81_A176

        /// Indicates whether only a server may send it.
        var isServerOnly: Bool {
            switch self {
            case .originalDestination, .statelessResetToken, .preferredAddress, .retrySource: true
            default: false
            }
        }
    }

    /// The parameters as they travel, with one reserved parameter so that the peer's tolerance stays exercised (§18.1).
    func encoded(grease: UInt64) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 512 + (preferredAddress?.count ?? 0))
        let count = unsafe result.withUnsafeMutableBytes { buffer in
            var writer = unsafe PacketWriter(buffer)
            func number(_ id: Identifier, _ value: UInt64, default absent: UInt64) {
                guard value != absent else { return }
                writer.varint(id.rawValue)
                writer.varint(UInt64(PacketWriter.varintLength(value)))
                writer.varint(value)
            }
            func bytes(_ id: Identifier, _ value: [UInt8]?) {
                guard let value else { return }
                writer.varint(id.rawValue)
                writer.varint(UInt64(value.count))
                writer.bytes(value)
            }
            bytes(.originalDestination, originalDestination?.bytes)
            number(.maxIdleTimeout, maxIdleTimeout, default: 0)
            bytes(.statelessResetToken, statelessResetToken?.bytes)
            number(.maxUDPPayloadSize, maxUDPPayloadSize, default: 65527)
            number(.initialMaxData, initialMaxData, default: 0)
            number(.initialMaxStreamDataBidiLocal, initialMaxStreamDataBidiLocal, default: 0)
            number(.initialMaxStreamDataBidiRemote, initialMaxStreamDataBidiRemote, default: 0)
            number(.initialMaxStreamDataUni, initialMaxStreamDataUni, default: 0)
            number(.initialMaxStreamsBidi, initialMaxStreamsBidi, default: 0)
            number(.initialMaxStreamsUni, initialMaxStreamsUni, default: 0)
            number(.ackDelayExponent, ackDelayExponent, default: 3)
            number(.maxAckDelay, maxAckDelay, default: 25)
            bytes(.disableActiveMigration, disableActiveMigration ? [] : nil)
            bytes(.preferredAddress, preferredAddress)
            number(.activeConnectionIDLimit, activeConnectionIDLimit, default: 2)
            bytes(.initialSource, initialSource?.bytes)
            bytes(.retrySource, retrySource?.bytes)
            number(.maxDatagramFrameSize, maxDatagramFrameSize, default: 0)
            bytes(.versionInformation, versions?.encoded)
            bytes(.greaseQUICBit, greaseQUICBit ? [] : nil)
            bytes(.eitherEndMoves, eitherEndMoves ? [] : nil)
            if let addressDiscovery { number(.addressDiscovery, addressDiscovery.rawValue, default: .max) }
            writer.varint(27 + 31 * (grease % 1_000_000))
            writer.varint(grease % 8)
            for _ in 0..<grease % 8 { writer.byte(UInt8(truncatingIfNeeded: grease)) }
            return writer.count
        }
        result.removeLast(result.count - count)
        return result
    }

    /// Reads and checks the peer's parameters.
    ///
    /// - Throws: TRANSPORT_PARAMETER_ERROR for a duplicate, a value out of range, a malformed field, or one only
    ///   the other role may send (RFC 9000 §7.4, §18.2).
    static func decode(_ bytes: [UInt8], fromServer: Bool) throws(TransportError) -> TransportParameters {
        // A real peer sends some 150 bytes; this bounds the list of unknown identifiers below.
        guard bytes.count <= 4096 else { throw TransportError(.transportParameter, "too many transport parameters") }
        let result = unsafe bytes.withUnsafeBytes { buffer -> Result<TransportParameters, TransportError> in
            do throws(TransportError) {
                return unsafe .success(try parse(buffer, fromServer: fromServer))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private static func parse(
        _ bytes: UnsafeRawBufferPointer, fromServer: Bool
    ) throws(TransportError) -> TransportParameters {
        var parameters = TransportParameters()
        var seen: Set<UInt64> = []
        var reader = unsafe PacketReader(bytes)
        while !reader.isAtEnd {
            let number: UInt64
            let value: UnsafeRawBufferPointer
            do {
                number = try reader.varint()
                unsafe value = unsafe try reader.prefixedBytes()
            } catch {
                throw TransportError(.transportParameter, "malformed transport parameters")
            }
            guard seen.insert(number).inserted else {
                throw TransportError(.transportParameter, "duplicate transport parameter")
            }
            guard let id = Identifier(rawValue: number) else { continue }
            guard fromServer || !id.isServerOnly else {
                throw TransportError(.transportParameter, "a client sent a server's transport parameter")
            }
            unsafe try parameters.set(id, value)
        }
        return parameters
    }

    private mutating func set(_ id: Identifier, _ value: UnsafeRawBufferPointer) throws(TransportError) {
        switch id {
        case .originalDestination: originalDestination = unsafe try Self.connectionID(value)
        case .maxIdleTimeout: maxIdleTimeout = unsafe try Self.number(value)
        case .statelessResetToken:
            guard value.count == 16 else { throw Self.outOfRange }
            statelessResetToken = unsafe ResetToken(copying: value)
        case .maxUDPPayloadSize: maxUDPPayloadSize = unsafe try Self.number(value, in: 1200...UInt64.max)
        case .initialMaxData: initialMaxData = unsafe try Self.number(value)
        case .initialMaxStreamDataBidiLocal: initialMaxStreamDataBidiLocal = unsafe try Self.number(value)
        case .initialMaxStreamDataBidiRemote: initialMaxStreamDataBidiRemote = unsafe try Self.number(value)
        case .initialMaxStreamDataUni: initialMaxStreamDataUni = unsafe try Self.number(value)
        case .initialMaxStreamsBidi: initialMaxStreamsBidi = unsafe try Self.number(value, in: 0...1 << 60)
        case .initialMaxStreamsUni: initialMaxStreamsUni = unsafe try Self.number(value, in: 0...1 << 60)
        case .ackDelayExponent: ackDelayExponent = unsafe try Self.number(value, in: 0...20)
        case .maxAckDelay: maxAckDelay = unsafe try Self.number(value, in: 0...(1 << 14) - 1)
        case .disableActiveMigration:
            guard unsafe value.isEmpty else { throw Self.outOfRange }
            disableActiveMigration = true
        case .preferredAddress:
            // Two addresses with ports, an id with its length, a token: 24 + 1 + id + 16. We never move there.
            guard value.count >= 42, unsafe value.count == 41 + Int(value[24]), unsafe value[24] <= 20 else {
                throw Self.outOfRange
            }
            preferredAddress = unsafe [UInt8](value)
        case .activeConnectionIDLimit: activeConnectionIDLimit = unsafe try Self.number(value, in: 2...UInt64.max)
        case .initialSource: initialSource = unsafe try Self.connectionID(value)
        case .retrySource: retrySource = unsafe try Self.connectionID(value)
        case .maxDatagramFrameSize: maxDatagramFrameSize = unsafe try Self.number(value)
        case .versionInformation:
            guard let information = unsafe VersionInformation(value) else { throw Self.outOfRange }
            versions = information
        case .greaseQUICBit:
            guard unsafe value.isEmpty else { throw Self.outOfRange }
            greaseQUICBit = true
        case .eitherEndMoves:
            guard unsafe value.isEmpty else { throw Self.outOfRange }
            eitherEndMoves = true
        case .addressDiscovery:
            addressDiscovery = AddressDiscoveryRole(rawValue: unsafe try Self.number(value, in: 0...2))
        }
    }

    private static var outOfRange: TransportError {
        TransportError(.transportParameter, "transport parameter out of range")
    }

    private static func number(
        _ value: UnsafeRawBufferPointer, in range: ClosedRange<UInt64> = 0...UInt64.max
    ) throws(TransportError) -> UInt64 {
        var reader = unsafe PacketReader(value)
        guard let number = try? reader.varint(), reader.isAtEnd, range.contains(number) else { throw outOfRange }
        return number
    }

    private static func connectionID(_ value: UnsafeRawBufferPointer) throws(TransportError) -> ConnectionID {
        guard value.count <= ConnectionID.maximumLength else { throw outOfRange }
        return unsafe ConnectionID(copying: value)
    }
}
