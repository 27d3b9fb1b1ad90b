import Crypto
import KithIdentity
import KithWire

/// A UUID for what has a number, a name or a key here: clients of Spacedrive know things by UUIDs alone.
///
/// Each is derived from what it stands for and the device, so that it is the same at every start.
struct CompatibleID: Hashable, Sendable {
    /// The 16 bytes.
    let bytes: [UInt8]

    /// The things that have one.
    enum Kind: String, Hashable, Sendable {
        case location, entry, path, tag, device, session, job, volume, search, content
    }

    /// Takes bytes over.
    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Reads a UUID as text, in letters of either size, with hyphens.
    init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard text.utf8.count == 36, parts.map(\.utf8.count) == [8, 4, 4, 4, 12],
            let bytes = Hex.decode(parts.joined()), bytes.count == 16
        else { return nil }
        self.bytes = bytes
    }

    /// The UUID of what has a name of its own on a device: version 5 of RFC 9562 §5.5, in the device's name space.
    init(_ kind: Kind, _ name: some Sequence<UInt8>, of device: DeviceID) {
        var hash = Insecure.SHA1()
        hash.update(data: Self.namespace(of: device))
        hash.update(data: Array(kind.rawValue.utf8) + [UInt8(ascii: ":")])
        hash.update(data: Array(name))
        self.init(Self.marked(Array(hash.finalize().prefix(16)), version: 5))
    }

    /// The UUID of a device, which is the same on every device.
    init(of device: DeviceID) { self.init(.device, device.bytes, of: device) }

    /// The name space of a device.
    private static func namespace(of device: DeviceID) -> [UInt8] {
        marked(Array(SHA256.hash(data: Array("kith compatible ids".utf8) + device.bytes).prefix(16)), version: 8)
    }

    /// The UUID of what has a number on a device: version 8 of RFC 9562 §5.8, from which the number can be read again.
    ///
    /// | bits | what |
    /// | --- | --- |
    /// | 48 and 12 | the number, 0…2⁶⁰−1 |
    /// | 62 | of the SHA-256 of the device, the kind and the number |
    init(_ kind: Kind, number: Int64, of device: DeviceID) {
        let value = UInt64(bitPattern: number) & (1 << 60 - 1)
        var bytes = Self.bytes(value >> 12).suffix(6) + [UInt8(value >> 8 & 0x0F), UInt8(value & 0xFF)]
        bytes += Self.check(kind, value, device)
        self.init(Self.marked(Array(bytes), version: 8))
    }

    /// The number that it stands for; `nil` when it was not made of one of this kind, on this device.
    func number(_ kind: Kind, of device: DeviceID) -> Int64? {
        var value: UInt64 = 0
        for byte in bytes[..<6] { value = value << 8 | UInt64(byte) }
        value = value << 12 | UInt64(bytes[6] & 0x0F) << 8 | UInt64(bytes[7])
        let number = Int64(bitPattern: value)
        return CompatibleID(kind, number: number, of: device) == self ? number : nil
    }

    private static func check(_ kind: Kind, _ value: UInt64, _ device: DeviceID) -> [UInt8] {
        let text = namespace(of: device) + Array(kind.rawValue.utf8) + Self.bytes(value)
        return Array(SHA256.hash(data: text).prefix(8))
    }

    private static func bytes(_ value: UInt64) -> [UInt8] { (0..<8).map { UInt8(value >> (56 - 8 * $0) & 0xFF) } }

    /// Writes the version and the variant over what is there.
    private static func marked(_ bytes: [UInt8], version: UInt8) -> [UInt8] {
        var bytes = bytes
        bytes[6] = bytes[6] & 0x0F | version << 4
        bytes[8] = bytes[8] & 0x3F | 0x80
        return bytes
    }

    /// Its text, in small letters.
    var text: String {
        let hex = Array(Hex.encode(bytes))
        return [hex[0..<8], hex[8..<12], hex[12..<16], hex[16..<20], hex[20...]].map { String($0) }.joined(
            separator: "-")
    }
}
