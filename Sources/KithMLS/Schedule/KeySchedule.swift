/// The secrets of one epoch (RFC 9420 §8).
package struct EpochSecrets: ~Copyable, Sendable {
    package let senderData: Secret
    package let exporter: Secret
    package let external: Secret
    package let confirmationKey: Secret
    package let membershipKey: Secret
    package let resumptionPSK: SecretBox
    package let authenticator: Secret
    package let initSecret: Secret

    /// Derives all secrets but the encryption secret, which goes into the secret tree and nowhere else (§9.2).
    package init(_ suite: any CipherSuite, epochSecret: borrowing Secret) {
        senderData = suite.derive(epochSecret, "sender data")
        exporter = suite.derive(epochSecret, "exporter")
        external = suite.derive(epochSecret, "external")
        confirmationKey = suite.derive(epochSecret, "confirm")
        membershipKey = suite.derive(epochSecret, "membership")
        resumptionPSK = SecretBox(suite.derive(epochSecret, "resumption"))
        authenticator = suite.derive(epochSecret, "authentication")
        initSecret = suite.derive(epochSecret, "init")
    }

    /// Puts stored secrets together again.
    init(
        senderData: consuming Secret, exporter: consuming Secret, external: consuming Secret,
        confirmationKey: consuming Secret, membershipKey: consuming Secret, resumptionPSK: SecretBox,
        authenticator: consuming Secret, initSecret: consuming Secret
    ) {
        self.senderData = senderData
        self.exporter = exporter
        self.external = external
        self.confirmationKey = confirmationKey
        self.membershipKey = membershipKey
        self.resumptionPSK = resumptionPSK
        self.authenticator = authenticator
        self.initSecret = initSecret
    }

    /// The key pair that external commits are made to.
    package func externalKey(_ suite: any CipherSuite) throws(MLSError) -> HPKEPrivateKey {
        try suite.deriveHPKEKey(external)
    }

    /// The tag that confirms an epoch's transcript (§6.1).
    package func confirmationTag(_ suite: any CipherSuite, confirmedTranscriptHash: [UInt8]) -> [UInt8] {
        suite.mac(confirmationKey, confirmedTranscriptHash)
    }

    /// `MLS-Exporter(Label, Context, Length)` (§8.5).
    package func export(
        _ suite: any CipherSuite, label: String, context: [UInt8], count: Int
    ) -> Secret {
        suite.expand(
            suite.derive(exporter, label), label: "exported", context: suite.hash(context), count: count)
    }
}

/// The way from one epoch's secrets to the next (RFC 9420 §8).
package struct KeySchedule: ~Copyable {
    package let joinerSecret: Secret
    /// `KDF.Extract(joiner_secret, psk_secret)`, from which the welcome and epoch secrets come.
    private let member: Secret
    private let suite: any CipherSuite

    /// Derives from the previous epoch's init secret and this commit's secret; `context` is the new epoch's.
    package init(
        _ suite: any CipherSuite, initSecret: borrowing Secret, commitSecret: borrowing Secret,
        pskSecret: borrowing Secret, context: [UInt8]
    ) {
        let extracted = suite.extract(salt: initSecret, commitSecret)
        let joiner = suite.expand(extracted, label: "joiner", context: context, count: suite.secretLength)
        self.init(suite, joinerSecret: joiner, pskSecret: pskSecret)
    }

    /// Derives from the joiner secret of a Welcome.
    package init(_ suite: any CipherSuite, joinerSecret: consuming Secret, pskSecret: borrowing Secret) {
        self.suite = suite
        self.member = suite.extract(salt: joinerSecret, pskSecret)
        self.joinerSecret = joinerSecret
    }

    package var welcomeSecret: Secret { suite.derive(member, "welcome") }

    /// `epoch_secret`.
    package func epochSecret(context: [UInt8]) -> Secret {
        suite.expand(member, label: "epoch", context: context, count: suite.secretLength)
    }
}

extension CipherSuite {
    /// The secret from which all message keys of an epoch come (§9).
    package func encryptionSecret(epochSecret: borrowing Secret) -> Secret { derive(epochSecret, "encryption") }
}

/// The key and nonce a group info is sealed with in a Welcome (RFC 9420 §12.4.3.1).
package struct WelcomeKey: ~Copyable {
    let key: Secret
    let nonce: [UInt8]
    private let suite: any CipherSuite

    package init(_ suite: any CipherSuite, welcomeSecret: borrowing Secret) {
        self.suite = suite
        key = suite.expand(welcomeSecret, label: "key", count: suite.keyLength)
        nonce = suite.expand(welcomeSecret, label: "nonce", count: suite.nonceLength).reveal()
    }

    package func seal(_ groupInfo: GroupInfo) -> [UInt8] {
        suite.seal(groupInfo.encoded, key: key, nonce: nonce, authenticating: [])
    }

    package func open(_ sealed: [UInt8]) throws(MLSError) -> GroupInfo {
        try GroupInfo(decoding: suite.open(sealed, key: key, nonce: nonce, authenticating: []))
    }
}
