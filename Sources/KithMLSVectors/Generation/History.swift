import KithMLS

/// A group whose members do what the draw says, for a client that looks on.
struct History {
    let suite: any CipherSuite
    /// The members that act.
    private(set) var members: [GroupMember]
    /// The external keys that everybody has.
    let external: [(id: [UInt8], key: [UInt8])]
    private var names = 0

    /// A group with one member.
    init(_ suite: any CipherSuite, _ draw: inout Draw) throws {
        self.suite = suite
        external = (0..<2).map { _ in (draw.bytes(12), draw.bytes(suite.secretLength)) }
        members = []
        let founder = newcomer()
        try founder.create(Self.format(&draw), groupID: draw.bytes(suite.secretLength))
        members = [founder]
    }

    private mutating func newcomer() -> GroupMember {
        names += 1
        return GroupMember(suite, "member \(names)")
    }

    private static func format(_ draw: inout Draw) -> WireFormat { draw.flag() ? .publicMessage : .privateMessage }

    var psks: PreSharedKeys {
        var keys = PreSharedKeys()
        for (id, key) in external { keys.add(external: id, Secret(copying: key)) }
        return keys
    }

    private func pskID(_ draw: inout Draw) -> PreSharedKeyID {
        PreSharedKeyID(
            key: .external(id: external[draw.number(0...external.count - 1)].id), nonce: draw.bytes(suite.secretLength))
    }

    private func actor(_ draw: inout Draw) -> GroupMember { members[draw.number(0...members.count - 1)] }

    /// The messages of one epoch: for an observer, and for those who were added.
    struct Step {
        let proposals: [MLSMessage]
        let commit: MLSMessage
        let authenticator: [UInt8]
    }

    /// Adds clients by one commit of a member; gives the Welcome and, where that does not hold it, the tree.
    mutating func add(
        _ packages: [KeyPackage], by committer: GroupMember? = nil, withTree: Bool, withPSK: Bool, withPath: Bool,
        _ draw: inout Draw
    ) throws -> (welcome: MLSMessage, tree: RatchetTree) {
        let committer = committer ?? members[0]
        var options = CommitOptions(packages.map { .add($0) } + (withPSK ? [.psk(pskID(&draw))] : []))
        options.welcomeHasTree = withTree
        options.forcesPath = withPath
        let keys = psks
        let output = try committer.with { group throws(MLSError) in
            let output = try group.stageCommit(options, psks: keys)
            _ = try group.confirmPendingCommit()
            return output
        }
        for member in members where member !== committer { try member.receive(output.commit, psks: keys) }
        guard let welcome = output.welcome else { throw MLSError.unexpectedWireFormat }
        return (welcome, try committer.with { $0.tree })
    }

    /// Lets `count` more clients in who act from then on.
    mutating func populate(_ count: Int, _ draw: inout Draw) throws {
        guard count > 0 else { return }
        var joining: [(member: GroupMember, bundle: KeyPackageBundle)] = []
        for _ in 0..<count {
            let member = newcomer()
            joining.append((member, try member.keyPackage()))
        }
        let (welcome, _) = try add(
            joining.map(\.bundle.keyPackage), withTree: true, withPSK: false, withPath: true, &draw)
        try admit(joining, welcome, &draw)
    }

    private mutating func admit(
        _ joining: [(member: GroupMember, bundle: KeyPackageBundle)], _ message: MLSMessage, _ draw: inout Draw
    ) throws {
        guard case .welcome(let welcome) = message else { throw MLSError.unexpectedWireFormat }
        var options = JoinOptions()
        options.psks = psks
        for (member, bundle) in joining {
            member.take(
                try Group(
                    joining: welcome, with: bundle, options,
                    configuration: GroupMember.configuration(Self.format(&draw))))
            members.append(member)
        }
    }

    /// One epoch more: proposals by reference and by value, and a commit, from within or from outside.
    mutating func step(_ draw: inout Draw) throws -> Step {
        if draw.number(0...9) == 0 { return try joinFromOutside(&draw) }
        let committer = actor(&draw)
        var byValue: [Proposal] = []
        var sent: [MLSMessage] = []
        var joining: [(member: GroupMember, bundle: KeyPackageBundle)] = []
        var leaving: [GroupMember] = []
        var updating: [GroupMember] = []
        var hasExtensions = false
        for _ in 0..<draw.number(0...3) {
            let other = actor(&draw)
            let isFree =
                other !== committer && !leaving.contains { $0 === other } && !updating.contains { $0 === other }
            var proposal: Proposal?
            switch draw.number(0...4) {
            case 0 where members.count + joining.count < 6:
                let member = newcomer()
                joining.append((member, try member.keyPackage()))
                proposal = joining.last.map { .add($0.bundle.keyPackage) }
            case 1 where isFree && members.count - leaving.count > 2:
                leaving.append(other)
                proposal = .remove(other.leaf)
            case 2 where isFree:
                updating.append(other)
                try send(&sent, from: other) { group throws(MLSError) in try group.proposeUpdate() }
            case 3: proposal = .psk(pskID(&draw))
            case 4 where !hasExtensions:
                hasExtensions = true
                let required = RequiredCapabilities(credentials: draw.flag() ? [.basic] : [])
                proposal = .groupContextExtensions([.requiredCapabilities(required)])
            default: break
            }
            guard let proposal else { continue }
            if draw.flag() {
                byValue.append(proposal)
            } else {
                try send(&sent, from: actor(&draw)) { group throws(MLSError) in try group.propose(proposal) }
            }
        }
        var options = CommitOptions(byValue)
        options.forcesPath = draw.flag()
        let keys = psks
        let output = try committer.with { group throws(MLSError) in
            let output = try group.stageCommit(options, psks: keys)
            _ = try group.confirmPendingCommit()
            return output
        }
        members.removeAll { member in leaving.contains { $0 === member } }
        for member in members where member !== committer { try member.receive(output.commit, psks: keys) }
        if let welcome = output.welcome { try admit(joining, welcome, &draw) }
        return Step(
            proposals: sent, commit: output.commit, authenticator: try committer.with { $0.epochAuthenticator })
    }

    private func send(
        _ sent: inout [MLSMessage], from sender: GroupMember, _ make: (inout Group) throws(MLSError) -> MLSMessage
    ) throws {
        let message = try sender.with(make)
        for member in members where member !== sender { try member.receive(message, psks: psks) }
        sent.append(message)
    }

    private mutating func joinFromOutside(_ draw: inout Draw) throws -> Step {
        let joiner = newcomer()
        let info = try members[0].with { group throws(MLSError) in try group.groupInfo() }
        var options = ExternalJoinOptions()
        if draw.flag() {
            options.pskIDs = [pskID(&draw)]
            options.psks = psks
        }
        let join = try ExternalJoin(
            info, profile: joiner.profile, signatureKey: joiner.signatureKey, options,
            configuration: GroupMember.configuration(Self.format(&draw)))
        let commit = join.commit
        joiner.take(join.confirm())
        for member in members { try member.receive(commit, psks: psks) }
        members.append(joiner)
        if members.count > 6 { members.removeFirst() }  // it stays in the group and does no more
        return Step(proposals: [], commit: commit, authenticator: try joiner.with { $0.epochAuthenticator })
    }
}
