public import KithIdentity
import KithWire
@_spi(DisableValidityCheck) import X509

/// The standing of a device's certificate.
@nonexhaustive
public enum CertificateStatus: Hashable, Sendable {
    /// There is none.
    case none
    /// A request waits for the holder of the root key.
    case pending
    /// It is good until that time, in seconds since 1970.
    case valid(until: Int64)
    /// Its time is over.
    case expired
    /// The root has revoked it.
    case revoked
    /// It is not to be believed, for the reason given.
    case invalid(reason: String)

    /// True for one that is good now.
    public var isValid: Bool { if case .valid = self { true } else { false } }
}

extension RootCertificate {
    /// The seconds by which the clocks of two devices may differ.
    public static let clockSkew: Int64 = 300

    /// Checks a certificate under this root alone: chain, key, device, time, revocation.
    ///
    /// `peer` is the device that presents it, as its connection proved, `revocations` the newest list that is known,
    /// `now` the time in seconds since 1970.
    public func status(
        of certificate: DeviceCertificate, presentedBy peer: DeviceID, revocations: RevocationList?, now: Int64
    ) async -> CertificateStatus {
        guard certificate.id == peer else { return .invalid(reason: "it is another device's") }
        var verifier = Verifier(rootCertificates: CertificateStore([self.certificate])) {
            // Time is checked below: both ends' clocks are people's.
            RFC5280Policy.withValidityCheckDisabled()
        }
        guard
            case .validCertificate(let chain) = await verifier.validate(
                leaf: certificate.certificate, intermediates: CertificateStore()),
            Array(chain) == [certificate.certificate, self.certificate]
        else { return .invalid(reason: "it was not issued by the root that is pinned here") }
        // Of one that is revoked nothing else matters.
        if revocations?.revokes(peer) == true { return .revoked }
        for part in [self.certificate, certificate.certificate] {
            if part.notBefore - Self.clockSkew > now { return .invalid(reason: "its time has not begun") }
            if part.notAfter + Self.clockSkew < now { return .expired }
        }
        return .valid(until: certificate.notAfter)
    }
}
