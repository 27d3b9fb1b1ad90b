@testable import KithMLS
import Testing

/// The moment at which all tests happen, in seconds since 1970.
let noon: UInt64 = 1_800_000_000

func lifetime(from start: UInt64 = noon - 60, _ seconds: UInt64 = 86_400) -> Lifetime {
    Lifetime(notBefore: start, notAfter: start + seconds)
}

func cipherSuite(_ number: UInt16 = 1) -> any CipherSuite {
    guard let suite = CipherSuites[id: CipherSuiteID(rawValue: number)] else { preconditionFailure("no such suite") }
    return suite
}

func profile(
    _ name: String, capabilities: Capabilities = Capabilities(), extensions: [Extension] = []
) -> LeafProfile {
    LeafProfile(credential: .basic(identity: Array(name.utf8)), capabilities: capabilities, extensions: extensions)
}

func configuration(handshake: WireFormat = .privateMessage) -> GroupConfiguration {
    var configuration = GroupConfiguration(authentication: TrustingAuthenticationService())
    configuration.handshakeFormat = handshake
    configuration.maximumLifetime = 13 * 7 * 86_400
    return configuration
}

/// A client with its keys, and the group it is in.
final class Member {
    let name: String
    let suite: any CipherSuite
    var signatureKey: SignaturePrivateKey
    var profile: LeafProfile
    private var stored: Group?

    init(_ name: String, _ suite: any CipherSuite = cipherSuite(), capabilities: Capabilities = Capabilities()) {
        self.name = name
        self.suite = suite
        signatureKey = suite.generateSignatureKey()
        profile = KithMLSTests.profile(name, capabilities: capabilities)
    }

    /// Uses the group where it lies.
    func with<Result: ~Copyable, Failure: Error>(
        _ body: (inout Group) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        guard var group = stored.take() else { preconditionFailure("\(name) is in no group") }
        do {
            let result = try body(&group)
            stored = consume group
            return result
        } catch {
            stored = consume group
            throw error
        }
    }

    func take(_ group: consuming Group) { stored = consume group }

    func keyPackage(extensions: [Extension] = []) throws -> KeyPackageBundle {
        try KeyPackageBundle(
            suite, profile: profile, signatureKey: signatureKey, lifetime: lifetime(), extensions: extensions)
    }

    func create(extensions: [Extension] = [], handshake: WireFormat = .privateMessage) throws {
        take(
            try Group(
                suite, profile: profile, signatureKey: signatureKey, lifetime: lifetime(), extensions: extensions,
                configuration: configuration(handshake: handshake)))
    }

    func join(
        _ welcome: MLSMessage?, _ bundle: KeyPackageBundle, _ options: JoinOptions = JoinOptions(),
        handshake: WireFormat = .privateMessage
    ) throws {
        guard case .welcome(let welcome)? = welcome else { throw MLSError.unexpectedWireFormat }
        var options = options
        options.now = noon
        take(try Group(joining: welcome, with: bundle, options, configuration: configuration(handshake: handshake)))
    }

    var epoch: UInt64 { with { $0.epoch } }
    var leaf: UInt32 { with { $0.leafIndex } }
    var memberCount: Int { with { $0.tree.memberCount } }
    var authenticator: [UInt8] { with { $0.epochAuthenticator } }

    /// Takes in a commit and follows it.
    @discardableResult
    func follow(_ message: MLSMessage, psks: PreSharedKeys = PreSharedKeys()) throws -> EpochChange {
        try with { group in
            switch try group.process(MLSMessage(message.bytes), psks: psks, at: noon) {
            case .commit(let staged): return try group.confirm(staged, at: noon).change
            default: throw MLSError.unexpectedWireFormat
            }
        }
    }

    /// Takes in a proposal.
    func queue(_ message: MLSMessage) throws {
        try with { group in
            guard case .proposal = try group.process(MLSMessage(message.bytes), at: noon) else {
                throw MLSError.unexpectedWireFormat
            }
        }
    }

    /// Reads data of the application.
    func read(_ message: MLSMessage) throws -> ApplicationMessage {
        try with { group in
            switch try group.process(MLSMessage(message.bytes), at: noon) {
            case .application(let data): return data
            default: throw MLSError.unexpectedWireFormat
            }
        }
    }

    /// Makes a commit and begins its epoch.
    func commit(_ options: CommitOptions = CommitOptions(), psks: PreSharedKeys = PreSharedKeys()) throws
        -> CommitOutput
    {
        try with { group in
            let output = try group.stageCommit(options, psks: psks, at: noon)
            _ = try group.confirmPendingCommit(at: noon)
            return output
        }
    }
}

/// A group of `names`, everybody added by the first in one commit.
func party(
    _ names: [String], _ suite: any CipherSuite = cipherSuite(), extensions: [Extension] = [],
    handshake: WireFormat = .privateMessage, capabilities: Capabilities = Capabilities()
) throws -> [Member] {
    let members = names.map { Member($0, suite, capabilities: capabilities) }
    try members[0].create(extensions: extensions, handshake: handshake)
    guard members.count > 1 else { return members }
    let bundles = try members.dropFirst().map { try $0.keyPackage() }
    let output = try members[0].commit(CommitOptions(bundles.map { .add($0.keyPackage) }))
    for (member, bundle) in zip(members.dropFirst(), bundles) {
        try member.join(output.welcome.map { try MLSMessage($0.bytes) }, bundle, handshake: handshake)
    }
    try agree(members)
    return members
}

/// Checks that all members are in the same state and can talk.
func agree(_ members: [Member], sourceLocation: SourceLocation = #_sourceLocation) throws {
    let first = members[0]
    for member in members.dropFirst() {
        #expect(member.epoch == first.epoch, sourceLocation: sourceLocation)
        #expect(member.authenticator == first.authenticator, sourceLocation: sourceLocation)
        let one = member.with { $0.context }
        let other = first.with { $0.context }
        #expect(one == other, sourceLocation: sourceLocation)
    }
    for sender in [first, members[members.count - 1]] {
        let text = Array("from \(sender.name)".utf8)
        let message = try sender.with { group throws in try group.encrypt(text) }
        for member in members where member !== sender {
            #expect(try member.read(message).data == text, sourceLocation: sourceLocation)
        }
    }
}
