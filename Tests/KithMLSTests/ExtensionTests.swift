@testable import KithMLS
import Testing

@Suite struct ExtensionTests {
    private let custom = ProposalType(rawValue: 0xF0AA)
    private let own = ExtensionType(rawValue: 0xF00B)

    private func capable() -> Capabilities {
        Capabilities(extensions: [own], proposals: [custom])
    }

    @Test func `the group's extensions are replaced, and bind those who come later`() throws {
        var members = try party(["anna", "ben", "cleo"], capabilities: capable())
        let wanted: [Extension] = [
            .requiredCapabilities(RequiredCapabilities(extensions: [own], proposals: [custom], credentials: [.basic])),
            Extension(type: own, data: [1, 2, 3]),
        ]
        let output = try members[1].commit(CommitOptions([.groupContextExtensions(wanted)]))
        #expect(output.change.hasPath)
        for member in members where member !== members[1] {
            #expect(try member.follow(output.commit).extensions == wanted)
        }
        try agree(members)
        #expect(members[0].with { $0.context.extensions } == wanted)
        let plain = try Member("plain").keyPackage()
        #expect(throws: MLSError.requiredCapabilitiesMissing) {
            try members[0].commit(CommitOptions([.add(plain.keyPackage)]))
        }
        let dora = Member("dora", capabilities: capable())
        let bundle = try dora.keyPackage()
        let added = try members[0].commit(CommitOptions([.add(bundle.keyPackage)]))
        for member in members.dropFirst() { try member.follow(added.commit) }
        try dora.join(added.welcome, bundle)
        members.append(dora)
        try agree(members)
    }

    @Test func `proposals of the application's own kinds reach everybody`() throws {
        let members = try party(["anna", "ben", "cleo"], capabilities: capable())
        let message = try members[2].with { group throws in try group.propose(.custom(custom, [7])) }
        for member in members.dropLast() { try member.queue(message) }
        let output = try members[0].commit(CommitOptions([.custom(custom, [8])]))
        for member in members.dropFirst() {
            let change = try member.follow(output.commit)
            #expect(change.custom.map(\.sender) == [.member(2), .member(0)])
            #expect(change.custom.map(\.proposal) == [.custom(custom, [7]), .custom(custom, [8])])
        }
        try agree(members)
    }

    @Test func `a leaf carries a name and says who is meant`() throws {
        let members = try party(["anna", "ben"])
        var options = CommitOptions()
        var named = members[0].profile
        named.extensions = [.applicationID(Array("phone".utf8))]
        options.profile = named
        let output = try members[0].commit(options)
        try members[1].follow(output.commit)
        #expect(members[1].with { $0.tree.leaf(0)?.extensions } == named.extensions)
        try agree(members)
    }

    @Test func `the group info of the next epoch is there before the commit is confirmed, and serves joiners after`()
        throws
    {
        let members = try party(["anna", "ben"])
        #expect(throws: MLSError.noPendingCommit) {
            try members[0].with { group throws in _ = try group.pendingGroupInfo() }
        }
        let output = try members[0].with { group throws in try group.stageCommit(at: noon) }
        let info = try members[0].with { group throws in try group.pendingGroupInfo() }
        try members[0].with { group throws in _ = try group.confirmPendingCommit() }
        try members[1].follow(output.commit)
        let cleo = Member("cleo")
        let join = try ExternalJoin(
            info, profile: cleo.profile, signatureKey: cleo.signatureKey, configuration: configuration())
        let commit = join.commit
        cleo.take(join.confirm())
        for member in members { try member.follow(commit) }
        try agree(members + [cleo])
    }

    @Test func `long lists of a hostile leaf are refused or passed over in no time`() throws {
        // A quarter of a million extensions of few kinds, and as many capabilities in every member's leaf.
        let many = (0..<250_000).map { Extension(type: ExtensionType(rawValue: UInt16($0 % 60_000)), data: []) }
        #expect(throws: MLSError.duplicateExtension) { try many.checkUnique() }
        var left = Capabilities()
        left.extensions = (0..<250_000).map { ExtensionType(rawValue: UInt16($0 % 60_000)) }
        var right = left
        right.extensions.reverse()
        let anna = Member("anna", capabilities: left)
        let ben = Member("ben", capabilities: right)
        try anna.create()
        let bundle = try ben.keyPackage()
        let output = try anna.commit(CommitOptions([.add(bundle.keyPackage)]))
        try ben.join(output.welcome, bundle)
        try agree([anna, ben])
    }

    @Test func `a tree that claims a million leaves is built from its few bytes or refused`() throws {
        let leaf = try Stage().package().leafNode
        // A million blank nodes and a leaf: a megabyte, of which nothing but the leaf is kept.
        var nodes = [RatchetTreeNode?](repeating: nil, count: 2_000_000)
        nodes.append(.leaf(leaf))
        let tree = try RatchetTree(RatchetTreeNodes(decoding: RatchetTreeNodes(nodes: nodes).encoded))
        #expect(tree.memberCount == 1)
        #expect(tree.leafCapacity == 1 << 20)
        #expect(tree.members.map(\.index) == [1_000_000])
    }
}
