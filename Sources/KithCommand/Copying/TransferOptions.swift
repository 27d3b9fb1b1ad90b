public import ArgumentParser
import Foundation
public import KithAPI
import KithCommandLine
import KithWire

/// The options `kith cp` and `kith sync` share.
struct TransferOptions: ParsableArguments {
    @Option(
        name: .long, parsing: .singleValue,
        help: ArgumentHelp("Leave out what matches, as a line of .gitignore.", valueName: "pattern"))
    var exclude: [String] = []
    @Option(
        name: .long, parsing: .singleValue,
        help: ArgumentHelp("Leave out what the patterns in this file match.", valueName: "file"))
    var excludeFrom: [String] = []
    @Flag(name: [.customShort("c"), .long], help: "Compare files by their hash, not by size and time.")
    var checksum = false
    @Flag(name: [.customShort("u"), .long], help: "Leave files alone that are newer at the destination.")
    var update = false
    @Flag(name: [.customShort("W"), .long], help: "Send changed files whole, without looking for the changes.")
    var wholeFile = false
    @Flag(name: [.customShort("X"), .long], help: "Keep extended attributes (user.*) and access lists.")
    var xattrs = false
    @Flag(name: [.customShort("H"), .long], help: "Keep files that are one file under several names one file.")
    var hardLinks = false
    @Option(name: .long, help: ArgumentHelp("Send no faster than this a second: 500K, 2M.", valueName: "rate"))
    var limit: ByteRate?
    @Option(
        name: .long,
        help: ArgumentHelp(
            "How many files to copy side by side, 1 to 16. Default: of several things that are named as many as there are processors, at most 4; of one folder's files one.",
            valueName: "count"))
    var parallel: UInt32?
    @Option(
        name: .long,
        help: ArgumentHelp(
            "How long to try again without progress after the connection was lost; 0: not at all.",
            valueName: "seconds"))
    var retryFor: UInt32 = 120
    @Option(
        name: .long,
        help: ArgumentHelp(
            "When to compress (zstd): auto is where it shrinks and the link is slower than compressing.",
            valueName: "auto|always|never"))
    var compress = Files.Compression.auto
    @Flag(name: .customShort("z"), help: "The same as --compress always.") var compresses = false
    @Flag(name: .long, help: "Have each file on the disk before it gets its name: safe from a power cut.")
    var sync = false
    @Flag(name: [.customShort("i"), .customLong("itemize")], help: "Name each file that is sent or deleted.")
    var itemizes = false
    @Flag(name: [.customShort("q"), .long], help: "Show no progress.") var quiet = false
    @Flag(
        name: [.customShort("a"), .customLong("archive")],
        help: "As with rsync: folders with everything in them, modes, times and links kept.")
    var archives = false
    @Flag(name: .long, help: "Show how far it is; done on a terminal anyway.") var progress = false

    func validate() throws {
        guard parallel.map({ (1...16).contains($0) }) ?? true else {
            throw ValidationError("--parallel takes 1 to 16.")
        }
    }

    /// The rule by which contents are compressed.
    var compression: Files.Compression { compresses ? .always : compress }

    /// The selection of the sources' files to send.
    func selection() throws -> Files.Selection {
        var patterns: [String] = []
        for file in excludeFrom {
            do {
                patterns += try String(contentsOfFile: file, encoding: .utf8).split(whereSeparator: \.isNewline)
                    .map(String.init)
            } catch {
                throw KithError(.notFound, "Cannot read the patterns in \(file): \(error.localizedDescription)")
            }
        }
        return Files.Selection(exclude: patterns + exclude, attributes: xattrs, hardLinks: hardLinks)
    }

    /// The sources, with what their patterns stand for on the other devices.
    func expanded(_ sources: some Collection<Files.Location>, _ globals: GlobalOptions) async throws -> [Files.Location]
    {
        guard sources.contains(where: RemotePatterns.mayBeOne) else { return Array(sources) }
        return try await withClient(globals) { client in
            var all: [Files.Location] = []
            for source in sources { all += try await RemotePatterns.expanded(source, client) }
            return all
        }
    }

    /// Runs a copy, shows its progress, and reports what it did.
    ///
    /// `localNames` are the paths as typed that name no device, one of which may lack a colon.
    func run(_ input: Files.Copy.Input, _ globals: GlobalOptions, localNames: [String]) async throws {
        // Far more likely a colon that is missing than a wish.
        if input.destination.device == nil, input.sources.contains(where: { $0.device == nil }) {
            throw KithError(
                .invalid, "Both ends of the copy are on this device. Use cp, or name a device: laptop:/path.",
                cause: LocalPaths(paths: localNames))
        }
        let events = TransferEvents(isOn: globals.json, showsProgress: !quiet)
        let start = ContinuousClock.now
        let ending = try await Signals.untilInterrupted {
            try await events.whileWatching { try await follow(input, globals, events) }
        }
        guard case .done(let summary) = ending else { throw interrupted(ending, input) }
        try events.result(summary)
        let showsReport = input.receiving.report && !globals.json
        if isShowing(globals) || (showsReport && !quiet) {
            note(
                input.receiving.dryRun
                    ? ProgressLine.plan(summary) : ProgressLine.summary(summary, took: ContinuousClock.now - start))
        }
    }

    /// Says how a copy goes on that a person has ended; returns the status a shell expects.
    private func interrupted(_ ending: Signals.Ending<Files.Summary>, _ input: Files.Copy.Input) -> ExitCode {
        if !quiet, !input.receiving.dryRun { note("kith: interrupted. The same command goes on where it stopped.") }
        return ExitCode(128 + (ending.signal ?? SIGINT))
    }

    /// Tells whether a line shows the progress: not between lines of JSON.
    private func isShowing(_ globals: GlobalOptions) -> Bool {
        !quiet && isatty(STDERR_FILENO) == 1 && !(globals.json && isatty(STDOUT_FILENO) == 1)
    }

    private func follow(
        _ input: Files.Copy.Input, _ globals: GlobalOptions, _ begun: TransferEvents
    ) async throws -> Files.Summary {
        var (line, events) = (ProgressLine(isShown: isShowing(globals), peer: Self.peer(of: input)), begun)
        // However it ends: the reason is not to stand behind it.
        defer { line.clear() }
        let last = try await withClient(globals) { client in
            let stream = try await client.open(Files.Copy.self, input).stream
            var last: Files.Progress?
            for try await progress in stream.messages {
                try events.report(progress)
                if !progress.skipped.isEmpty || !progress.changes.isEmpty { line.clear() }
                for skipped in progress.skipped where !quiet && !globals.json {
                    note(leftOut(skipped.path.description, because: skipped.failure.message, of: skipped.path))
                }
                for change in progress.changes where input.receiving.report && !globals.json {
                    printLine(Self.words(change))
                }
                line.show(progress, at: ContinuousClock.now)
                last = progress
                if progress.summary != nil || progress.failure != nil { break }
            }
            return last
        }
        line.clear()
        guard let last else { throw KithError(.closed, "The copy ended unexpectedly. Run it again to go on.") }
        if let failure = last.failure { throw failure.error }
        guard let summary = last.summary else {
            throw KithError(.closed, "The copy was interrupted. Run it again to go on.")
        }
        return summary
    }

    private static func peer(of input: Files.Copy.Input) -> String? {
        input.destination.device ?? input.sources.lazy.compactMap(\.device).first
    }

    private static func words(_ change: Files.Change) -> String {
        let word =
            switch change.kind {
            case .new: "new      "
            case .changed: "changed  "
            case .deleted: "deleted  "
            }
        return word + printable(change.path.description)
    }
}

extension Files.Compression: ExpressibleByArgument {}

/// A number of bytes per second as typed: `500K`, `2M`, `1.5M`, `100000`.
struct ByteRate: ExpressibleByArgument, Hashable {
    var bytes: UInt64

    init?(argument: String) {
        var text = Substring(argument.lowercased())
        if text.hasSuffix("/s") { text = text.dropLast(2) }
        if text.hasSuffix("b") { text = text.dropLast() }
        var factor = 1.0
        if let unit = text.last, let power = ["k": 1, "m": 2, "g": 3][unit] {
            factor = pow(1_000, Double(power))
            text = text.dropLast()
        }
        guard let number = Double(text), number > 0, number * factor >= 1, number * factor < 1e15 else { return nil }
        bytes = UInt64(number * factor)
    }
}
