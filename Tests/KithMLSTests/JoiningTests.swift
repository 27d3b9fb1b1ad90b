import KithMLS
import Testing

@Suite struct JoiningTests {
    @Test(arguments: [1, 2, 3, 5, 7] as [UInt16])
    func `a client joins by its own commit`(number: UInt16) throws {
        var members = try party(["anna", "ben", "cleo"], cipherSuite(number))
        let dora = Member("dora", cipherSuite(number))
        let info = try members[1].with { group throws in try group.groupInfo() }
        let join = try ExternalJoin(
            info, profile: dora.profile, signatureKey: dora.signatureKey, configuration: configuration())
        let commit = join.commit
        dora.take(join.confirm())
        for member in members {
            let change = try member.follow(commit)
            #expect(change.isExternal)
            #expect(change.added.map(\.leaf) == [3])
        }
        members.append(dora)
        try agree(members)
        let output = try dora.commit()
        for member in members.dropLast() { try member.follow(output.commit) }
        try agree(members)
    }

    @Test func `a member that lost its state replaces itself, with a pre-shared key`() throws {
        let members = try party(["anna", "ben", "cleo"])
        let info = try members[0].with { group throws in try group.groupInfo() }
        var options = ExternalJoinOptions()
        options.replacing = 1
        options.pskIDs = [PreSharedKeyID(key: .external(id: [9]), nonce: [UInt8](repeating: 1, count: 32))]
        options.psks.add(external: [9], Secret(copying: [1, 2, 3]))
        let psks = options.psks
        options.tree = members[0].with { $0.tree }
        let join = try ExternalJoin(
            info, profile: members[1].profile, signatureKey: members[1].signatureKey, options,
            configuration: configuration())
        let commit = join.commit
        members[1].take(join.confirm())
        #expect(throws: MLSError.unknownPSK) { try members[0].follow(commit) }
        for member in [members[0], members[2]] {
            let change = try member.follow(commit, psks: psks)
            #expect(change.removed.map(\.leaf) == [1])
            #expect(change.added.map(\.leaf) == [1])
        }
        try agree(members)
    }

    @Test func `the tree may come another way than the Welcome`() throws {
        let anna = Member("anna")
        let ben = Member("ben")
        try anna.create()
        let bundle = try ben.keyPackage()
        var options = CommitOptions([.add(bundle.keyPackage)])
        options.welcomeHasTree = false
        let output = try anna.commit(options)
        #expect(throws: MLSError.treeMissing) { try ben.join(output.welcome, bundle) }
        var join = JoinOptions()
        join.tree = try RatchetTree(anna.with { $0.tree }.bytes)
        try ben.join(output.welcome, bundle, join)
        try agree([anna, ben])
    }

    @Test func `external and resumption keys are mixed in, for members and newcomers`() throws {
        var members = try party(["anna", "ben"])
        var psks = PreSharedKeys()
        psks.add(external: Array("door".utf8), Secret(copying: Array("sesame".utf8)))
        let first = members[0].epoch
        let output = try members[0].commit()
        try members[1].follow(output.commit)
        let cleo = Member("cleo")
        let bundle = try cleo.keyPackage()
        let (external, resumption) = members[0].with { group in
            (
                group.presharedKeyID(.external(id: Array("door".utf8))),
                group.presharedKeyID(.resumption(.application, groupID: group.groupID, epoch: first))
            )
        }
        let proposals: [Proposal] = [.psk(external), .psk(resumption)]
        let withPSK = try members[0].commit(CommitOptions(proposals), psks: psks)
        #expect(!withPSK.change.hasPath)
        try members[1].follow(withPSK.commit, psks: psks)
        try agree(members)
        // A newcomer needs the external key; the old epoch's it cannot have.
        let nonce = members[1].with { $0.presharedKeyID(.external(id: Array("door".utf8))) }
        let added = try members[1].commit(CommitOptions([.add(bundle.keyPackage), .psk(nonce)]), psks: psks)
        try members[0].follow(added.commit, psks: psks)
        #expect(throws: MLSError.unknownPSK) { try cleo.join(added.welcome, bundle) }
        var options = JoinOptions()
        options.psks = psks
        try cleo.join(added.welcome, bundle, options)
        members.append(cleo)
        try agree(members)
    }

    @Test func `a ReInit ends the group and its successor has all members`() throws {
        let members = try party(["anna", "ben", "cleo"])
        let reInit = ReInit(groupID: Array("next".utf8), cipherSuite: cipherSuite(3).id)
        let output = try members[1].commit(CommitOptions([.reInit(reInit)]))
        for member in [members[0], members[2]] { try member.follow(output.commit) }
        #expect(throws: MLSError.groupEnded) {
            try members[0].with { group throws in _ = try group.encrypt([1]) }
        }
        let next = members.map { Member($0.name, cipherSuite(3)) }
        let bundles = try next.map { try $0.keyPackage() }
        let founding = try members[2].with { group throws in
            #expect(throws: MLSError.reInitMembersDiffer) {
                _ = try group.foundSuccessor(
                    keyPackages: [bundles[0].keyPackage], profile: next[2].profile, signatureKey: next[2].signatureKey,
                    lifetime: lifetime(), at: noon)
            }
            return try group.foundSuccessor(
                keyPackages: [bundles[0].keyPackage, bundles[1].keyPackage], profile: next[2].profile,
                signatureKey: next[2].signatureKey, lifetime: lifetime(), at: noon)
        }
        let welcome = founding.output.welcome
        next[2].take(founding.take())
        try next[2].with { group throws in _ = try group.confirmPendingCommit(at: noon) }
        for index in 0..<2 {
            var options = JoinOptions()
            #expect(throws: MLSError.unknownPSK) { try next[index].join(welcome, bundles[index], options) }
            options.lineages = [members[index].with { $0.lineage }]
            try next[index].join(welcome, bundles[index], options)
        }
        try agree(next)
        #expect(next[0].with { $0.groupID } == Array("next".utf8))
    }

    @Test func `a branch has some of the members`() throws {
        let members = try party(["anna", "ben", "cleo"])
        let next = [Member("anna"), Member("cleo")]
        let bundle = try next[1].keyPackage()
        let founding = try members[0].with { group throws in
            try group.foundBranch(
                keyPackages: [bundle.keyPackage], profile: next[0].profile, signatureKey: next[0].signatureKey,
                lifetime: lifetime(), at: noon)
        }
        let welcome = founding.output.welcome
        next[0].take(founding.take())
        try next[0].with { group throws in _ = try group.confirmPendingCommit(at: noon) }
        var options = JoinOptions()
        options.lineages = [members[2].with { $0.lineage }]
        try next[1].join(welcome, bundle, options)
        try agree(next)
        // The old group goes on.
        try agree(members)
    }

    @Test func `external senders and newcomers propose from outside`() throws {
        let key = cipherSuite().generateSignatureKey()
        let sender = ExternalSender(
            signatureKey: key.publicKey, credential: .basic(identity: Array("the office".utf8)))
        var members = try party(["anna", "ben", "cleo"], extensions: [.externalSenders([sender])])
        let (groupID, epoch) = members[0].with { ($0.groupID, $0.epoch) }
        let remove = try MLSMessage(
            proposing: .remove(1), asExternalSender: 0, key: key, cipherSuite(), groupID: groupID, epoch: epoch)
        let dora = Member("dora")
        let bundle = try dora.keyPackage()
        let add = try MLSMessage(proposingToJoin: bundle, cipherSuite(), groupID: groupID, epoch: epoch)
        for member in members {
            try member.queue(remove)
            try member.queue(add)
        }
        #expect(throws: MLSError.commitRequired) {
            try members[0].with { group throws in _ = try group.encrypt([1]) }
        }
        let output = try members[2].commit()
        try members[0].follow(output.commit)
        try members[1].follow(output.commit)
        try dora.join(output.welcome, bundle)
        #expect(dora.leaf == 1)
        members[1] = dora
        try agree(members)
    }

    @Test func `an observer follows public messages without secrets`() throws {
        var members = try party(["anna", "ben", "cleo"], handshake: .publicMessage)
        var observer = try GroupObserver(
            members[0].with { group throws in try group.groupInfo() }, at: noon, configuration: configuration())
        func observe(_ message: MLSMessage) throws {
            guard case .publicMessage(let message) = message else { throw MLSError.unexpectedWireFormat }
            _ = try observer.process(message, at: noon)
        }
        let update = try members[1].with { group throws in try group.proposeUpdate() }
        try members[0].queue(update)
        try members[2].queue(update)
        try observe(update)
        let output = try members[0].commit(CommitOptions([.remove(2)]))
        try members[1].follow(output.commit)
        try observe(output.commit)
        members.removeLast()
        let info = try members[0].with { group throws in try group.groupInfo() }
        let dora = Member("dora")
        let join = try ExternalJoin(
            info, profile: dora.profile, signatureKey: dora.signatureKey,
            configuration: configuration(handshake: .publicMessage))
        let commit = join.commit
        dora.take(join.confirm())
        for member in members { try member.follow(commit) }
        try observe(commit)
        members.append(dora)
        try agree(members)
        #expect(observer.context == members[0].with { $0.context })
    }
}
