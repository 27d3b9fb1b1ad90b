import KithWire

extension STUNMessage {
    /// The message as it is sent.
    package var encoded: [UInt8] {
        var attributes = ByteWriter(capacity: 96)
        func attribute(_ type: UInt16, _ value: [UInt8]) {
            attributes.integer(type)
            attributes.integer(UInt16(value.count))
            attributes.bytes(value)
            attributes.bytes([UInt8](repeating: 0, count: (4 - value.count % 4) % 4))
        }
        if let xorMappedAddress { attribute(Attribute.xorMappedAddress, value(of: xorMappedAddress, isMasked: true)) }
        if let plainMappedAddress { attribute(Attribute.mappedAddress, value(of: plainMappedAddress, isMasked: false)) }
        if let responseOrigin { attribute(Attribute.responseOrigin, value(of: responseOrigin, isMasked: false)) }
        if let otherAddress { attribute(Attribute.otherAddress, value(of: otherAddress, isMasked: false)) }
        if let changeRequest {
            attribute(
                Attribute.changeRequest,
                [0, 0, 0, (changeRequest.changesIP ? 4 : 0) | (changeRequest.changesPort ? 2 : 0)])
        }
        if let refusal {
            attribute(Attribute.errorCode, [0, 0, UInt8(refusal.code / 100), UInt8(refusal.code % 100)])
            if !refusal.unknownAttributes.isEmpty {
                attribute(
                    Attribute.unknownAttributes,
                    refusal.unknownAttributes.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] })
            }
        }
        if paddingLength > 0 {
            precondition(paddingLength <= 124, "SOFTWARE has fewer than 128 characters (RFC 8489 §14.14)")
            let name = Array("Kith".utf8.prefix(paddingLength))
            attribute(Attribute.software, name + [UInt8](repeating: 0x20, count: paddingLength - name.count))
        }
        var writer = ByteWriter(capacity: Self.headerLength + attributes.bytes.count + 8)
        writer.integer(kind.rawValue)
        // The length counts the fingerprint already in what the fingerprint is of.
        writer.integer(UInt16(attributes.bytes.count + (hasFingerprint ? 8 : 0)))
        writer.integer(Self.cookie)
        writer.integer(transaction.first)
        writer.integer(transaction.rest)
        writer.bytes(attributes.bytes)
        if hasFingerprint {
            let sum = STUNFingerprint.of(writer.bytes[...])
            writer.integer(Attribute.fingerprint)
            writer.integer(4 as UInt16)
            writer.integer(sum)
        }
        return writer.bytes
    }

    private func value(of address: NetworkAddress, isMasked: Bool) -> [UInt8] {
        var writer = ByteWriter(capacity: 20)
        writer.integer(0 as UInt8)
        writer.integer(address.isIPv6 ? 2 as UInt8 : 1)
        writer.integer(isMasked ? address.port ^ UInt16(Self.cookie >> 16) : address.port)
        writer.bytes(isMasked ? Self.masked(address.ip, transaction) : address.ip)
        return writer.bytes
    }
}

/// The checksum of a STUN message: CRC-32 (ISO 3309) xor a constant (RFC 8489 §14.7).
enum STUNFingerprint {
    /// The checksum of what comes before the attribute.
    static func of(_ message: ArraySlice<UInt8>) -> UInt32 {
        var sum = UInt32.max
        for byte in message { sum = table[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ sum >> 8 }
        return ~sum ^ 0x5354_554E
    }

    private static let table: [UInt32] = (0..<256).map { (index: UInt32) in
        (0..<8).reduce(index) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ 0xEDB8_8320 }
    }
}
