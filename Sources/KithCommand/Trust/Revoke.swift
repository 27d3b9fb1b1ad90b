import ArgumentParser
import KithAPI
import KithCommandLine
import KithTrust

/// `kith revoke`.
struct RevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Cut off one of your devices on all of yours, for good.",
        discussion: helpText(
            """
            For a device that is lost or not used any more. Run it on the device that holds your root key: the device is
            cut off here at once, with all it may do. Your other devices are told at once when they are connected, else
            when they connect. They get new keys for your networks. It cannot be undone: found again, the device needs a
            new key of its own.

              kith revoke old-phone --reason lost

            People whose devices it is paired with are not told: ask them to run `kith forget` there. `kith forget` ends
            a pairing on this device alone.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device, by name, or by its whole DeviceID if it is not paired any more.")
    var device: String

    @Option(
        help: "Why: \(RevocationList.Reason.allCases.map(\.rawValue).joined(separator: ", ")).",
        completion: .list(RevocationList.Reason.allCases.map(\.rawValue)))
    var reason = RevocationList.Reason.unspecified.rawValue

    func validate() throws {
        guard RevocationList.Reason(rawValue: reason) != nil else {
            throw ValidationError(
                "There are the reasons \(RevocationList.Reason.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
    }

    func run() async throws {
        let outcome = try await withClient(globals) {
            try await $0.call(Trust.Revoke.self, Trust.Revoke.Input(device: device, reason: reason))
        }
        guard !globals.json else { return printLine(try jsonText(outcome)) }
        printLine("Revoked \(printable(outcome.name ?? "a device")), DeviceID \(outcome.device).")
        if !outcome.networks.isEmpty {
            note("New keys for the networks: \(outcome.networks.map(printable).joined(separator: ", ")).")
        }
        let told = outcome.told.map(printable).joined(separator: ", ")
        note(told.isEmpty ? "No other device is connected; each is told when it connects." : "Told already: \(told).")
    }
}
