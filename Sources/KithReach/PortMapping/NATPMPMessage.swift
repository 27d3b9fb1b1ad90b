package import KithWire

/// A request of NAT-PMP (RFC 6886 §3).
package enum NATPMPRequest: Hashable, Sendable {
    /// Asks for the address outside.
    case externalAddress
    /// Passes a UDP port on for so many seconds; for 0 seconds, no longer.
    case map(internalPort: UInt16, suggestedPort: UInt16, lifetime: UInt32)

    /// Returns the datagram.
    package var encoded: [UInt8] {
        switch self {
        case .externalAddress: return [0, 0]
        case .map(let internalPort, let suggestedPort, let lifetime):
            var writer = ByteWriter(capacity: 12)
            writer.bytes([0, 1, 0, 0])
            writer.integer(internalPort)
            writer.integer(suggestedPort)
            writer.integer(lifetime)
            return writer.bytes
        }
    }
}

/// An answer of NAT-PMP.
package struct NATPMPAnswer: Hashable, Sendable {
    /// What an answer is about.
    package enum Content: Hashable, Sendable {
        /// The address outside; its port is 0.
        case externalAddress(NetworkAddress)
        /// A mapping of UDP, and the seconds for which it holds.
        case mapping(internalPort: UInt16, externalPort: UInt16, lifetime: UInt32)
        /// A refusal, which may have no more than a header.
        case refusal(operation: UInt8)
    }

    /// The number of success.
    package static let success: UInt16 = 0
    /// The version is not spoken.
    package static let unsupportedVersion: UInt16 = 1

    /// The outcome: 0, or the number of a refusal.
    package let result: UInt16
    /// The seconds since the router began to know mappings; 0 in a refusal that is too short to say.
    package let epoch: UInt32
    /// What it is about.
    package let content: Content

    /// Reads an answer.
    ///
    /// - Throws: `WireError` for what is none of version 0.
    package init(_ datagram: [UInt8]) throws(WireError) {
        guard datagram.count <= PCPAnswer.maxLength else {
            throw .tooLong(limit: PCPAnswer.maxLength, actual: datagram.count)
        }
        var reader = ByteReader(datagram)
        guard try reader.integer(as: UInt8.self) == 0 else { throw .invalid("version 0 is NAT-PMP") }
        let operation: UInt8 = try reader.integer()
        result = try reader.integer()
        guard result == Self.success else {
            // Answers to another version have the operation of the request in some routers.
            epoch = datagram.count >= 8 ? try reader.integer() : 0
            content = .refusal(operation: operation & 0x7F)
            return
        }
        guard operation & 0x80 != 0 else { throw .invalid("an answer has the highest bit of its operation set") }
        epoch = try reader.integer()
        switch operation & 0x7F {
        case 0: content = .externalAddress(NetworkAddress(ipv4: try reader.integer(), port: 0))
        case 1:
            content = .mapping(
                internalPort: try reader.integer(), externalPort: try reader.integer(), lifetime: try reader.integer())
        default: throw .invalid("an answer about UDP or the address")
        }
        try reader.finish()
    }

    /// A refusal in plain words.
    package static func reason(_ result: UInt16) -> String {
        switch result {
        case 2: "this device is not allowed to, or the router has that switched off"
        case 3: "the router's own network does not work"
        case 4: "it has no room for more"
        case 5: "it cannot do that"
        default: "code \(result)"
        }
    }
}
