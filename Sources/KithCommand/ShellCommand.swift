import ArgumentParser
import Foundation
import KithAPI
import KithShell
import KithWire

/// `kith shell`.
struct ShellCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shell",
        abstract: "Open a shell on a device, or run a command there.",
        discussion: """
              kith shell laptop                           a login shell on a terminal of its own
              kith shell laptop -- make test              a command; its output, errors and status are its own
              kith shell laptop -- 'ps aux | grep kith'   one word is a line for the shell there
              kith shell laptop -- grep 'a b' 'my file'   several words reach the program just as they are
              kith shell -t laptop -- htop                a command that wants a terminal
              tar c . | kith shell laptop -- tar x -C /srv

            On a terminal, a tilde at the beginning of a line starts an escape: ~. disconnects, ~^Z suspends this
            end, ~? lists them, ~~ types a tilde.

            When this end goes away, every process of the session there is ended, also those in the background and
            behind nohup; what left the session (setsid, tmux) stays.

            Exit status: that of the shell or command; 128 plus the number when a signal ended it; 255 when the
            connection was lost or ~. was typed. When nothing could be started, that of the error (kith --help).
            """)

    @OptionGroup var globals: GlobalOptions

    @Flag(name: [.customShort("t"), .customLong("terminal")], help: "Give the command a terminal.")
    var wantsTerminal = false

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

    @Argument(help: "The device: a name, or the beginning of its id.")
    var device: String

    @Argument(parsing: .postTerminator, help: "After --: the command and its arguments.")
    var command: [String] = []

    func validate() throws {
        guard !(wantsTerminal && wantsNoTerminal) else { throw ValidationError("-t and -T exclude each other.") }
        guard escape == "none" || (escape.utf8.count == 1 && escape.utf8.allSatisfy { (0x21...0x7E).contains($0) })
        else { throw ValidationError("--escape takes one ASCII character, or none.") }
    }

    func run() async throws {
        let usesTerminal =
            wantsTerminal || (!wantsNoTerminal && command.isEmpty && isatty(STDIN_FILENO) == 1)
        let input = Shell.Open.Input(
            terminal: usesTerminal ? ShellTerminal.description() : nil,
            command: command.count > 1 ? command : nil,
            commandLine: command.count == 1 ? command[0] : nil,
            environment: environment(),
            directory: directory)
        let status = try await withClient(globals) { client in
            let session = try await ShellSession.open(input, on: device, client: client)
            let frontEnd = try ShellTerminal(
                session: session, device: device, isTerminal: usesTerminal,
                escape: escape == "none" ? nil : escape.utf8.first)
            return try await frontEnd.run()
        }
        throw ExitCode(status)
    }

    /// What is sent of this end's environment: the language, the time zone, colours, and what was asked for.
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
