import ArgumentParser
import Foundation
import KithCommandLine
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
        guard 1...1_000 ~= rounds else { throw KithError(.invalid, "--rounds takes 1 to 1,000.") }
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
        // A member that was just killed does not read its input.
        signal(SIGPIPE, SIG_IGN)
        let isQuiet = globals.json
        var play = DemoPlay(folder: folder) { name, text in
            if !isQuiet { printLine("\(name.padding(toLength: 6, withPad: " ", startingAt: 0)) \(text)") }
        }
        defer { play.end() }
        let result = try play.run(rounds: rounds)
        if globals.json { printLine(try jsonText(result)) }
        guard result.isGood else {
            throw KithError(.internal, "The members do not agree, or a message was lost or came twice.")
        }
    }
}

/// The result of the demonstration.
struct DemoResult: Encodable {
    var members: Int
    var kills: Int
    var epoch: UInt64
    /// The number of messages that were reported to their senders as sent.
    var sent: Int
    /// Those of them that somebody did not get.
    var lost: [String]
    /// Messages that somebody got more than once.
    var doubled: [String]
    /// The number of messages that waited for the member who was away.
    var waited: Int
    /// True when all are in one epoch with one exporter secret.
    var agrees: Bool

    var isGood: Bool { agrees && lost.isEmpty && doubled.isEmpty }
}
