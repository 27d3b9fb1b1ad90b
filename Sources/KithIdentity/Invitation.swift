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
///  …        if relays want tokens: their number, 1…4, then for each the place of the relay in the ticket, and a
///           varint length (1…512) and the token, ASCII
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
    /// The tokens that relays of the ticket want, by their URLs; nobody else is told those.
    public var relayTokens: [String: String]
    /// 16 random bytes, known to the maker and the holder.
    package let secret: [UInt8]

    /// Makes an invitation with a fresh secret.
    public init(ticket: Ticket, name: String, expiresAt: Int64, relayTokens: [String: String] = [:]) {
        self.ticket = ticket
        self.relayTokens = relayTokens
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
        let tokens = ticket.relays.enumerated().compactMap { place, relay in
            relayTokens[relay].flatMap { Self.isToken($0) ? (UInt8(place), $0) : nil }
        }
        if !tokens.isEmpty {
            writer.integer(UInt8(tokens.count))
            for (place, token) in tokens {
                writer.integer(place)
                writer.prefixedBytes(Array(token.utf8))
            }
        }
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
        relayTokens = [:]
        if !reader.isAtEnd {
            let count = try reader.integer(as: UInt8.self)
            guard (1...Ticket.maxRelays).contains(Int(count)) else { throw .invalid("an invitation has 1 to 4 tokens") }
            for _ in 0..<count {
                let place = Int(try reader.integer(as: UInt8.self))
                let token = String(decoding: try reader.prefixedBytes(limit: Self.maxToken), as: UTF8.self)
                guard place < ticket.relays.count, Self.isToken(token),
                    relayTokens.updateValue(token, forKey: ticket.relays[place]) == nil
                else { throw .invalid("a token is ASCII, and for one relay of the ticket") }
            }
        }
        try reader.finish()
    }

    private static let maxToken = 512

    /// Returns whether a token may be one: it goes in a header of HTTP.
    private static func isToken(_ token: String) -> Bool {
        (1...maxToken).contains(token.utf8.count) && token.utf8.allSatisfy { (0x21...0x7E).contains($0) }
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
