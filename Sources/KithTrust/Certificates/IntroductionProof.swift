import Crypto
public import KithIdentity
public import KithWire

/// The proof with which a device shows its certificate to one that does not know it, over a connection whose TLS has
/// proven both keys.
///
/// It is the Ed25519 signature, by the key that the certificate is for, of
///
/// ```
///  "kith introduction 1 dialing" or "kith introduction 1 dialed", a zero byte
///  32   bytes of the TLS exporter (RFC 8446 §7.5) with `exporterLabel`
///  32   the key of the end that dialed
///  32   the key of the other end
///  32   SHA-256 of the certificate, DER
/// ```
///
/// so it is worth nothing on another connection, between others, from the other end, or with another certificate.
public struct IntroductionProof: Hashable, Sendable {
    /// The label of the TLS exporter to which an introduction is bound.
    public static let exporterLabel = "EXPORTER-kith-introduction-1"

    /// An end of the connection.
    @frozen
    public enum End: String, Hashable, Sendable {
        /// The device that dialed.
        case dialing
        /// The device that was dialed.
        case dialed
    }

    /// The key of the end that dialed, as TLS proved it.
    public var dialing: DeviceID
    /// The key of the other end, as TLS proved it.
    public var dialed: DeviceID
    /// 32 bytes of the TLS exporter with ``exporterLabel``.
    public var exporter: [UInt8]

    /// Describes a connection.
    public init(dialing: DeviceID, dialed: DeviceID, exporter: [UInt8]) {
        self.dialing = dialing
        self.dialed = dialed
        self.exporter = exporter
    }

    /// Signs for one end, with its certificate.
    public func signature(
        of end: End, with certificate: [UInt8], by key: DeviceKey
    ) throws(KithError) -> [UInt8] {
        try key.signature(for: message(end, certificate))
    }

    /// Tells whether one end made the signature, with that certificate, on this connection.
    public func isValid(_ signature: [UInt8], of end: End, with certificate: [UInt8]) -> Bool {
        (end == .dialing ? dialing : dialed).isValid(signature: signature, for: message(end, certificate))
    }

    /// The bytes that are signed: no other signature of a device's key is of bytes that begin so.
    private func message(_ end: End, _ certificate: [UInt8]) -> [UInt8] {
        Array("kith introduction 1 \(end.rawValue)".utf8) + [0] + exporter + dialing.bytes + dialed.bytes
            + Array(SHA256.hash(data: certificate))
    }
}
