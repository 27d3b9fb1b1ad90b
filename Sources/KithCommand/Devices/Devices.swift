import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity

/// `kith devices`.
struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "List the paired devices: online or not, what they may do here, what you may do there.",
        discussion: helpText(
            """
            Tries to reach those that are not connected, for two seconds at the most, and asks each what this device may
            do there. Of one that does not answer you see what it said last, and how long ago. Where another version of
            the program runs, it is named. A device that is certified is known by its certificate (`kith connect`), and only
            as long as that holds.

              kith devices
              kith devices laptop       more about one: its version, its addresses and when each was last good
              kith devices --label home --favorites    those with a label, or that come first (kith label)
              kith devices --json
              kith subscribe '$registry/peers/>'    each that comes, goes, or is reached another way
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Only this device, with its addresses.")
    var device: String?

    @Option(help: "Only devices with this label. May be said several times: those that have all of them.")
    var label: [String] = []

    @Flag(help: "Only favorites.")
    var favorites = false

    @Flag(help: "Do not try to reach devices that are not connected.")
    var cached = false

    func run() async throws {
        let (all, waiting) = try await withClient(globals) { client in
            (
                try await client.call(Devices.List.self, Devices.List.Input(probe: !cached, device: device)),
                try await PendingRequests(client)
            )
        }
        defer { if !globals.json { waiting.show() } }
        let devices = Self.ordered(all.filter(isWanted))
        if globals.json {
            printLine(try jsonText(devices))
        } else if devices.isEmpty, !all.isEmpty {
            note("None of the paired devices is like that. `kith label DEVICE LABEL` gives a label.")
        } else if devices.isEmpty {
            note("No device is paired with this one. `kith invite` makes an invitation, `kith pair` uses one.")
        } else if device != nil {
            for device in devices { printLine(DeviceText(device).details) }
        } else {
            printLine(isatty(STDOUT_FILENO) == 1 ? DeviceText.list(devices, width: 80) : DeviceText.lines(devices))
        }
        if !globals.json {
            for device in devices {
                guard let others = device.looksLike else { continue }
                note(
                    "(!) \(printable(device.name)) (\(device.id.short)) may be taken for "
                        + "\(others.map(printable).joined(separator: ", ")). Another name: "
                        + "kith rename \(device.id.short) NAME")
            }
        }
    }

    private func isWanted(_ device: Devices.Info) -> Bool {
        let labels = (device.labels ?? []).map { $0.lowercased() }
        return label.allSatisfy { labels.contains($0.lowercased()) } && (!favorites || device.isFavorite == true)
    }

    /// Favorites first, each kind in the order it has.
    private static func ordered(_ devices: [Devices.Info]) -> [Devices.Info] {
        devices.filter { $0.isFavorite == true } + devices.filter { $0.isFavorite != true }
    }
}
