import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire
internal import KithReach

/// `kith status`.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Describe this device: name, DeviceID, addresses, ticket, its key as directories and DNS write it.",
        discussion: helpText(
            """
              kith status
              kith status --json | jq -r .ticket
            """))

    @OptionGroup var globals: GlobalOptions

    /// The output of `--json`.
    private struct Description: Encodable {
        var isUp: Bool
        var name: String
        var id: DeviceID
        /// The key by which directories, and DNS, name the device's record.
        var zBase32: String
        var devices: Int
        var version: String
        // Of a device that is up.
        var addresses: [NetworkAddress]?
        var ticket: String?
        var pid: Int32?
        var problems: [String]?
        var relays: [String]?
        var directories: [Reach.Network.Directory]?
        /// The paired devices that are connected.
        var connected: [Connected]?
        /// What other programs serve here.
        var programs: [String]?

        init(_ status: ThisDevice.Status.Output, isUp: Bool, connected: [Connected], programs: [String]) {
            self.isUp = isUp
            zBase32 = status.id.zBase32
            (name, id, devices, version) = (status.name, status.id, status.devices, status.version)
            // One that is down is looked at from inside this process, which ends at once: where it listened and who
            // answered is of use to nobody.
            guard isUp else { return }
            (addresses, ticket, pid, problems) = (status.addresses, status.ticket, status.pid, status.problems)
            (relays, directories) = (status.relays, status.directories)
            self.connected = connected
            if !programs.isEmpty { self.programs = programs }
        }
    }

    /// A device that is connected, and the program that runs there, as far as it said.
    private struct Connected: Encodable {
        var name: String
        var version: String?
    }

    func run() async throws {
        let isUp = try await daemonClient(globals) != nil
        let (answer, waiting, table, devices) = try await withClient(globals) { client in
            (
                try await client.call(ThisDevice.Status.self, Nothing()), try await PendingRequests(client),
                try await client.call(API.Describe.self, Nothing()),
                isUp ? try await client.call(Devices.List.self, Devices.List.Input(probe: false)) : []
            )
        }
        let connected = devices.filter(\.isOnline).map { Connected(name: $0.name, version: $0.version) }
        let programs = table.methods.filter { $0.service != nil }.map(\.name)
        let status = Description(answer, isUp: isUp, connected: connected, programs: programs)
        if globals.json {
            printLine(try jsonText(status))
            return
        }
        printLine(
            "\(styled(status.name, .bold)) is \(isUp ? styled("up", .green) : styled("down (`kith up` starts it)", .yellow))"
        )
        printLine("  DeviceID   \(status.id)")
        printLine("  z-base-32  \(status.zBase32)")
        for (index, address) in (status.addresses ?? []).enumerated() {
            printLine("  \(index == 0 ? "listens on" : "          ") \(address)")
        }
        for (index, relay) in (status.relays ?? []).enumerated() {
            printLine("  \(index == 0 ? "relays    " : "          ") \(printable(relay))")
        }
        for (index, directory) in (status.directories ?? []).enumerated() {
            printLine("  \(index == 0 ? "directory " : "          ") \(directory.words)")
        }
        printLine("  devices    \(status.devices)")
        for (index, device) in connected.enumerated() {
            let version = device.version.map { "  Kith \(printable($0))" } ?? ""
            printLine("  \(index == 0 ? "connected " : "          ") \(printable(device.name))\(version)")
        }
        if let ticket = status.ticket { printLine("  ticket     \(ticket)") }
        printLine("  data       \(globals.directory)")
        for (index, method) in programs.enumerated() {
            printLine("  \(index == 0 ? "programs  " : "          ") \(method)")
        }
        for problem in status.problems ?? [] { printLine("  \(styled("problem", .red))    \(printable(problem))") }
        waiting.show()
    }
}

extension Reach.Network.Directory {
    /// Its URL, and what became of the last exchanges with it.
    var words: String {
        let published =
            switch publication {
            case "worked": "keeps this device's record"
            case "failed": "does not keep this device's record"
            default: "nothing published yet"
            }
        let answered =
            switch question {
            case "worked": "answered the last question"
            case "failed": "did not answer the last question"
            default: "nothing asked yet"
            }
        return "\(printable(url))  \(published), \(answered)" + (reason.map { ": \(printable($0))" } ?? "")
    }
}
