import ArgumentParser
import KithAPI
import KithCommandLine
import KithIdentity

/// `kith trust`.
struct TrustCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trust",
        abstract: "Show which devices are your own: certificates, and who is revoked.",
        discussion: helpText(
            """
            The certificate of this device, the root key it is under, the other devices under it that this one has met, and
            those that were revoked.

              kith trust
              kith trust --json

            Devices under your root become known here by their certificates, without pairing (`kith connect`). They may do
            nothing then, unless this says otherwise, for those that become known from now on:

              kith trust --grant files:read=/srv       each gets this grant
              kith trust --no-grant                    none gets any
              kith trust --no-admit                    none becomes known but by pairing; --admit takes it back
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp(
            "What each device that becomes known by its certificate gets (repeatable). Default: nothing.",
            valueName: "grant"),
        completion: Grant.defaultCompletionKind, transform: Grant.reading)
    var grants: [Grant] = []

    @Flag(name: .customLong("no-grant"), help: "Give such devices no grant.")
    var noGrant = false

    @Flag(inversion: .prefixedNo, help: "Whether devices become known by their certificates.")
    var admit: Bool?

    func validate() throws {
        guard grants.isEmpty || !noGrant else { throw ValidationError("Give --grant or --no-grant, not both.") }
    }

    func run() async throws {
        guard grants.isEmpty, !noGrant, admit == nil else { return try await change() }
        let (status, names) = try await withClient(globals) { client in
            let devices = try await client.call(Devices.List.self, Devices.List.Input(probe: false))
            return (
                try await client.call(Trust.Status.self, Nothing()),
                Dictionary(devices.map { ($0.id, $0.name) }) { first, _ in first }
            )
        }
        guard !globals.json else { return printLine(try jsonText(status)) }
        guard let root = status.root else {
            let words = status.state == .pending ? "A request waits for its code to be given." : "No certificate."
            return printLine("\(words) `kith enrol --help` says how a device gets one.")
        }
        let holder = status.isHolder ? "held here" : "held by \(name(status.holder, names))"
        printLine("root         \(root), \(holder)")
        printLine("certificate  \(words(status))")
        if let admission = status.admission { printLine("admission    \(words(admission))") }
        if status.revocations > 0 { printLine("revocations  list \(status.revocations)") }
        if !status.members.isEmpty {
            printLine()
            printLine(
                table(
                    ["NAME", "DEVICE", "CERTIFICATE", "UNTIL"],
                    status.members.map { member in
                        [
                            member.name.map(printable) ?? "-", member.device.short, member.state.rawValue,
                            date(member.until),
                        ]
                    }))
        }
        if !status.revoked.isEmpty {
            printLine()
            printLine(
                table(
                    ["REVOKED", "ON", "REASON"],
                    status.revoked.map { [$0.device.short, date($0.time), printable($0.reason)] }))
        }
    }

    private func change() async throws {
        let input = Trust.Admit.Input(isOn: admit, grants: grants.isEmpty && !noGrant ? nil : grants)
        let admission = try await withClient(globals) { try await $0.call(Trust.Admit.self, input) }
        guard !globals.json else { return printLine(try jsonText(admission)) }
        printLine("From now on: \(words(admission)).")
        noteWarnings(admission.warnings)
    }

    private func words(_ admission: Trust.Admission) -> String {
        guard admission.isOn else { return "by pairing only" }
        let grants = admission.grants.map { printable($0.description) }.joined(separator: ", ")
        return "by certificate, too; such a device may do \(grants.isEmpty ? "nothing" : grants)"
    }

    private func words(_ status: Trust.Status.Output) -> String {
        let until = status.until.map { date($0) } ?? "-"
        switch status.state {
        case .valid: return "valid until \(until), renewed from \(status.renewsAt.map { date($0) } ?? "-")"
        case .expired: return "expired on \(until); it is renewed when the device with the root key is connected"
        case .revoked: return "revoked"
        case .invalid: return "not to be believed: \(printable(status.reason ?? "no reason was given"))"
        case .pending: return "until \(until); a request for another waits"
        case .none: return "none"
        }
    }

    private func name(_ device: DeviceID?, _ names: [DeviceID: String]) -> String {
        guard let device else { return "nobody known here" }
        return names[device].map(printable) ?? device.short
    }
}
