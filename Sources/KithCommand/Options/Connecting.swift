import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithSocket
import KithWire
import Synchronization
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
        "devices", "grant", "rename", "label", "forget", "config", "doctor", "inbox", "trust",
    ]

    /// The devices that the command line of this process names and is going to reach.
    fileprivate static func devicesToReach() throws -> [String] {
        let words = try parse(withSettings: Array(CommandLine.arguments.dropFirst())).words
        guard let first = words.first, !unreaching.contains(first) else { return [] }
        let (path, command) = try description().find(words)
        return Configuration.devices(in: Array(words.dropFirst(path.count)), of: command)
    }
}

/// Runs `body` with a client of this device.
///
/// It is that of whoever has the data directory open, or, when nobody has, one opened in this process for as long as `body`
/// takes, which other commands may use meanwhile.
/// When the command whose device it used ends before `body`, and `body` has changed nothing yet, it is run again.
///
/// - Throws: `.notFound` when there is no device and it is not `creating` one; nothing is written then.
func withClient<Result>(
    _ globals: GlobalOptions, listening: Bool = false, creating: Bool = false, _ body: (Client) async throws -> Result
) async throws -> Result {
    // What is to hear from other devices needs one that listens.
    let holders: [SocketHolder] = listening ? [.daemon] : SocketHolder.allCases
    for attempt in 1... {
        do {
            if let (client, holder) = try await connected(to: holders, globals) {
                try globals.refuseToTraceDaemon()
                return try await showingAwaitedDevices(globals, client) {
                    try await lent(client, by: holder, globals, body)
                }
            }
            return try await withOwnDevice(globals, listening: listening, creating: creating, body)
        } catch is HolderEnded where attempt < 4 {
            continue
        } catch let error as KithError where error.cause is DirectoryTaken && attempt < 4 && !listening {
            // Another process was faster.
            continue
        } catch let ended as HolderEnded {
            throw ended.error
        }
    }
    preconditionFailure("the last attempt returns or throws")
}

/// The device of another command ended, and nothing was changed by then.
private struct HolderEnded: Error {
    var error: KithError
}

/// The data directory was taken by another process between two looks at it.
private struct DirectoryTaken: Error {}

/// Runs `body` with the client of another process's device.
private func lent<Result>(
    _ client: Client, by holder: SocketHolder, _ globals: GlobalOptions, _ body: (Client) async throws -> Result
) async throws -> Result {
    guard holder == .command else { return try await body(client) }
    let carrier = RepeatableCarrier(inner: client.carrier)
    do {
        return try await body(Client(carrier))
    } catch let error as KithError where error.code == .closed {
        // Something else that is closed, such as a library, is said by a device that is there.
        if try await SocketCarrier.connect(directory: globals.directory, to: .command) != nil { throw error }
        guard carrier.hasChangedNothing else {
            throw KithError(
                .closed, "The kith command that had this device open has ended meanwhile. Run this one again.",
                cause: error)
        }
        throw HolderEnded(error: error)
    }
}

private func withOwnDevice<Result>(
    _ globals: GlobalOptions, listening: Bool, creating: Bool, _ body: (Client) async throws -> Result
) async throws -> Result {
    if !creating { try globals.requireDevice() }
    var options = Device.Options()
    globals.trace(&options)
    options.logger = globals.logger
    options.listens = listening
    options.servesCommands = true
    options.passphrase = try globals.passphrase()
    let device: Device
    do {
        device = try await Device.open(directory: globals.directory, options: options)
    } catch let error as KithError where error.code == .conflict && Device.isRunning(directory: globals.directory) {
        throw KithError(error.code, error.message, cause: DirectoryTaken())
    }
    return try await device.whileRunning {
        try await showingAwaitedDevices(globals, device.client) { try await body(device.client) }
    }
}

/// Notes whether anything was asked that must not be asked twice.
final class RepeatableCarrier: CarrierWrapper {
    /// What does the same again, beside queries.
    private static let repeatable: Set<String> = [
        Locations.Add.name, Locations.Scan.name, Search.Follow.name, Jobs.Follow.name, Operations.Follow.name,
        Duplicates.Find.name, LibraryEvents.Follow.name, Volumes.Follow.name,
    ]

    private let inner: any Carrier
    private let isChanged = Mutex(false)

    init(inner: any Carrier) { self.inner = inner }

    var hasChangedNothing: Bool { !isChanged.withLock(\.self) }

    func carry<Result: Sendable>(
        _ call: OutgoingCall, _ body: @escaping @Sendable (any Carrier, CallOptions) async throws -> Result
    ) async throws -> Result {
        if call.kind != .query, !Self.repeatable.contains(call.method) { isChanged.withLock { $0 = true } }
        return try await body(inner, call.options)
    }
}

/// A client of whoever has the data directory open, and who that is; `nil` when none of `holders` does.
///
/// The one place that decides about it. A process that has locked the directory and does not answer yet is given five
/// seconds; a command a quarter of a second to end, as most do, before its device is used.
func connected(
    to holders: [SocketHolder], _ globals: GlobalOptions, isAnyVersion: Bool = false
) async throws -> (client: Client, holder: SocketHolder)? {
    let start = ContinuousClock.now
    while true {
        if holders.contains(.daemon),
            let carrier = try await SocketCarrier.connect(directory: globals.directory, isAnyVersion: isAnyVersion)
        {
            return (Client(carrier), .daemon)
        }
        guard Device.isRunning(directory: globals.directory) else { return nil }
        let waited = start.duration(to: .now)
        if waited > .milliseconds(250),
            let carrier = try await SocketCarrier.connect(
                directory: globals.directory, to: .command, isAnyVersion: isAnyVersion)
        {
            return holders.contains(.command) ? (Client(carrier), .command) : nil
        }
        guard waited < .seconds(5) else {
            throw KithError(
                .conflict,
                "Another process holds \(globals.directory) and has not answered for five seconds. Try again, or end it."
            )
        }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// A client of the daemon that runs on the data directory; `nil` when none does.
func daemonClient(_ globals: GlobalOptions, isAnyVersion: Bool = false) async throws -> Client? {
    try await connected(to: [.daemon], globals, isAnyVersion: isAnyVersion)?.client
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
