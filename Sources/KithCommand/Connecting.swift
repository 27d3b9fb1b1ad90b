import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// Runs `body`; on a terminal it says so when a device that is named on the command line is not reached in a second.
func sayingWhoIsAwaited<Result>(
    _ globals: GlobalOptions, _ client: Client, _ body: () async throws -> Result
) async throws -> Result {
    guard isatty(STDERR_FILENO) == 1, !globals.json else { return try await body() }
    let watch = Task(name: "kith connecting") {
        try await Task.sleep(for: .seconds(1))
        let named = Set(try Root.devicesToReach())
        let devices = try await client.call(Devices.List.self, Devices.List.Input(probe: false))
        for device in devices where named.contains(device.name) && !device.isOnline && !Task.isCancelled {
            note("connecting to \(printable(device.name))…")
        }
    }
    defer { watch.cancel() }
    return try await body()
}

extension Root {
    /// Commands about a device that do not try to reach it, or say themselves that they do.
    private static let unreaching: Set<String> = ["devices", "grant", "rename", "forget", "config", "doctor", "inbox"]

    /// The devices that the command line of this process names and is going to reach.
    fileprivate static func devicesToReach() throws -> [String] {
        let words = try parse(withSettings: Array(CommandLine.arguments.dropFirst())).words
        guard let first = words.first, !unreaching.contains(first) else { return [] }
        let (path, command) = try description().find(words)
        return Configuration.devices(in: Array(words.dropFirst(path.count)), of: command)
    }
}
