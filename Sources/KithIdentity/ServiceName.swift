import Crypto
import KithWire

/// The name by which a device is a service of its local network for one hour, and the key of what it says by that name.
///
/// Whoever knows the device's key can compute both; for anybody else the names of two hours have nothing in common, and
/// what is said is noise. It is no secret of the device's: everyone who was ever told its key can follow it.
///
/// ```
/// HKDF-SHA256, 64 bytes: key      the 32 bytes of the DeviceID
///                        salt     none
///                        info     "kith local service 1", the hour: 8 bytes, big-endian, the attempt: 1 byte
///
///  0…15  the name of the service, in base32 (RFC 4648, lower case, no padding): 26 letters
/// 16…31  the name of its host, written alike
/// 32…63  the key of what is said: ChaCha20-Poly1305, written as nonce 12, ciphertext, tag 16
/// ```
///
/// The hour is the number of whole hours since 1970 by the device's clock; whoever looks accepts the hour before and the
/// hour after its own. The attempt is 0; each time that another has the name on this network, it is one more.
public struct ServiceName: Hashable, Sendable {
    /// The most attempts, 0 to 7.
    public static let maxAttempts = 8

    /// The label of the service.
    public let service: String
    /// The label of its host.
    public let host: String
    private let key: [UInt8]

    /// Computes the name of a device in an hour since 1970.
    public init(of device: DeviceID, hour: UInt64, attempt: UInt8 = 0) {
        var info = ByteWriter()
        info.integer(hour)
        info.integer(attempt)
        let bytes = unsafe HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: device.bytes), info: Array("kith local service 1".utf8) + info.bytes,
            outputByteCount: 64
        ).withUnsafeBytes { unsafe [UInt8]($0) }
        service = Base32.encode(bytes[..<16])
        host = Base32.encode(bytes[16..<32])
        key = Array(bytes[32...])
    }

    /// The hour of a time in milliseconds since 1970.
    public static func hour(of milliseconds: UInt64) -> UInt64 { milliseconds / 3_600_000 }

    /// Returns whether a label looks like that of a device, whichever.
    public static func isOne(_ label: String) -> Bool { label.utf8.count == 26 && Base32.decode(label)?.count == 16 }

    /// Encrypts what is said by the name; 28 bytes longer, and different each time.
    public func seal(_ bytes: [UInt8]) -> [UInt8] {
        guard let box = try? ChaChaPoly.seal(bytes, using: SymmetricKey(data: key)) else {
            preconditionFailure("sealing fails for a key of another length only")
        }
        return Array(box.combined)
    }

    /// Decrypts what was said by the name; `nil` for anything else.
    public func open(_ sealed: [UInt8]) -> [UInt8]? {
        // Neither error says more than that it is something else.
        guard let box = try? ChaChaPoly.SealedBox(combined: sealed),
            let bytes = try? ChaChaPoly.open(box, using: SymmetricKey(data: key))
        else { return nil }
        return Array(bytes)
    }
}
