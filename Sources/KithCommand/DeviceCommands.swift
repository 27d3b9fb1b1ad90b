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
        abstract: "List the paired devices: online, path, round trip, grants.",
        discussion: "Tries to reach those that are not connected, for two seconds at the most.")

    @OptionGroup var globals: GlobalOptions

    @Flag(help: "Do not try to reach devices that are not connected.")
    var cached = false

    func run() async throws {
        let devices = try await withClient(globals) {
            try await $0.call(Devices.List.self, Devices.List.Input(probe: !cached))
        }
        if globals.json {
            say(try jsonText(devices))
            return
        }
        if devices.isEmpty {
            note("No device is paired with this one. `kith invite` makes an invitation, `kith pair` uses one.")
            return
        }
        say(
            table(
                ["NAME", "DEVICE", "ONLINE", "LAST SEEN", "PATH", "RTT", "MAY DO HERE"],
                devices.map { device in
                    [
                        printable(device.name), device.id.short,
                        device.isOnline ? "yes" : "no", device.lastSeen.map { relative($0) } ?? "never",
                        device.path ?? "-",
                        device.roundTripMilliseconds.map { String(format: "%.2f ms", $0) } ?? "-",
                        device.grants.isEmpty ? "nothing" : device.grants.map(\.description).joined(separator: " "),
                    ]
                }))
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
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(
        help: ArgumentHelp(
            "Give a grant: shell, files:read=PATH, files:write=PATH, forward, forward:to=HOST:PORT (repeatable).",
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
            say("\(printable(info.name)) may: \(grants.isEmpty ? "nothing" : grants)")
        }
    }
}

/// `kith rename`.
struct Rename: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Give a paired device another name on this one.")

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Argument(help: "Its new name.")
    var name: String

    func run() async throws {
        let info = try await withClient(globals) {
            try await $0.call(Devices.Rename.self, Devices.Rename.Input(device: device, name: name))
        }
        if globals.json { say(try jsonText(info)) }
    }
}

/// `kith forget`.
struct Forget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "End the pairing with a device and cut off what it is doing here, at once.")

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
            say("Forgot \(printable(info.name)). It can come back only with a new invitation.")
        }
    }
}

/// `kith ping`.
struct Ping: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure the round trip to a device, through the whole stack.",
        discussion: helpText(
            """
              kith ping laptop
              kith ping laptop --count 100 --interval 0 --size 1000 --json
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(name: .shortAndLong, help: "How many times.")
    var count = 4

    @Option(name: .shortAndLong, help: "Seconds between two.")
    var interval = 0.2

    @Option(name: .shortAndLong, help: "Bytes to send and get back, at most 1,000,000.")
    var size = 56

    func validate() throws {
        guard (1...1_000_000).contains(count) else { throw ValidationError("--count takes 1 to 1,000,000.") }
        guard (0...1_000_000).contains(size) else { throw ValidationError("--size takes 0 to 1,000,000.") }
        guard interval >= 0, interval <= 3_600 else { throw ValidationError("--interval takes 0 to 3,600 seconds.") }
    }

    /// What `--json` prints.
    private struct Report: Encodable {
        var device: String
        var sent: Int
        var lost: Int
        var milliseconds: [Double]
    }

    func run() async throws {
        let payload = ThisDevice.Echo.Payload(bytes: ByteString((0..<size).map { UInt8(truncatingIfNeeded: $0) }))
        let times = try await withClient(globals) { client in
            var times: [Double] = []
            for number in 1...count {
                let start = ContinuousClock.now
                let answer = try await client.call(
                    ThisDevice.Echo.self, payload, on: device, options: CallOptions(timeout: .seconds(10)))
                let time = (ContinuousClock.now - start) / .milliseconds(1)
                guard answer.bytes == payload.bytes else {
                    throw KithError(.corrupt, "\(device) sent back other bytes than it got.")
                }
                times.append(time)
                if !globals.json {
                    say("\(size) bytes from \(printable(device)): number \(number), \(String(format: "%.3f ms", time))")
                }
                if number < count { try await Task.sleep(for: .seconds(interval)) }
            }
            return times
        }
        if globals.json {
            say(try jsonText(Report(device: device, sent: count, lost: count - times.count, milliseconds: times)))
            return
        }
        let sorted = times.sorted()
        let median = sorted[sorted.count / 2]
        say(
            String(
                format: "%d of %d came back; minimum %.3f, median %.3f, maximum %.3f ms", times.count, count,
                sorted[0], median, sorted[sorted.count - 1]))
    }
}
