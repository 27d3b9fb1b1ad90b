public import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// The commands for sending files to people who are asked.
let sendingCommands: [any ParsableCommand.Type] = [SendCommand.self, InboxCommand.self]

/// A length of time as `90`, `90s`, `15m` or `1h`.
struct TimeArgument: ExpressibleByArgument {
    /// In seconds.
    var seconds: UInt32

    init(seconds: UInt32) { self.seconds = seconds }

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber }
        let units: [Substring: UInt32] = ["": 1, "s": 1, "m": 60, "h": 3_600]
        guard let number = UInt32(digits), let unit = units[argument.dropFirst(digits.count)], number > 0,
            number <= 86_400
        else { return nil }
        seconds = number * unit
    }

    var defaultValueDescription: String { seconds % 60 == 0 ? "\(seconds / 60)m" : "\(seconds)s" }
}

/// The line on a terminal that shows how far something is.
struct DeliveryLine {
    private let isShown: Bool
    private var isDrawn = false

    init(isShown: Bool) { self.isShown = isShown && isatty(STDERR_FILENO) == 1 }

    /// Draws it anew.
    mutating func show(_ text: String) {
        guard isShown else { return }
        noteInLine("\r\u{1B}[K\(text.prefix(79))")
        isDrawn = true
    }

    /// Takes it away.
    mutating func clear() {
        if isDrawn { noteInLine("\r\u{1B}[K") }
        isDrawn = false
    }

    /// `42 %  1.2 MB of 3.0 MB`.
    static func progress(_ bytes: UInt64, of total: UInt64) -> String {
        "\(Wording.percent(bytes, of: total)) %  \(ProgressLine.size(bytes)) of \(ProgressLine.size(total))"
    }
}

/// `kith send`.
struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send files to a device whose person is asked first; no grant is needed.",
        discussion: helpText(
            """
              kith send holiday.jpg laptop
              kith send --wait 1h report.pdf photos/ laptop

            The other person sees names and sizes, and accepts or rejects (`kith inbox` there), or has a rule for
            this device. Contents are sent only then. What is sent never replaces anything. Ends with status 5 when
            it was rejected, 8 when nobody answered in time.

            With --json each line is an object with an "event": state (waiting, accepted, receiving), progress, and last
            of all result or failure. -q leaves out the progress.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("How long to wait for an answer, at most 1h.", valueName: "time"))
    var wait = TimeArgument(seconds: 600)
    @Flag(name: [.customShort("q"), .long], help: "Show no progress.") var quiet = false
    @Argument(
        help: ArgumentHelp(
            "The files and folders, then the device.", valueName: CommandDescription.Argument.filesThenDevice),
        completion: .file())
    var words: [String]

    /// What `--json` prints last.
    private struct Report: Encodable {
        var device: String
        var state: Offers.State
        var bytes: UInt64
        var files: UInt64
    }

    func validate() throws {
        guard words.count >= 2 else { throw ValidationError("send takes files, then a device.") }
        guard wait.seconds <= 3_600 else { throw ValidationError("--wait takes at most 1h.") }
    }

    func run() async throws {
        guard var device = words.last else { return }
        if device.hasSuffix(":") { device.removeLast() }
        guard !device.isEmpty, !device.contains("/"), !device.contains(":") else {
            throw KithError(
                .invalid, "\(device) is not a paired device. Name the files, then the device: kith send FILE laptop")
        }
        let paths = try words.dropLast().map { word in
            let path = RemotePath(word)
            guard path.device == nil else {
                throw KithError(.invalid, "\(word) is on another device. Only files of this one are sent.")
            }
            return try path.location().path
        }
        let input = Offers.Deliver.Input(paths: paths, device: device, waitSeconds: wait.seconds)
        let events = TransferEvents(isOn: globals.json, showsProgress: !quiet)
        let progress = try await events.whileWatching { try await follow(input, events) }
        try events.result(Report(device: device, state: .arrived, bytes: progress.bytes, files: progress.files))
        if !quiet, !globals.json {
            let files = progress.files == 1 ? "1 file" : "\(progress.files) files"
            note("Sent \(files), \(ProgressLine.size(progress.bytes)), to \(printable(device)).")
        }
    }

    /// Says what was left out.
    private func tellSkipped(_ progress: Files.Progress, _ line: inout DeliveryLine) {
        guard !quiet, !globals.json, !progress.skipped.isEmpty else { return }
        line.clear()
        for skipped in progress.skipped {
            note(leftOut(skipped.path.description, because: skipped.failure.message, of: skipped.path))
        }
    }

    /// Waits until all has arrived; returns how much that was.
    private func follow(_ input: Offers.Deliver.Input, _ begun: TransferEvents) async throws -> Files.Progress {
        var (line, events) = (DeliveryLine(isShown: !quiet && !globals.json), begun)
        let name = printable(input.device)
        let last = try await withClient(globals) { client in
            let stream = try await client.open(Offers.Deliver.self, input).stream
            var last: Offers.Delivery?
            var isTold = false
            for try await delivery in stream.messages {
                last = delivery
                tellSkipped(delivery.progress, &line)
                switch delivery.state {
                case .waiting:
                    try events.report(delivery.state)
                    if !isTold, !quiet, !globals.json { note("Waiting for \(name) to accept.") }
                    isTold = true
                case .accepted, .receiving:
                    try events.report(delivery.state)
                    try events.report(delivery.progress)
                    line.show(DeliveryLine.progress(delivery.progress.bytes, of: delivery.progress.totalBytes ?? 0))
                case .arrived:
                    try events.report(delivery.progress)
                    return last
                default: return last
                }
            }
            return last
        }
        line.clear()
        guard let last else { throw KithError(.closed, "Sending ended unexpectedly. Try again.") }
        if let failure = last.failure { throw failure.error }
        switch last.state {
        case .arrived: return last.progress
        case .rejected: throw KithError(.denied, "\(name) rejected what was offered. Nothing was sent.")
        case .expired: throw KithError(.timedOut, "Nobody at \(name) answered in time. Nothing was sent.")
        default: throw KithError(.closed, "What was sent to \(name) did not arrive: \(last.state.rawValue).")
        }
    }
}

/// `kith inbox`.
struct InboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inbox",
        abstract: "See, accept and reject what other people send to this device.",
        discussion: helpText(
            """
              kith inbox                               what is offered, and what has arrived
              kith inbox accept k7m3                   the offer whose number begins so
              kith inbox accept k7m3 --to ~/Pictures
              kith inbox rule laptop accept --max 1G   without asking, from now on
              kith inbox --watch                       as it comes

            Without --to things go to Kith in the folder for downloads ($XDG_DOWNLOAD_DIR). Nothing is ever replaced:
            a name that is taken gets a number. Files get the modes of any download, none that lets them be run; links
            are left out (`kith cp` brings both).
            """),
        subcommands: [InboxList.self, InboxAccept.self, InboxReject.self, InboxRule.self],
        defaultSubcommand: InboxList.self)
}

/// `kith inbox list`.
struct InboxList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List what is offered and what has arrived.",
        discussion: helpText(
            """
              kith inbox list
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(help: "Go on and print what comes and changes, until interrupted.") var watch = false

    func run() async throws {
        if watch { return try await follow() }
        let entries = try await withClient(globals) { try await $0.call(Inbox.List.self, Nothing()) }
        if globals.json { return say(try jsonText(entries)) }
        if entries.isEmpty {
            return note("Nothing has come yet. On another device: kith send FILE followed by the name of this one.")
        }
        say(
            table(
                ["ID", "FROM", "STATE", "WHEN", "SIZE", "WHAT"],
                entries.map { entry in
                    [
                        entry.id, printable(entry.device), Self.state(entry), relative(entry.offeredAt),
                        ProgressLine.size(entry.bytes), Self.what(entry),
                    ]
                }))
        let waiting = entries.filter { $0.state == .waiting }
        if let first = waiting.first { note("Accept with: kith inbox accept \(first.id)") }
    }

    private func follow() async throws {
        try await withClient(globals) { client in
            let stream = try await client.open(Inbox.Watch.self, Nothing()).stream
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            for try await entry in stream.messages {
                if globals.json {
                    say(String(decoding: try encoder.encode(entry), as: UTF8.self))
                } else {
                    say(
                        "\(entry.id)  \(printable(entry.device))  \(Self.state(entry))  "
                            + "\(ProgressLine.size(entry.bytes))  \(Self.what(entry))")
                }
            }
        }
        throw KithError(.closed, "The device has stopped. `kith up` starts it.")
    }

    static func state(_ entry: Inbox.Entry) -> String {
        switch entry.state {
        case .waiting: styled("waiting", .yellow)
        case .receiving: DeliveryLine.progress(entry.received, of: entry.bytes)
        case .failed: styled("failed", .red) + (entry.failure.map { ": " + printable($0.message) } ?? "")
        default: entry.state.rawValue
        }
    }

    /// The names, and where they are.
    static func what(_ entry: Inbox.Entry) -> String {
        let shown = entry.names.isEmpty ? entry.items.map(\.name) : entry.names
        var text = shown.prefix(3).map { printable($0.description) }.joined(separator: ", ")
        if entry.count > 3 { text += " and \(entry.count - 3) more" }
        if entry.state == .arrived, let folder = entry.folder { text += "  in " + printable(folder) }
        return text
    }
}

/// `kith inbox accept`.
struct InboxAccept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept", abstract: "Accept an offer, and wait until all of it has arrived.",
        discussion: helpText(
            """
              kith inbox accept 3
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("The folder to put it in.", valueName: "dir")) var to: String?
    @Flag(help: "Do not wait until it has arrived.") var noWait = false
    @Argument(help: "The number of the offer, or how it begins.") var id: String

    func run() async throws {
        let folder = try to.map { String(decoding: try RemotePath(local: $0).location().path.bytes, as: UTF8.self) }
        var line = DeliveryLine(isShown: !globals.json)
        let entry = try await withClient(globals) { client in
            var entry = try await client.call(
                Inbox.Decide.self, Inbox.Decide.Input(id: id, accepts: true, folder: folder))
            while !noWait, entry.state == .accepted || entry.state == .receiving {
                try await Task.sleep(for: .milliseconds(100))
                let entries = try await client.call(Inbox.List.self, Nothing())
                guard let now = entries.last(where: { $0.id == entry.id }) else { break }
                entry = now
                line.show(DeliveryLine.progress(entry.received, of: entry.bytes))
            }
            return entry
        }
        line.clear()
        if globals.json { say(try jsonText(entry)) }
        switch entry.state {
        case .arrived where !globals.json: say("Arrived: \(InboxList.what(entry))")
        case .failed:
            throw entry.failure?.error ?? KithError(.closed, "What was accepted did not arrive.")
        case .withdrawn: throw KithError(.closed, "\(printable(entry.device)) went away before anything was sent.")
        default: break
        }
    }
}

extension RemotePath {
    /// A path of this device, whatever colons it has.
    init(local path: String) {
        self.init("/")
        self.path = (path as NSString).expandingTildeInPath
    }
}

/// `kith inbox reject`.
struct InboxReject: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reject", abstract: "Reject an offer.",
        discussion: helpText(
            """
              kith inbox reject 3
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The number of the offer, or how it begins.") var id: String

    func run() async throws {
        let entry = try await withClient(globals) {
            try await $0.call(Inbox.Decide.self, Inbox.Decide.Input(id: id, accepts: false))
        }
        if globals.json { say(try jsonText(entry)) }
    }
}

extension Inbox.Rule.Action: ExpressibleByArgument {}

/// `kith inbox rule`.
struct InboxRule: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rule",
        abstract: "Say what happens to the offers of a device without asking.",
        discussion: helpText(
            """
              kith inbox rule laptop                          which rule holds
              kith inbox rule laptop accept --to ~/Downloads --max 1G
              kith inbox rule laptop reject
              kith inbox rule laptop ask                      as without a rule
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: ArgumentHelp("The folder to put things in.", valueName: "dir")) var to: String?
    @Option(help: ArgumentHelp("Ask all the same when it is more than this: 500M, 1G.", valueName: "size"))
    var max: CountArgument?
    @Argument(help: ArgumentHelp("The device.", valueName: "device")) var device: String
    @Argument(help: "accept, ask or reject.") var action: Inbox.Rule.Action?

    func validate() throws {
        guard action == .accept || (to == nil && max == nil) else {
            throw ValidationError("--to and --max go with accept.")
        }
    }

    func run() async throws {
        let folder = try to.map { String(decoding: try RemotePath(local: $0).location().path.bytes, as: UTF8.self) }
        let rule = action.map { Inbox.Rule(action: $0, folder: folder, maximum: max?.number) }
        let now = try await withClient(globals) {
            try await $0.call(Inbox.SetRule.self, Inbox.SetRule.Input(device: device, rule: rule))
        }
        if globals.json { return say(try jsonText(now)) }
        var text = "\(printable(device)): \(now.action.rawValue)"
        if let folder = now.folder { text += ", into \(printable(folder))" }
        if let maximum = now.maximum { text += ", up to \(ProgressLine.size(maximum))" }
        say(text)
    }
}
