package import KithWire

extension STUNMessage {
    /// The reason a datagram was not read, and what of it is known.
    package struct Malformed: Error, Hashable {
        /// The rule it breaks.
        package let error: WireError
        /// Set when its header is one of a request: the answer is code 400.
        package let request: STUNTransactionID?
    }

    /// Reads a datagram.
    ///
    /// - Throws: ``Malformed`` when it is no STUN message of the Binding method, or a damaged one.
    package init(parsing datagram: [UInt8]) throws(Malformed) {
        func malformed(_ error: WireError) -> Malformed { Malformed(error: error, request: nil) }
        guard datagram.count <= Self.maxLength else {
            throw malformed(.tooLong(limit: Self.maxLength, actual: datagram.count))
        }
        guard Self.isSTUN(datagram) else { throw malformed(.invalid("a STUN message begins with a header of STUN")) }
        do throws(WireError) {
            var reader = ByteReader(datagram)
            guard let kind = Class(rawValue: try reader.integer()) else {
                throw .invalid("no method of STUN is known but Binding")
            }
            try reader.skip(6)
            self.init(kind, transaction: STUNTransactionID(try reader.integer(), try reader.integer()))
        } catch {
            throw malformed(error)
        }
        do throws(WireError) {
            try readAttributes(of: datagram)
        } catch {
            throw Malformed(error: error, request: kind == .request ? transaction : nil)
        }
    }

    private mutating func readAttributes(of datagram: [UInt8]) throws(WireError) {
        var reader = ByteReader(datagram)
        try reader.skip(Self.headerLength)
        var isSealed = false
        var hasXorMapped = false
        var hasPlainMapped = false
        while !reader.isAtEnd {
            let position = reader.position
            let type: UInt16 = try reader.integer()
            let length = Int(try reader.integer(as: UInt16.self))
            let value = try reader.bytes(length)
            try reader.skip((4 - length % 4) % 4)
            if type == Attribute.fingerprint {
                guard reader.isAtEnd else { throw .invalid("FINGERPRINT is the last attribute") }
                try check(fingerprint: value, of: datagram[..<position])
                hasFingerprint = true
                return
            }
            // What comes after the attribute that protects a message is not protected by it.
            guard !isSealed else { continue }
            switch type {
            case Attribute.xorMappedAddress where !hasXorMapped:
                xorMappedAddress = try address(value, isMasked: true)
                hasXorMapped = true
            case Attribute.mappedAddress where !hasPlainMapped:
                plainMappedAddress = try address(value, isMasked: false)
                hasPlainMapped = true
            case Attribute.responseOrigin where responseOrigin == nil:
                responseOrigin = try address(value, isMasked: false)
            case Attribute.otherAddress where otherAddress == nil:
                otherAddress = try address(value, isMasked: false)
            case Attribute.changeRequest where changeRequest == nil:
                guard length == 4 else { throw .invalid("CHANGE-REQUEST has 4 bytes") }
                changeRequest = ChangeRequest(changesIP: value[3] & 4 != 0, changesPort: value[3] & 2 != 0)
            case Attribute.errorCode where refusal?.code ?? 0 == 0:
                guard length >= 4, case let hundreds = UInt16(value[2] & 7), (3...6).contains(hundreds), value[3] < 100
                else { throw .invalid("ERROR-CODE is 300 to 699") }
                refusal = Refusal(
                    code: hundreds * 100 + UInt16(value[3]), unknownAttributes: refusal?.unknownAttributes ?? [])
            case Attribute.unknownAttributes where refusal?.unknownAttributes ?? [] == []:
                guard length % 2 == 0 else { throw .invalid("UNKNOWN-ATTRIBUTES is a list of types of 2 bytes") }
                let types = stride(from: 0, to: length, by: 2).map { UInt16(value[$0]) << 8 | UInt16(value[$0 + 1]) }
                refusal = Refusal(code: refusal?.code ?? 0, unknownAttributes: types)
            case Attribute.messageIntegrity, Attribute.messageIntegritySHA256:
                isSealed = true
            case 0x8000...: break
            default:
                if !Attribute.known.contains(type), !unknownAttributes.contains(type) {
                    unknownAttributes.append(type)
                }
            }
        }
        guard kind != .failure || refusal?.code ?? 0 != 0 else { throw .invalid("a failure says why") }
    }

    private func check(fingerprint value: [UInt8], of message: ArraySlice<UInt8>) throws(WireError) {
        var reader = ByteReader(value)
        let sum: UInt32 = try reader.integer()
        try reader.finish()
        guard sum == STUNFingerprint.of(message) else { throw .invalid("FINGERPRINT does not fit the message") }
    }

    private func address(_ value: [UInt8], isMasked: Bool) throws(WireError) -> NetworkAddress {
        var reader = ByteReader(value)
        try reader.skip(1)
        let family: UInt8 = try reader.integer()
        guard family == 1 || family == 2 else { throw .invalid("an address is of family 1 or 2") }
        var port: UInt16 = try reader.integer()
        var ip = try reader.bytes(family == 1 ? 4 : 16)
        try reader.finish()
        if isMasked {
            port ^= UInt16(Self.cookie >> 16)
            ip = Self.masked(ip, transaction)
        }
        guard let address = NetworkAddress(ip: ip, port: port) else { throw .invalid("an address of another length") }
        return address
    }

    /// An IP address xor the cookie and the transaction id, which keeps routers from rewriting it.
    static func masked(_ ip: [UInt8], _ transaction: STUNTransactionID) -> [UInt8] {
        var mask = ByteWriter(capacity: 16)
        mask.integer(cookie)
        mask.integer(transaction.first)
        mask.integer(transaction.rest)
        return zip(ip, mask.bytes).map { $0 ^ $1 }
    }
}

extension STUNMessage.Attribute {
    /// Those below 0x8000 that are understood.
    fileprivate static let known = passedOver.union([
        mappedAddress, changeRequest, messageIntegrity, errorCode, unknownAttributes, messageIntegritySHA256,
        xorMappedAddress,
    ])
}
