import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// `kith path`.
struct PathCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "path",
        abstract: "Set the way by which a device is reached: auto, direct, relay or local.",
        discussion: helpText(
            """
              kith path                   what holds now
              kith path laptop direct     only directly; a relay serves to meet, and calls wait or fail without
              kith path laptop relay      only through a relay: laptop does not learn this device's addresses
              kith path local             all devices without a way of their own: nothing is sent outside this network
              kith path laptop auto       a relay first, directly as soon as that works: the default

            It is kept. It holds for connections that this device opens. Once the two are connected the other one keeps
            to it, too: with relay or local it tries no address, and both leave a path that either does not want.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device, then the way; the way alone for all devices without one of their own.")
    var words: [String] = []

    func validate() throws {
        guard words.count <= 2 else { throw ValidationError("kith path takes a device and a way.") }
        if words.count == 2, Reach.Path(rawValue: words[1]) == nil {
            throw ValidationError("The way is auto, direct, relay or local.")
        }
    }

    func run() async throws {
        // A device may be called as a way is: then both words are given.
        let general = words.count == 1 ? Reach.Path(rawValue: words[0]) : nil
        let input = Reach.Prefer.Input(
            device: general == nil ? words.first : nil,
            path: general ?? (words.count == 2 ? Reach.Path(rawValue: words[1]) : nil))
        let output = try await withClient(globals) { try await $0.call(Reach.Prefer.self, input) }
        if globals.json { return printLine(try jsonText(output)) }
        if let device = output.device {
            let way = output.devices[device] ?? output.general
            return printLine("\(printable(device))  \(way.rawValue)")
        }
        let rows = output.devices.sorted { $0.key < $1.key }.map { (printable($0.key), $0.value.rawValue) }
        let width = max(6, rows.map(\.0.count).max() ?? 0)
        for (name, way) in [("others", output.general.rawValue)].filter({ _ in !rows.isEmpty }) + rows {
            printLine("\(name)\(String(repeating: " ", count: width - name.count))  \(way)")
        }
        if rows.isEmpty { printLine("all devices  \(output.general.rawValue)") }
    }
}
