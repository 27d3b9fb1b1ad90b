internal import CQUICCrypto

/// A version of QUIC this engine speaks.
///
/// Both use the same frames and the same handshake; they differ in what protects the first packets, in the labels of
/// keys and in the numbers of the packet types (RFC 9369 §3), so that neither can ossify.
@nonexhaustive
public enum QUICVersion: UInt32, Hashable, Sendable, CaseIterable {
    /// QUIC version 1 (RFC 9000).
    case one = 0x0000_0001
    /// QUIC version 2 (RFC 9369).
    case two = 0x6b33_43cf

    /// The number of a Version Negotiation packet (RFC 8999 §6).
    static let negotiation: UInt32 = 0

    /// The number `CQUICCrypto` knows the version by.
    var code: Int32 {
        switch self {
        case .one: KITH_VERSION_1
        case .two: KITH_VERSION_2
        }
    }

    /// The two type bits of a long header (RFC 9000 §17.2, RFC 9369 §3.2).
    @inline(__always)
    func typeBits(_ kind: PacketHeader.Kind) -> UInt8 {
        switch self {
        case .one: kind.rawValue & 3
        case .two: (kind.rawValue + 1) & 3
        }
    }

    /// Returns the packet type that two type bits stand for.
    @inline(__always)
    func kind(typeBits bits: UInt8) -> PacketHeader.Kind {
        let value =
            switch self {
            case .one: bits & 3
            case .two: (bits &+ 3) & 3
            }
        return [.initial, .zeroRTT, .handshake, .retry][Int(value)]
    }

    /// A number of the pattern that peers must ignore (RFC 9000 §15), from 32 random bits.
    static func reserved(_ random: UInt32) -> UInt32 { random & 0xF0F0_F0F0 | 0x0A0A_0A0A }
}

/// The version information one end sends in the handshake (RFC 9368 §3).
struct VersionInformation: Hashable {
    /// The version of the packet that carries it.
    var chosen: UInt32
    /// Every version the sender would speak; a client's most preferred first.
    var available: [UInt32]

    /// As the value of the transport parameter.
    var encoded: [UInt8] {
        ([chosen] + available).flatMap { version in
            [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: version >> $0) }
        }
    }

    /// Reads the value of the transport parameter; nil when it is malformed (RFC 9368 §4).
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= 4, bytes.count % 4 == 0 else { return nil }
        var reader = unsafe PacketReader(bytes)
        var versions: [UInt32] = []
        while let version = try? reader.uint32() {  // ends where the value does
            guard version != QUICVersion.negotiation else { return nil }
            versions.append(version)
        }
        chosen = versions.removeFirst()
        available = versions
    }

    init(chosen: QUICVersion, available: [UInt32]) {
        self.chosen = chosen.rawValue
        self.available = available
    }
}
