import Foundation
import KithMLS

/// The cost of storing a group: bytes written, and the time to put rows together and to read them again.
struct MLSStorageBench: MeasuredGroups {
    typealias Show = (String, Double, Int?) -> Void

    let suite: any CipherSuite

    init(suite: any CipherSuite) { self.suite = suite }

    private var configuration: GroupConfiguration {
        GroupConfiguration(authentication: TrustingAuthenticationService())
    }

    /// Milliseconds of processor time so far; POSIX counts a million of them a second, everywhere.
    private static var spent: Double { Double(clock()) / 1_000 }

    /// A member in the middle of a group sends, receives, follows commits, and is stored after each.
    func run(_ count: Int, _ show: Show) throws {
        let first = try keyPackage(0)
        var anna = try Group(
            suite, profile: LeafProfile(credential: .basic(identity: [0])), signatureKey: first.signatureKey,
            lifetime: lifetime, configuration: configuration)
        var bundles: [KeyPackageBundle] = []
        for number in 1..<count { bundles.append(try keyPackage(number)) }
        let added = try anna.stageCommit(CommitOptions(bundles.map { .add($0.keyPackage) }), at: now)
        _ = try anna.confirmPendingCommit(at: now)
        guard case .welcome(let welcome)? = added.welcome else { throw MLSError.unexpectedWireFormat }
        var ben = try Group(joining: welcome, with: bundles[count / 2], configuration: configuration)
        let storage = MemoryGroupStorage()
        var version: UInt64?
        func store(_ work: String) throws {
            let start = Self.spent
            var changes = ben.takeChanges()
            let spent = Self.spent - start
            changes.expectedVersion = version
            version = changes.nextVersion
            try storage.commit(StorageChanges(changes))
            show("\(count) members: \(work)", spent, changes.byteCount)
        }
        try store("write a group joined")
        _ = try ben.encrypt([UInt8](repeating: 1, count: 100))
        try store("write a message sent")
        for round in 0..<2 {
            let message = try anna.encrypt([UInt8](repeating: 1, count: 100))
            _ = try ben.process(message, at: now)
            try store(round == 0 ? "write a sender's first message" : "write a message received")
        }
        let commit = try anna.stageCommit(at: now)
        _ = try anna.confirmPendingCommit(at: now)
        guard case .commit(let staged) = try ben.process(commit.commit, at: now) else {
            throw MLSError.unexpectedWireFormat
        }
        _ = try ben.confirm(staged, at: now)
        try store("write a commit received")
        guard let stored = try storage.load(ben.groupID) else { throw GroupStorageError.corrupt }
        let start = Self.spent
        _ = try Group.restored(from: stored, configuration: configuration)
        show("\(count) members: open a stored group", Self.spent - start, nil)
    }
}
