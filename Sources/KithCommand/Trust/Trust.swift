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
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws {
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
