import ArgumentParser
import Crypto
import Foundation
import KithCommandLine
import KithGroups
import KithIdentity
import KithMLS
import KithStore
import KithWire

/// `kith mls demo`.
struct MLSDemo: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Let three processes talk in a secure group, and kill them now and then.",
        discussion: helpText(
            """
              kith mls demo
              kith mls demo --rounds 10 --json

            Anna, Ben and Cleo are processes of this program, each with a database of its own; a file carries their
            messages. They talk and commit, are killed (kill -9) in the middle of it and start again, and Cleo is away
            meanwhile. In the end all must be in the same epoch with the same secrets, and every message that its sender
            was told is sent must have come to the others once; otherwise the exit status is 1.
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: ArgumentHelp("How often Anna and Ben are killed.", valueName: "count"))
    var rounds = 3

    @Option(
        help: ArgumentHelp(
            "Keep the databases and the messages in this folder, which must not be there.", valueName: "dir"),
        completion: .directory)
    var keep: String?

    func run() throws {
        guard 1...1_000 ~= rounds else { throw KithError(.invalid, "There are 1 to 1,000 rounds.") }
        let folder =
            keep.map { URL(filePath: $0) }
            ?? FileManager.default.temporaryDirectory.appending(path: "kith-mls-demo-\(UUID().uuidString)")
        do {
            try FileManager.default.createDirectory(
                at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            throw KithError(.conflict, "Could not make the folder \(printable(folder.path)).", cause: error)
        }
        // What stays behind in a temporary folder is the system's to clean up.
        defer { if keep == nil { try? FileManager.default.removeItem(at: folder) } }
        // A member that was just killed does not read what it is told.
        signal(SIGPIPE, SIG_IGN)
        let isQuiet = globals.json
        var play = DemoPlay(folder: folder) { name, text in
            if !isQuiet { say("\(name.padding(toLength: 6, withPad: " ", startingAt: 0)) \(text)") }
        }
        defer { play.end() }
        let result = try play.run(rounds: rounds)
        if globals.json { say(try jsonText(result)) }
        guard result.isGood else {
            throw KithError(.internal, "The members do not agree, or a message was lost or came twice.")
        }
    }
}

/// What the demonstration came to.
struct DemoResult: Encodable {
    var members: Int
    var kills: Int
    var epoch: UInt64
    /// How many messages their senders were told are sent.
    var sent: Int
    /// Those of them that somebody did not get.
    var lost: [String]
    /// Messages that somebody got more than once.
    var doubled: [String]
    /// How many messages waited for the one who was away.
    var waited: Int
    /// Whether all are in one epoch with one exporter secret.
    var agrees: Bool

    var isGood: Bool { agrees && lost.isEmpty && doubled.isEmpty }
}

/// The course of the demonstration.
private struct DemoPlay {
    let folder: URL
    let tell: (String, String) -> Void
    private var members: [String: DemoProcess] = [:]
    private var told: Set<String> = []
    /// What each has heard, by the numbers of its events: an event that comes again has the same number.
    private var heard: [String: [UInt64: String]] = [:]
    private var kills = 0

    init(folder: URL, tell: @escaping (String, String) -> Void) {
        self.folder = folder
        self.tell = tell
    }

    static let names = ["anna", "ben", "cleo"]

    mutating func run(rounds: Int) throws -> DemoResult {
        for name in Self.names { try start(name) }
        for name in Self.names { try ask(name, "publish") }
        try ask("anna", "create")
        let made = try ask("anna", "add ben cleo")
        tell("anna", "made a group and added ben and cleo: epoch \(made.epoch ?? 0)")
        for name in Self.names {
            try ask(name, "sync")
            try ask(name, "say \(name) greets")
        }
        for name in Self.names { try ask(name, "sync") }
        tell("all", "said hello")
        try kill("cleo", "is away (kill -9)")
        for round in 1...rounds { try self.round(round) }
        try start("cleo")
        let before = heard["cleo", default: [:]].count
        let back = try ask("cleo", "sync")
        let waited = heard["cleo", default: [:]].count - before
        tell("cleo", "is back: \(waited) messages waited for her, and now she is in epoch \(back.epoch ?? 0)")
        try ask("cleo", "say cleo is back")
        try ask("cleo", "commit")
        for _ in 0..<2 { for name in Self.names { try ask(name, "sync") } }
        return try finish(waited)
    }

    /// Anna and Ben talk and commit at once, each until killed, and start again.
    private mutating func round(_ round: Int) throws {
        for name in ["anna", "ben"] { try members[name]?.write("talk \(name)-\(round)") }
        for name in ["anna", "ben"].shuffled() {
            let count = Int.random(in: 1...12)
            var seen = 0
            while seen < count {
                let line = try read(name)
                if line.told != nil { seen += 1 }
            }
            usleep(UInt32.random(in: 0...30_000))
            try kill(name, "was killed in the middle of talking (kill -9), round \(round)")
        }
        for name in ["anna", "ben"] {
            try start(name)
            let state = try ask(name, "sync")
            tell(name, "goes on in epoch \(state.epoch ?? 0)")
        }
    }

    private mutating func finish(_ waited: Int) throws -> DemoResult {
        let states = try Self.names.map { try ask($0, "check") }
        let agrees =
            Set(states.map(\.exporter)).count == 1 && Set(states.map(\.epoch)).count == 1 && states[0].exporter != nil
        var lost: [String] = []
        var doubled: [String] = []
        for name in Self.names {
            let texts = heard[name, default: [:]].values
            let counts = Dictionary(texts.map { ($0, 1) }, uniquingKeysWith: +)
            for (text, count) in counts where count > 1 { doubled.append("\(text) (\(name))") }
            for text in told where !text.hasPrefix(name) && counts[text] == nil { lost.append("\(text) (\(name))") }
        }
        let result = DemoResult(
            members: Self.names.count, kills: kills, epoch: states[0].epoch ?? 0, sent: told.count, lost: lost.sorted(),
            doubled: doubled.sorted(), waited: waited, agrees: agrees)
        tell("all", agrees ? "are in epoch \(result.epoch) with the same secrets" : "do NOT agree")
        tell(
            "all",
            "\(told.count) messages were told as sent, with \(kills) kills: \(lost.count) lost, \(doubled.count) doubled"
        )
        return result
    }

    private mutating func start(_ name: String) throws {
        members[name] = try DemoProcess(name, folder: folder)
        try ask(name, "open")
    }

    private mutating func kill(_ name: String, _ text: String) throws {
        guard let process = members.removeValue(forKey: name) else { return }
        // What it said before it died counts.
        for line in process.end() { note(line, from: name) }
        kills += 1
        tell(name, text)
    }

    /// Tells a member what to do, and waits until it is done.
    @discardableResult
    private mutating func ask(_ name: String, _ command: String) throws -> DemoLine {
        try members[name]?.write(command)
        while true {
            let line = try read(name)
            if line.isDone == true { return line }
        }
    }

    private mutating func read(_ name: String) throws -> DemoLine {
        guard let line = try members[name]?.read() else {
            throw KithError(.closed, "The process of \(name) ended.")
        }
        if let error = line.error { throw KithError(.internal, "\(name) failed: \(error)") }
        note(line, from: name)
        return line
    }

    private mutating func note(_ line: DemoLine, from name: String) {
        if let text = line.told { told.insert(text) }
        if let text = line.heard, let number = line.number { heard[name, default: [:]][number] = text }
    }

    mutating func end() {
        for process in members.values { _ = process.end() }
        members = [:]
    }
}

/// What a member says, one line each.
private struct DemoLine: Codable {
    /// A message that was told as sent.
    var told: String?
    /// A message that came, and the event's number.
    var heard: String?
    var number: UInt64?
    /// Whether what was asked for is done.
    var isDone: Bool?
    var epoch: UInt64?
    /// A hash of the epoch's exporter secret.
    var exporter: String?
    var error: String?
}

/// A member's process, seen from outside.
private final class DemoProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private var buffer = Data()

    init(_ name: String, folder: URL) throws {
        guard let program = Bundle.main.executableURL else {
            throw KithError(.internal, "Could not find the path of the kith command itself.")
        }
        process.executableURL = program
        process.arguments = ["mls", "demo-member", name, "--folder", folder.path]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    func write(_ command: String) throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
    }

    /// The next line; nil when the process has ended.
    func read() throws -> DemoLine? {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = buffer[buffer.startIndex..<end]
                buffer = Data(buffer[(end + 1)...])
                return try JSONDecoder().decode(DemoLine.self, from: line)
            }
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { return nil }
            buffer += more
        }
    }

    /// Kills the process; gives what it had said that nobody had read.
    func end() -> [DemoLine] {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
        // A line that was cut off says nothing.
        var lines: [DemoLine] = []
        while let line = try? read() { lines.append(line) }
        return lines
    }
}

// MARK: - One member

/// `kith mls demo-member`: one of the processes of `kith mls demo`, told by lines what to do.
struct MLSDemoMember: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo-member", abstract: "One of the processes of kith mls demo.", shouldDisplay: false)

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Who it is.")
    var name: String

    @Option(help: ArgumentHelp("Where the databases and the messages are.", valueName: "dir"), completion: .directory)
    var folder: String

    func run() async throws {
        var member: DemoMember?
        while let command = readLine() {
            do {
                if let member {
                    try await member.obey(command)
                } else {
                    member = try DemoMember(name, folder: folder)
                    DemoMember.print(DemoLine(isDone: true))
                }
            } catch { DemoMember.print(DemoLine(error: "\(error)")) }
        }
    }
}

private struct DemoMember {
    static let groupID = Array("demo".utf8)

    private let client: GroupClient

    init(_ name: String, folder: String) throws {
        let place = "\(folder)/\(name)"
        try FileManager.default.createDirectory(
            atPath: place, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let storage = try GroupDatabase.open(
            directory: place, keys: FileKeyStore(directory: place, seal: .machineKey))
        var options = GroupClient.Options(authentication: TrustingAuthenticationService()) {
            UInt64(max(0, Date().timeIntervalSince1970))
        }
        options.keyPackages = 2
        client = try GroupClient(
            name: name, storage: storage, delivery: FileDelivery(path: folder + "/delivery"), options: options)
    }

    static func print(_ line: DemoLine) {
        // These are our own values, which always have a form.
        guard let text = try? jsonLine(line) else { return }
        say(text)
    }

    private static func jsonLine(_ line: DemoLine) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        return String(decoding: try encoder.encode(line), as: UTF8.self)
    }

    func obey(_ command: String) async throws {
        let words = command.split(separator: " ").map(String.init)
        let rest = words.dropFirst().joined(separator: " ")
        switch words.first {
        case "publish": try await client.replenishKeyPackages()
        case "create": _ = try await client.createGroup(id: Self.groupID)
        case "add": _ = try await session().add(Array(words.dropFirst()))
        case "say": try await send(rest)
        case "commit": _ = try await session().commit()
        case "talk": try await talk(rest)
        case "sync": try await synchronise()
        case "check":
            let secret = try await session().export(label: "kith demo", context: [], count: 32)
            let hash = secret.withBytes { SHA256.hash(data: $0) }
            Self.print(
                DemoLine(
                    isDone: true, epoch: try await session().epoch(),
                    exporter: hash.map { String(format: "%02x", $0) }.joined()))
            return
        default: throw KithError(.invalid, "There is no command \(printable(command)).")
        }
        Self.print(DemoLine(isDone: true, epoch: try? await session().epoch()))
    }

    private func session() throws -> GroupSession {
        guard let session = try client.group(Self.groupID) else {
            throw KithError(.notFound, "This member is in no group yet.")
        }
        return session
    }

    private func send(_ text: String) async throws {
        _ = try await session().send(Array(text.utf8))
        Self.print(DemoLine(told: text))
    }

    /// Talks and commits for a long time: this process will be killed before it ends.
    private func talk(_ prefix: String) async throws {
        for number in 0..<100_000 {
            try await send("\(prefix)-\(number)")
            if number % 5 == 4 { _ = try await session().commit() }
            try await synchronise()
        }
    }

    private func synchronise() async throws {
        try await client.receiveWelcomes()
        let session = try session()
        try await session.synchronise()
        for event in try await session.waitingEvents() {
            if case .message(let message) = event.event {
                Self.print(
                    DemoLine(heard: String(decoding: message.data, as: UTF8.self), number: event.number))
            }
            // Only what has been told may be forgotten.
            try await session.acknowledge(through: event.number)
        }
    }
}
