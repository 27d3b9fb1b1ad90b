import KithQUIC
import KithWire
import Testing

/// One packet of an RFC's appendix: protecting `header` and `payload` makes `wire`, opening `wire` gives them back.
struct ProtectionExample: Sendable, CustomTestStringConvertible {
    var name: String
    var version = QUICVersion.one
    var suite: CipherSuite
    var secret: SecretBytes
    var header: [UInt8]
    var numberLength: Int
    var number: UInt64
    var payload: [UInt8]
    var wire: [UInt8]

    var testDescription: String { name }

    /// Makes the packet with keys of `type`, and opens it again.
    func check<Keys: PacketProtection>(_ type: Keys.Type) {
        let keys = Keys(suite: suite, secret: secret, version: version)
        var packet = header + payload + [UInt8](repeating: 0, count: CipherSuite.tagLength)
        packet.withUnsafeMutableBytes { packet in
            guard let base = packet.baseAddress else { return }
            keys.protect(
                base, headerLength: header.count, packetNumberLength: numberLength,
                payloadLength: payload.count, packetNumber: number)
        }
        #expect(packet == wire)

        let unmasked = packet.withUnsafeMutableBytes {
            keys.unmask($0, packetNumberOffset: header.count - numberLength)
        }
        #expect(
            unmasked
                == UnmaskedHeader(
                    firstByte: header[0], packetNumberLength: numberLength,
                    truncatedPacketNumber: UInt32(
                        truncatingIfNeeded: number & (1 << (8 * UInt64(numberLength)) - 1))))
        let count = packet.withUnsafeMutableBytes {
            keys.open($0, headerLength: header.count, packetNumber: number)
        }
        #expect(count == payload.count)
        #expect(Array(packet.prefix(header.count)) == header)
        #expect(Array(packet.dropFirst(header.count).prefix(payload.count)) == payload)
    }
}
