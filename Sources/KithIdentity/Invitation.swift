import Crypto
public import KithWire

/// A one-time invitation: where the inviting device is, and a secret that lets the holder ask to be paired.
///
/// ```
///  byte     what
///  0        version, 1
///  1        a varint length, then the inviting device's ticket
///  …        the secret, 16 bytes
///  …        when it expires, seconds since 1970, 8 bytes
///  …        a varint length (≤ 63), then the inviting device's name, UTF-8
/// ```
///
/// As text: `kith-invite1` and the bytes with a four-byte check, in base32. What it allows stands at the inviting end.
public struct Invitation: Hashable, Sendable {
    /// The ticket with which the inviting device is found.
    public var ticket: Ticket
    /// When it stops working, in seconds since 1970.
    public var expiresAt: Int64
    /// The name that the inviting device gives itself.
    public var name: String
    /// 16 random bytes, known to the maker and the holder.
    package let secret: [UInt8]

    /// Makes an invitation with a fresh secret.
    public init(ticket: Ticket, name: String, expiresAt: Int64) {
        self.ticket = ticket
        self.name = name
        self.expiresAt = expiresAt
        secret = unsafe SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) }
    }

    /// The text to hand over.
    public var text: String {
        var writer = ByteWriter(capacity: 160)
        writer.integer(1 as UInt8)
        writer.prefixedBytes(ticket.bytes)
        writer.bytes(secret)
        writer.integer(UInt64(bitPattern: expiresAt))
        // A name that is too long loses whole characters, never half of one.
        var name = name
        while name.utf8.count > 63 { name.removeLast() }
        writer.prefixedBytes(Array(name.utf8))
        return CheckedText.encode(writer.bytes, prefix: "kith-invite1")
    }

    /// Reads the text form.
    ///
    /// - Throws: `KithError` `.invalid` when it is not one, or when a letter is wrong.
    public init(text: String) throws(KithError) {
        let bytes = try CheckedText.decode(text, prefix: "kith-invite1", what: "invitation")
        do {
            try self.init(bytes: bytes)
        } catch {
            throw KithError(.invalid, "That invitation is damaged, or of a later version of Kith.", cause: error)
        }
    }

    package init(bytes: [UInt8]) throws(WireError) {
        var reader = ByteReader(bytes)
        guard try reader.integer(as: UInt8.self) == 1 else { throw .invalid("an invitation is of version 1") }
        ticket = try Ticket(bytes: try reader.prefixedBytes(limit: 2_048))
        secret = try reader.bytes(16)
        expiresAt = Int64(bitPattern: try reader.integer(as: UInt64.self))
        guard let name = String(validating: try reader.prefixedBytes(limit: 63), as: UTF8.self) else {
            throw .invalid("a name is UTF-8")
        }
        self.name = name
        try reader.finish()
    }

    /// The public name of the invitation: 16 hexadecimal digits, made from the secret and telling nothing of it.
    public var id: String { Hex.encode(derive("kith invitation 1 id").prefix(8)) }

    /// The key that proves knowledge of the secret; the maker keeps it in place of the secret.
    package var proofKey: [UInt8] { derive("kith invitation 1 proof") }

    private func derive(_ label: String) -> [UInt8] {
        unsafe HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: secret), info: Array(label.utf8), outputByteCount: 32
        ).withUnsafeBytes { unsafe Array($0) }
    }
}

extension Invitation: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "invitation \(id) of \(name)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}
