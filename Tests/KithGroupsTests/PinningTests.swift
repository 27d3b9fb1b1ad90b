import KithGroups
import KithMLS
import Testing

/// Who is who without anybody's word: what the defaults refuse.
@Suite struct PinningTests {
    /// A client as it is out of the box.
    private func client(
        _ name: String, _ delivery: any GroupDelivery, _ storage: any GroupStorage = MemoryGroupStorage()
    ) throws -> GroupClient {
        var options = GroupClient.Options { noon }
        options.keyPackages = 3
        return try GroupClient(name: name, storage: storage, delivery: delivery, options: options)
    }

    /// A key package of somebody who calls itself by another's name.
    private func forged(_ name: String) throws -> KeyPackageBundle {
        let suite = CipherSuites.all[0]
        return try KeyPackageBundle(
            suite, profile: LeafProfile(credential: .basic(identity: Array(name.utf8))),
            signatureKey: suite.generateSignatureKey(), lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9))
    }

    @Test(arguments: [false, true])
    func `an outsider with the published state evicts nobody`(isTrusting: Bool) async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben"].map {
            isTrusting ? try KithGroupsTests.client($0, delivery) : try client($0, delivery)
        }
        let sessions = try await party(clients)
        let bytes = try #require(try await delivery.groupInfo(of: sessions[0].groupID))
        guard case .groupInfo(let info) = try MLSMessage(bytes) else { throw MLSError.unexpectedWireFormat }
        let mallory = try forged("ben")
        var options = ExternalJoinOptions()
        options.replacing = 1
        options.now = noon
        let join = try ExternalJoin(
            info, profile: LeafProfile(credential: mallory.keyPackage.leafNode.credential),
            signatureKey: mallory.signatureKey, options,
            configuration: GroupConfiguration(authentication: TrustingAuthenticationService()))
        _ = try await delivery.send(join.commit.bytes, to: sessions[0].groupID)
        #expect(try await sessions[0].synchronise().refused.map(\.reason) == [.resyncNotAccepted])
        let keys = try await sessions[0].members().map(\.node.signatureKey)
        #expect(!keys.contains(mallory.signatureKey.publicKey))
        #expect(try await sessions[0].epoch() == 1)
    }

    @Test func `an identity keeps its first key in all groups, in this run and the next`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let cleo = try client("cleo", delivery, storage)
        let clients = try [client("ben", delivery), cleo]
        let sessions = try await party(clients)
        let ben = try await sessions[1].members()[0].node
        #expect(try cleo.pins?.key(of: ben.credential) == ben.signatureKey)

        // The delivery service hands Cleo a key package that is not Ben's.
        let mallory = try forged("ben")
        let other = MemoryDelivery()
        try await other.publish(keyPackages: [MLSMessage.keyPackage(mallory.keyPackage).bytes], for: "ben")
        let again = try client("cleo", other, storage)
        let session = try await again.createGroup()
        await #expect(throws: GroupError.refused(.credentialRejected)) { try await session.add(["ben"]) }

        // Anna has never met Ben, and adds what she is given: Cleo refuses it.
        let anna = try client("anna", other)
        try await again.replenishKeyPackages()
        let hers = try await anna.createGroup()
        _ = try await hers.add(["cleo"])
        let welcome = try #require(try await other.welcomes(for: "cleo", from: 0, limit: 1).first)
        let joined = try await again.join(welcome.bytes)
        try await other.publish(keyPackages: [MLSMessage.keyPackage(try forged("ben").keyPackage).bytes], for: "ben")
        _ = try await hers.add(["ben"])
        #expect(try await joined.synchronise().refused.map(\.reason) == [.credentialRejected])

        // Somebody has compared the new key with Ben.
        try again.pins?.pin(mallory.signatureKey.publicKey, to: ben.credential)
        guard case .confirmed = try await session.commit(CommitOptions([.add(mallory.keyPackage)])) else {
            Issue.record("a key that was taken is refused")
            return
        }
    }

    @Test func `a member changes its key, signed with the old one, and the old one is over`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben"].map { try client($0, delivery) }
        let sessions = try await party(clients)
        let old = try await sessions[0].members()[1].node
        let new = CipherSuites.all[0].generateSignatureKey()
        var options = CommitOptions()
        options.signatureKey = new
        guard case .confirmed = try await sessions[1].commit(options) else {
            Issue.record("not confirmed")
            return
        }
        #expect(try await sessions[0].synchronise().refused.isEmpty)
        #expect(try clients[0].pins?.key(of: old.credential) == new.publicKey)
        // His other key packages are of the key before.
        let session = try await clients[0].createGroup()
        await #expect(throws: GroupError.refused(.credentialRejected)) { try await session.add(["ben"]) }
    }

    @Test func `a Welcome with two keys for one identity is refused`() throws {
        let suite = CipherSuites.all[0]
        func configuration() -> GroupConfiguration { GroupConfiguration() }
        let (ben, other, cleo) = try (forged("ben"), forged("ben"), forged("cleo"))
        var group = try Group(
            suite, profile: LeafProfile(credential: .basic(identity: [1])), signatureKey: suite.generateSignatureKey(),
            lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9),
            configuration: GroupConfiguration(authentication: TrustingAuthenticationService()))
        let output = try group.stageCommit(CommitOptions([ben, other, cleo].map { .add($0.keyPackage) }), at: noon)
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        let error = #expect(throws: MLSError.self) {
            _ = try Group(joining: welcome, with: cleo, configuration: configuration())
        }
        #expect(error == .credentialRejected)
    }
}

/// What binds a member that joins anew to the group it was in.
@Suite struct ResumptionTests {
    @Test func `a removed member cannot lure another one into a fork`() async throws {
        let (delivery, evil) = (MemoryDelivery(), MemoryDelivery())
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let clients = try [
            client("anna", delivery), client("ben", link), client("mallory", delivery, storage),
        ]
        let sessions = try await party(clients)
        let group = sessions[0].groupID
        _ = try await sessions[0].commit(CommitOptions([.remove(2)]))
        try await sessions[1].synchronise()
        // Mallory, who does not look, goes on alone.
        let mallory = try #require(try client("mallory", evil, storage).group(group))
        for _ in 0..<3 { _ = try await mallory.commit() }
        link.info = try await evil.groupInfo(of: group)
        #expect(try await mallory.epoch() == 4)
        await #expect(throws: GroupError.refused(.resumptionNotProven)) { try await sessions[1].rejoin() }
        #expect(try await sessions[1].epoch() == 2)
        link.info = nil
        try await sessions[1].rejoin()
        try await sessions[0].synchronise()
        #expect(try await sessions[0].agreement() == sessions[1].agreement())
    }

    @Test func `somebody who was added since can vouch for the group`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery) }
        let sessions = try await party(Array(clients[0..<2]))
        let id = PreSharedKeyID(key: .external(id: [5]), nonce: [UInt8](repeating: 3, count: 32))
        try clients[0].addPresharedKey([5], Secret(copying: [1]))
        _ = try await sessions[0].commit(CommitOptions([.psk(id)]))
        try await clients[2].replenishKeyPackages()
        _ = try await sessions[0].add(["cleo"])
        let cleo = try #require(try await clients[2].receiveWelcomes().first)
        // The last published state is hers.
        _ = try await cleo.commit()
        try await sessions[1].synchronise()
        try await sessions[1].rejoin()
        for session in [cleo, sessions[0]] { try await session.synchronise() }
        #expect(try await sessions[1].agreement() == cleo.agreement())
        #expect(try await sessions[0].agreement() == cleo.agreement())
    }

    @Test func `a proof is for one state, and of one key`() throws {
        let suite = CipherSuites.all[0]
        let key = suite.generateSignatureKey()
        var group = try Group(
            suite, profile: LeafProfile(credential: .basic(identity: [1])), signatureKey: key,
            lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9), configuration: GroupConfiguration())
        func stored(_ group: inout Group) -> StoredGroup {
            StoredGroup(groupID: group.groupID, version: 1, rows: group.takeChanges().rows)
        }
        let resuming = try #require(ResumptionKey(newestOf: stored(&group)))
        let proofs = try group.resumptionProofs()
        _ = try group.stageCommit(at: noon)
        _ = try group.confirmPendingCommit(at: noon)
        let later = try #require(ResumptionKey(newestOf: stored(&group)))
        #expect(resuming.epoch == 0 && later.epoch == 1)
        func join(_ info: GroupInfo, _ key: ResumptionKey) throws {
            var options = ExternalJoinOptions()
            options.resuming = key
            _ = try ExternalJoin(
                info, profile: LeafProfile(credential: .basic(identity: [2])),
                signatureKey: suite.generateSignatureKey(), options, configuration: GroupConfiguration())
        }
        let good = try group.groupInfo(extensions: [group.resumptionProofs()])
        try join(good, resuming)
        try join(good, later)
        for bad in [try group.groupInfo(), try group.groupInfo(extensions: [proofs])] {
            #expect(throws: MLSError.resumptionNotProven) { try join(bad, resuming) }
            #expect(throws: MLSError.resumptionNotProven) { try join(bad, later) }
        }
    }
}
