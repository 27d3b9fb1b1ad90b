import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire
import Synchronization

/// `kith tail`.
struct TailCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tail",
        abstract: "Print the end of files on a device, and what is added to them.",
        discussion: helpText(
            """
              kith tail laptop:/var/log/syslog
              kith tail -n 100 -f laptop:/var/log/syslog laptop:/var/log/auth.log      or tail -100f
              kith tail -n +2 laptop:table.csv       from the second line on
              kith tail -F laptop:not-there-yet.log

            With -f each file is followed by its name: when it is cut short it is read from its beginning, when it is
            replaced, as logs are, the old one is read to its end and then the new one.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(
        name: [.customShort("n"), .long], parsing: .unconditional,
        help: "The last so many lines; with a plus, from that line on.")
    var lines = CountArgument(10)
    @Option(
        name: [.customShort("c"), .long], parsing: .unconditional,
        help: "The last so many bytes, with k, M, G behind; with a plus, from that byte on.")
    var bytes: CountArgument?
    @Flag(name: [.customShort("f"), .long], help: "Go on with what is added, until interrupted.") var follow = false
    @Flag(name: [.customShort("F"), .customLong("retry")], help: "Like -f, and wait for files that are not there.")
    var retry = false
    @Flag(name: [.customShort("q"), .long], help: "Never print the names of the files.") var quiet = false
    @Flag(help: "Pass control characters on to the terminal.") var raw = false
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    private var start: Files.Follow.Start {
        let count = bytes ?? lines
        return Files.Follow.Start(count: count.number, isBytes: bytes != nil, isFromBeginning: count.sign == "+")
    }

    func run() async throws {
        let follows = follow || retry
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            let printer = TailPrinter(headings: FileHeadings(isShown: list.hasSeveral && !quiet), raw: raw)
            var open: [(path: RemotePath, stream: Following)] = []
            func begin(_ path: RemotePath) async throws {
                let (device, file) = try path.remote()
                let input = Files.Follow.Input(path: file, start: start, follows: follows, waits: retry)
                let stream = try await client.open(Files.Follow.self, input, on: device).stream
                do {
                    try await printer.print(
                        stream, of: path, until: .reachedEnd, check: Files.FollowCheck(input, from: device))
                } catch {
                    stream.abort(.cancelled)
                    throw error
                }
                if follows { open.append((path, stream)) } else { try await stream.finish() }
            }
            var failure: (any Error)?
            do {
                try await list.forEach(begin)
            } catch let error where !open.isEmpty && error is ExitCode {
                // The others are followed all the same.
                failure = error
            }
            try await withThrowingTaskGroup { group in
                for (path, stream) in open {
                    group.addTask { try await printer.follow(stream, of: path) }
                }
                try await group.waitForAll()
            }
            if let failure { throw failure }
        }
    }
}

private typealias Following = MethodStream<Files.Followed, Nothing>

/// Prints what is added to several files, one piece after the other.
private final class TailPrinter: Sendable {
    private struct State: ~Copyable {
        var headings: FileHeadings
        var output: TerminalText
    }

    private let state: Mutex<State>

    init(headings: FileHeadings, raw: Bool) {
        state = Mutex(State(headings: headings, output: TerminalText(raw: raw)))
    }

    /// Prints what is added to one file; returns what ended it.
    func follow(_ stream: Following, of path: RemotePath) async throws {
        do {
            try await print(stream, of: path, until: nil)
        } catch let error as KithError where [.closed, .unreachable, .timedOut].contains(error.code) {
            let device = path.device ?? "the device"
            throw KithError(
                .closed,
                "No longer following \(path): the connection to \(device) was lost, or kith was stopped there.",
                cause: error)
        }
    }

    /// Prints the messages about one file, until `event` or the end.
    func print(
        _ stream: Following, of path: RemotePath, until event: Files.Followed.Event?,
        check: Files.FollowCheck? = nil
    ) async throws {
        var check = check
        var isFirst = event != nil
        var isMissing = false
        for try await message in stream.messages {
            if let failure = message.failure { throw failure.error }
            try check?.check(message.bytes.bytes)
            let name = printable(path.description)
            switch message.event {
            case .truncated: note("kith: \(name): file truncated")
            case .replaced:
                note("kith: \(name) has \(isMissing ? "appeared" : "been replaced"); following the new file")
            case .missing: note("kith: \(name) is not there; waiting for it")
            case .reachedEnd, nil: break
            }
            isMissing = message.event == .missing
            // An empty file has a heading, too.
            if isFirst || !message.bytes.bytes.isEmpty {
                try state.withLock { state in
                    try state.output.write(state.headings.heading(for: path).utf8)
                    try state.output.write(message.bytes.bytes)
                }
            }
            isFirst = false
            if let event, message.event == event { return }
        }
        if isFirst { try state.withLock { try $0.output.write($0.headings.heading(for: path).utf8) } }
        if event == nil { throw KithError(.closed, "The connection to \(path.device ?? "the device") was lost.") }
    }
}
