internal import Crypto
internal import CryptoExtras
package import KithWire

/// The same keys on swift-crypto's public calls: eight times slower, and written on other people's primitives.
///
/// It is the oracle of the differential test and the way out should BoringSSL's C interface be lost.
package final class ReferencePacketKeys: PacketProtection {
    /// The cipher suite the keys are for.
    package let suite: CipherSuite

    private let version: QUICVersion
    private let secret: SymmetricKey
    private let key: SymmetricKey
    private let iv: [UInt8]
    private let headerKey: SymmetricKey

    /// Derives the keys from a traffic secret of `suite.hashLength` bytes.
    package convenience init(suite: CipherSuite, secret: SecretBytes, version: QUICVersion) {
        let secret = unsafe secret.withUnsafeBytes { unsafe SymmetricKey(data: $0) }
        self.init(
            suite: suite, version: version, secret: secret,
            headerKey: Self.expand(secret, Self.label("hp", version), count: suite.keyLength, suite: suite))
    }

    private init(suite: CipherSuite, version: QUICVersion, secret: SymmetricKey, headerKey: SymmetricKey) {
        self.suite = suite
        self.version = version
        self.secret = secret
        self.headerKey = headerKey
        key = Self.expand(secret, Self.label("key", version), count: suite.keyLength, suite: suite)
        iv = unsafe Self.expand(secret, Self.label("iv", version), count: 12, suite: suite).withUnsafeBytes {
            unsafe Array($0)
        }
    }

    /// Derives the keys of the next key phase; the header protection key stays (RFC 9001 §6.1).
    package func updated() -> ReferencePacketKeys {
        ReferencePacketKeys(
            suite: suite, version: version,
            secret: Self.expand(secret, Self.label("ku", version), count: suite.hashLength, suite: suite),
            headerKey: headerKey)
    }

    /// Encrypts packets in place and protects their headers.
    package func protect(_ base: UnsafeMutableRawPointer, _ slots: UnsafeBufferPointer<PacketSlot>) {
        for index in slots.indices {
            let slot = unsafe slots[index]
            precondition(
                1...4 ~= slot.packetNumberLength && slot.packetNumberLength + slot.payloadLength >= 4,
                "The packet is too short to be protected")
            let packet = unsafe UnsafeMutableRawBufferPointer(
                start: base + slot.offset, count: slot.headerLength + slot.payloadLength + CipherSuite.tagLength)
            let payload = slot.headerLength..<slot.headerLength + slot.payloadLength
            guard
                let sealed = unsafe try? seal(
                    Array(packet[payload]), header: Array(packet[..<slot.headerLength]), number: slot.packetNumber)
            else { preconditionFailure("An AEAD refuses only lengths it never sees here") }
            unsafe packet[slot.headerLength...].copyBytes(from: sealed)
            let number = slot.headerLength - slot.packetNumberLength
            let mask = unsafe mask(Array(packet[number + 4..<number + 20]))
            unsafe packet[0] ^= mask[0] & Self.protectedBits(packet[0])
            for index in 0..<slot.packetNumberLength { unsafe packet[number + index] ^= mask[1 + index] }
        }
    }

    /// Removes the header protection of one packet in place; nil when it is too short for a sample.
    package func unmask(_ packet: UnsafeMutableRawBufferPointer, packetNumberOffset: Int) -> UnmaskedHeader? {
        guard packetNumberOffset > 0, packet.count - packetNumberOffset >= 20 else { return nil }
        let mask = unsafe mask(Array(packet[packetNumberOffset + 4..<packetNumberOffset + 20]))
        unsafe packet[0] ^= mask[0] & Self.protectedBits(packet[0])
        let count = unsafe Int(packet[0] & 0x03) + 1
        var number: UInt32 = 0
        for index in 0..<count {
            unsafe packet[packetNumberOffset + index] ^= mask[1 + index]
            number = unsafe number << 8 | UInt32(packet[packetNumberOffset + index])
        }
        return unsafe UnmaskedHeader(firstByte: packet[0], packetNumberLength: count, truncatedPacketNumber: number)
    }

    /// Decrypts one packet in place, its header already unmasked; nil when it is not authentic.
    package func open(
        _ packet: UnsafeMutableRawBufferPointer, headerLength: Int, packetNumber: UInt64
    ) -> Int? {
        guard headerLength > 0, packet.count - headerLength >= CipherSuite.tagLength else { return nil }
        let tag = packet.count - CipherSuite.tagLength
        // A packet that does not authenticate is an answer here, not an error: the cause is never told.
        guard
            let plain = unsafe try? unseal(
                Array(packet[headerLength..<tag]), tag: Array(packet[tag...]), header: Array(packet[..<headerLength]),
                number: packetNumber)
        else { return nil }
        unsafe packet[headerLength...].copyBytes(from: plain)
        return plain.count
    }

    // MARK: - swift-crypto

    private func seal(_ plain: [UInt8], header: [UInt8], number: UInt64) throws -> [UInt8] {
        switch suite {
        case .aes128GCM, .aes256GCM:
            let box = try AES.GCM.seal(
                plain, using: key, nonce: AES.GCM.Nonce(data: nonce(number)), authenticating: header)
            return Array(box.ciphertext) + Array(box.tag)
        case .chacha20Poly1305:
            let box = try ChaChaPoly.seal(
                plain, using: key, nonce: ChaChaPoly.Nonce(data: nonce(number)), authenticating: header)
            return Array(box.ciphertext) + Array(box.tag)
        }
    }

    private func unseal(_ sealed: [UInt8], tag: [UInt8], header: [UInt8], number: UInt64) throws -> [UInt8] {
        switch suite {
        case .aes128GCM, .aes256GCM:
            let box = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: nonce(number)), ciphertext: sealed, tag: tag)
            return Array(try AES.GCM.open(box, using: key, authenticating: header))
        case .chacha20Poly1305:
            let box = try ChaChaPoly.SealedBox(
                nonce: ChaChaPoly.Nonce(data: nonce(number)), ciphertext: sealed, tag: tag)
            return Array(try ChaChaPoly.open(box, using: key, authenticating: header))
        }
    }

    private func mask(_ sample: [UInt8]) -> [UInt8] {
        do {
            switch suite {
            case .aes128GCM, .aes256GCM:
                var block = sample
                try AES.permute(&block, key: headerKey)
                return Array(block.prefix(5))
            case .chacha20Poly1305:
                let counter = sample[0..<4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                return Array(
                    try Insecure.ChaCha20CTR.encrypt(
                        [UInt8](repeating: 0, count: 5), using: headerKey,
                        counter: Insecure.ChaCha20CTR.Counter(offset: counter),
                        nonce: Insecure.ChaCha20CTR.Nonce(data: sample[4...])))
            }
        } catch {
            preconditionFailure("A block cipher refuses only lengths it never sees here")
        }
    }

    private func nonce(_ number: UInt64) -> [UInt8] {
        var nonce = iv
        for index in 0..<8 { nonce[11 - index] ^= UInt8(truncatingIfNeeded: number >> (8 * UInt64(index))) }
        return nonce
    }

    /// The bits of the first byte that header protection covers: four in a long header, five in a short one.
    private static func protectedBits(_ firstByte: UInt8) -> UInt8 { firstByte & 0x80 != 0 ? 0x0f : 0x1f }

    private static func label(_ name: String, _ version: QUICVersion) -> String {
        version == .two ? "quicv2 \(name)" : "quic \(name)"
    }

    private static func expand(_ secret: SymmetricKey, _ label: String, count: Int, suite: CipherSuite) -> SymmetricKey
    {
        var info: [UInt8] = [UInt8(count >> 8), UInt8(count & 0xff), UInt8(6 + label.utf8.count)]
        info += Array("tls13 ".utf8) + Array(label.utf8) + [0]
        return suite == .aes256GCM
            ? HKDF<SHA384>.expand(pseudoRandomKey: secret, info: info, outputByteCount: count)
            : HKDF<SHA256>.expand(pseudoRandomKey: secret, info: info, outputByteCount: count)
    }
}
