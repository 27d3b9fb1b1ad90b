import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// The grants a device can get, for the help of commands that give them.
let grantsHelp = """
    Grants:
      shell                        a shell, and any command
      shell:command=LINE           this line and nothing else
      shell:view                   looking at shells that are shared
      shell:agent                  the use of an ssh agent that it brings along
      files:read=/PATH             what is in a folder; files:write=/PATH changes it, too
      screen:view                  seeing the screen, once a person there lets it; screen:control types and points, too
      screen:clipboard             exchanging clipboards with it; screen:record keeping a video of it
      screen:privacy               keeping it dark there meanwhile
      screen:unattended            all of that without a person there being asked
      forward                      connections to all this device can reach
      forward:to=HOST:PORT         to one place; forward:listen=ADDRESS:PORT listens here
      library                      searching the libraries: names, paths, sizes, tags, and no contents
      library:read                 and copying the files in their locations (kith library)
      node:PATH                    services of programs and applications, and events: node:math/add, node:chat/*
    """

/// `kith invite`.
struct InviteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Make a one-time invitation for another device.",
        discussion: helpText(
            """
            Prints the invitation as text and QR code, then waits for the device that uses it and asks you to compare
            the code both ends show. With --yes it does not wait: the first device that presents it is paired.

              kith invite --grant shell --grant files:write=/srv --expires 10m
              kith invite --grant files:read=/home/ana/photos --yes
              kith invite --grant screen:view --expires 1h    to look at the screen
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
            printLine(try jsonText(invitation))
        } else if text {
            printLine(invitation.text)
        } else {
            try await PendingRequests(client).showAttempts()
            show(invitation)
        }
        // With a daemon behind us nothing more is needed; without one the device lives as long as this command.
        let isOnlyProcess = try await daemonClient(globals) == nil
        guard isOnlyProcess || (!yes && isatty(STDIN_FILENO) == 1) else { return }
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
            (try await client.call(Invitations.List.self, Nothing()), try await PendingRequests(client))
        }
        if globals.json {
            printLine(try jsonText(invitations))
            return
        }
        printLine(
            table(
                ["ID", "EXPIRES", "ASKS", "ATTEMPTS LEFT", "ALLOWS"],
                invitations.map { invitation in
                    [
                        invitation.id, relative(invitation.expiresAt), invitation.isAutomatic ? "no" : "yes",
                        invitation.attemptsLeft.map(String.init) ?? "-",
                        invitation.grants.map(\.description).joined(separator: " "),
                    ]
                }))
        waiting.showAttempts()
    }
}
