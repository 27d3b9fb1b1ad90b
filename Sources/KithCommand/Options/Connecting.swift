import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithSocket
import KithWire
internal import KithIdentity

/// Runs `body`; on a terminal it names the devices of the command line that are not reached in a second.
func showingAwaitedDevices<Result>(
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
    private static let unreaching: Set<String> = [
        "devices", "grant", "rename", "forget", "config", "doctor", "inbox", "trust",
    ]

    /// The devices that the command line of this process names and is going to reach.
    fileprivate static func devicesToReach() throws -> [String] {
        let words = try parse(withSettings: Array(CommandLine.arguments.dropFirst())).words
        guard let first = words.first, !unreaching.contains(first) else { return [] }
        let (path, command) = try description().find(words)
        return Configuration.devices(in: Array(words.dropFirst(path.count)), of: command)
    }
}

/// Runs `body` with a client of this device: of the daemon that runs on the data directory, or, when none does,
/// of a device opened in this process for as long as `body` takes.
///
/// - Throws: `.notFound` when there is no device and it is not `creating` one; nothing is written then.
func withClient<Result>(
    _ globals: GlobalOptions, listening: Bool = false, creating: Bool = false, _ body: (Client) async throws -> Result
) async throws -> Result {
    if let client = try await daemonClient(globals) {
        try globals.refuseToTraceDaemon()
        return try await showingAwaitedDevices(globals, client) { try await body(client) }
    }
    if !creating { try globals.requireDevice() }
    var options = Device.Options()
    globals.trace(&options)
    options.logger = globals.logger
    options.listens = listening
    options.passphrase = try globals.passphrase()
    let device = try await Device.open(directory: globals.directory, options: options)
    return try await device.whileRunning {
        try await showingAwaitedDevices(globals, device.client) { try await body(device.client) }
    }
}

/// A client of the daemon that runs on the data directory; `nil` when none does.
///
/// A daemon that has locked the directory and does not answer yet is given five seconds.
func daemonClient(_ globals: GlobalOptions, isAnyVersion: Bool = false) async throws -> Client? {
    let deadline = ContinuousClock.now + .seconds(5)
    while true {
        if let carrier = try await SocketCarrier.connect(directory: globals.directory, isAnyVersion: isAnyVersion) {
            return Client(carrier)
        }
        guard Device.isRunning(directory: globals.directory) else { return nil }
        guard ContinuousClock.now < deadline else {
            throw KithError(
                .conflict,
                "Another process holds \(globals.directory) and does not answer. Wait for it, or end it.")
        }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// A client of the daemon that must run on the data directory.
///
/// - Throws: `.notFound` when there is no device, or it is down; `purpose` is what it is needed for.
func runningClient(
    _ globals: GlobalOptions, _ purpose: String = "", isAnyVersion: Bool = false
) async throws -> Client {
    if let client = try await daemonClient(globals, isAnyVersion: isAnyVersion) { return client }
    try globals.requireDevice()
    throw KithError(
        .notFound, "This device is not up (\(globals.directory))\(purpose). `kith up` starts it.")
}
