import Crypto
public import KithWire

extension RootCertificate {
    /// Makes the certificate of a person's root key, valid from an hour before `now` (seconds since 1970).
    public static func make(by root: RootKey, now: Int64) throws(KithError) -> RootCertificate {
        try make(by: root.signingKey, now: now)
    }

    /// Tells whether it is the certificate of that key.
    public func isCertificate(of root: RootKey) -> Bool {
        Array(root.signingKey.publicKey.x963Representation) == publicKey
    }
}

extension CertificateAuthority {
    /// Signs by a person's root key, as `certificate` says.
    ///
    /// - Throws: `KithError` `.corrupt` when the certificate is another key's.
    public init(_ certificate: RootCertificate, key root: RootKey) throws(KithError) {
        try self.init(certificate, key: root.signingKey)
    }
}
