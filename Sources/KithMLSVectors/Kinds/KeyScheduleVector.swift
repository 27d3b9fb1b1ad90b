import KithMLS

struct KeyScheduleVector: Vector {
    struct Exporter: Codable, Sendable {
        let label: String
        let context: Hex
        let length: Int
        let secret: Hex
    }
    struct Epoch: Codable, Sendable {
        let treeHash: Hex
        let commitSecret: Hex
        let pskSecret: Hex
        let confirmedTranscriptHash: Hex
        let groupContext: Hex
        let joinerSecret: Hex
        let welcomeSecret: Hex
        let initSecret: Hex
        let senderDataSecret: Hex
        let encryptionSecret: Hex
        let exporterSecret: Hex
        let epochAuthenticator: Hex
        let externalSecret: Hex
        let confirmationKey: Hex
        let membershipKey: Hex
        let resumptionPsk: Hex
        let externalPub: Hex
        let exporter: Exporter
    }

    let cipherSuite: UInt16
    let groupId: Hex
    let initialInitSecret: Hex
    let epochs: [Epoch]
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        var initSecret = initialInitSecret.bytes
        for (index, epoch) in epochs.enumerated() {
            let context = GroupContext(
                cipherSuite: suite.id, groupID: groupId.bytes, epoch: UInt64(index), treeHash: epoch.treeHash.bytes,
                confirmedTranscriptHash: epoch.confirmedTranscriptHash.bytes, extensions: []
            ).encoded
            try check(context == epoch.groupContext.bytes, "group_context")
            let schedule = KeySchedule(
                suite, initSecret: Secret(copying: initSecret), commitSecret: Secret(copying: epoch.commitSecret.bytes),
                pskSecret: Secret(copying: epoch.pskSecret.bytes), context: context)
            try check(schedule.joinerSecret.reveal() == epoch.joinerSecret.bytes, "joiner_secret")
            try check(schedule.welcomeSecret.reveal() == epoch.welcomeSecret.bytes, "welcome_secret")
            let epochSecret = schedule.epochSecret(context: context)
            let secrets = EpochSecrets(suite, epochSecret: epochSecret)
            try check(
                suite.encryptionSecret(epochSecret: epochSecret).reveal() == epoch.encryptionSecret.bytes,
                "encryption_secret")
            try check(secrets.senderData.reveal() == epoch.senderDataSecret.bytes, "sender_data_secret")
            try check(secrets.exporter.reveal() == epoch.exporterSecret.bytes, "exporter_secret")
            try check(secrets.authenticator.reveal() == epoch.epochAuthenticator.bytes, "epoch_authenticator")
            try check(secrets.external.reveal() == epoch.externalSecret.bytes, "external_secret")
            try check(secrets.confirmationKey.reveal() == epoch.confirmationKey.bytes, "confirmation_key")
            try check(secrets.membershipKey.reveal() == epoch.membershipKey.bytes, "membership_key")
            try check(secrets.resumptionPSK.secret.reveal() == epoch.resumptionPsk.bytes, "resumption_psk")
            try check(secrets.initSecret.reveal() == epoch.initSecret.bytes, "init_secret")
            try check(try secrets.externalKey(suite).publicKey == epoch.externalPub.bytes, "external_pub")
            let exporter = epoch.exporter
            try check(
                secrets.export(suite, label: exporter.label, context: exporter.context.bytes, count: exporter.length)
                    .reveal() == exporter.secret.bytes, "exporter")
            initSecret = secrets.initSecret.reveal()
        }
    }
}

extension KeyScheduleVector {
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> KeyScheduleVector {
        let groupID = draw.hex(draw.number(1...32))
        let initSecret = draw.hex(suite.secretLength)
        var next = initSecret.bytes
        var epochs: [Epoch] = []
        for number in 0..<5 as Range<UInt64> {
            epochs.append(try epoch(suite, groupID.bytes, number, initSecret: &next, &draw))
        }
        return KeyScheduleVector(
            cipherSuite: suite.id.rawValue, groupId: groupID, initialInitSecret: initSecret, epochs: epochs)
    }

    private static func epoch(
        _ suite: any CipherSuite, _ groupID: [UInt8], _ number: UInt64, initSecret: inout [UInt8], _ draw: inout Draw
    ) throws -> Epoch {
        let treeHash = draw.hex(suite.secretLength)
        let commitSecret = draw.hex(suite.secretLength)
        let pskSecret = draw.hex(suite.secretLength)
        let transcript = draw.hex(suite.secretLength)
        let context = GroupContext(
            cipherSuite: suite.id, groupID: groupID, epoch: number, treeHash: treeHash.bytes,
            confirmedTranscriptHash: transcript.bytes, extensions: []
        ).encoded
        let schedule = KeySchedule(
            suite, initSecret: Secret(copying: initSecret), commitSecret: Secret(copying: commitSecret.bytes),
            pskSecret: Secret(copying: pskSecret.bytes), context: context)
        let epochSecret = schedule.epochSecret(context: context)
        let secrets = EpochSecrets(suite, epochSecret: epochSecret)
        let exported = (label: draw.label(), context: draw.hex(draw.number(0...64)), length: draw.number(1...100))
        let exporter = secrets.export(
            suite, label: exported.label, context: exported.context.bytes, count: exported.length)
        initSecret = secrets.initSecret.reveal()
        return Epoch(
            treeHash: treeHash, commitSecret: commitSecret, pskSecret: pskSecret, confirmedTranscriptHash: transcript,
            groupContext: Hex(context), joinerSecret: Hex(schedule.joinerSecret.reveal()),
            welcomeSecret: Hex(schedule.welcomeSecret.reveal()), initSecret: Hex(initSecret),
            senderDataSecret: Hex(secrets.senderData.reveal()),
            encryptionSecret: Hex(suite.encryptionSecret(epochSecret: epochSecret).reveal()),
            exporterSecret: Hex(secrets.exporter.reveal()), epochAuthenticator: Hex(secrets.authenticator.reveal()),
            externalSecret: Hex(secrets.external.reveal()), confirmationKey: Hex(secrets.confirmationKey.reveal()),
            membershipKey: Hex(secrets.membershipKey.reveal()),
            resumptionPsk: Hex(secrets.resumptionPSK.secret.reveal()),
            externalPub: Hex(try secrets.externalKey(suite).publicKey),
            exporter: Exporter(
                label: exported.label, context: exported.context, length: exported.length,
                secret: Hex(exporter.reveal())))
    }
}
