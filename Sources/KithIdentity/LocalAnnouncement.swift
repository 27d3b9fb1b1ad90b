public import KithWire

/// A device's statement, to everybody on its network, of where it listens, or that it is leaving.
///
/// It gives no right and holds no name. Whoever hears it learns the device's key and the addresses.
///
/// ```
///  v     1
///  id    the key of the device, 32 bytes
///  sig   the Ed25519 signature of "kith local announcement 1", a zero byte, the key, and the body
///  body  the CBOR of { n: the number, t: seconds it holds, 0 for a goodbye,
///        a: [an IP address, 4 or 16 bytes, and the port, 2 bytes, big-endian] }, as bytes
/// ```
///
/// It is a map of CBOR, deterministically encoded: the key lies at one place in all of them.
public struct LocalAnnouncement: Hashable, Sendable {
    /// The most addresses one names.
    public static let maxAddresses = 10
    /// The longest one, in bytes: it travels in a datagram that no network cuts.
    public static let maxBytes = 1_000
    /// The longest time one holds, in seconds.
    public static let maxLifetime: UInt32 = 3_600

    /// The key of the device.
    public var id: DeviceID
    /// Its number: milliseconds since 1970 by the device's clock, larger than in all that it sent before.
    ///
    /// Those that one device sends on several interfaces at once have one number.
    public var number: UInt64
    /// The seconds for which it holds; 0 says goodbye.
    public var lifetime: UInt32
    /// The addresses the device listens at, best first; without zones.
    public var addresses: [NetworkAddress]

    /// Makes a statement; addresses beyond the limit are left out, and a time beyond it is cut.
    public init(id: DeviceID, number: UInt64, lifetime: UInt32, addresses: [NetworkAddress]) {
        self.id = id
        self.number = number
        self.lifetime = min(lifetime, Self.maxLifetime)
        self.addresses = Array(addresses.prefix(Self.maxAddresses))
    }

    /// True when the device says that it is leaving.
    public var isGoodbye: Bool { lifetime == 0 }

    /// Returns the bytes to send, signed by the device's key.
    ///
    /// - Throws: `KithError` `.internal` when the key cannot sign.
    public func signed(by key: DeviceKey) throws(KithError) -> [UInt8] {
        precondition(key.id == id, "a device announces itself only")
        let places = addresses.map { address in
            ByteString(address.ip + [UInt8(address.port >> 8), UInt8(truncatingIfNeeded: address.port)])
        }
        let body = Body(n: number, t: lifetime, a: places)
        do {
            let bytes = try CBOREncoder().encode(body)
            let signature = try key.signature(for: Self.message(id, bytes))
            return try CBOREncoder().encode(
                Envelope(
                    v: 1, id: ByteString(id.bytes), sig: ByteString(signature), body: ByteString(bytes)))
        } catch {
            throw KithError(.internal, "The announcement of this device could not be made.", cause: error)
        }
    }

    /// The bytes that are signed: no other signature of a device's key is of bytes that begin so.
    fileprivate static func message(_ id: DeviceID, _ body: [UInt8]) -> [UInt8] {
        Array("kith local announcement 1".utf8) + [0] + id.bytes + body
    }

    fileprivate struct Envelope: Codable {
        var v: UInt64
        var id: ByteString
        var sig: ByteString
        var body: ByteString
    }

    fileprivate struct Body: Codable {
        var n: UInt64
        var t: UInt32
        var a: [ByteString]
    }
}

/// An announcement as it came: read, and not yet checked for who made it.
public struct ReceivedAnnouncement: Hashable, Sendable {
    /// The content, which anybody can have written as long as ``isGenuine`` has not said otherwise.
    public let claim: LocalAnnouncement
    private let body: [UInt8]
    private let signature: [UInt8]

    /// Returns the device a datagram names, without reading it: most of what is heard is of devices nobody here knows.
    ///
    /// `nil` for one that is no announcement of this version.
    public static func device(named bytes: [UInt8]) -> DeviceID? {
        guard bytes.count >= beginning.count + 32, bytes.starts(with: beginning) else { return nil }
        return try? DeviceID(publicKey: Array(bytes[beginning.count..<beginning.count + 32]))
    }

    /// A map of four, v: 1, id: 32 bytes.
    private static let beginning: [UInt8] = [0xA4, 0x61, 0x76, 0x01, 0x62, 0x69, 0x64, 0x58, 0x20]

    /// Reads a datagram.
    ///
    /// - Throws: `KithError` `.invalid` for one that is no announcement, or too large; `.unsupported` for one of a later
    ///   version.
    public init(_ bytes: [UInt8]) throws(KithError) {
        guard bytes.count <= LocalAnnouncement.maxBytes else { throw Self.malformed("it is too long") }
        var decoder = CBORDecoder()
        decoder.maxDepth = 4
        do {
            let envelope = try decoder.decode(LocalAnnouncement.Envelope.self, from: bytes)
            guard envelope.v == 1 else {
                throw KithError(.unsupported, "An announcement is of a later version of Kith.")
            }
            let body = try decoder.decode(LocalAnnouncement.Body.self, from: envelope.body.bytes)
            guard body.a.count <= LocalAnnouncement.maxAddresses, body.t <= LocalAnnouncement.maxLifetime,
                envelope.sig.bytes.count == 64
            else { throw Self.malformed("a limit is exceeded") }
            claim = LocalAnnouncement(
                id: try DeviceID(publicKey: envelope.id.bytes), number: body.n, lifetime: body.t,
                addresses: try body.a.map { try Self.address($0.bytes) })
            self.body = envelope.body.bytes
            signature = envelope.sig.bytes
        } catch let error as KithError {
            throw error
        } catch {
            throw Self.malformed("it cannot be read")
        }
    }

    /// True when the device it names made it.
    ///
    /// Costs a signature's check, about a tenth of a millisecond.
    public var isGenuine: Bool {
        claim.id.isValid(signature: signature, for: LocalAnnouncement.message(claim.id, body))
    }

    private static func address(_ bytes: [UInt8]) throws(KithError) -> NetworkAddress {
        guard bytes.count == 6 || bytes.count == 18 else { throw malformed("an address has 6 or 18 bytes") }
        let port = UInt16(bytes[bytes.count - 2]) << 8 | UInt16(bytes[bytes.count - 1])
        guard let address = NetworkAddress(ip: Array(bytes.dropLast(2)), port: port) else {
            throw malformed("an address has another length")
        }
        return address
    }

    private static func malformed(_ why: String) -> KithError {
        KithError(.invalid, "That is no announcement: \(why).")
    }
}
