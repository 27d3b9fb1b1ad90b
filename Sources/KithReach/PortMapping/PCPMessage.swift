package import KithWire

/// The number that proves that a mapping of PCP is one's own.
package struct PCPNonce: Hashable, Sendable {
    /// 12 bytes.
    package let bytes: [UInt8]

    /// Draws one.
    package init(using random: inout some RandomNumberGenerator) {
        bytes = (0..<12).map { _ in UInt8.random(in: 0 ... .max, using: &random) }
    }

    fileprivate init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// The result code of an answer of PCP (RFC 6887 §7.4).
package struct PCPResult: RawRepresentable, Hashable, Sendable {
    /// The number.
    package let rawValue: UInt8

    /// Makes the code of a number.
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Done.
    package static let success = PCPResult(rawValue: 0)
    /// The version is not spoken.
    package static let unsupportedVersion = PCPResult(rawValue: 1)

    /// The code in plain words.
    package var reason: String {
        let reasons = [
            "done", "it speaks another version", "this device is not allowed to", "it did not understand the request",
            "it cannot do that", "it does not know an option", "it did not understand an option",
            "its own network does not work", "it has no room for more", "it does not know UDP",
            "this device has too many", "that address or port is taken",
            "there is another NAT between this device and the router", "there are too many other ends",
        ]
        return reasons.indices.contains(Int(rawValue)) ? reasons[Int(rawValue)] : "code \(rawValue)"
    }
}

/// A request of PCP (RFC 6887 §7.1).
package enum PCPRequest: Hashable, Sendable {
    /// Passes a UDP port on for so many seconds; for 0 seconds, no longer.
    ///
    /// `suggested` is the address outside that is asked for, unspecified for any.
    case map(PCPNonce, internal: NetworkAddress, suggested: NetworkAddress, lifetime: UInt32)
    /// Asks for the router's epoch alone.
    case announce(client: NetworkAddress)

    /// Returns the datagram.
    package var encoded: [UInt8] {
        var writer = ByteWriter(capacity: PCPAnswer.mapLength)
        writer.integer(PCPAnswer.version)
        switch self {
        case .map(let nonce, let local, let suggested, let lifetime):
            writer.integer(PCPAnswer.mapOperation)
            writer.integer(0 as UInt16)
            writer.integer(lifetime)
            writer.bytes(local.pcpAddress)
            writer.bytes(nonce.bytes)
            writer.integer(PCPAnswer.udp)
            writer.bytes([0, 0, 0])
            writer.integer(local.port)
            writer.integer(suggested.port)
            writer.bytes(suggested.pcpAddress)
        case .announce(let client):
            writer.bytes([0, 0, 0, 0, 0, 0, 0])
            writer.bytes(client.pcpAddress)
        }
        return writer.bytes
    }
}

/// An answer of PCP.
package struct PCPAnswer: Hashable, Sendable {
    static let version: UInt8 = 2
    static let mapOperation: UInt8 = 1
    static let udp: UInt8 = 17
    static let mapLength = 60
    /// The most bytes of a message (RFC 6887 §7).
    package static let maxLength = 1_100

    /// A mapping, as the router has made it.
    package struct Mapping: Hashable, Sendable {
        /// The number of its request.
        package let nonce: PCPNonce
        /// The port of this device.
        package let internalPort: UInt16
        /// The address and port outside.
        package let external: NetworkAddress
    }

    /// The outcome.
    package let result: PCPResult
    /// The seconds for which it holds: a mapping, or a refusal.
    package let lifetime: UInt32
    /// The seconds since the router began to know mappings.
    package let epoch: UInt32
    /// The mapping; `nil` in an answer to ANNOUNCE.
    package let mapping: Mapping?

    /// Reads an answer; options behind it are passed over.
    ///
    /// - Throws: `WireError` for what is no answer of version 2 about UDP.
    package init(_ datagram: [UInt8]) throws(WireError) {
        guard datagram.count <= Self.maxLength else {
            throw .tooLong(limit: Self.maxLength, actual: datagram.count)
        }
        guard datagram.count % 4 == 0 else { throw .invalid("a message of PCP is a multiple of 4 bytes") }
        var reader = ByteReader(datagram)
        guard try reader.integer() == Self.version else { throw .invalid("version 2 of PCP") }
        let operation: UInt8 = try reader.integer()
        guard operation & 0x80 != 0 else { throw .invalid("an answer has R set") }
        try reader.skip(1)
        result = PCPResult(rawValue: try reader.integer())
        lifetime = try reader.integer()
        epoch = try reader.integer()
        try reader.skip(12)
        switch operation & 0x7F {
        case 0: mapping = nil
        case Self.mapOperation:
            let nonce = PCPNonce(try reader.bytes(12))
            guard try reader.integer() == Self.udp else { throw .invalid("mappings are of UDP") }
            try reader.skip(3)
            let internalPort: UInt16 = try reader.integer()
            let externalPort: UInt16 = try reader.integer()
            guard let external = NetworkAddress(ip: try reader.bytes(16), port: externalPort) else {
                throw .invalid("an address of another length")
            }
            mapping = Mapping(nonce: nonce, internalPort: internalPort, external: external)
        default: throw .invalid("an answer to MAP or ANNOUNCE")
        }
    }
}

extension NetworkAddress {
    /// 16 bytes; an IPv4 address as an IPv4-mapped one.
    fileprivate var pcpAddress: [UInt8] {
        isIPv6 ? ip : [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF] + ip
    }
}
