/// The alert that tells the peer why a handshake cannot go on (RFC 8446 §6).
///
/// In QUIC an alert travels as the error code of a CONNECTION_CLOSE frame (RFC 9001 §4.8).
package struct TLSAlert: Error, Hashable, Sendable {
    /// The alert's number.
    package let code: UInt8

    /// BoringSSL's short name for the cause; holds nothing secret.
    package let reason: String

    /// Creates an alert.
    package init(code: UInt8, reason: String = "") {
        self.code = code
        self.reason = reason
    }

    /// The QUIC transport error code that carries it: 0x100 plus the alert.
    package var transportErrorCode: UInt64 { 0x100 + UInt64(code) }
}

extension TLSAlert {
    /// A message came that the handshake does not expect now.
    package static let unexpectedMessage: UInt8 = 10

    /// The peers have no algorithm in common.
    package static let handshakeFailure: UInt8 = 40

    /// A certificate of a kind that is not supported.
    package static let unsupportedCertificate: UInt8 = 43

    /// The peer proved who it is, and is not welcome.
    package static let accessDenied: UInt8 = 49

    /// A signature or a Finished message does not verify.
    package static let decryptError: UInt8 = 51

    /// The fault is ours.
    package static let internalError: UInt8 = 80

    /// An extension that QUIC needs is missing: transport parameters (RFC 9001 §8.2).
    package static let missingExtension: UInt8 = 109

    /// The client showed no credential.
    package static let certificateRequired: UInt8 = 116

    /// The client offers no application protocol of ours (RFC 9001 §8.1).
    package static let noApplicationProtocol: UInt8 = 120
}
