import KithMLS

/// What measurements of groups have in common: the time they take place at, and their members.
protocol MeasuredGroups {
    /// The cipher suite that is measured.
    var suite: any CipherSuite { get }
}

extension MeasuredGroups {
    /// The time, in seconds since 1970.
    var now: UInt64 { 1_800_000_000 }

    var lifetime: KithMLS.Lifetime { KithMLS.Lifetime(notBefore: now - 60, notAfter: now + 86_400) }

    func profile(_ number: Int) -> LeafProfile {
        LeafProfile(
            credential: .basic(identity: Array("member \(number)".utf8)),
            capabilities: Capabilities(cipherSuites: [suite.id]))
    }

    func keyPackage(_ number: Int) throws(MLSError) -> KeyPackageBundle {
        try KeyPackageBundle(
            suite, profile: profile(number), signatureKey: suite.generateSignatureKey(), lifetime: lifetime)
    }
}
