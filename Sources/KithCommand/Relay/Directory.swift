import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithIO
import KithRelayServer
import KithWire
internal import KithReach

/// `kith directory`.
struct DirectoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "directory",
        abstract: "Serve a directory: who knows a device's key learns which relay it is at.",
        discussion: helpText(
            """
              kith directory --data DIR                        on this machine, port 8053
              kith directory --data DIR --listen 0.0.0.0:8053  for others
              kith directory --data DIR --origin dir.example.org --dns 203.0.113.5:53
              kith directory --etcd http://10.0.0.5:2379       one of several that share
              curl http://127.0.0.1:8053/pkarr/KEY | od -c     a record of KEY
              dig @203.0.113.5 TXT _iroh.KEY.dir.example.org   the same over DNS

            KEY is a device's key in z-base-32, 52 letters, as `kith status` shows it; HTTP also takes a DeviceID.

            Devices put a record of at most 1072 bytes there, signed by their key: which relay they are at, and
            addresses only if their owner wants that (kith up --publish-addresses). Records are those of pkarr and
            iroh; a record that is not repeated for seven days is forgotten. Who has a device's key can ask for its
            record; nobody can list them.

            The directory sees which address publishes for which key, and which address asks for it. It writes none of
            that down. It cannot change a record: a signature would show it.

            HTTP is plain here. For https, put a web server with a certificate in front, on this machine, and pass it
            /pkarr/; all clients then count as one address, so let that server limit them, and have it set X-Forwarded-For, so
            that no network takes the room of all others. GET /healthz is for whoever
            watches the service, GET /metrics for Prometheus on this machine.

            With --origin it answers DNS as well: have the name delegated to this machine (NS ns.ORIGIN, and the address
            of that). It answers over UDP with at most three times what it was asked, else over TCP.

            DIR is the directory's own, not a device's. The process may be killed at any moment.

            With --etcd URL,URL,… records are kept in etcd (3.4 or later, by its JSON gateway) in place of DIR, and any number of
            directories answer from memory what any of them was told. While etcd is away they answer what they know, and
            new records wait (the publisher is told 202, and GET /healthz says "degraded"). Relays that are given the
            same --etcd write who is connected to them; that is not signed by the devices, so it is not served to them:
            GET /relay/KEY shows it on this machine. Where etcd asks for a user, give --etcd-user and --etcd-password
            @FILE; a certificate of --etcd-cert is for the connection alone, and has no common name: etcd's gateway refuses one
            beside a password.
            """))

    /// The port when none is said.
    private static let defaultPort: UInt16 = 8_053

    @OptionGroup var globals: GlobalOptions

    @OptionGroup var etcd: EtcdArguments

    @Option(help: ArgumentHelp("Where to serve HTTP. Default: 127.0.0.1:8053.", valueName: "address"))
    var listen: String?

    @Option(help: ArgumentHelp("The name below which records are served over DNS.", valueName: "name"))
    var origin: String?

    @Option(help: ArgumentHelp("Where to serve DNS, UDP and TCP. Default: 0.0.0.0:53.", valueName: "address"))
    var dns: String?

    @Option(
        name: .customLong("public-address"),
        help: ArgumentHelp(
            "An address of ns.ORIGIN, as others reach it; may be given several times. Default: that of --dns.",
            valueName: "IP"))
    var publicAddresses: [String] = []

    /// What is printed once it serves.
    private struct Started: Encodable {
        var http: String
        var dns: String?
        var origin: String?
        var records: Int
        var directory: String
        /// Why etcd is not heard; nothing when it is.
        var failure: String?
    }

    func validate() throws {
        guard globals.data == nil || etcd.endpoints == nil else {
            throw ValidationError("Choose where the records are kept: in the folder of --data, or in --etcd.")
        }
        guard globals.data != nil || etcd.endpoints != nil else {
            throw ValidationError(
                "Say where the records are to be kept: --data DIR, or --etcd URL to share them with other directories.")
        }
        guard dns == nil || origin != nil else {
            throw ValidationError("--dns needs the name below which records are served: --origin dir.example.org")
        }
        guard publicAddresses.isEmpty || origin != nil else {
            throw ValidationError("--public-address is for DNS, which needs a name: --origin dir.example.org")
        }
    }

    func run() async throws {
        let folder = globals.directory
        let etcd = try self.etcd.options()
        guard etcd != nil || !Device.exists(directory: folder) else {
            throw KithError(
                .invalid,
                "\(folder) belongs to a device. A directory has a folder of its own: --data \(folder)-directory")
        }
        var logger = globals.logger
        if !globals.verbose { logger.logLevel = .warning }
        var options = DirectoryServer.Options(
            folder: folder, address: try Self.address(listen, "--listen", port: Self.defaultPort, host: "127.0.0.1"),
            logger: logger)
        options.etcd = etcd
        options.origin = origin
        options.dnsAddress = try Self.address(dns, "--dns", port: 53, host: "0.0.0.0")
        options.publicAddresses = try publicAddresses.map { text in
            guard let address = NetworkAddress(text.contains(":") ? "[\(text)]:53" : "\(text):53") else {
                throw KithError(.invalid, "\(printable(text)) is not an IP address, as --public-address wants one.")
            }
            return address
        }
        let server = try await DirectoryServer.open(options)
        // What etcd holds is told if it comes soon; if it is away, the log says so.
        let patience = ContinuousClock.now + .seconds(2)
        while !server.isComplete, ContinuousClock.now < patience { try await Task.sleep(for: .milliseconds(20)) }
        try show(server)
        _ = try? await Signals.untilInterrupted { try await Promise<Void>().valueUnlessCancelled() }
        await server.close()
    }

    private func show(_ server: DirectoryServer) throws {
        let url = "http://\(server.address)\(DirectoryAddress.defaultPath)"
        guard !globals.json else {
            return printLine(
                try jsonText(
                    Started(
                        http: server.address.description, dns: server.dnsAddress?.description, origin: origin,
                        records: server.recordCount, directory: url, failure: server.failure)))
        }
        let count = server.recordCount
        if !server.isComplete {
            printLine("The directory is at \(url), and serves once etcd has answered.")
        } else {
            printLine("The directory serves \(count) \(count == 1 ? "record" : "records") at \(url)")
        }
        if let dns = server.dnsAddress, let origin { printLine("and over DNS at \(dns), below \(origin).") }
        if server.address.isLoopback {
            printLine("Only this machine reaches it. For others: --listen 0.0.0.0:\(server.address.port)")
        } else if server.address.isUnspecified {
            printLine("Devices reach it at http://THIS-MACHINE:\(server.address.port)\(DirectoryAddress.defaultPath)")
        }
        printLine("Ctrl-C ends it.")
    }

    /// Reads an address, a port alone, or an address without a port.
    private static func address(
        _ text: String?, _ option: String, port: UInt16, host: String
    ) throws -> NetworkAddress {
        let text = text ?? "\(host):\(port)"
        let forms = [text, "\(host):\(text)", text.contains(":") ? "[\(text)]:\(port)" : "\(text):\(port)"]
        guard let address = forms.lazy.compactMap({ NetworkAddress($0) }).first else {
            throw KithError(
                .invalid, "\(printable(text)) is not an address for \(option), such as 0.0.0.0:\(port) or [::]:\(port)."
            )
        }
        return address
    }
}
