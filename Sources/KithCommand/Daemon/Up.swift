import ArgumentParser
import CKithSystem
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithIdentity
import KithReach
import KithRelayServer
import KithSocket
import KithTelemetry
import KithWire
import Logging
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
              kith up --use-relay https://relay.example.org    reachable from any network
              kith up --web                    with the page in the browser, which kith web opens
            """))

    @OptionGroup var globals: GlobalOptions

    @Option(help: "What this device calls itself when it pairs. Kept; default: the host's name.")
    var name: String?

    @Option(help: "The UDP port to listen on, 0 to 65535. Kept; default: one chosen at the first start.")
    var port: UInt16?

    @Option(
        name: .customLong("api-port"),
        help: ArgumentHelp(
            "Accept programs at this TCP port of 127.0.0.1 and ::1 as well, which need the token in api.json of the data directory; 0 takes any. Default: at the socket alone.",
            valueName: "port"))
    var apiPort: UInt16?

    @Option(
        help: ArgumentHelp(
            "Serve the page in the browser from the start, to this machine alone: yes, or the port. Default: no, until kith web asks for it. The port is kept.",
            valueName: "port"),
        transform: UpCommand.webPage)
    var web: WebPage = .off

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
        help: "Announce this device to Kith's own multicast group alone, not by multicast DNS (_kith._udp) as well."
    )
    var withoutResponder = false

    @Flag(
        name: .customLong("no-group"),
        help: ArgumentHelp(
            "Announce this device by multicast DNS (_kith._udp) alone, under a name that changes every hour: only devices that know its key can recognise it.",
            discussion: "Devices whose networks carry no multicast DNS do not find it then.")
    )
    var withoutGroup = false

    @Flag(
        name: .customLong("iroh-name"),
        help: "Answer as iroh's _irohv1._udp as well: whoever is on the local network can follow this device's key."
    )
    var withIrohName = false

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
            "Look for a paired device at an address first, such as laptop=192.0.2.7:4433 or nas=nas.example.org:4433 (repeatable).",
            valueName: "device=address"),
        transform: PeerAddress.init)
    var peers: [PeerAddress] = []

    @Option(
        name: .customLong("use-relay"),
        help: ArgumentHelp(
            "Be found at this relay from any network (repeatable, the preferred first). Kept; none forgets them and their tokens. Default: those of the invitation this device was paired by.",
            valueName: "url"),
        transform: UpCommand.relay)
    var relays: [RelayAddress?] = []

    @Option(
        name: .customLong("relay-token"),
        help: ArgumentHelp(
            "The token that the relays want; better @FILE, which reads it from a file: command lines are seen by every user of the machine. Kept for these relays, used or not, until --use-relay none.",
            valueName: "token"))
    var relayToken: String?

    @Option(
        name: .customLong("directory"),
        help: ArgumentHelp(
            "Ask this directory where paired devices are, and tell it at which relays this one is (repeatable). Kept; none forgets them.",
            valueName: "url"),
        transform: UpCommand.directory)
    var directories: [DirectoryAddress?] = []

    @Flag(
        name: .customLong("publish-addresses"), inversion: .prefixedNo,
        help:
            "Tell directories this device's public addresses, too, so that it is reached without a relay; whoever knows its key can read them there. Kept; default: relays alone."
    )
    var publishesAddresses: Bool?

    @Flag(
        name: .customLong("relay"),
        help:
            "Run a relay in this process, for this device and those it is paired with: on a machine that all of them reach, at TCP and UDP port 3340, and UDP port 3478."
    )
    var hostsRelay = false

    @Option(
        name: .customLong("relay-address"),
        help: ArgumentHelp(
            "The name or address, and the port, at which others reach that relay, such as home.example.org:3340. Default: this machine's public address.",
            valueName: "host:port"),
        transform: RelayPlace.init)
    var relayPlace: RelayPlace?

    @Option(
        name: .customLong("relay-listen"),
        help: ArgumentHelp(
            "The address at which that relay listens. Default: [::], with the port of --relay-address.",
            valueName: "address"),
        transform: RelayCommand.address)
    var relayListen: NetworkAddress?

    @Option(
        name: .customLong("relay-stun"),
        help: ArgumentHelp(
            "The UDP address at which it tells devices from where they are seen, or none. Default: port 3478.",
            valueName: "address"))
    var relaySTUN: String?

    @Option(
        help: ArgumentHelp(
            "Reach relays through this HTTP proxy, such as http://proxy.example.org:3128; with a name and a password better @FILE, which reads the URL from a file. none: without one; environment: as HTTPS_PROXY says. Kept; default: environment.",
            valueName: "url"))
    var proxy: String?

    /// Reads a proxy; its URL is not quoted, as it may hold a password.
    static func proxy(_ argument: String) throws -> ProxyChoice {
        var text = argument
        if argument.hasPrefix("@") { text = try RelayCommand.firstLine(of: String(argument.dropFirst()), as: "proxy") }
        do throws(ProxyProblem) {
            return try ProxyChoice(text)
        } catch {
            throw ValidationError("--proxy takes the URL of a proxy, none or environment: \(error).")
        }
    }

    @Flag(
        name: .customLong("no-port-mapping"),
        help: "Do not ask the router to pass this device's port on, as is done where relays are used.")
    var withoutPortMapping = false

    @Flag(
        name: .customLong("save-power"),
        help:
            "Save a phone's battery: while nobody uses it, one link to one relay with a ping each 60 to 240 s, and hardly anything else."
    )
    var savesPower = false

    /// Reads a relay; nil for `none`.
    static func relay(_ argument: String) throws -> RelayAddress? {
        if argument == "none" { return nil }
        guard let address = RelayAddress(argument) else {
            throw ValidationError("--use-relay takes a relay's URL, such as https://relay.example.org, or none.")
        }
        return address
    }

    /// Reads a directory; nil for `none`.
    static func directory(_ argument: String) throws -> DirectoryAddress? {
        if argument == "none" { return nil }
        guard let address = DirectoryAddress(argument) else {
            throw ValidationError("--directory takes a URL, such as https://directory.example.org/pkarr, or none.")
        }
        return address
    }

    func validate() throws {
        if directories.count > 1, directories.contains(nil) {
            throw ValidationError("--directory none goes alone: it forgets all directories.")
        }
        if directories.count > 8 { throw ValidationError("At most 8 directories can be used.") }
        if !hostsRelay, relayPlace != nil || relayListen != nil || relaySTUN != nil {
            throw ValidationError("--relay-address, --relay-listen and --relay-stun go with --relay.")
        }
        if relays.count > 1, relays.contains(nil) {
            throw ValidationError("--use-relay none goes alone: it forgets all relays.")
        }
        if relays.count > Ticket.maxRelays {
            throw ValidationError("At most \(Ticket.maxRelays) relays can be used.")
        }
        // A file is read when it is used.
        if let proxy, !proxy.hasPrefix("@") { _ = try Self.proxy(proxy) }
        if relayToken != nil, relays.compactMap(\.self).isEmpty {
            throw ValidationError("--relay-token goes with --use-relay.")
        }
    }

    /// Reads the group of announcements.
    static func group(_ argument: String) throws -> NetworkAddress {
        guard let address = NetworkAddress(argument), address.isMulticast, !address.isIPv6, address.port != 0 else {
            throw ValidationError("--discovery-group takes an IPv4 group and a port, such as 239.255.42.98:4242.")
        }
        return address
    }

    @Option(
        help: ArgumentHelp(
            "The shell that other devices get here, such as /usr/bin/fish. Default: the one of this account.",
            valueName: "file"),
        completion: .file(), transform: UpCommand.shell)
    var shell: String?

    /// Reads the path of a program.
    static func shell(_ argument: String) throws -> String {
        guard argument.hasPrefix("/"), FileManager.default.isExecutableFile(atPath: argument) else {
            throw ValidationError("--shell takes the whole path of a program, such as /bin/bash.")
        }
        return argument
    }

    @Option(
        name: .customLong("accept-env"),
        help: ArgumentHelp(
            "A variable that other devices may set in shells here (kith shell --env), such as EDITOR or GIT_* (repeatable), beside the usual ones: LANG, LC_*, TZ, colours.",
            valueName: "name"),
        transform: UpCommand.variable)
    var acceptedEnvironment: [String] = []

    /// Reads the name of a variable, or the beginning of one and a star.
    static func variable(_ argument: String) throws -> String {
        let name = argument.hasSuffix("*") ? argument.dropLast() : argument[...]
        guard argument == "*" || !name.isEmpty, name.utf8.first.map({ !(0x30...0x39).contains($0) }) ?? true,
            name.utf8.allSatisfy({ byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == 0x5F
            })
        else {
            throw ValidationError("--accept-env takes the name of a variable, such as EDITOR, or its beginning: GIT_*.")
        }
        return argument
    }

    @Option(
        name: .customLong("screen-source"),
        help: ArgumentHelp(
            "The screen that devices with a screen grant see: auto, none, an X server such as x11::0, or a VNC server such as vnc://localhost:5901. Default: auto, the X server of $DISPLAY.",
            valueName: "source"))
    var screen = "auto"

    @Option(
        name: .customLong("screen-source-password-file"),
        help: ArgumentHelp("The file whose first line is the VNC server's password.", valueName: "file"),
        completion: .file())
    var screenPasswordFile: String?

    @Flag(help: "Run in the background and return when the device is up.")
    var detach = false

    func run() async throws {
        if detach {
            try await runInBackground()
            return
        }
        kith_raise_descriptor_limit()
        kith_forbid_core()
        kith_keep_memory_small()
        kith_release_program()
        var options = Device.Options()
        options.logger = globals.logger
        options.name = name
        options.port = port
        options.apiPort = apiPort
        options.shell = shell
        options.acceptedEnvironment = acceptedEnvironment
        options.screen = screen
        options.screenPasswordFile = screenPasswordFile
        globals.trace(&options)
        if !withoutDiscovery {
            var discovery = LocalDiscovery.Options()
            discovery.usesResponder = !withoutResponder
            discovery.usesGroups = !withoutGroup
            discovery.offersIrohName = withIrohName
            if let group {
                discovery.group = group
                discovery.group6?.port = group.port
            }
            options.discovery = discovery
        }
        for peer in peers {
            switch peer.place {
            case .address(let address): options.peerAddresses[peer.device, default: []].append(address)
            case .host(let host): options.peerHosts[peer.device, default: []].append(host)
            }
        }
        if !relays.isEmpty { options.relays = relays.compactMap(\.self) }
        options.relayToken = try relayToken.map(RelayCommand.token)
        if relayToken != nil, let open = relays.compactMap(\.self).first(where: { !$0.isSecure }) {
            note("The token goes to \(open) unencrypted: whoever sees that network can read it. Better: https.")
        }
        options.proxy = try proxy.map(Self.proxy)
        options.mapsPort = !withoutPortMapping
        options.savesPower = savesPower
        if !directories.isEmpty { options.directories = directories.compactMap(\.self) }
        options.publishesAddresses = publishesAddresses
        if hostsRelay { options.hostedRelay = try relayPlan() }
        options.passphrase = try globals.passphrase()
        var page: MetricsPage?
        if let metrics { page = try await Self.showMetrics(at: metrics, of: &options) }
        let device = try await Device.open(directory: globals.directory, options: options)
        kith_release_program()
        // The key is open: nobody needs it any more.
        options.passphrase = nil
        if SecretBytes.unlockedCount > 0 {
            globals.logger.warning(
                "\(SecretBytes.unlockedCount) secrets could be swapped out: the limit of locked memory (ulimit -l) is too low"
            )
        }
        let webPage = try await serveWebPage(of: device)
        var relay: RelayServer?
        if let plan = options.hostedRelay { relay = try await openRelay(plan, for: device) }
        let front = Front(client: device.client, asks: !yes && isatty(STDIN_FILENO) == 1)
        try await announce(device.client, as: globals.json, webPage: webPage)
        kith_release_program()

        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(
                        service: DeviceService(device: device, logger: globals.logger),
                        successTerminationBehavior: .gracefullyShutdownGroup),
                    .init(service: front),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint, .sighup],
                logger: globals.logger))
        do {
            try await group.run()
        } catch {
            await relay?.close()
            throw error
        }
        await relay?.restart()
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
    private func announce(_ client: Client, as json: Bool, webPage: String? = nil) async throws {
        let status = try await client.call(ThisDevice.Status.self, Nothing())
        var invitation: Invitations.Create.Output?
        var hasNoNetwork = false
        if !withoutInvitation {
            do {
                invitation = try await client.call(
                    Invitations.Create.self,
                    Invitations.Create.Input(grants: grants, lifetimeSeconds: 600, isAutomatic: yes))
            } catch let error as KithError where error.code == .unreachable {
                // No address, and no relay, that an invitation could name: the device runs all the same.
                hasNoNetwork = true
            }
        }
        let endpoint = try APIEndpoint.read(directory: globals.directory)
        if json {
            struct Announcement: Encodable {
                var device: ThisDevice.Status.Output
                var invitation: Invitations.Create.Output?
                var apiAddresses: [String]?
            }
            printLine(
                try jsonText(
                    Announcement(device: status, invitation: invitation, apiAddresses: endpoint?.addresses)))
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
            let place = discovery.group?.description ?? "_kith._udp"
            printLine("  discovery  paired devices on this network find it (\(place))")
        }
        let relays = (status.relays ?? []).prefix(2)
        for (index, relay) in relays.enumerated() {
            printLine("  \(index == 0 ? "relays    " : "          ") \(printable(relay))")
        }
        let directories = (status.directories ?? []).prefix(2)
        for (index, directory) in directories.enumerated() {
            printLine("  \(index == 0 ? "directory " : "          ") \(printable(directory.url))")
        }
        if let address = endpoint?.addresses.first {
            printLine("  programs   \(address), with the token in api.json of the data directory")
        }
        if let webPage { printLine("  page       \(webPage)  (kith web opens it)") }
        printLine("  data       \(globals.directory)")
        if hasNoNetwork {
            printLine("  network    none yet; once there is one, `kith invite` makes an invitation")
        }
        noteLocalRelay()
        noteLocalAddresses()
        let waiting = try await PendingRequests(client)
        waiting.show()
        if let invitation {
            show(
                invitation,
                below: 3 + shown.count + (hidden > 0 ? 1 : 0) + (status.discovery == nil ? 0 : 1) + relays.count
                    + (endpoint == nil ? 0 : 1) + (webPage == nil ? 0 : 1)
                    + directories.count + waiting.count)
        }
    }

    /// The file from which the other process reads a secret: every user of the machine sees its arguments.
    private static func handOver(
        _ secret: String, as name: String, in directory: String
    ) throws -> (path: String, isTemporary: Bool) {
        // The other process is in another folder.
        if secret.hasPrefix("@") { return (URL(fileURLWithPath: String(secret.dropFirst())).path, false) }
        try Device.prepare(directory: directory)
        // By its beginning a folder with nothing else in it is known to be a device's.
        let path = "\(directory)/kith.\(name)-\(getpid())"
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(secret.utf8), attributes: [.posixPermissions: 0o600])
        else { throw KithError(.internal, "The \(name) could not be handed over: \(path) cannot be written.") }
        return (path, true)
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
        if let shell { arguments += ["--shell", shell] }
        for name in acceptedEnvironment { arguments += ["--accept-env", name] }
        // Also what is usual: the file of settings, which is read again, may say otherwise.
        arguments += ["--screen-source", screen]
        if let screenPasswordFile { arguments += ["--screen-source-password-file", screenPasswordFile] }
        let flags = [
            ("no-discovery", withoutDiscovery), ("no-dns-sd", withoutResponder), ("no-group", withoutGroup),
            ("iroh-name", withIrohName), ("relay", hostsRelay), ("no-port-mapping", withoutPortMapping),
            ("save-power", savesPower),
        ]
        arguments += flags.map { "--\($0.0)=\($0.1 ? "yes" : "no")" }
        if let publishesAddresses { arguments.append("--\(publishesAddresses ? "" : "no-")publish-addresses") }
        if let group { arguments += ["--discovery-group", group.description] }
        for peer in peers { arguments += ["--peer", peer.description] }
        for relay in relays { arguments += ["--use-relay", relay?.description ?? "none"] }
        for directory in directories { arguments += ["--directory", directory?.description ?? "none"] }
        if let relayPlace { arguments += ["--relay-address", relayPlace.description] }
        if let relayListen { arguments += ["--relay-listen", relayListen.description] }
        if let relaySTUN { arguments += ["--relay-stun", relaySTUN] }
        let handovers = try [("relay-token", relayToken), ("proxy", proxy)].compactMap { name, secret in
            try secret.map { (name, try Self.handOver($0, as: name, in: globals.directory)) }
        }
        // By then it has read them, or never will.
        defer { for (_, file) in handovers where file.isTemporary { unsafe unlink(file.path) } }
        for (name, file) in handovers { arguments += ["--\(name)", "@" + file.path] }
        if let apiPort { arguments += ["--api-port", String(apiPort)] }
        arguments += ["--web", web.description]
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
    let logger: Logger

    func run() async throws {
        // By now signals are handled: whoever hears that it is ready may end it again at once.
        ServiceNotice.ready()
        try await withGracefulShutdownHandler {
            try await device.run()
        } onGracefulShutdown: {
            ServiceNotice.stopping()
            StopDeadline.begin(logger: logger)
            device.beginGracefulShutdown()
        }
    }
}

/// Shows pairings as they come, and asks about them when there is a terminal; and who sees the screen, or asks to.
private struct Front: ServiceLifecycle.Service {
    let client: Client
    let asks: Bool

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            do {
                async let screens: Void = ScreenNotices.follow(client)
                try await watchPairings(client, asks: asks) { _ in true }
                try await screens
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
