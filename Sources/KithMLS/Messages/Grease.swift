/// The values that stand in lists so that others keep ignoring what they do not know (RFC 9420 §13.5).
///
/// They are made here and nowhere looked for: a client that treated them in a special way would not notice that
/// another fails at new values.
enum Grease {
    /// The reserved values.
    static let values: [UInt16] = (0...14).map { 0x0A0A &+ 0x1010 &* $0 }

    /// One of them, by chance.
    static func random() -> UInt16 { values[Int(randomBytes(1)[0]) % values.count] }
}

extension Extension {
    /// An extension that nobody knows, of a chance kind with chance content; for leaves, key packages and group infos.
    public static func grease() -> Extension {
        Extension(type: ExtensionType(rawValue: Grease.random()), data: randomBytes(Int(randomBytes(1)[0] % 32)))
    }
}

extension Capabilities {
    /// The same with one chance value in each list that others must ignore.
    public func greased() -> Capabilities {
        var result = self
        result.cipherSuites.append(CipherSuiteID(rawValue: Grease.random()))
        result.extensions.append(ExtensionType(rawValue: Grease.random()))
        result.proposals.append(ProposalType(rawValue: Grease.random()))
        result.credentials.append(CredentialType(rawValue: Grease.random()))
        return result
    }
}

extension LeafProfile {
    /// The same with chance values in its capabilities and an extension that others must ignore.
    public func greased() -> LeafProfile {
        var result = self
        result.capabilities = capabilities.greased()
        let grease = Extension.grease()
        guard !extensions.contains(where: { $0.type == grease.type }) else { return result }
        result.extensions.append(grease)
        if !result.capabilities.extensions.contains(grease.type) { result.capabilities.extensions.append(grease.type) }
        return result
    }
}
