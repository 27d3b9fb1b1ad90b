import ArgumentParser
import Foundation
import KithCommandLine
import KithMLS
import KithWire

/// `kith mls bench`.
struct MLSBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure what secure groups cost on this machine.",
        discussion: helpText(
            """
              kith mls bench
              kith mls bench --members 10 --members 5000 --suite 2

            Processor time of one thread. "Flat" groups were made in one commit and nobody has committed since; in "warm"
            ones everybody has. Build with -c release to compare with others.
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: ArgumentHelp("The cipher suite's number.", valueName: "number"))
    var suite: UInt16 = 1

    @Option(
        help: ArgumentHelp("How many members; may be given several times. Default: 100 and 1000.", valueName: "count"))
    var members: [Int] = []

    /// One line of what is shown.
    private struct Row: Encodable {
        var work: String
        var milliseconds: Double
        var bytes: Int?
    }

    func run() throws {
        guard let suite = CipherSuites[id: CipherSuiteID(rawValue: suite)] else {
            throw KithError(.invalid, "There is no cipher suite \(self.suite) in this engine.")
        }
        let sizes = members.isEmpty ? [100, 1_000] : members
        guard sizes.allSatisfy({ 4...100_000 ~= $0 }) else {
            throw KithError(.invalid, "A group to be measured has 4 to 100,000 members.")
        }
        var bench = GroupBench(suite: suite)
        var rows: [Row] = []
        func show(_ work: String, _ milliseconds: Double, _ bytes: Int?) {
            rows.append(Row(work: work, milliseconds: milliseconds, bytes: bytes))
            guard !globals.json else { return }
            let size = bytes.map { "  (\($0) bytes)" } ?? ""
            say(
                "\(work.padding(toLength: 44, withPad: " ", startingAt: 0))\(String(format: "%10.3f", milliseconds)) ms\(size)"
            )
        }
        do {
            try bench.keyPackages(show)
            for size in sizes { try bench.flat(size, show) }
            for size in sizes { try MLSStorageBench(suite: suite).run(size, show) }
            try bench.warm(min(512, sizes.max() ?? 512), show)
        } catch {
            throw KithError(.internal, "A measured operation failed: \(error).", cause: error)
        }
        if globals.json { say(try jsonText(rows)) }
    }
}

/// The measured groups.
private struct GroupBench {
    typealias Show = (String, Double, Int?) -> Void

    let suite: any CipherSuite
    private let now: UInt64 = 1_800_000_000
    private let configuration: GroupConfiguration

    init(suite: any CipherSuite) {
        self.suite = suite
        var configuration = GroupConfiguration(authentication: TrustingAuthenticationService())
        configuration.handshakeFormat = .publicMessage
        configuration.retention = .none
        self.configuration = configuration
    }

    private var lifetime: KithMLS.Lifetime { KithMLS.Lifetime(notBefore: now - 60, notAfter: now + 86_400) }

    private func profile(_ number: Int) -> LeafProfile {
        LeafProfile(
            credential: .basic(identity: Array("member \(number)".utf8)),
            capabilities: Capabilities(cipherSuites: [suite.id]))
    }

    private func keyPackage(_ number: Int) throws(MLSError) -> KeyPackageBundle {
        try KeyPackageBundle(
            suite, profile: profile(number), signatureKey: suite.generateSignatureKey(), lifetime: lifetime)
    }

    private func founder() throws(MLSError) -> Group {
        try Group(
            suite, profile: profile(0), signatureKey: suite.generateSignatureKey(), lifetime: lifetime,
            configuration: configuration)
    }

    /// Milliseconds of processor time so far.
    private static var spent: Double {
        // POSIX counts a million of them a second, everywhere.
        Double(clock()) / 1_000
    }

    /// Takes in a commit and follows it.
    private func follow(_ bytes: [UInt8], _ group: inout Group) throws(MLSError) {
        switch try group.process(MLSMessage(bytes), at: now) {
        case .commit(let staged): _ = try group.confirm(staged)
        default: throw .unexpectedWireFormat
        }
    }

    mutating func keyPackages(_ show: Show) throws(MLSError) {
        let start = Self.spent
        for number in 0..<100 { _ = try keyPackage(number) }
        show("key package", (Self.spent - start) / 100, nil)
    }

    mutating func flat(_ count: Int, _ show: Show) throws(MLSError) {
        var anna = try founder()
        var bundles: [KeyPackageBundle] = []
        for number in 1..<count { bundles.append(try keyPackage(number)) }
        var start = Self.spent
        let added = try anna.stageCommit(CommitOptions(bundles.map { .add($0.keyPackage) }), at: now)
        _ = try anna.confirmPendingCommit()
        show("\(count) members: add \(count - 1) in one commit", Self.spent - start, nil)
        guard case .welcome(let welcome)? = added.welcome else { throw .unexpectedWireFormat }
        start = Self.spent
        var ben = try Group(joining: welcome, with: bundles[count / 2 - 1], configuration: configuration)
        show("\(count) members: join", Self.spent - start, added.welcome?.bytes.count)
        start = Self.spent
        let update = try anna.stageCommit(at: now).commit
        show("\(count) members: flat update, create", Self.spent - start, update.bytes.count)
        _ = try anna.confirmPendingCommit()
        let bytes = update.bytes
        start = Self.spent
        try follow(bytes, &ben)
        show("\(count) members: flat update, process", Self.spent - start, nil)
        try messages(count, &anna, &ben, show)
        let newcomer = try keyPackage(count)
        start = Self.spent
        _ = try anna.stageCommit(CommitOptions([.add(newcomer.keyPackage)]), at: now)
        show("\(count) members: add one, create", Self.spent - start, nil)
        anna.discardPendingCommit()
        start = Self.spent
        _ = try anna.stageCommit(CommitOptions([.remove(2)]), at: now)
        show("\(count) members: remove one, create", Self.spent - start, nil)
    }

    private func messages(
        _ count: Int, _ anna: inout Group, _ ben: inout Group, _ show: Show
    ) throws(MLSError) {
        let data = [UInt8](repeating: 7, count: 1_024)
        let rounds = 200
        var sent: [MLSMessage] = []
        var start = Self.spent
        for _ in 0..<rounds { sent.append(try anna.encrypt(data)) }
        show("\(count) members: encrypt 1 kB", (Self.spent - start) / Double(rounds), sent.first?.bytes.count)
        start = Self.spent
        for message in sent { _ = try ben.process(message) }
        show("\(count) members: decrypt 1 kB", (Self.spent - start) / Double(rounds), nil)
        start = Self.spent
        for _ in 0..<rounds { _ = try ben.export(label: "bench", context: [], count: 32) }
        show("\(count) members: export 32 bytes", (Self.spent - start) / Double(rounds), nil)
    }

    /// A group in which everybody has committed: each joined by its own commit.
    mutating func warm(_ count: Int, _ show: Show) throws(MLSError) {
        var anna = try founder()
        for number in 1..<count {
            var options = ExternalJoinOptions()
            options.tree = anna.tree
            let join = try ExternalJoin(
                anna.groupInfo(withTree: false), profile: profile(number), signatureKey: suite.generateSignatureKey(),
                options, configuration: configuration)
            let commit = join.commit.bytes
            var joined = join.confirm()
            try follow(commit, &anna)
            guard number == count - 1 else { continue }
            var start = Self.spent
            let update = try joined.stageCommit(at: now).commit
            show("\(count) members: warm update, create", Self.spent - start, update.bytes.count)
            let bytes = update.bytes
            start = Self.spent
            try follow(bytes, &anna)
            show("\(count) members: warm update, process", Self.spent - start, nil)
        }
    }
}
