import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith screen sessions`.
struct ScreenSessionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions", abstract: "List who sees this screen, or asks to.",
        discussion: helpText(
            """
              kith screen sessions
              kith screen sessions --watch            as it changes, until interrupted
            """))

    @OptionGroup var globals: GlobalOptions
    @Flag(help: "Show it whenever it changes.") var watch = false

    func run() async throws {
        let (globals, watch) = (globals, watch)
        let ending = try await Signals.untilInterrupted {
            let client = try await runningClient(globals)
            guard watch else {
                try Self.show(try await client.call(ScreenSessions.List.self, Nothing()).sessions, globals)
                return
            }
            let stream = try await client.open(ScreenSessions.Watch.self, Nothing()).stream
            for try await update in stream.messages { try Self.show(update.sessions, globals) }
        }
        if let signal = ending.signal { throw ExitCode(128 + signal) }
    }

    private static func show(_ sessions: [ScreenSessions.Session], _ globals: GlobalOptions) throws {
        if globals.json { return printLine(try jsonText(sessions)) }
        guard !sessions.isEmpty else { return note("Nobody sees this screen.") }
        printLine(
            table(
                ["SESSION", "DEVICE", "STATE", "MAY", "SINCE", "SENT"],
                sessions.map { session in
                    [
                        String(session.id.prefix(6)), printable(session.name),
                        session.state == .waiting ? styled("asks", .yellow) : "sees it",
                        Self.words(session.permissions), relative(session.since), Wording.size(session.bytes),
                    ]
                }))
        if let waiting = sessions.first(where: { $0.state == .waiting }) {
            note(
                "Let it in with kith screen allow \(waiting.id.prefix(6)), or kith screen refuse \(waiting.id.prefix(6))."
            )
        }
    }

    /// What a session may do, in words.
    static func words(_ permissions: Screen.Permissions) -> String {
        var words = ["see"]
        if permissions.control { words.append("control") }
        if permissions.clipboard { words.append("clipboard") }
        if permissions.record == true { words.append("record") }
        if permissions.privacy == true { words.append("keep it dark") }
        return words.joined(separator: ", ")
    }
}

/// `kith screen allow`.
struct ScreenAllowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "allow", abstract: "Let in a device that asks to see this screen.",
        discussion: helpText(
            """
              kith screen allow k7m3
              kith screen allow k7m3 --view-only
              kith screen allow k7m3 --no-recording
              kith screen allow k7m3 --no-privacy     it may not keep the screen dark, and is told so
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The session, or the beginning of its name.") var session: String
    @Flag(help: "It sees the screen, and does not control it.") var viewOnly = false
    @Flag(help: "It keeps no recording.") var noRecording = false
    @Flag(help: "It does not keep the screen dark; who asked for that is not let in without.") var noPrivacy = false

    func run() async throws {
        let answer = try await runningClient(globals).call(
            ScreenSessions.Decide.self,
            .init(
                session: session,
                permissions: .init(
                    control: !viewOnly, clipboard: !viewOnly, record: !noRecording, privacy: !noPrivacy)))
        if globals.json { return printLine(try jsonText(answer)) }
        note("\(printable(answer.name)) may now: \(ScreenSessionsCommand.words(answer.permissions)).")
    }
}

/// `kith screen refuse`.
struct ScreenRefuseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refuse", abstract: "Refuse a device that asks to see this screen.",
        discussion: helpText("  kith screen refuse k7m3"))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The session, or the beginning of its name.") var session: String

    func run() async throws {
        let answer = try await runningClient(globals).call(
            ScreenSessions.Decide.self, .init(session: session, permissions: nil))
        if globals.json { return printLine(try jsonText(answer)) }
        note("\(printable(answer.name)) was refused.")
    }
}

/// `kith screen limit`.
struct ScreenLimitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limit", abstract: "Change what a running session may do.",
        discussion: helpText(
            """
              kith screen limit k7m3 --view-only
              kith screen limit k7m3 --control        again, if it was let in with that
              kith screen limit k7m3 --no-recording
              kith screen limit k7m3 --no-privacy     the screen is lit again
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The session, or the beginning of its name.") var session: String
    @Flag(help: "See only.") var viewOnly = false
    @Flag(help: "Give back control and the clipboard, if it was let in with them.") var control = false
    @Flag(help: "Keep no recording from now on.") var noRecording = false
    @Flag(help: "Keep one again, if it was let in with that.") var recording = false
    @Flag(help: "Light the screen again.") var noPrivacy = false

    func validate() throws {
        guard !(viewOnly && control), !(recording && noRecording) else {
            throw ValidationError("Say one of --view-only and --control, and one of --recording and --no-recording.")
        }
        guard viewOnly || control || recording || noRecording || noPrivacy else {
            throw ValidationError(
                "Say what is to change: --view-only, --control, --recording, --no-recording or --no-privacy.")
        }
    }

    func run() async throws {
        let client = try await runningClient(globals)
        // What is not said stays. A name that is unclear is refused below.
        let sessions = try await client.call(ScreenSessions.List.self, Nothing()).sessions
        var permissions = sessions.first { $0.id.hasPrefix(session) }?.permissions ?? Screen.Permissions()
        if viewOnly || control { (permissions.control, permissions.clipboard) = (control, control) }
        if recording || noRecording { permissions.record = recording }
        if noPrivacy { permissions.privacy = nil }
        let answer = try await client.call(
            ScreenSessions.Change.self, .init(session: session, permissions: permissions))
        if globals.json { return printLine(try jsonText(answer)) }
        note("\(printable(answer.name)) may now: \(ScreenSessionsCommand.words(answer.permissions)).")
    }
}

/// `kith screen end`.
struct ScreenEndCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "end", abstract: "Put out who sees this screen, at once.",
        discussion: helpText(
            """
              kith screen end                         everybody
              kith screen end k7m3
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The session, or the beginning of its name; without it, all.") var session: String?

    func run() async throws {
        let ended = try await runningClient(globals).call(ScreenSessions.End.self, .init(session: session)).ended
        if globals.json { return printLine(try jsonText(ended)) }
        note(
            ended.isEmpty
                ? "Nobody saw this screen." : "Put out: \(ended.map { printable($0.name) }.joined(separator: ", ")).")
    }
}

/// `kith screen rules`.
struct ScreenRulesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rules", abstract: "Say when a person is asked before another device sees this screen.",
        discussion: helpText(
            """
              kith screen rules                          what holds
              kith screen rules --consent unattended     a grant is enough
              kith screen rules --consent trusted        devices enrolled under your root key (kith trust) are let in
              kith screen rules --consent ask --wait 30
              kith screen rules --hours mon-fri:09:00-17:30
              kith screen rules --hours always --sessions 2
              kith screen rules --longest 30m            a session ends after half an hour

            A session ends with its hours. The grant screen:unattended lets a device in without a question whatever is said here, in the hours.
            """))

    @OptionGroup var globals: GlobalOptions
    @Option(help: "When a person is asked: ask (always, the default), trusted or unattended.", transform: Self.consent)
    var consent: ScreenSessions.Rules.Consent?
    @Option(help: "Seconds that person has to answer, 5 to 600 (default: 60).") var wait: UInt16?
    @Option(help: "The sessions at the same time, 1 to 16 (default: 4).") var sessions: UInt8?
    @Option(
        help: ArgumentHelp(
            "The longest that a session lasts, as in 30m or 8h, or unlimited (default: 8h).", valueName: "time"))
    var longest: LongestSession?
    @Option(
        help: ArgumentHelp(
            "When the screen may be seen: DAYS:FROM-TO, or always. May be said several times.", valueName: "hours"),
        transform: WeekHours.init)
    var hours: [WeekHours] = []

    private static func consent(_ word: String) throws -> ScreenSessions.Rules.Consent {
        guard let consent = ScreenSessions.Rules.Consent(rawValue: word) else {
            throw ValidationError("--consent takes ask, trusted or unattended.")
        }
        return consent
    }

    func run() async throws {
        try await withClient(globals) { client in
            var rules = try await client.call(ScreenSessions.GetRules.self, Nothing())
            let before = rules
            if let consent { rules.consent = consent }
            if let wait { rules.waitSeconds = wait }
            if let sessions { rules.limit = sessions }
            if let longest { rules.longestSeconds = longest.seconds }
            if !hours.isEmpty { rules.windows = hours.flatMap(\.windows) }
            if rules != before { rules = try await client.call(ScreenSessions.SetRules.self, rules) }
            if globals.json { return printLine(try jsonText(rules)) }
            let asked =
                switch rules.consent {
                case .ask: "a person is asked, but for devices with screen:unattended"
                case .trusted: "a person is asked, but for own devices and those with screen:unattended"
                default: "nobody is asked: a grant is enough"
                }
            printLine(
                """
                consent    \(rules.consent.rawValue): \(asked)
                wait       \(rules.waitSeconds) s
                sessions   \(rules.limit) at once
                longest    \(LongestSession(seconds: rules.longestSeconds))
                hours      \(WeekHours.text(rules.windows))
                """)
        }
    }
}

/// The longest that a session lasts: `8h`, or `unlimited`.
struct LongestSession: ExpressibleByArgument, Hashable, CustomStringConvertible {
    /// In seconds; 0: as long as it likes, `nil`: the usual.
    let seconds: UInt32?

    init(seconds: UInt32?) { self.seconds = seconds }

    init?(argument: String) {
        if argument == "unlimited" {
            seconds = 0
        } else {
            guard let lifetime = Lifetime(argument: argument) else { return nil }
            seconds = UInt32(clamping: lifetime.seconds)
        }
    }

    var description: String {
        switch seconds ?? ScreenSessions.Rules.standardLongest {
        case 0: "unlimited"
        case let seconds where seconds % 3_600 == 0: "\(seconds / 3_600) h"
        case let seconds where seconds % 60 == 0: "\(seconds / 60) min"
        case let seconds: "\(seconds) s"
        }
    }
}
