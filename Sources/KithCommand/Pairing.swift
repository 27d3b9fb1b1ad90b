import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

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

            Grants: shell, files:read=PATH, files:write=PATH. `kith grant` changes them later.
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

    @Flag(name: .customLong("list"), help: "List the invitations that can still be used.")
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
            try await withClient(globals, listening: true, creating: true) { try await invite($0) }
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
            show(invitation)
        }
        // With a daemon behind us nothing more is needed; without one the device lives as long as this command.
        let standsAlone = try await daemonClient(globals) == nil
        guard standsAlone || (!yes && isatty(STDIN_FILENO) == 1) else { return }
        let id = invitation.info.id
        note("\nWaiting for the device that uses it (Ctrl-C stops waiting).")
        try await withTimeout(seconds: expires.seconds) {
            try await watchPairings(client, asks: !yes) { event in
                if case .paired(let request) = event, request.invitation == id { return false }
                return true
            }
        }
    }

    private func list() async throws {
        let invitations = try await withClient(globals) { try await $0.call(Invitations.List.self, Nothing()) }
        if globals.json {
            say(try jsonText(invitations))
            return
        }
        say(
            table(
                ["ID", "EXPIRES", "ASKS", "ALLOWS"],
                invitations.map { invitation in
                    [
                        invitation.id, relative(invitation.expiresAt), invitation.isAutomatic ? "no" : "yes",
                        invitation.grants.map(\.description).joined(separator: " "),
                    ]
                }))
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

              kith pair kith-invite1...
              kith pair kith-invite1... --grant shell      the other device may open a shell here, too
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The invitation's text, as `kith up` or `kith invite` printed it; - reads it from standard input.")
    var invitation: String

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp(
            "What the other device may do on this one (repeatable). Default: nothing.", valueName: "grant"),
        completion: Grant.defaultCompletionKind,
        transform: Grant.reading)
    var grants: [Grant] = []

    @Flag(name: .shortAndLong, help: "Do not ask to compare the codes at this end.")
    var yes = false

    func run() async throws {
        let text = invitation == "-" ? (readLine() ?? "") : invitation
        try await withClient(globals, creating: true) { client in
            let opened = try await client.open(
                PairingMethods.Join.self, PairingMethods.Join.Input(invitation: text, grants: grants))
            let messages = MessageStream(opened.stream)
            defer { opened.stream.abort(.cancelled) }
            while let event = try await messages.receive(PairingMethods.JoinEvent.self) {
                switch event {
                case .compare(let code, let name, let id):
                    note("Connected to \(styled(printable(name), .bold, on: STDERR_FILENO)), DeviceID \(id).")
                    noteHeldGrants(try await heldGrants(of: id, client))
                    note("Both devices must show the code  \(styled(code, .bold, on: STDERR_FILENO))")
                    let accept = try await yes ? true : answer("Do they, and do you want this?")
                    try await messages.send(PairingMethods.Decision(accept: accept))
                    if !accept { throw KithError(.cancelled, "Not paired.") }
                    note("Waiting for the other end to agree.")
                case .paired(let device):
                    if globals.json {
                        say(try jsonText(device))
                    } else {
                        say("Paired with \(styled(printable(device.name), .green)). Try: kith ping \(device.name)")
                        noteWarnings(device.warnings)
                    }
                    return
                case .failed(let code, let message):
                    throw KithError(code, message)
                }
            }
            throw KithError(.closed, "The connection ended before the pairing did. Ask for a new invitation.")
        }
    }

    /// What a device may do here already; `nil` when it is not paired.
    private func heldGrants(of id: DeviceID, _ client: Client) async throws -> [Grant]? {
        try await client.call(Devices.List.self, Devices.List.Input(probe: false)).first { $0.id == id }?.grants
    }
}

/// Says what becomes of the grants of a device that is paired already; `nil`: it is not.
func noteHeldGrants(_ held: [Grant]?) {
    guard let held else { return }
    let grants = held.map(\.description).joined(separator: ", ")
    note("It is paired already, and keeps what it may do here: \(grants.isEmpty ? "nothing" : grants).")
}

/// `kith accept`.
struct Accept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Answer a pairing that waits at this device.",
        discussion: helpText(
            """
            Needed only when `kith up` has no terminal to ask on. Without the pairing's number it takes the only one that
            waits, or lists them.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The pairing, as shown with its code. Default: the only one that waits.")
    var id: String?

    @Flag(help: "Refuse it.")
    var refuse = false

    func run() async throws {
        let client = try await runningClient(globals, ", so no pairing waits")
        let id = if let id { id } else { try await onlyOne(client) }
        _ = try await client.call(PairingMethods.Decide.self, PairingMethods.Decide.Input(id: id, accept: !refuse))
    }

    /// The pairing that waits.
    ///
    /// - Throws: `.notFound` when none does, `.invalid` with all of them when several do.
    private func onlyOne(_ client: Client) async throws -> String {
        let waiting = try await client.call(PairingMethods.Waiting.self, Nothing())
        guard let request = waiting.first else { throw KithError(.notFound, "No pairing waits.") }
        for request in waiting {
            note(WaitingThings.line(request))
            noteWarnings(request.warnings)
        }
        guard waiting.count == 1 else {
            throw KithError(.invalid, "\(waiting.count) pairings wait. Say which one: kith accept \(request.id)")
        }
        return request.id
    }
}
