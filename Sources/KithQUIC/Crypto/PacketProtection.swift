package import KithWire

/// Protects and opens packets with the keys of one direction, level and key phase (RFC 9001 §5).
///
/// Two implementations stand behind it: ``PacketKeys`` on BoringSSL, which packets take, and
/// ``ReferencePacketKeys`` on swift-crypto, which tells whether the first one is right.
package protocol PacketProtection: Sendable {
    /// Derives the keys from a traffic secret of `suite.hashLength` bytes, with the labels of a version.
    init(suite: CipherSuite, secret: SecretBytes, version: QUICVersion)

    /// The cipher suite the keys are for.
    var suite: CipherSuite { get }

    /// Derives the keys of the next key phase; the header protection key stays (RFC 9001 §6.1).
    func updated() -> Self

    /// Encrypts packets in place and protects their headers.
    ///
    /// - Precondition: Every slot lies inside the memory at `base` and has a sample: packet number and
    ///   payload make 4 bytes or more.
    func protect(_ base: UnsafeMutableRawPointer, _ slots: UnsafeBufferPointer<PacketSlot>)

    /// Removes the header protection of one packet in place; nil when it is too short for a sample.
    func unmask(_ packet: UnsafeMutableRawBufferPointer, packetNumberOffset: Int) -> UnmaskedHeader?

    /// Decrypts one packet in place, its header already unmasked.
    ///
    /// Returns the length of the payload, which starts at `headerLength`; nil when the packet is not
    /// authentic. Its payload is destroyed then, but for the last 16 bytes (a stateless reset token is there).
    func open(_ packet: UnsafeMutableRawBufferPointer, headerLength: Int, packetNumber: UInt64) -> Int?
}

extension PacketProtection {
    /// Derives the keys of QUIC version 1 from a traffic secret of `suite.hashLength` bytes.
    package init(suite: CipherSuite, secret: SecretBytes) {
        self.init(suite: suite, secret: secret, version: .one)
    }

    /// Encrypts one packet in place and protects its header.
    ///
    /// `headerLength` bytes of header end with the packet number; the payload follows, then 16 free bytes.
    package func protect(
        _ packet: UnsafeMutableRawPointer, headerLength: Int, packetNumberLength: Int, payloadLength: Int,
        packetNumber: UInt64
    ) {
        let slot = PacketSlot(
            offset: 0, headerLength: headerLength, packetNumberLength: packetNumberLength,
            payloadLength: payloadLength, packetNumber: packetNumber)
        unsafe withUnsafePointer(to: slot) { unsafe protect(packet, UnsafeBufferPointer(start: $0, count: 1)) }
    }
}
