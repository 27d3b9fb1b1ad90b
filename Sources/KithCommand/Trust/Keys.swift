import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// `kith keys`.
struct KeysCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keys",
        abstract: "Show the keys of this device and its person; make those of networks and profiles.",
        discussion: helpText(
            """
              kith keys                      the root key, networks, profiles, labels: which there are, never a secret
              kith keys network family       a key that all your devices get; no program can use it yet
              kith keys profile work         a key for what others encrypt to you at work; always the same one
              kith keys label backup         a key for a program of yours, made now if it was not there

            Networks and profiles are made where the root key is (`kith enrol --begin`, `kith trust`). Your other devices
            get the key of a new network when they connect next; after `kith revoke` every network gets a new one.

            A program gets a labelled key by `kith call '$keys/ensure' '{"label": "backup"}'`. Other devices get none, unless a
            grant names that very method.
            """),
        subcommands: [KeysList.self, KeysNetwork.self, KeysProfile.self, KeysLabel.self],
        defaultSubcommand: KeysList.self)
}

/// `kith keys list`.
struct KeysList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show which keys there are.",
        discussion: helpText(
            """
              kith keys
              kith keys list --json
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
        let keys = try await withClient(globals) { try await $0.request("$keys/list", as: Keys.List.self) }
        if globals.json { return printLine(try jsonText(keys)) }
        let rows =
            [keys.root.map { ["root", "", $0] } ?? ["root", "", "not here"], ["this device", "", keys.agreement]]
            + keys.networks.map { ["network", printable($0.label), $0.id] }
            + keys.profiles.map { ["profile", printable($0.label), $0.id] }
            + keys.labels.map { ["label", printable($0), "secret"] }
        printLine(table(["KEY", "NAME", "ID"], rows))
    }
}

/// `kith keys network`.
struct KeysNetwork: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "network", abstract: "Make the key of a network, or show it.",
        discussion: helpText(
            """
              kith keys network family
              kith keys network family --json      with the public key, for programs that encrypt to it
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The network's name.") var name: String

    func run() async throws { try await showPublicKey("$keys/network", name, globals) }
}

/// `kith keys profile`.
struct KeysProfile: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profile", abstract: "Make the key of a profile, or show it.",
        discussion: helpText(
            """
              kith keys profile work
              kith keys profile work --json        with the public key, for those who encrypt to you
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The profile's label.") var label: String

    func run() async throws { try await showPublicKey("$keys/profile", label, globals) }
}

/// `kith keys label`.
struct KeysLabel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "label", abstract: "Make a key for a program of yours, unless it is there.",
        discussion: helpText(
            """
              kith keys label backup
              kith call '$keys/ensure' '{"label": "backup"}'      what the program does to get it
            """))

    @OptionGroup var globals: GlobalOptions
    @Argument(help: "The key's label.") var label: String

    func run() async throws {
        // The key itself stays where it is.
        _ = try await withClient(globals) {
            try await $0.request("$keys/ensure", Keys.Label(label: label), as: Keys.Secret.self)
        }
        if globals.json { return printLine(try jsonText(Keys.Label(label: label))) }
        printLine("There is a key labelled \(printable(label)).")
    }
}

private func showPublicKey(_ path: String, _ label: String, _ globals: GlobalOptions) async throws {
    let key = try await withClient(globals) {
        try await $0.request(path, Keys.Label(label: label), as: Keys.Public.self)
    }
    printLine(globals.json ? try jsonText(key) : key.id)
}
