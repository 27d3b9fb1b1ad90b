import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire
import Synchronization

/// How many lines or bytes: `10`, `+10`, `-10`, with `b`, `k`, `K`, `kB`, `M`, `MB`, `G`, `GB` behind, as coreutils do.
struct CountArgument: ExpressibleByArgument {
    /// The number without its sign.
    var number: UInt64
    /// The sign it was written with.
    var sign: Character?

    init(_ number: UInt64) { self.number = number }

    init?(argument: String) {
        var text = argument[...]
        if let first = text.first, first == "+" || first == "-" {
            sign = first
            text = text.dropFirst()
        }
        guard let number = Self.number(text) else { return nil }
        self.number = number
    }

    var defaultValueDescription: String { (sign.map { String($0) } ?? "") + String(number) }

    /// A number with a unit: powers of 1024, or of 1000 with a `B` behind.
    static func number(_ text: some StringProtocol) -> UInt64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = UInt64(digits) else { return nil }
        let factor: UInt64
        switch text.dropFirst(digits.count) {
        case "", "c": factor = 1
        case "b": factor = 512
        case "k", "K", "KiB": factor = 1 << 10
        case "M", "MiB": factor = 1 << 20
        case "G", "GiB": factor = 1 << 30
        case "T", "TiB": factor = 1 << 40
        case "kB", "KB": factor = 1_000
        case "MB": factor = 1_000_000
        case "GB": factor = 1_000_000_000
        case "TB": factor = 1_000_000_000_000
        default: return nil
        }
        let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        return isTooLarge ? nil : product
    }
}

/// Runs `body` for each path and goes on after one that fails, as the coreutils do.
///
/// - Throws: the error when there is one path alone, else the exit status of the first that failed.
func forEach(
    _ paths: [RemotePath], _ globals: GlobalOptions, _ body: (RemotePath) async throws -> Void
) async throws {
    var status: Int32?
    for path in paths {
        do {
            try await body(path)
        } catch let error as KithError where paths.count > 1 && error.code != .closed {
            report(await suggestingColon(error, globals), json: globals.json)
            if status == nil { status = error.code.exitStatus }
        }
    }
    if let status { throw ExitCode(status) }
}

/// `kith cat`.
struct ReadFile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cat",
        abstract: "Print files, or parts of them, from a device.",
        discussion: helpText(
            """
              kith cat laptop:/etc/hosts
              kith cat laptop:a.log laptop:b.log > both.log
              kith cat --offset 1M --length 64k laptop:disk.img | xxd

            On a terminal, characters that a terminal obeys are shown as ^[ and the like; --raw passes them on.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "The first byte of each file, from 0; with k, M, G behind.") var offset = CountArgument(0)
    @Option(help: "How many bytes of each file; default: to the end.") var length: CountArgument?
    @Flag(help: "Pass on to the terminal what it obeys.") var raw = false
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        var output = TerminalText(raw: raw)
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                var reading = try await RemoteReading(
                    Files.Read.Input(path: file, offset: offset.number, length: length?.number), on: device, client)
                while let bytes = try await reading.next() { try output.write(bytes) }
                try output.finish()
                await reading.finish()
            }
        }
    }
}

/// `==> name <==` above each file, when there are several.
struct FileHeadings {
    let isShown: Bool
    private var current: RemotePath?

    init(isShown: Bool) { self.isShown = isShown }

    /// What comes before bytes of `path`; empty when its heading is the last one printed.
    mutating func heading(for path: RemotePath) -> String {
        guard isShown, current != path else { return "" }
        defer { current = path }
        return (current == nil ? "" : "\n") + "==> \(printable(path.description)) <==\n"
    }
}

extension RemotePath: CustomStringConvertible {
    /// As it is typed.
    var description: String { (device.map { $0 + ":" } ?? "") + path }
}

/// `kith head`.
struct HeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "head",
        abstract: "Print the beginning of files on a device.",
        discussion: helpText(
            """
              kith head laptop:/var/log/syslog
              kith head -n 3 laptop:a.csv laptop:b.csv      or head -3
              kith head -n -5 laptop:notes           all but the last five lines
              kith head -c 1k laptop:image
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(
        name: [.customShort("n"), .long], parsing: .unconditional,
        help: "So many lines; with a minus, all but the last so many.")
    var lines = CountArgument(10)
    @Option(
        name: [.customShort("c"), .long], parsing: .unconditional,
        help: "So many bytes, with k, M, G behind; with a minus, all but the last so many.")
    var bytes: CountArgument?
    @Flag(name: [.customShort("q"), .long], help: "Never print the names of the files.") var quiet = false
    @Flag(help: "Pass on to the terminal what it obeys.") var raw = false
    @Argument(help: "The files: DEVICE:PATH.") var paths: [RemotePath]

    func run() async throws {
        var output = TerminalText(raw: raw)
        try await withClient(globals) { client in
            var list = try await PathList(paths, globals, client)
            var headings = FileHeadings(isShown: list.hasSeveral && !quiet)
            try await list.forEach { path in
                let (device, file) = try path.remote()
                let limit = bytes?.sign == nil || bytes?.sign == "+" ? bytes?.number : nil
                var reading = try await RemoteReading(
                    Files.Read.Input(path: file, length: limit), on: device, client)
                try output.write(headings.heading(for: path).utf8)
                var part = HeadPart(lines: lines, bytes: bytes)
                while !part.isDone, let chunk = try await reading.next() {
                    try output.write(part.take(chunk))
                }
                try output.write(part.finish())
                try output.finish()
                reading.stop()
            }
        }
    }
}

/// Takes the first part of what comes.
struct HeadPart {
    private enum Rule {
        case lines(UInt64)
        case bytes(UInt64)
        case allButLines(UInt64)
        case allButBytes(UInt64)
    }

    private var rule: Rule
    /// What may still turn out to be among the last.
    private var held: [UInt8] = []
    /// How many line ends are in it.
    private var heldLines: UInt64 = 0

    init(lines: CountArgument, bytes: CountArgument?) {
        if let bytes {
            rule = bytes.sign == "-" ? .allButBytes(bytes.number) : .bytes(bytes.number)
        } else {
            rule = lines.sign == "-" ? .allButLines(lines.number) : .lines(lines.number)
        }
    }

    /// Whether nothing more is wanted.
    var isDone: Bool {
        switch rule {
        case .lines(let left), .bytes(let left): left == 0
        case .allButLines, .allButBytes: false
        }
    }

    /// What of all that has come can be printed now.
    mutating func take(_ chunk: [UInt8]) -> [UInt8] {
        switch rule {
        case .bytes(let left):
            let taken = min(left, UInt64(chunk.count))
            rule = .bytes(left - taken)
            return Array(chunk.prefix(Int(taken)))
        case .lines(var left):
            for (index, byte) in chunk.enumerated() where byte == UInt8(ascii: "\n") {
                left -= 1
                rule = .lines(left)
                if left == 0 { return Array(chunk[...index]) }
            }
            return chunk
        case .allButBytes(let count):
            held += chunk
            guard held.count > Int(clamping: count) else { return [] }
            defer { held.removeFirst(held.count - Int(count)) }
            return Array(held.dropLast(Int(count)))
        case .allButLines(let count):
            held += chunk
            heldLines += UInt64(chunk.count { $0 == UInt8(ascii: "\n") })
            if count == 0 {
                defer { held = [] }
                return held
            }
            return heldLines > count ? release(heldLines - count) : []
        }
    }

    /// What can be printed once nothing more comes.
    mutating func finish() -> [UInt8] {
        guard case .allButLines(let count) = rule, let last = held.last, last != UInt8(ascii: "\n") else { return [] }
        // What stands behind the last line end is a line, too.
        return heldLines + 1 > count ? release(heldLines + 1 - count) : []
    }

    /// Takes the first `count` lines out of what is held.
    private mutating func release(_ count: UInt64) -> [UInt8] {
        var left = count
        for (index, byte) in held.enumerated() where byte == UInt8(ascii: "\n") {
            left -= 1
            guard left == 0 else { continue }
            defer {
                held.removeFirst(index + 1)
                heldLines -= count
            }
            return Array(held[...index])
        }
        return []
    }
}

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
    @Flag(help: "Pass on to the terminal what it obeys.") var raw = false
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

    /// Prints what is added to one file; says what ended it.
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
