import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// `kith devices`.
struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: "List the paired devices: online or not, what they may do here, what you may do there.",
        discussion: helpText(
            """
            Tries to reach those that are not connected, for two seconds at the most, and asks each what this device may
            do there. Of one that does not answer you see what it said last, and how long ago.

              kith devices
              kith devices laptop       more about one: its addresses, and when each was last good
              kith devices --json
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Only this device, with its addresses.")
    var device: String?

    @Flag(help: "Do not try to reach devices that are not connected.")
    var cached = false

    func run() async throws {
        let (devices, waiting) = try await withClient(globals) { client in
            (
                try await client.call(Devices.List.self, Devices.List.Input(probe: !cached, device: device)),
                try await WaitingThings(client)
            )
        }
        defer { if !globals.json { waiting.tell() } }
        if globals.json {
            say(try jsonText(devices))
        } else if devices.isEmpty {
            note("No device is paired with this one. `kith invite` makes an invitation, `kith pair` uses one.")
        } else if device != nil {
            for device in devices { say(DeviceText(device).details) }
        } else {
            say(isatty(STDOUT_FILENO) == 1 ? DeviceText.list(devices, width: 80) : DeviceText.lines(devices))
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
}

/// `kith grant`.
struct GrantCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grant",
        abstract: "Change what a paired device may do here.",
        discussion: helpText(
            """
            What runs and loses its grant is cut off at once.

              kith grant laptop --add shell
              kith grant laptop --add files:write=/srv --remove shell

            \(grantsHelp)
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(
        help: ArgumentHelp(
            "Give a grant (repeatable).",
            valueName: "grant"), completion: Grant.defaultCompletionKind, transform: Grant.reading)
    var add: [Grant] = []

    @Option(
        help: ArgumentHelp("Take a grant away (repeatable).", valueName: "grant"),
        completion: Grant.defaultCompletionKind, transform: Grant.reading)
    var remove: [Grant] = []

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(
                Devices.ChangeGrants.self, Devices.ChangeGrants.Input(device: device, add: add, remove: remove))
        }
        if globals.json {
            say(try jsonText(info))
        } else {
            let grants = info.grants.map(\.description).joined(separator: ", ")
            say("\(info.whole) may: \(grants.isEmpty ? "nothing" : grants)")
            noteWarnings(info.warnings)
        }
    }
}

/// Says what a person should know of grants.
func noteWarnings(_ warnings: [String]?) {
    for warning in warnings ?? [] { note("Warning: \(printable(warning))") }
}

/// `kith rename`.
struct Rename: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Give a paired device another name on this one.",
        discussion: helpText(
            """
              kith rename laptop work-laptop
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Argument(help: "Its new name.")
    var name: String

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(Devices.Rename.self, Devices.Rename.Input(device: device, name: name))
        }
        say(globals.json ? try jsonText(info) : "It is called \(printable(info.name)) now, DeviceID \(info.id).")
    }
}

extension Devices.Info {
    /// A device as it is called and who it is, for commands that change what it may do: only the id decides that.
    var whole: String { "\(printable(name)), DeviceID \(id)," }
}

/// `kith forget`.
struct Forget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "End the pairing with a device and cut off what it is doing here, at once.",
        discussion: helpText(
            """
              kith forget old-phone             by its name, or the beginning of its DeviceID
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(Devices.Forget.self, Devices.Reference(device: device))
        }
        if globals.json {
            say(try jsonText(info))
        } else {
            say("Forgot \(info.whole) which can come back only with a new invitation.")
        }
    }
}
