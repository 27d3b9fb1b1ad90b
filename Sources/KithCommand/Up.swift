import ArgumentParser
import CKithSystem
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire
import Logging
import ServiceLifecycle
import UnixSignals

/// `kith up`: the device as a daemon.
struct Up: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Start this device and keep it running.",
        discussion: helpText(
            """
            Prints this device's name, its DeviceID, where it listens, and a one-time invitation as text and QR code.
            The invitation grants nothing unless --grant says what: `kith grant` gives rights to a paired device.
            On a terminal it also asks before it pairs with a device that uses an invitation. Ctrl-C stops it.

              kith up                          in the foreground
              kith up --detach                 in the background; `kith down` stops it
              kith up --name laptop --port 4433
              kith up --grant shell            whoever uses the invitation may open a shell
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: "What this device calls itself when it pairs. Kept; default: the host's name.")
    var name: String?

    @Option(help: "The UDP port to listen on, 0 to 65535. Kept; default: one chosen at the first start.")
    var port: UInt16?

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp(
            "What the device that uses the printed invitation may do here (repeatable). Default: nothing.",
            valueName: "grant"), completion: Grant.defaultCompletionKind,
        transform: Grant.reading)
    var grants: [Grant] = []

    @Flag(name: .customLong("no-invite"), help: "Print no invitation.")
    var withoutInvitation = false

    @Flag(name: .shortAndLong, help: "Do not ask before pairing: whoever holds the printed invitation gets in.")
    var yes = false

    @Flag(help: "Run in the background and return when the device is up.")
    var detach = false

    func run() async throws {
        if detach {
            try await runInBackground()
            return
        }
        kith_raise_descriptor_limit()
        kith_forbid_core()
        var options = Device.Options()
        options.logger = globals.logger
        options.name = name
        options.port = port
        globals.trace(&options)
        options.passphrase = try globals.passphrase()
        let device = try await Device.open(directory: globals.directory, options: options)
        // The key is open: nobody needs it any more.
        options.passphrase = nil
        if SecretBytes.unlockedCount > 0 {
            globals.logger.warning(
                "\(SecretBytes.unlockedCount) secrets could be swapped out: the limit of locked memory (ulimit -l) is too low"
            )
        }
        let front = Front(client: device.client, asks: !yes && isatty(STDIN_FILENO) == 1)
        try await announce(device.client, as: globals.json)

        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(service: DeviceService(device: device), successTerminationBehavior: .gracefullyShutdownGroup),
                    .init(service: front),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint, .sighup],
                logger: globals.logger))
        try await group.run()
        if !globals.json { note("Stopped.") }
    }

    /// Says who this device is, and how another one can join it.
    private func announce(_ client: Client, as json: Bool) async throws {
        let status = try await client.call(ThisDevice.Status.self, Nothing())
        var invitation: Invitations.Create.Output?
        if !withoutInvitation {
            invitation = try await client.call(
                Invitations.Create.self,
                Invitations.Create.Input(grants: grants, lifetimeSeconds: 600, isAutomatic: yes))
        }
        if json {
            struct Announcement: Encodable {
                var device: ThisDevice.Status.Output
                var invitation: Invitations.Create.Output?
            }
            say(try jsonText(Announcement(device: status, invitation: invitation)))
            return
        }
        let isInFront = !detach && isatty(STDOUT_FILENO) == 1
        say("\(styled(status.name, .bold)) is up\(isInFront ? "; Ctrl-C stops it" : "")")
        if let name, name != status.name {
            note(
                "kith: “\(printable(name))” became \(status.name): names have letters, digits, hyphens, underscores and dots"
            )
        }
        say("  DeviceID   \(status.id)")
        // A machine with many addresses leaves room for the invitation.
        let shown = status.addresses.prefix(isatty(STDOUT_FILENO) == 1 ? 4 : .max)
        for (index, address) in shown.enumerated() {
            say("  \(index == 0 ? "listens on" : "          ") \(address)")
        }
        let hidden = status.addresses.count - shown.count
        if hidden > 0 { say("             and \(hidden) more: kith status") }
        say("  data       \(globals.directory)")
        let waiting = try await WaitingThings(client)
        waiting.tell()
        if let invitation {
            show(invitation, below: 3 + shown.count + (hidden > 0 ? 1 : 0) + waiting.count)
        }
    }

    /// Starts the same command again, in a session of its own, and waits until it answers.
    private func runInBackground() async throws {
        guard try await daemonClient(globals) == nil else {
            throw KithError(.conflict, "This device is up already. `kith status` describes it, `kith down` stops it.")
        }
        var arguments = ["up", "--data", globals.directory, "--no-invite", "--detach=no"]
        if let name { arguments += ["--name", name] }
        if let port { arguments += ["--port", String(port)] }
        arguments += globals.traceArguments
        if globals.verbose { arguments.append("--verbose") }
        let passphrase = try globals.passphrase()
        if passphrase != nil { arguments += ["--passphrase-fd", "0"] }
        let log = try await Background.start(arguments, directory: globals.directory, passphrase: passphrase)
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            do {
                if let client = try await daemonClient(globals) {
                    try await announce(client, as: globals.json)
                    return
                }
            } catch let error as KithError where error.code == .conflict {
                // It holds the directory and is still at it: stretching a passphrase takes a slow machine seconds.
            }
            if let status = log.ending() {
                throw KithError(
                    KithError.Code.allCases.first { $0.exitStatus == status } ?? .internal,
                    "The device ended at once: \(log.lastLine). Its log is \(log.path).")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw KithError(.timedOut, "The device did not answer within 30 s. Its log is \(log.path).")
    }
}

/// Prints an invitation for a person: how to use it, what it allows, the QR code where it fits on the screen.
///
/// `lines` is how many the screen shows above it.
func show(_ invitation: Invitations.Create.Output, below lines: Int = 0) {
    let grants = invitation.info.grants.map(\.description).joined(separator: ", ")
    let head = "Invite a device (once, expires \(relative(invitation.info.expiresAt))); on that device, run:"
    let command = "  kith pair \(invitation.text)"
    let allowed =
        "It may then: \(grants.isEmpty ? "nothing yet; `kith grant NAME --add shell` lets it open a shell" : grants)"
    let warnings = invitation.info.warnings ?? []
    let screen = terminalSize(STDOUT_FILENO)
    say()
    // Somebody who has it read aloud has no use for a picture, and a text can be too long for one.
    if !isPlainTerminal, let code = try? QRCode(invitation.text.uppercased()) {
        // The lines of the text, each as it breaks, with three between them and one for the cursor.
        let columns = screen?.columns ?? 80
        let text = ([head, command, allowed] + warnings).reduce(lines + 5) { $0 + ($1.count + columns - 1) / columns }
        let room = screen.map { (columns: $0.columns, rows: max(0, $0.rows - text)) }
        // Four light modules around it are the standard's, two are enough for most cameras.
        let margin = [4, 2].first { margin in
            let size = code.size + 2 * margin
            return room.map { size <= $0.columns && (size + 1) / 2 <= $0.rows } ?? true
        }
        if let margin {
            say(code.terminal(margin: margin, colors: wantsColour(STDOUT_FILENO)))
        } else {
            let size = code.size + 4
            let needed = "\(max(size, 80)) by \(text + (size + 1) / 2)"
            say(styled("A window of \(needed) would show its QR code: kith invite", .dim))
        }
    }
    say(styled(head, .bold))
    say()
    say(command)
    say()
    say(allowed)
    noteWarnings(invitation.info.warnings)
}

/// The device as a service: runs until told to stop, then lets running work finish for a while.
private struct DeviceService: ServiceLifecycle.Service {
    let device: Device

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await device.run()
        } onGracefulShutdown: {
            device.beginGracefulShutdown()
        }
    }
}

/// Shows pairings as they come, and asks about them when there is a terminal.
private struct Front: ServiceLifecycle.Service {
    let client: Client
    let asks: Bool

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            do {
                try await watchPairings(client, asks: asks) { _ in true }
                // The device ends before its watchers do.
                try await gracefulShutdown()
            } catch let error as KithError where error.code == .closed || error.code == .cancelled {
                try await gracefulShutdown()
            } catch is CancellationError {
                // Told to stop.
            }
        }
    }
}

/// `kith down`.
struct Down: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Stop this device.",
        discussion: helpText(
            """
              kith down                         running work is given a moment to end
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
        // One that is older can be stopped all the same, to be started as this one.
        let client = try await runningClient(globals, isAnyVersion: true)
        _ = try await client.call(ThisDevice.Stop.self, Nothing())
        let deadline = ContinuousClock.now + .seconds(10)
        while Device.isRunning(directory: globals.directory), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
        }
        if !globals.json { note("Stopped.") }
    }
}

/// `kith status`.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Describe this device: name, DeviceID, addresses, ticket.",
        discussion: helpText(
            """
              kith status
              kith status --json | jq -r .ticket
            """))

    @OptionGroup var globals: GlobalOptions

    /// What is printed as JSON.
    private struct Description: Encodable {
        var isUp: Bool
        var name: String
        var id: DeviceID
        var devices: Int
        var version: String
        // Of a device that is up.
        var addresses: [NetworkAddress]?
        var ticket: String?
        var pid: Int32?

        init(_ status: ThisDevice.Status.Output, isUp: Bool) {
            self.isUp = isUp
            (name, id, devices, version) = (status.name, status.id, status.devices, status.version)
            // One that is down is looked at from inside this process, which ends at once: where it listened and who
            // answered is of use to nobody.
            if isUp { (addresses, ticket, pid) = (status.addresses, status.ticket, status.pid) }
        }
    }

    func run() async throws {
        let isUp = try await daemonClient(globals) != nil
        let (answer, waiting) = try await withClient(globals) { client in
            (try await client.call(ThisDevice.Status.self, Nothing()), try await WaitingThings(client))
        }
        let status = Description(answer, isUp: isUp)
        if globals.json {
            say(try jsonText(status))
            return
        }
        say(
            "\(styled(status.name, .bold)) is \(isUp ? styled("up", .green) : styled("down (`kith up` starts it)", .yellow))"
        )
        say("  DeviceID   \(status.id)")
        for (index, address) in (status.addresses ?? []).enumerated() {
            say("  \(index == 0 ? "listens on" : "          ") \(address)")
        }
        say("  devices    \(status.devices)")
        if let ticket = status.ticket { say("  ticket     \(ticket)") }
        say("  data       \(globals.directory)")
        waiting.tell()
    }
}

/// `kith audit`.
struct AuditLog: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Show what was changed here, what other devices did, and what they were refused.",
        discussion: helpText(
            """
              kith audit                        the last fifty entries
              kith audit --limit 500 --json
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(name: .shortAndLong, help: "How many entries, newest first, 1 to 10,000.")
    var limit = 50

    func validate() throws {
        guard (1...10_000).contains(limit) else { throw ValidationError("--limit takes 1 to 10,000.") }
    }

    func run() async throws {
        let entries = try await withClient(globals) {
            try await $0.call(Audit.List.self, Audit.List.Input(limit: limit))
        }
        if globals.json {
            say(try jsonText(entries))
            return
        }
        say(
            table(
                ["WHEN", "DEVICE", "WHAT", "DECISION", "DETAIL"],
                entries.map { entry in
                    [
                        relative(entry.time), Self.who(entry), printable(entry.method), entry.decision,
                        printable(entry.detail),
                    ]
                }))
    }

    /// The device's name; how its DeviceID begins when it has none.
    private static func who(_ entry: Audit.Entry) -> String {
        DeviceID(entry.device)?.short ?? printable(entry.device)
    }
}
