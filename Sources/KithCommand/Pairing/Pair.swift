import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// `kith pair`.
struct PairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair",
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
                .invalid,
                "There is no terminal to compare the codes on. Run it in one, or pass --yes to pair without comparing them at this end."
            )
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
                        printLine(try jsonText(device))
                    } else {
                        printLine(
                            "Paired with \(styled(printable(device.name), .green)). Try: kith ping \(device.name)")
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

    /// The grants a device has here already; `nil` when it is not paired.
    private func heldGrants(of id: DeviceID, _ client: Client) async throws -> [Grant]? {
        try await client.call(Devices.List.self, Devices.List.Input(probe: false)).first { $0.id == id }?.grants
    }
}
