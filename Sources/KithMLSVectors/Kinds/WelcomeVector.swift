import KithMLS

struct WelcomeVector: Vector {
    let cipherSuite: UInt16
    let initPriv: Hex
    let signerPub: Hex
    let keyPackage: Hex
    let welcome: Hex
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        let package = try KeyPackage(message: keyPackage.bytes)
        guard case .welcome(let welcome) = try MLSMessage(welcome.bytes) else {
            throw VectorFailure("not a welcome")
        }
        let reference = package.reference(suite)
        guard let entry = welcome.secrets.first(where: { $0.newMember == reference }) else {
            throw VectorFailure("no secrets for the key package")
        }
        let secrets = try GroupSecrets(
            suite.decrypt(
                entry.encryptedGroupSecrets, with: suite.importHPKEKey(initPriv.bytes), label: "Welcome",
                context: welcome.encryptedGroupInfo))
        let noPSK = try suite.pskSecret([], from: PreSharedKeys())
        let schedule = KeySchedule(
            suite, joinerSecret: Secret(copying: secrets.joinerSecret.reveal()), pskSecret: noPSK)
        let info = try WelcomeKey(suite, welcomeSecret: schedule.welcomeSecret).open(welcome.encryptedGroupInfo)
        try check(info.hasValidSignature(suite, by: signerPub.bytes), "signature")
        let epoch = EpochSecrets(
            suite, epochSecret: schedule.epochSecret(context: info.groupContext.encoded))
        try check(
            epoch.confirmationTag(suite, confirmedTranscriptHash: info.groupContext.confirmedTranscriptHash)
                == info.confirmationTag, "confirmation_tag")
    }
}

extension WelcomeVector {
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> WelcomeVector {
        var history = try History(suite, &draw)
        let bundle = try GroupMember(suite, "joiner").keyPackage()
        let (welcome, _) = try history.add(
            [bundle.keyPackage], withTree: draw.flag(), withPSK: false, withPath: draw.flag(), &draw)
        return WelcomeVector(
            cipherSuite: suite.id.rawValue, initPriv: Hex(bundle.initKey.reveal()),
            signerPub: Hex(history.members[0].signatureKey.publicKey),
            keyPackage: Hex(MLSMessage.keyPackage(bundle.keyPackage).bytes), welcome: Hex(welcome.bytes))
    }
}
