internal import CQUICCrypto
package import KithWire

/// The keys of one direction, level and key phase, in BoringSSL.
///
/// Nothing is allocated per packet, and nothing changes after `init`: one instance may protect packets on
/// several threads. The keys are overwritten with zeros when the last owner lets go.
@safe package final class PacketKeys: PacketProtection {
    /// The cipher suite the keys are for.
    package let suite: CipherSuite

    // Sendable by hand: C never writes to the keys between making and freeing them.
    private nonisolated(unsafe) let keys: OpaquePointer

    /// Takes over keys made in C; nil is out of memory or a wrong length, both of them ours.
    private init(suite: CipherSuite, adopting keys: OpaquePointer?) {
        guard let keys = unsafe keys else {
            preconditionFailure("\(suite) keys need a secret of \(suite.hashLength) bytes")
        }
        self.suite = suite
        unsafe self.keys = unsafe keys
    }

    /// Derives the keys from a traffic secret of `suite.hashLength` bytes.
    package convenience init(suite: CipherSuite, secret: SecretBytes, version: QUICVersion) {
        unsafe self.init(
            suite: suite,
            adopting: secret.withUnsafeBytes {
                unsafe kith_keys_new(version.code, suite.code, $0.bytePointer, $0.count)
            })
    }

    /// Derives the keys from a secret of the handshake.
    package convenience init(_ secret: TrafficSecret, _ version: QUICVersion) {
        self.init(suite: secret.suite, secret: secret.bytes, version: version)
    }

    deinit { unsafe kith_keys_free(keys) }

    /// Derives the keys of Initial packets from the client's first Destination Connection ID.
    package static func initial(
        destination: [UInt8], isClient: Bool, _ version: QUICVersion = .one
    ) -> (read: PacketKeys, write: PacketKeys) {
        let secrets = KeySchedule.initialSecrets(destination: destination, version)
        let client = PacketKeys(suite: .aes128GCM, secret: secrets.client, version: version)
        let server = PacketKeys(suite: .aes128GCM, secret: secrets.server, version: version)
        return isClient ? (server, client) : (client, server)
    }

    /// Derives the keys of the next key phase; the header protection key stays (RFC 9001 §6.1).
    package func updated() -> PacketKeys {
        unsafe PacketKeys(suite: suite, adopting: kith_keys_next(keys))
    }

    /// Encrypts packets in place and protects their headers, all in one call.
    package func protect(_ base: UnsafeMutableRawPointer, _ slots: UnsafeBufferPointer<PacketSlot>) {
        guard let first = slots.baseAddress else { return }
        let done = unsafe first.withMemoryRebound(to: kith_packet.self, capacity: slots.count) {
            unsafe kith_keys_protect(keys, base.assumingMemoryBound(to: UInt8.self), $0, slots.count)
        }
        precondition(done == slots.count, "Packet \(done) of \(slots.count) is too short to be protected")
    }

    /// Removes the header protection of one packet in place; nil when it is too short for a sample.
    package func unmask(_ packet: UnsafeMutableRawBufferPointer, packetNumberOffset: Int) -> UnmaskedHeader? {
        guard unsafe !packet.isEmpty, packetNumberOffset > 0 else { return nil }
        var header = kith_header()
        guard unsafe kith_keys_unmask(keys, packet.bytePointer, packet.count, packetNumberOffset, &header) == 1 else {
            return nil
        }
        return UnmaskedHeader(
            firstByte: header.first_byte, packetNumberLength: Int(header.number_count),
            truncatedPacketNumber: header.number)
    }

    /// Decrypts one packet in place, its header already unmasked; nil when it is not authentic.
    package func open(
        _ packet: UnsafeMutableRawBufferPointer, headerLength: Int, packetNumber: UInt64
    ) -> Int? {
        guard unsafe !packet.isEmpty, headerLength > 0 else { return nil }
        let count = unsafe kith_keys_open(keys, packet.bytePointer, packet.count, headerLength, packetNumber)
        return count < 0 ? nil : count
    }
}

/// The position of one packet in a buffer of packets to be protected.
///
///     offset              + headerLength                 + payloadLength
///     │ header … number   │ payload …                    │ 16 free bytes │
package struct PacketSlot: Sendable {
    // The only field, so that an array of slots is an array for C.
    private let packet: kith_packet

    /// Describes a packet by its place and lengths in bytes; `headerLength` includes the packet number.
    package init(
        offset: Int, headerLength: Int, packetNumberLength: Int, payloadLength: Int, packetNumber: UInt64
    ) {
        packet = kith_packet(
            offset: offset, header_count: UInt32(headerLength), payload_count: UInt32(payloadLength),
            number_count: UInt32(packetNumberLength), number: packetNumber)
    }

    /// The position of the packet's first byte, counted from the buffer's start.
    package var offset: Int { packet.offset }

    /// The header's length, packet number included.
    package var headerLength: Int { Int(packet.header_count) }

    /// The packet number's length, 1…4.
    package var packetNumberLength: Int { Int(packet.number_count) }

    /// The payload's length, without the tag.
    package var payloadLength: Int { Int(packet.payload_count) }

    /// The full packet number.
    package var packetNumber: UInt64 { packet.number }
}

/// The fields that header protection hid of one packet.
package struct UnmaskedHeader: Hashable, Sendable {
    /// The first byte as it was before protection.
    package var firstByte: UInt8

    /// The length of the packet number on the wire, 1…4.
    package var packetNumberLength: Int

    /// The packet number as it is on the wire (RFC 9000 §17.1), to be completed from the largest received.
    package var truncatedPacketNumber: UInt32

    /// Creates a header from its parts.
    package init(firstByte: UInt8, packetNumberLength: Int, truncatedPacketNumber: UInt32) {
        self.firstByte = firstByte
        self.packetNumberLength = packetNumberLength
        self.truncatedPacketNumber = truncatedPacketNumber
    }
}
