package import KithWire

/// The four stages of protection a QUIC packet can have (RFC 9001 §4).
package enum EncryptionLevel: Int, CaseIterable, Hashable, Sendable {
    /// Keys anybody can derive from the client's first connection id.
    case initial = 0

    /// Keys from a resumed session, before the handshake.
    case zeroRTT = 1

    /// Keys from the key exchange, before the peer is authenticated.
    case handshake = 2

    /// The keys of the connection.
    case oneRTT = 3
}

/// The direction of the packets that a secret protects.
package enum SecretDirection: Hashable, Sendable {
    /// From the peer.
    case read

    /// To the peer.
    case write
}

/// A secret the handshake has produced, from which the keys of one level and direction derive.
package struct TrafficSecret: Hashable, Sendable {
    /// The level whose packets it protects.
    package let level: EncryptionLevel

    /// The direction of those packets.
    package let direction: SecretDirection

    /// The cipher suite its keys are for.
    package let suite: CipherSuite

    /// The secret.
    package let bytes: SecretBytes

    /// Creates a secret from its parts.
    package init(level: EncryptionLevel, direction: SecretDirection, suite: CipherSuite, bytes: SecretBytes) {
        self.level = level
        self.direction = direction
        self.suite = suite
        self.bytes = bytes
    }
}
