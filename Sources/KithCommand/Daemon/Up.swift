import ArgumentParser
import CKithSystem
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithIdentity
import KithTelemetry
import KithWire
import ServiceLifecycle
import UnixSignals

/// `kith up`: the device as a daemon.
struct UpCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "up",
        abstract: "Start this device and keep it running.",
        discussion: helpText(
            """
            Prints this device's name, its DeviceID, where it listens, and a one-time invitation as text and QR code.
            The invitation grants nothing unless --grant says what: `kith grant` gives rights to a paired device.
            On a terminal it also asks before it pairs with a device that uses an invitation. Ctrl-C stops it.

              kith up                          in the foreground
              kith up --detach                 in the background; `kith down` stops it
              kith up --name laptop --port 4433
              kith up --grant shell            whoever uses the invitation may open a shell
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: "What this device calls itself when it pairs. Kept; default: the host's name.")
    var name: String?

    @Option(help: "The UDP port to listen on, 0 to 65535. Kept; default: one chosen at the first start.")
    var port: UInt16?

    @Option(
        name: .customLong("grant"),
        help: ArgumentHelp(
            "What the device that uses the printed invitation may do here (repeatable). Default: nothing.",
            valueName: "grant"), completion: Grant.defaultCompletionKind,
        transform: Grant.reading)
    var grants: [Grant] = []

    @Flag(name: .customLong("no-invite"), help: "Print no invitation.")
    var withoutInvitation = false

    @Flag(name: .shortAndLong, help: "Do not ask before pairing: whoever holds the printed invitation gets in.")
    var yes = false

    @Option(
        help: ArgumentHelp(
            "Show metrics for Prometheus at http://ADDRESS/metrics, without a password; a port alone is this machine's own.",
            valueName: "address"),
        transform: UpCommand.metricsAddress)
    var metrics: NetworkAddress?

    /// Reads where the metrics are to be shown.
    static func metricsAddress(_ argument: String) throws -> NetworkAddress {
        if let port = UInt16(argument) { return NetworkAddress(ipv4: (127, 0, 0, 1), port: port) }
        guard let address = NetworkAddress(argument) else {
            throw ValidationError("--metrics takes an address and a port, such as 127.0.0.1:9464.")
        }
        return address
    }

    @Flag(
        name: .customLong("no-discovery"),
        help:
            "Do not announce this device's key and addresses on the local network, nor listen for paired devices there."
    )
    var withoutDiscovery = false

    @Flag(
        name: .customLong("no-dns-sd"),
        help: "Announce this device to the group alone, not as _kith._udp by Avahi as well."
    )
    var withoutResponder = false

    @Option(
        name: .customLong("discovery-group"),
        help: ArgumentHelp(
            "The group of IPv4, and the port, that devices announce themselves to. Default: 239.255.42.98:4242.",
            valueName: "address"),
        transform: UpCommand.group)
    var group: NetworkAddress?

    @Option(
        name: .customLong("peer"),
        help: ArgumentHelp(
            "Look for a paired device at an address first, such as laptop=192.0.2.7:4433 (repeatable).",
            valueName: "device=address"),
        transform: PeerAddress.init)
    var peers: [PeerAddress] = []

    /// Reads the group of announcements.
    static func group(_ argument: String) throws -> NetworkAddress {
        guard let address = NetworkAddress(argument), address.isMulticast, !address.isIPv6, address.port != 0 else {
            throw ValidationError("--discovery-group takes an IPv4 group and a port, such as 239.255.42.98:4242.")
        }
        return address
    }

    /// A device and an address at which it is looked for.
    struct PeerAddress: Hashable, CustomStringConvertible {
        let device: String
        let address: NetworkAddress

        init(_ argument: String) throws {
            let parts = argument.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, let address = NetworkAddress(String(parts[1])), address.port != 0 else {
                throw ValidationError(
                    "--peer takes a device and an address, such as laptop=192.0.2.7:4433 or laptop=[2001:db8::7]:4433.")
            }
            (device, self.address) = (String(parts[0]), address)
        }

        var description: String { "\(device)=\(address)" }
    }

    @Flag(help: "Run in the background and return when the device is up.")
    var detach = false

    func run() async throws {
        if detach {
            try await runInBackground()
            return
        }
        kith_raise_descriptor_limit()
        kith_forbid_core()
        var options = Device.Options()
        options.logger = globals.logger
        options.name = name
        options.port = port
        globals.trace(&options)
        if !withoutDiscovery {
            var discovery = LocalDiscovery.Options()
            discovery.usesResponder = !withoutResponder
            if let group {
                discovery.group = group
                discovery.group6?.port = group.port
            }
            options.discovery = discovery
        }
        for peer in peers { options.peerAddresses[peer.device, default: []].append(peer.address) }
        options.passphrase = try globals.passphrase()
        var page: MetricsPage?
        if let metrics { page = try await Self.showMetrics(at: metrics, of: &options) }
        let device = try await Device.open(directory: globals.directory, options: options)
        // The key is open: nobody needs it any more.
        options.passphrase = nil
        if SecretBytes.unlockedCount > 0 {
            globals.logger.warning(
                "\(SecretBytes.unlockedCount) secrets could be swapped out: the limit of locked memory (ulimit -l) is too low"
            )
        }
        let front = Front(client: device.client, asks: !yes && isatty(STDIN_FILENO) == 1)
        try await announce(device.client, as: globals.json)

        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(service: DeviceService(device: device), successTerminationBehavior: .gracefullyShutdownGroup),
                    .init(service: front),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint, .sighup],
                logger: globals.logger))
        try await group.run()
        await page?.close()
        if !globals.json { note("Stopped.") }
    }

    /// Opens the page with the metrics of the device that is opened with `options`.
    private static func showMetrics(
        at address: NetworkAddress, of options: inout Device.Options
    ) async throws -> MetricsPage {
        let metrics = PrometheusMetrics()
        let calls = CallMetrics(factory: metrics)
        options.interceptors.append(calls)
        return try await MetricsPage.open(at: address) {
            await calls.refresh()
            return metrics.text
        }
    }

    /// Says who this device is, and how another one can join it.
    private func announce(_ client: Client, as json: Bool) async throws {
        let status = try await client.call(ThisDevice.Status.self, Nothing())
        var invitation: Invitations.Create.Output?
        if !withoutInvitation {
            invitation = try await client.call(
                Invitations.Create.self,
                Invitations.Create.Input(grants: grants, lifetimeSeconds: 600, isAutomatic: yes))
        }
        if json {
            struct Announcement: Encodable {
                var device: ThisDevice.Status.Output
                var invitation: Invitations.Create.Output?
            }
            printLine(try jsonText(Announcement(device: status, invitation: invitation)))
            return
        }
        let isInFront = !detach && isatty(STDOUT_FILENO) == 1
        printLine("\(styled(status.name, .bold)) is up\(isInFront ? "; Ctrl-C stops it" : "")")
        if let name, name != status.name {
            note(
                "kith: “\(printable(name))” became \(status.name): names have letters, digits, hyphens, underscores and dots"
            )
        }
        printLine("  DeviceID   \(status.id)")
        // A machine with many addresses leaves room for the invitation.
        let shown = status.addresses.prefix(isatty(STDOUT_FILENO) == 1 ? 4 : .max)
        for (index, address) in shown.enumerated() {
            printLine("  \(index == 0 ? "listens on" : "          ") \(address)")
        }
        let hidden = status.addresses.count - shown.count
        if hidden > 0 { printLine("             and \(hidden) more: kith status") }
        if let discovery = status.discovery {
            printLine("  discovery  paired devices on this network find it (\(discovery.group))")
        }
        printLine("  data       \(globals.directory)")
        let waiting = try await PendingRequests(client)
        waiting.show()
        if let invitation {
            show(
                invitation,
                below: 3 + shown.count + (hidden > 0 ? 1 : 0) + (status.discovery == nil ? 0 : 1) + waiting.count)
        }
    }

    /// Starts the same command again, in a session of its own, and waits until it answers.
    private func runInBackground() async throws {
        guard try await daemonClient(globals) == nil else {
            throw KithError(.conflict, "This device is up already. `kith status` describes it, `kith down` stops it.")
        }
        var arguments = ["up", "--data", globals.directory, "--no-invite", "--detach=no"]
        if let name { arguments += ["--name", name] }
        if let port { arguments += ["--port", String(port)] }
        if let metrics { arguments += ["--metrics", metrics.description] }
        if withoutDiscovery { arguments.append("--no-discovery") }
        if withoutResponder { arguments.append("--no-dns-sd") }
        if let group { arguments += ["--discovery-group", group.description] }
        for peer in peers { arguments += ["--peer", peer.description] }
        arguments += globals.traceArguments
        if globals.verbose { arguments.append("--verbose") }
        let passphrase = try globals.passphrase()
        if passphrase != nil { arguments += ["--passphrase-fd", "0"] }
        let log = try await Background.start(arguments, directory: globals.directory, passphrase: passphrase)
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            do {
                if let client = try await daemonClient(globals) {
                    try await announce(client, as: globals.json)
                    return
                }
            } catch let error as KithError where error.code == .conflict {
                // It holds the directory and is still at it: stretching a passphrase takes a slow machine seconds.
            }
            if let status = log.ending() {
                throw KithError(
                    KithError.Code.allCases.first { $0.exitStatus == status } ?? .internal,
                    "The device ended at once: \(log.lastLine). Its log is \(log.path).")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw KithError(.timedOut, "The device did not answer within 30 s. Its log is \(log.path).")
    }
}

/// The device as a service: runs until asked to stop, then lets running work finish for a while.
private struct DeviceService: ServiceLifecycle.Service {
    let device: Device

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await device.run()
        } onGracefulShutdown: {
            device.beginGracefulShutdown()
        }
    }
}

/// Shows pairings as they come, and asks about them when there is a terminal.
private struct Front: ServiceLifecycle.Service {
    let client: Client
    let asks: Bool

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            do {
                try await watchPairings(client, asks: asks) { _ in true }
                // The device ends before its watchers do.
                try await gracefulShutdown()
            } catch let error as KithError where error.code == .closed || error.code == .cancelled {
                try await gracefulShutdown()
            } catch is CancellationError {
                // Told to stop.
            }
        }
    }
}
