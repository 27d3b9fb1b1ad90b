import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithForward
import KithShell
import KithTerminal
import KithWire

/// `kith shell`.
struct ShellCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shell",
        abstract: "Open a shell on a device, or run a command there.",
        discussion: helpText(
            """
              kith shell laptop                           a login shell on a terminal of its own
              kith shell laptop -- make test              a command; its output, errors and status are its own
              kith shell laptop -- 'ps aux | grep kith'   one word is a line for the shell there
              kith shell laptop -- grep 'a b' 'my file'   several words reach the program just as they are
              kith shell -t laptop -- htop                a command that wants a terminal
              kith shell -n laptop -- uptime              one that leaves what is typed or pasted meanwhile alone
              tar c . | kith shell laptop -- tar x -C /srv

            A shell survives its connection: when the network is gone, this end waits and goes on where it was, with
            nothing lost or typed twice. When this end is gone (killed, or detached with ~d), a shell on a terminal
            waits on the device, --keep long:

              kith shell laptop --list                    the shells that wait or run there
              kith shell laptop --attach                  go on with one, here; with its scrollback
              kith shell laptop --attach k3fz --view      view only
              kith shell laptop k3fz --share drive        let other devices with the shell grant type in it, too
              kith shell laptop k3fz --end                end it

              kith shell laptop -L 8080:localhost:80      and carry ports meanwhile: -L, -R, -D (kith forward --help)

              kith shell laptop --record day.cast         keep what is shown, for asciinema or
              kith shell --replay day.cast

            On a terminal, a tilde at the beginning of a line starts an escape: ~. hangs up, which ends the shell
            unless another window has it, ~d detaches, ~^Z suspends this end, ~? lists them, ~~ types a tilde. When a
            shell ends, every process of its session there is ended, also those in the background and behind nohup;
            what left the session (setsid, tmux) stays. Without a terminal a command ends when nobody holds its output any more: redirect
            that of a job in the background.

            Exit status: that of the shell or command; 128 plus the number when a signal ended it; 255 when the
            connection was lost for good or ~. was typed. When nothing could be started, that of the error
            (kith --help).
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var forwarding: ForwardOptions

    @Flag(name: [.customShort("t"), .customLong("terminal")], help: "Give the command a terminal.")
    var wantsTerminal = false

    @Flag(
        name: [.customShort("n"), .customLong("no-input")],
        help: "Read no input: what is typed or pasted meanwhile is left to what comes next.")
    var readsNothing = false

    @Flag(name: [.customShort("T"), .customLong("no-terminal")], help: "Use no terminal, also for a shell.")
    var wantsNoTerminal = false

    @Option(name: [.customShort("C"), .long], help: "The folder to start in. Default: the home folder there.")
    var directory: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Set a variable there (repeatable); without a value, the one it has here. The device has a list of those it accepts.",
            valueName: "name[=value]"))
    var env: [String] = []

    @Option(name: [.customShort("e"), .long], help: "The escape character, or none.")
    var escape = "~"

    @Flag(
        name: [.customShort("A"), .customLong("forward-agent")],
        help: "Let programs there use the ssh agent here ($SSH_AUTH_SOCK); needs the grant shell:agent there.")
    var forwardsAgent = false

    @Option(
        help: ArgumentHelp(
            "How long the device keeps the shell when nobody is attached: 90s, 10m, 8h, 2d, none. Default: 8h; 2m for a command without a terminal, when the connection is lost.",
            valueName: "time"))
    var keep: Keep?

    @Flag(name: .customLong("list"), help: "List the shells that can be attached to.")
    var lists = false

    @Flag(
        name: [.customShort("a"), .customLong("attach")],
        help: "Attach to a shell that runs: the one named, or the only one.")
    var attaches = false

    @Flag(name: .customLong("view"), help: "With --attach: view only, type nothing.")
    var views = false

    @Option(help: "With --attach: how many lines that have left the screen are shown first, 0 or more.")
    var scrollback: UInt32 = 2_000

    @Option(
        help: ArgumentHelp(
            "Let other devices attach: none, view (grants shell or shell:view), drive (grant shell types, too).",
            valueName: "how"))
    var share: Shell.Sharing?

    @Flag(name: .customLong("end"), help: "End a shell that runs, with all its processes.")
    var ends = false

    @Option(
        help: ArgumentHelp(
            "Show what is typed before the device echoes it, underlined: adaptive (from 30 ms round trip on), always, never.",
            valueName: "when"))
    var predict = PredictiveEcho.Mode.adaptive

    @Option(
        help: ArgumentHelp(
            "What programs there may do to the clipboard here: ask (~c takes what they offer), allow, deny.",
            valueName: "policy"))
    var clipboard = OutputFilter.Policy.ask

    @Option(
        help: ArgumentHelp("Record what is shown into a new file, as asciicast v2.", valueName: "file"))
    var record: String?

    @Option(help: ArgumentHelp("Play a recording; needs no device.", valueName: "file"))
    var replay: String?

    @Option(help: "With --replay: so many times as fast, 0.01 to 1000.")
    var speed = 1.0

    @Option(help: ArgumentHelp("With --replay: no pause longer than this, 0 or more.", valueName: "seconds"))
    var idleLimit: Double?

    @Argument(help: "The device: a name, or the beginning of its id.")
    var device: String?

    @Argument(help: "A shell that runs there, by the name --list shows or the beginning of it.")
    var session: String?

    @Argument(parsing: .postTerminator, help: "After --: the command and its arguments.")
    var command: [String] = []

    func validate() throws {
        guard (device == nil) == (replay != nil) else {
            throw ValidationError(
                replay == nil
                    ? "Which device? kith devices lists them. Example: kith shell laptop"
                    : "--replay plays a file and takes no device.")
        }
        guard !(wantsTerminal && wantsNoTerminal) else { throw ValidationError("-t and -T exclude each other.") }
        guard !readsNothing || !command.isEmpty else {
            throw ValidationError("-n goes with a command: kith shell -n \(device ?? "DEVICE") -- COMMAND")
        }
        guard !readsNothing || !wantsTerminal else { throw ValidationError("-n and -t exclude each other.") }
        guard escape == "none" || (escape.utf8.count == 1 && escape.utf8.allSatisfy { (0x21...0x7E).contains($0) })
        else { throw ValidationError("--escape takes one ASCII character, or none.") }
        if let session, !attaches, !ends, share == nil {
            throw ValidationError(
                "To run a command, put -- before it: kith shell \(device ?? "") -- \(ShellService.Options.commandLine(for: [session]))"
            )
        }
        guard [lists, attaches, ends].count(where: { $0 }) <= 1 else {
            throw ValidationError("--list, --attach and --end exclude each other.")
        }
        guard command.isEmpty || !(lists || attaches || ends) else {
            throw ValidationError("A command opens a shell of its own: it goes with none of --list, --attach, --end.")
        }
        guard try forwarding.forwards().rules.isEmpty || (!lists && !ends && (session == nil || attaches)) else {
            throw ValidationError("-L, -R and -D go with a shell or a command. `kith forward` keeps ports up alone.")
        }
        guard !ends || session != nil else { throw ValidationError("--end takes the name of a shell (--list).") }
        guard !views || attaches else { throw ValidationError("--view goes with --attach.") }
        if attaches || lists || ends, let option = ofNewShells {
            throw ValidationError(
                "\(option) is said when a shell is opened. Later: kith shell \(device ?? "DEVICE") --share WAY NAME, alone."
            )
        }
        guard !views || escape != "none" else {
            throw ValidationError("--view needs an escape character to leave by: drop --escape none.")
        }
    }

    /// An option that only a shell that is opened takes, and that was typed: settings hold for every form.
    private var ofNewShells: String? { ["--share", "--keep", "-C", "-A", "-t"].first(where: isTyped) }

    func run() async throws {
        if let replay { return try await Replay(file: replay, speed: speed, idleLimit: idleLimit).run() }
        guard let device else { return }
        if lists { return try await ShellSessions.list(on: device, globals) }
        guard !attaches || isatty(STDIN_FILENO) == 1 else {
            throw KithError(
                .invalid,
                "--attach needs a terminal, and standard input is none. Run it in one, or a command without it: "
                    + "kith shell \(device) -- COMMAND")
        }
        if readsNothing { replaceInput() }
        if let session, !attaches {
            return try await ShellSessions.change(
                Shell.Change.Input(session: session, ends: ends, sharing: share), on: device, globals)
        }
        let usesTerminal =
            attaches || wantsTerminal || (!wantsNoTerminal && command.isEmpty && isatty(STDIN_FILENO) == 1)
        let forwards = try forwarding.forwards()
        // Before anything runs there: a command whose recording cannot be made is not to have been run.
        let recording = try record.map { try ShellRecording(path: $0) }
        defer { recording?.discardIfEmpty() }
        let status = try await withClient(globals) { client in
            try await forwards.status(whileUp: device, client: client) { running in
                for status in running.rules { note(ForwardDisplay.route(status)) }
                let session =
                    try await attaches
                    ? attach(client, to: device) : open(client, on: device, usesTerminal: usesTerminal)
                let frontEnd = try ShellTerminal(
                    session: session, device: device, client: client, isTerminal: usesTerminal, onlyLooks: views,
                    escape: escape == "none" ? nil : escape.utf8.first,
                    options: ShellDisplay.Options(
                        prediction: predict, clipboard: clipboard, recording: recording,
                        command: command.isEmpty ? nil : command.joined(separator: " ")))
                return try await frontEnd.run()
            }
        }
        throw ExitCode(status)
    }

    private func open(_ client: Client, on device: String, usesTerminal: Bool) async throws -> ShellSession {
        let input = Shell.Open.Input(
            terminal: usesTerminal ? ShellTerminal.description() : nil,
            command: command.count > 1 ? command : nil,
            commandLine: command.count == 1 ? command[0] : nil,
            environment: environment(),
            directory: directory,
            keep: keep.map(\.seconds) ?? (usesTerminal ? 8 * 3_600 : 120),
            sharing: share ?? .none,
            forwardsAgent: forwardsAgent,
            client: description(usesTerminal: usesTerminal))
        guard forwardsAgent else { return try await ShellSession.open(input, on: device, client: client) }
        guard let agent = ProcessInfo.processInfo.environment["SSH_AUTH_SOCK"], !agent.isEmpty else {
            throw KithError(.notFound, "No ssh agent runs here: SSH_AUTH_SOCK is not set. Start one: eval $(ssh-agent)")
        }
        let session = try await ShellSession.open(input, on: device, client: client)
        try session.forwardAgent(at: agent)
        return session
    }

    private func attach(_ client: Client, to device: String) async throws -> ShellSession {
        let name = try await ShellSessions.choose(session, on: device, client: client)
        do {
            return try await ShellSession.attach(
                Shell.Attach.Input(
                    session: name, isInteractive: !views, size: ShellTerminal.description().size,
                    scrollback: scrollback,
                    client: description(usesTerminal: !views)),
                on: device, client: client)
        } catch let error as KithError where error.code == .notFound && error.message.contains("No shell \(name)") {
            // `ls -a` reads as a shell called ls to attach to.
            throw KithError(
                .notFound,
                "No shell \(name) runs on \(device). `kith shell \(device) --list` shows those that do; to run a "
                    + "command, put -- before it: kith shell \(device) -- \(ShellService.Options.commandLine(for: [name]))",
                cause: error)
        }
    }

    private func description(usesTerminal: Bool) -> Shell.Client {
        Shell.Client(wantsEchoes: usesTerminal && predict != .never && isatty(STDIN_FILENO) == 1)
    }

    /// The part of this end's environment that is sent: the language, the time zone, colours, and what was asked for.
    private func environment() -> [String: String] {
        let here = ProcessInfo.processInfo.environment
        var result = here.filter { name, _ in
            name.hasPrefix("LC_") || ["LANG", "LANGUAGE", "COLORTERM", "TZ", "NO_COLOR"].contains(name)
        }
        for setting in env {
            let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            result[parts[0]] = parts.count == 2 ? parts[1] : here[parts[0]]
        }
        return result
    }
}

extension PredictiveEcho.Mode: ExpressibleByArgument {}

extension OutputFilter.Policy: ExpressibleByArgument {}
