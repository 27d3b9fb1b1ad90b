package import KithReach
package import KithWire

/// Where etcd is, and how it is spoken to.
package struct EtcdOptions: Sendable {
    /// Its members, of which one is asked at a time.
    package let endpoints: [RelayAddress]
    /// The name and the password of a user of etcd; `nil` where it asks for none.
    package var user: (name: String, password: String)?
    /// The authorities to trust instead of the system's, PEM.
    package var roots: [UInt8]?
    /// The certificate chain and the key that are shown to etcd, PEM files.
    package var certificate: (chain: String, key: String)?

    /// Reads `http://HOST:2379,…`.
    ///
    /// - Throws: `KithError` `.invalid`.
    package init(endpoints: String) throws(KithError) {
        self.endpoints = try EtcdEndpoints.parse(endpoints)
    }
}
