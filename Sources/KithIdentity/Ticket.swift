import Crypto
public import KithWire

/// The means to find a device: its key, its addresses, its relays.
///
/// It gives no right; it is not a secret.
///
/// ```
///  byte     what
///  0        version, 1
///  1…32     the DeviceID
///  33       number of addresses, 0…16, then each as in `ByteWriter.address(_:)`
///  …        number of relays, 0…4, then each as a varint length (≤ 255) and UTF-8 of its URL
/// ```
///
/// As text: `kith1` and the bytes with a four-byte check, in base32.
public struct Ticket: Hashable, Sendable {
    /// The most addresses a ticket holds.
    public static let maxAddresses = 16
    /// The most relays a ticket holds.
    public static let maxRelays = 4

    /// The key of the device.
    public var id: DeviceID
    /// The addresses it listens at, best first.
    public var addresses: [NetworkAddress]
    /// The URLs of the relays it can be reached through.
    public var relays: [String]

    /// Makes a ticket; addresses and relays beyond the limits are left out.
    public init(id: DeviceID, addresses: [NetworkAddress], relays: [String] = []) {
        self.id = id
        self.addresses = Array(addresses.prefix(Self.maxAddresses))
        self.relays = Array(relays.filter { $0.utf8.count <= 255 }.prefix(Self.maxRelays))
    }

    /// The compact binary form.
    public var bytes: [UInt8] {
        var writer = ByteWriter(capacity: 128)
        writer.integer(1 as UInt8)
        writer.bytes(id.bytes)
        writer.integer(UInt8(addresses.count))
        for address in addresses { writer.address(address) }
        writer.integer(UInt8(relays.count))
        for relay in relays { writer.prefixedBytes(Array(relay.utf8)) }
        return writer.bytes
    }

    /// Reads the compact binary form.
    public init(bytes: [UInt8]) throws(WireError) {
        var reader = ByteReader(bytes)
        guard try reader.integer(as: UInt8.self) == 1 else { throw .invalid("a ticket is of version 1") }
        guard let id = try? DeviceID(publicKey: try reader.bytes(32)) else { throw .invalid("a key has 32 bytes") }
        let addressCount = Int(try reader.integer(as: UInt8.self))
        guard addressCount <= Self.maxAddresses else { throw .tooLong(limit: Self.maxAddresses, actual: addressCount) }
        var addresses: [NetworkAddress] = []
        for _ in 0..<addressCount { addresses.append(try reader.address()) }
        let relayCount = Int(try reader.integer(as: UInt8.self))
        guard relayCount <= Self.maxRelays else { throw .tooLong(limit: Self.maxRelays, actual: relayCount) }
        var relays: [String] = []
        for _ in 0..<relayCount {
            guard let relay = String(validating: try reader.prefixedBytes(limit: 255), as: UTF8.self) else {
                throw .invalid("a relay's URL is UTF-8")
            }
            relays.append(relay)
        }
        try reader.finish()
        self.init(id: id, addresses: addresses, relays: relays)
    }

    /// The text form.
    public var text: String { CheckedText.encode(bytes, prefix: "kith1") }

    /// Reads the text form.
    ///
    /// - Throws: `KithError` `.invalid` when it is not one, or when a letter is wrong.
    public init(text: String) throws(KithError) {
        let bytes = try CheckedText.decode(text, prefix: "kith1", what: "ticket")
        do {
            try self.init(bytes: bytes)
        } catch {
            throw KithError(.invalid, "That ticket is damaged, or of a later version of Kith.", cause: error)
        }
    }
}

/// Bytes as text a person may copy: a prefix, then base32 of the bytes and the first four of their SHA-256.
enum CheckedText {
    static func encode(_ bytes: [UInt8], prefix: String) -> String {
        prefix + Base32.encode(bytes + SHA256.hash(data: bytes).prefix(4))
    }

    static func decode(_ text: String, prefix: String, what: String) throws(KithError) -> [UInt8] {
        let letters = text.lowercased().filter { !$0.isWhitespace }
        guard letters.utf8.count <= 4_096, letters.hasPrefix(prefix) else {
            let article = what.first.map { "aeiou".contains($0) } == true ? "an" : "a"
            throw KithError(.invalid, "That is not \(article) \(what): it should begin with \(prefix).")
        }
        guard let all = Base32.decode(letters.dropFirst(prefix.count)), all.count > 4,
            Array(SHA256.hash(data: all.dropLast(4)).prefix(4)) == Array(all.suffix(4))
        else {
            throw KithError(.invalid, "That \(what) is damaged: a letter is wrong or missing. Copy it again, whole.")
        }
        return Array(all.dropLast(4))
    }
}
