import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// What a device can be allowed, for the help of commands that give grants.
let grantsHelp = """
    Grants:
      shell                        a shell, and any command
      shell:command=LINE           this line and nothing else
      shell:view                   looking at shells that are shared
      shell:agent                  the use of an ssh agent that it brings along
      files:read=/PATH             what is in a folder; files:write=/PATH changes it, too
      forward                      connections to all this device can reach
      forward:to=HOST:PORT         to one place; forward:listen=ADDRESS:PORT listens here
    """

/// `kith invite`.
struct Invite: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make a one-time invitation for another device.",
        discussion: helpText(
            """
            Prints the invitation as text and QR code, then waits for the device that uses it and asks you to compare
            the code both ends show. With --yes it does not wait: the first device that presents it is paired.

              kith invite --grant shell --grant files:write=/srv --expires 10m
              kith invite --grant files:read=/home/ana/photos --yes
              kith invite --list

            \(grantsHelp)

            `kith grant` changes them later.
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp("What the device may do here (repeatable). Default: nothing.", valueName: "grant"),
        completion: Grant.defaultCompletionKind,
        transform: Grant.reading)
    var grants: [Grant] = []

    @Option(help: "How long it can be used: 90s, 10m, 2h, 1d; a week at the most.")
    var expires = Lifetime(seconds: 600)

    @Flag(name: .shortAndLong, help: "Do not ask at this end: whoever presents it first is paired.")
    var yes = false

    @Flag(help: "Print the invitation's text and nothing else.")
    var text = false

    @Flag(
        name: .customLong("list"),
        help: "List the invitations that have not been used, and how often they can be tried.")
    var lists = false

    @Option(help: ArgumentHelp("Take an invitation back.", valueName: "id"))
    var revoke: String?

    func run() async throws {
        if lists {
            try await list()
        } else if let revoke {
            _ = try await withClient(globals) {
                try await $0.call(Invitations.Revoke.self, Invitations.Revoke.Input(id: revoke))
            }
        } else {
            let ending = try await Signals.untilInterrupted {
                try await withClient(globals, listening: true, creating: true) { try await invite($0) }
            }
            if let signal = ending.signal { throw ExitCode(128 + signal) }
        }
    }

    private func invite(_ client: Client) async throws {
        let invitation = try await client.call(
            Invitations.Create.self,
            Invitations.Create.Input(grants: grants, lifetimeSeconds: expires.seconds, isAutomatic: yes))
        if globals.json {
            say(try jsonText(invitation))
        } else if text {
            say(invitation.text)
        } else {
            try await WaitingThings(client).tellAttempts()
            show(invitation)
        }
        // With a daemon behind us nothing more is needed; without one the device lives as long as this command.
        let standsAlone = try await daemonClient(globals) == nil
        guard standsAlone || (!yes && isatty(STDIN_FILENO) == 1) else { return }
        let id = invitation.info.id
        note("\nWaiting for the device that uses it (Ctrl-C stops waiting).")
        try await withTimeout(seconds: expires.seconds) {
            try await watchPairings(client, asks: !yes && TerminalPrompt.isPossible) { event in
                switch event {
                case .paired(let request): return request.invitation != id
                case .ended(let request, _) where request.invitation == id: try await requireUsable(id, client)
                case .brokenOff(let attempt) where attempt.invitation == id: try await requireUsable(id, client)
                default: break
                }
                return true
            }
        }
    }

    /// - Throws: `.unpaired` when nobody can use the invitation any more.
    private func requireUsable(_ id: String, _ client: Client) async throws {
        let invitations = try await client.call(Invitations.List.self, Nothing())
        if invitations.contains(where: { $0.id == id && $0.attemptsLeft != 0 }) { return }
        throw KithError(.unpaired, "The invitation is not valid any more. `kith invite` makes another.")
    }

    private func list() async throws {
        let (invitations, waiting) = try await withClient(globals) { client in
            (try await client.call(Invitations.List.self, Nothing()), try await WaitingThings(client))
        }
        if globals.json {
            say(try jsonText(invitations))
            return
        }
        say(
            table(
                ["ID", "EXPIRES", "ASKS", "ATTEMPTS LEFT", "ALLOWS"],
                invitations.map { invitation in
                    [
                        invitation.id, relative(invitation.expiresAt), invitation.isAutomatic ? "no" : "yes",
                        invitation.attemptsLeft.map(String.init) ?? "-",
                        invitation.grants.map(\.description).joined(separator: " "),
                    ]
                }))
        waiting.tellAttempts()
    }
}

/// A length of time as typed: `90s`, `10m`, `2h`, `1d`.
struct Lifetime: ExpressibleByArgument {
    let seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    init?(argument: String) {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400]
        guard let unit = argument.last, let factor = units[unit], let count = Int64(argument.dropLast()),
            count > 0, count <= 604_800
        else { return nil }
        seconds = count * factor
    }

    var defaultValueDescription: String { "\(seconds / 60)m" }
}

/// Runs `body`, and gives up on it with `.timedOut` after `seconds`.
func withTimeout(seconds: Int64, _ body: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: .seconds(seconds))
            throw KithError(.timedOut, "Nobody used the invitation in time. `kith invite` makes another.")
        }
        defer { group.cancelAll() }
        try await group.next()
    }
}

/// `kith pair`.
struct Pair: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Use an invitation another device made.",
        discussion: helpText(
            """
            Connects to the device that made the invitation and shows a short code. The other device shows the same
            code, or somebody stands between you: then say no. --yes does not ask at this end.

            An invitation is a secret until it is used. Without one, the command asks for it; other users of this machine
            may see what stands on a command line.

              kith pair                                    asks for the invitation
              kith pair --scan photo.png                   reads the QR code in a picture
              kith pair --file invitation.txt --yes
              kith pair - --yes < invitation.txt
              kith pair kith-invite1... --grant shell      the other device may open a shell here, too
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(
        help: ArgumentHelp(
            "The invitation's text, as `kith up` or `kith invite` printed it; - reads standard input. Other users may see it here.",
            valueName: "invitation"))
    var invitation: String?

    @Option(help: "Read the invitation's text from this file.", completion: .file())
    var file: String?

    @Option(
        help: ArgumentHelp("Read the invitation from a picture of its QR code, with zbarimg.", valueName: "picture"),
        completion: .file())
    var scan: String?

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp(
            "What the other device may do on this one (repeatable). Default: nothing.", valueName: "grant"),
        completion: Grant.defaultCompletionKind,
        transform: Grant.reading)
    var grants: [Grant] = []

    @Flag(name: .shortAndLong, help: "Do not ask to compare the codes at this end.")
    var yes = false

    func validate() throws {
        guard [invitation, file, scan].count(where: { $0 != nil }) <= 1 else {
            throw ValidationError("Give the invitation once: as text, with --file or with --scan.")
        }
    }

    func run() async throws {
        let text = try await text()
        _ = try Invitation(text: text)
        // Before the other device counts an attempt.
        guard yes || (TerminalPrompt.isPossible && invitation != "-") else {
            throw KithError(
                .invalid, "There is no terminal to ask on. With --yes nobody compares the codes at this end.")
        }
        let ending = try await Signals.untilInterrupted {
            try await withClient(globals, creating: true) { client in try await pair(by: text, client) }
        }
        guard let signal = ending.signal else { return }
        note("\nNot paired: interrupted. Nothing was stored here.")
        throw ExitCode(128 + signal)
    }

    private func text() async throws -> String {
        if let file { return try InvitationText.read(file: file) }
        if let scan { return try InvitationText.scan(scan) }
        guard let invitation else { return try await InvitationText.ask() }
        return invitation == "-" ? try InvitationText.readInput() : invitation
    }

    private func pair(by text: String, _ client: Client) async throws {
        let opened = try await client.open(
            PairingMethods.Join.self, PairingMethods.Join.Input(invitation: text, grants: grants))
        let stream = opened.stream
        defer { stream.abort(.cancelled) }
        enum Input { case event(PairingMethods.JoinEvent?), answer(Bool) }
        try await withThrowingTaskGroup(of: Input.self) { group in
            defer { group.cancelAll() }
            var isAsked = false
            group.addTask { .event(try await stream.receive()) }
            while let input = try await group.next() {
                switch input {
                case .event(.compare(let code, let name, let id, let attempts)?):
                    try await describe(code, name, id, attempts, client)
                    group.addTask { .event(try await stream.receive()) }
                    isAsked = !yes
                    group.addTask {
                        .answer(try await yes ? true : TerminalPrompt.agrees(to: PairingPrompts.question))
                    }
                case .answer(let accept):
                    isAsked = false
                    try await stream.send(PairingMethods.Decision(accept: accept))
                    // How a refusal ended is the next event, too.
                    if accept { note("Waiting for the other end to agree.") }
                case .event(.paired(let device)?):
                    if globals.json {
                        say(try jsonText(device))
                    } else {
                        say("Paired with \(styled(printable(device.name), .green)). Try: kith ping \(device.name)")
                        noteWarnings(device.warnings)
                    }
                    return
                case .event(.failed(let code, let message)?):
                    if isAsked { note("") }
                    throw KithError(code, message)
                case .event(nil):
                    if isAsked { note("") }
                    throw KithError(.closed, "The connection ended before the pairing did. Ask for a new invitation.")
                }
            }
        }
    }

    private func describe(
        _ code: String, _ name: String, _ id: DeviceID, _ attempts: Pairing.Attempts?, _ client: Client
    ) async throws {
        note("Connected to \(styled(printable(name), .bold, on: STDERR_FILENO)), DeviceID \(id).")
        noteHeldGrants(try await heldGrants(of: id, client))
        if let attempts, attempts.byOthers > 0 {
            let times = attempts.byOthers == 1 ? "once" : "\(attempts.byOthers) times"
            note(
                styled(
                    "Another device has tried this invitation \(times) before, and was not paired. If that was not yours, say no and get a new invitation another way.",
                    .yellow, on: STDERR_FILENO))
        } else if let attempts, attempts.earlier > 0 {
            note("This is attempt \(attempts.earlier + 1) of \(Pairing.attemptLimit) with this invitation.")
        }
        note("Both devices must show the code  \(styled(code, .bold, on: STDERR_FILENO))")
    }

    /// What a device may do here already; `nil` when it is not paired.
    private func heldGrants(of id: DeviceID, _ client: Client) async throws -> [Grant]? {
        try await client.call(Devices.List.self, Devices.List.Input(probe: false)).first { $0.id == id }?.grants
    }
}
