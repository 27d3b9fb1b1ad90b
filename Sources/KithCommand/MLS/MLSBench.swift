import ArgumentParser
import CKithSystem
import Foundation
import KithCommandLine
import KithGroups
import KithMLS
import KithWire
import Synchronization

/// `kith mls bench`.
struct MLSBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure what secure groups cost on this machine.",
        discussion: helpText(
            """
              kith mls bench
              kith mls bench --members 10 --members 5000 --suite 2
              kith mls bench --warm 50000 --cores 2

            Processor time, all threads together; with --cores also the time that passes when the work for many members
            is done side by side. "Flat" groups were made in one commit and nobody has committed since; in "warm" ones
            everybody has. "To the disk" are the blocks that the system counts for a whole operation with the database
            on disk (Linux). Build with -c release to compare with others.
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: ArgumentHelp("The cipher suite's number, 1 to 65535.", valueName: "number"))
    var suite: UInt16 = 1

    @Option(
        help: ArgumentHelp(
            "How many members a flat group has; may be given several times. Default: 100 and 1000, or none with --warm.",
            valueName: "count"))
    var members: [Int] = []

    @Option(
        help: ArgumentHelp(
            "How many members a warm group has; may be given several times. Default: 512, or none with --members.",
            valueName: "count"))
    var warm: [Int] = []

    @Option(help: ArgumentHelp("Measure also on so many cores.", valueName: "count"))
    var cores: Int = 1

    @Option(help: .hidden)
    var resident: String?

    func run() async throws {
        guard let suite = CipherSuites[id: CipherSuiteID(rawValue: suite)] else {
            throw KithError(.invalid, "There is no cipher suite \(self.suite) in this engine.")
        }
        let isAsked = !members.isEmpty || !warm.isEmpty
        let sizes = isAsked ? members : [100, 1_000]
        let warmSizes = isAsked ? warm : [512]
        guard (sizes + warmSizes).allSatisfy({ 2...100_000 ~= $0 }), 1...64 ~= cores else {
            throw KithError(.invalid, "A group to be measured has 2 to 100,000 members, and 1 to 64 cores work on it.")
        }
        let bench = GroupBench(suite: suite)
        if let resident { return try bench.hold(resident) }
        let rows = Mutex<[GroupBench.Row]>([])
        let isJSON = globals.json
        func show(_ row: GroupBench.Row) {
            rows.withLock { $0.append(row) }
            if !isJSON { printLine(row.line) }
        }
        do {
            try bench.keyPackages(show)
            for size in sizes { try bench.flat(size, cores: cores, show) }
            for size in sizes where size > 3 {
                try MLSStorageBench(suite: suite).run(size) { work, milliseconds, bytes in
                    show(GroupBench.Row(work: work, milliseconds: milliseconds, bytes: bytes))
                }
            }
            for size in sizes where size > 3 {
                try await disk(suite, size) { work, bytes in show(GroupBench.Row(work: work, bytes: bytes)) }
            }
            for size in warmSizes { try bench.warm(size, cores: cores, show) }
        } catch {
            throw KithError(.internal, "A measured operation failed: \(error).", cause: error)
        }
        if globals.json { printLine(try jsonText(rows.withLock { $0 })) }
    }

    /// Measures in a folder of its own, which goes: not in the one for what is temporary, which may be in memory.
    private func disk(_ suite: any CipherSuite, _ size: Int, _ show: MLSDiskBench.Show) async throws {
        #if os(Linux)
        let folder = URL(filePath: "/var/tmp/kith-mls-bench-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try await MLSDiskBench(suite: suite).run(size, in: folder.path, show)
        #endif
    }
}

/// The measured groups.
private struct GroupBench: MeasuredGroups {
    /// One line of what is shown.
    struct Row: Encodable, Sendable {
        var work: String
        var milliseconds: Double?
        var bytes: Int?
        var megabytes: Double?

        var line: String {
            var line = work.padding(toLength: 50, withPad: " ", startingAt: 0)
            if let milliseconds { line += String(format: "%12.4f ms", milliseconds) }
            if let megabytes { line += String(format: "%12.1f MB", megabytes) }
            if let bytes { line += milliseconds == nil ? String(format: "%12d bytes", bytes) : "  (\(bytes) bytes)" }
            return line
        }
    }
    typealias Show = (Row) -> Void

    let suite: any CipherSuite
    private let configuration: GroupConfiguration

    init(suite: any CipherSuite) {
        self.suite = suite
        var configuration = GroupConfiguration(authentication: TrustingAuthenticationService())
        configuration.handshakeFormat = .publicMessage
        configuration.retention = .none
        self.configuration = configuration
    }

    private func configuration(cores: Int) -> GroupConfiguration {
        var configuration = configuration
        if cores > 1 { configuration.executor = Threads(width: cores) }
        return configuration
    }

    private func founder() throws(MLSError) -> Group {
        try Group(
            suite, profile: profile(0), signatureKey: suite.generateSignatureKey(), lifetime: lifetime,
            configuration: configuration)
    }

    /// Milliseconds of processor time so far, of all threads.
    private static var spent: Double {
        // POSIX counts a million of them a second, everywhere.
        Double(clock()) / 1_000
    }

    /// The number of rounds with so many members, for the mean.
    private static func rounds(_ members: Int) -> Int { members <= 100 ? 50 : 10 }

    /// Takes in a commit and follows it.
    private func follow(_ bytes: [UInt8], _ group: inout Group) throws(MLSError) {
        switch try group.process(MLSMessage(bytes), at: now) {
        case .commit(let staged): _ = try group.confirm(staged)
        default: throw .unexpectedWireFormat
        }
    }

    /// Milliseconds that pass while `body` runs.
    private func passed<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) -> Double {
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start) / .milliseconds(1)
    }

    func keyPackages(_ show: Show) throws(MLSError) {
        let start = Self.spent
        for number in 0..<100 { _ = try keyPackage(number) }
        show(Row(work: "key package", milliseconds: (Self.spent - start) / 100))
    }
}

// Flat groups.
extension GroupBench {
    func flat(_ count: Int, cores: Int, _ show: Show) throws(MLSError) {
        var anna = try founder()
        var bundles: [KeyPackageBundle] = []
        for number in 1..<count { bundles.append(try keyPackage(number)) }
        let adding = CommitOptions(bundles.map { .add($0.keyPackage) })
        var start = Self.spent
        var added = try anna.stageCommit(adding, at: now)
        show(Row(work: "\(count) members: add \(count - 1) in one commit", milliseconds: Self.spent - start))
        if cores > 1 {
            anna.discardPendingCommit()
            anna.configuration = configuration(cores: cores)
            let passed = try passed { () throws(MLSError) in added = try anna.stageCommit(adding, at: now) }
            anna.configuration = configuration
            show(Row(work: "\(count) members: add \(count - 1), \(cores) cores", milliseconds: passed))
        }
        _ = try anna.confirmPendingCommit()
        guard case .welcome(let welcome)? = added.welcome else { throw .unexpectedWireFormat }
        let bundle = bundles[count / 2 - 1]
        start = Self.spent
        var ben = try Group(joining: welcome, with: bundle, configuration: configuration)
        show(
            Row(
                work: "\(count) members: join", milliseconds: Self.spent - start, bytes: added.welcome?.bytes.count))
        if cores > 1 {
            let passed = try passed { () throws(MLSError) in
                _ = try Group(joining: welcome, with: bundle, configuration: configuration(cores: cores))
            }
            show(Row(work: "\(count) members: join, \(cores) cores", milliseconds: passed))
        }
        try updates("\(count) members: flat update", Self.rounds(count), &anna, &ben, show)
        if cores > 1 {
            anna.configuration = configuration(cores: cores)
            var bytes: [UInt8] = []
            var passed = try passed { () throws(MLSError) in bytes = try anna.stageCommit(at: now).commit.bytes }
            anna.discardPendingCommit()
            anna.configuration = configuration
            show(Row(work: "\(count) members: flat update, create, \(cores) cores", milliseconds: passed))
            let rounds = Self.rounds(count)
            ben.configuration = configuration(cores: cores)
            passed = try self.passed { () throws(MLSError) in
                // Not confirmed: it is the same work again and again.
                for _ in 0..<rounds { _ = try ben.process(MLSMessage(bytes), at: now) }
            }
            ben.configuration = configuration
            show(
                Row(
                    work: "\(count) members: flat update, process, \(cores) cores",
                    milliseconds: passed / Double(rounds)))
        }
        try changes(count, &anna, show)
        try externalJoin(count, anna, show)
        try messages(count, &anna, &ben, show)
    }

    /// Updates of one member, made and processed.
    private func updates(
        _ name: String, _ rounds: Int, _ anna: inout Group, _ ben: inout Group, _ show: Show
    ) throws(MLSError) {
        var created = 0.0
        var processed = 0.0
        var size = 0
        for round in 0...rounds {
            // The first does not count: a process finds its generic types once.
            if round == 1 { (created, processed) = (0, 0) }
            var start = Self.spent
            let commit = try anna.stageCommit(at: now).commit
            created += Self.spent - start
            _ = try anna.confirmPendingCommit()
            let bytes = commit.bytes
            size = bytes.count
            start = Self.spent
            try follow(bytes, &ben)
            processed += Self.spent - start
        }
        show(Row(work: "\(name), create", milliseconds: created / Double(rounds), bytes: size))
        show(Row(work: "\(name), process", milliseconds: processed / Double(rounds)))
    }

    /// One more member and one less.
    private func changes(_ count: Int, _ anna: inout Group, _ show: Show) throws(MLSError) {
        let newcomer = try keyPackage(count)
        var start = Self.spent
        _ = try anna.stageCommit(CommitOptions([.add(newcomer.keyPackage)]), at: now)
        show(Row(work: "\(count) members: add one, create", milliseconds: Self.spent - start))
        anna.discardPendingCommit()
        guard let last = anna.tree.members.last?.index, last != anna.leafIndex else { return }
        start = Self.spent
        _ = try anna.stageCommit(CommitOptions([.remove(last)]), at: now)
        show(Row(work: "\(count) members: remove one, create", milliseconds: Self.spent - start))
        anna.discardPendingCommit()
    }

    private func externalJoin(_ count: Int, _ anna: borrowing Group, _ show: Show) throws(MLSError) {
        let info = try anna.groupInfo()
        let key = suite.generateSignatureKey()
        let start = Self.spent
        _ = try ExternalJoin(info, profile: profile(count), signatureKey: key, configuration: configuration)
        show(Row(work: "\(count) members: external join, create", milliseconds: Self.spent - start))
    }

    private func messages(
        _ count: Int, _ anna: inout Group, _ ben: inout Group, _ show: Show
    ) throws(MLSError) {
        let data = [UInt8](repeating: 7, count: 1_024)
        let rounds = 500
        var sent: [MLSMessage] = []
        var start = Self.spent
        for _ in 0..<rounds { sent.append(try anna.encrypt(data)) }
        show(
            Row(
                work: "\(count) members: encrypt 1 kB", milliseconds: (Self.spent - start) / Double(rounds),
                bytes: sent.first?.bytes.count))
        start = Self.spent
        for message in sent { _ = try ben.process(message) }
        show(Row(work: "\(count) members: decrypt 1 kB", milliseconds: (Self.spent - start) / Double(rounds)))
        start = Self.spent
        for _ in 0..<rounds { _ = try ben.export(label: "bench", context: [], count: 32) }
        show(Row(work: "\(count) members: export 32 bytes", milliseconds: (Self.spent - start) / Double(rounds)))
    }
}

// Warm groups.
extension GroupBench {
    func warm(_ count: Int, cores: Int, _ show: Show) throws {
        // Two more clients join the group by their own commits: they are measured.
        let info = try committedGroup(count - 2)
        var start = Self.spent
        let first = try join(info, count - 2)
        show(Row(work: "\(count) members: warm external join, create", milliseconds: Self.spent - start))
        var anna = first.confirm()
        let second = try join(anna.groupInfo(), count - 1)
        try follow(second.commit.bytes, &anna)
        var ben = second.confirm()
        try updates("\(count) members: warm update", Self.rounds(count), &anna, &ben, show)
        try changes(count, &anna, show)
        let bundle = try keyPackage(count)
        let added = try anna.stageCommit(CommitOptions([.add(bundle.keyPackage)]), at: now)
        guard case .welcome(let welcome)? = added.welcome else { throw MLSError.unexpectedWireFormat }
        start = Self.spent
        _ = try Group(joining: welcome, with: bundle, configuration: configuration)
        show(Row(work: "\(count) members: warm join", milliseconds: Self.spent - start))
        if cores > 1 {
            let passed = try passed { () throws(MLSError) in
                _ = try Group(joining: welcome, with: bundle, configuration: configuration(cores: cores))
            }
            show(Row(work: "\(count) members: warm join, \(cores) cores", milliseconds: passed))
        }
        anna.discardPendingCommit()
        try written(count, &anna, &ben, show)
        if let memory = try memory(anna.groupInfo()) {
            show(Row(work: "\(count) members: memory of the group alone", megabytes: memory.group))
            show(Row(work: "\(count) members: memory of a process that is in it", megabytes: memory.process))
            show(Row(work: "\(count) members: most memory while it joined", megabytes: memory.peak))
        }
    }

    private func join(_ info: GroupInfo, _ number: Int) throws(MLSError) -> ExternalJoin {
        try ExternalJoin(
            info, profile: profile(number), signatureKey: suite.generateSignatureKey(), configuration: configuration)
    }

    /// Shows the bytes that a storage has to write for a message and for a commit.
    private func written(_ count: Int, _ anna: inout Group, _ ben: inout Group, _ show: Show) throws(MLSError) {
        func showWritten(_ what: String, _ changes: GroupChanges) {
            show(Row(work: "\(count) members: written \(what)", bytes: changes.byteCount))
        }
        _ = anna.takeChanges()
        _ = ben.takeChanges()
        // The first message of an epoch opens a ratchet; those after it write less.
        for what in ["for the first message", "for a message"] {
            let message = try anna.encrypt([UInt8](repeating: 7, count: 1_024))
            showWritten("\(what) sent", anna.takeChanges())
            _ = try ben.process(message)
            showWritten("\(what) received", ben.takeChanges())
        }
        let commit = try anna.stageCommit(at: now).commit
        try follow(commit.bytes, &ben)
        showWritten("for a commit received", ben.takeChanges())
        _ = try anna.confirmPendingCommit()
    }

    /// The group info of a group whose members have all committed; nobody is in it yet but in the tree.
    private func committedGroup(_ count: Int) throws(MLSError) -> GroupInfo {
        let groupID = [UInt8](repeating: 9, count: 16)
        var keys: [SignaturePrivateKey] = []
        var tree: RatchetTree?
        for number in 0..<max(1, count) {
            let bundle = try keyPackage(number)
            keys.append(bundle.signatureKey)
            if tree == nil {
                tree = RatchetTree(bundle.keyPackage.leafNode)
            } else {
                _ = try tree?.add(bundle.keyPackage.leafNode)
            }
        }
        guard var tree else { throw .treeMissing }
        for (leaf, key) in keys.enumerated() {
            tree = try tree.preparePath(
                suite, leaf: UInt32(leaf), profile: profile(leaf), signatureKey: key, groupID: groupID
            ).tree
        }
        let context = GroupContext(
            cipherSuite: suite.id, groupID: groupID, epoch: 1, treeHash: tree.hash(suite),
            confirmedTranscriptHash: suite.hash([0]), extensions: [])
        var external = TLSWriter()
        external.opaque(suite.generateHPKEKey().publicKey)
        var writer = TLSWriter()
        context.encode(into: &writer)
        writer.list([
            Extension(type: .ratchetTree, data: tree.bytes), Extension(type: .externalPub, data: external.bytes),
        ])
        writer.opaque(suite.hash([0]))
        writer.integer(0 as UInt32)
        writer.opaque([])
        var info = try GroupInfo(decoding: writer.bytes)
        try info.sign(suite, with: keys[0])
        return info
    }
}

// Memory.
extension GroupBench {
    /// The memory of a process that joins a group and does nothing else, in MB.
    private struct Memory: Codable {
        /// The memory that joining allocated and did not free.
        var group: Double
        /// The memory of the whole process afterwards, its program and libraries included.
        var process: Double
        /// The most that it had while it joined.
        var peak: Double
    }

    /// The memory of another process, which joins the group; nil where that cannot be read.
    private func memory(_ info: GroupInfo) throws -> Memory? {
        guard let program = ProcessInfo.processInfo.arguments.first, FileManager.default.fileExists(atPath: program),
            FileManager.default.fileExists(atPath: "/proc/self/status")
        else { return nil }
        let file = FileManager.default.temporaryDirectory.appending(path: "kith-bench-\(UUID().uuidString)")
        try Data(MLSMessage.groupInfo(info).bytes).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }  // left behind it harms nobody
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = ["mls", "bench", "--suite", "\(suite.id.rawValue)", "--resident", file.path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return try JSONDecoder().decode(Memory.self, from: text)
    }

    /// Joins the group of a group info and returns how much memory that takes.
    func hold(_ path: String) throws {
        kith_release_free_memory()
        let before = kith_allocated_memory()
        let group = try {
            guard case .groupInfo(let info) = try MLSMessage([UInt8](Data(contentsOf: URL(filePath: path)))) else {
                throw MLSError.unexpectedWireFormat
            }
            return try join(info, 1_000_000)
        }()
        let joined = group.confirm()
        kith_release_free_memory()
        let allocated = kith_allocated_memory() - before
        let memory = Memory(
            group: Double(allocated) / 1_048_576, process: try Self.status("VmRSS:"), peak: try Self.status("VmHWM:"))
        printLine(try jsonText(memory))
        precondition(joined.epoch > 0, "the group is there until its memory was read")
    }

    /// A line of what Linux reports about this process, in MB.
    private static func status(_ name: String) throws -> Double {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix(name) }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0) / 1_024
    }
}
