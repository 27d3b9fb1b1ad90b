import ArgumentParser
import CKithSystem
import Foundation
import KithCommandLine
import KithIO
import KithIdentity
import KithNet
import KithReach
import KithRelayServer
import KithStore
import KithWire
import Logging
import Synchronization

/// `kith relay`: a relay for devices that cannot reach each other.
struct RelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Pass datagrams between devices that cannot reach each other.",
        discussion: helpText(
            """
            Runs on a machine that everybody reaches: a rented server, or one with its ports passed on. It learns who
            talks to whom and how much, never what they say. iroh's endpoints can use it, too. Devices use it by
            kith up --use-relay URL, and those they invite do then as well.

              kith relay --domain relay.example.org --agree-to-terms     its certificate comes by itself
              kith relay --domain relay.example.org --token @token       for whoever knows the token in that file
              kith relay --domain 203.0.113.5 --agree-to-terms           a server without a name
              kith relay --cert chain.pem --key key.pem                  a certificate you already have
              kith relay --self-signed                                   by its own key, for Kith's devices only
              kith relay --plain --listen 127.0.0.1:3340                 for a LAN, a web server in front, or a test

            With --domain it asks Let's Encrypt for a certificate, and for a newer one when two thirds of its time are
            over; nobody who is connected notices. The name has to lead to this machine, and TCP ports 443 and 80 have
            to be open: on port 80 the authority sees that the name is yours. Its terms are shown, and agreed to once by
            --agree-to-terms. The account and the certificate are kept in the folder relay of --data, for you alone to
            read; at the next start they are used again. --acme-directory names another authority; one of your own needs
            --acme-root as well. Without a first certificate it ends and says why: let a service manager wait some
            minutes before the next start, since authorities count failures.

            The files of --cert and --key are read again once an hour, and on SIGHUP (kill -HUP) where the relay has no
            terminal: a renewed certificate is used from then on, and nobody who is connected notices. One that cannot be
            used is said so, and the one before stays.

            Without --domain TCP port 443 is enough (80 with --plain), and UDP ports 3478 (STUN) and 7842 (the same over
            QUIC), at which devices learn from where they are seen.

            Kith's devices come by QUIC where UDP gets through: let UDP port 443 in as well (or the port of --listen).
            No lost packet holds up the others there, and a device that changes its network stays connected. The relay
            proves itself by a key of its own, which it makes at the first start and keeps in the folder relay of
            --data, and which stands in its URL after the #. iroh's endpoints, and whoever is given the URL without it,
            come by TCP. Where UDP port 443 is taken it is 7842, at which devices look, too.

            --allow lets in devices by their DeviceID, and --guests whoever wants to talk to one of those.
            It prints the URL that devices are given. Without --token and --allow everybody may use it. SIGTERM and
            Ctrl-C stop it: clients are told when to come back, each at a time of its own.

            --plain alone means plain TCP (http://); beside --domain or --cert it means no colours, as everywhere.

            With --etcd it writes its URL and the number of its clients into etcd, and who is connected, for kith
            directory --etcd beside it: all on one lease of 20 seconds, so that it vanishes with the relay.

            Pages: /ping, /healthz, and for programs of this machine /metrics (Prometheus). It writes no log of who
            uses it.
            """))

    @OptionGroup var globals: GlobalOptions

    @OptionGroup var etcd: EtcdArguments

    @Option(
        name: .customLong("public-url"),
        help: ArgumentHelp(
            "The URL under which devices reach it, for etcd. Default: the one it prints.", valueName: "URL"),
        transform: RelayCommand.relay)
    var publicURL: RelayAddress?

    @Option(
        help: ArgumentHelp("Where it stands, for etcd: a word of your own, such as fra.", valueName: "word"),
        transform: RelayCommand.region)
    var region: String?

    @Option(
        help: ArgumentHelp(
            "The address to listen on, such as [::]:8443 or 127.0.0.1:3340. Default: every address, port 443, or 80 with --plain.",
            valueName: "address"),
        transform: RelayCommand.address)
    var listen: NetworkAddress?

    @Option(
        name: .customLong("listen-quic"),
        help: ArgumentHelp(
            "The UDP address at which devices come by QUIC, or none. Default: the address and the port of --listen.",
            valueName: "address"))
    var listenQUIC: String?

    @Flag(
        name: .customLong("self-signed"),
        help: "Prove itself by its own key instead of a certificate: for Kith's devices, by the URL that is printed.")
    var isSelfSigned = false

    @Option(
        name: .customLong("domain"),
        help: ArgumentHelp(
            "A name or an IP address of this machine to obtain a certificate for (repeatable); the first is in the URL.",
            valueName: "name"),
        transform: RelayCommand.identifier)
    var domains: [ACMEIdentifier] = []

    @Flag(
        name: .customLong("agree-to-terms"),
        help: "Agree to the authority's terms of service; once is enough.")
    var agreesToTerms = false

    @Option(
        help: ArgumentHelp("An address of mail for the authority, which may write to it.", valueName: "address"),
        transform: RelayCommand.email)
    var email: String?

    @Option(
        name: .customLong("acme-directory"),
        help: ArgumentHelp("The directory of another authority (ACME). Default: Let's Encrypt's.", valueName: "URL"),
        transform: RelayCommand.directory)
    var authority: ACMEURL?

    @Option(
        name: .customLong("acme-root"),
        help: ArgumentHelp("A PEM file of what to trust when asking a private authority.", valueName: "file"),
        completion: .file())
    var authorityRoot: String?

    @Option(
        name: .customLong("http-listen"),
        help: ArgumentHelp(
            "The address at which the authority is answered: it asks port 80 of the name. Default: every address, port 80.",
            valueName: "address"),
        transform: RelayCommand.address)
    var httpListen: NetworkAddress?

    @Option(
        help: ArgumentHelp("The certificate chain, a PEM file.", valueName: "file"), completion: .file())
    var cert: String?

    @Option(help: ArgumentHelp("Its private key, a PEM file.", valueName: "file"), completion: .file())
    var key: String?

    @Flag(name: .customLong("no-tls"), help: "Speak plain TCP (http://), as --plain does without a certificate.")
    var noTLS = false

    /// True for plain TCP.
    ///
    /// Beside a certificate `--plain` is about colours.
    private var withoutTLS: Bool {
        noTLS || (globals.plain && cert == nil && key == nil && domains.isEmpty && !isSelfSigned)
    }

    @Option(
        name: .customLong("token"),
        help: ArgumentHelp(
            "Let in whoever shows this token (repeatable); @FILE reads one from a file.", valueName: "token"))
    var tokens: [String] = []

    @Option(
        name: .customLong("allow"),
        help: ArgumentHelp("Let in the device with this DeviceID (repeatable).", valueName: "key"),
        transform: RelayCommand.device)
    var allowed: [DeviceID] = []

    @Flag(help: "Let others in, slowly, and only to talk to those that --allow and --token let in: enough to pair.")
    var guests = false

    @Option(
        help: ArgumentHelp(
            "The most bytes a client may send, and be sent, in a second: 500k, 2M. Default: no limit.",
            valueName: "bytes"),
        transform: RelayCommand.rate)
    var rate: UInt64?

    @Option(
        name: .customLong("per-address"),
        help: ArgumentHelp("The most connections of one address. Default: 1024.", valueName: "count"))
    var perAddress: Int?

    @Option(
        name: .customLong("name"),
        help: ArgumentHelp("The name under which devices reach it, for the URL that is printed.", valueName: "host"))
    var name: String?

    @Option(
        help: ArgumentHelp(
            "The UDP address at which devices learn from where they are seen (STUN), or none. Default: port 3478 of the same address.",
            valueName: "address"))
    var stun: String?

    @Option(
        help: ArgumentHelp(
            "The UDP address at which they learn the same over QUIC (QAD), or none. Default: port 7842 of the same address, none with --stun none.",
            valueName: "address"))
    var qad: String?

    /// The address of QAD; nil for none.
    private func discoveryAddress(beside relay: NetworkAddress) throws -> NetworkAddress? {
        guard let qad else { return stun == "none" ? nil : relay.withPort(AddressDiscovery.port) }
        return qad == "none" ? nil : try Self.address(qad)
    }

    /// The address of STUN; nil for none.
    private func stunAddress(beside relay: NetworkAddress) throws -> NetworkAddress? {
        guard let stun else {
            var address = relay
            address.port = 3_478
            return address
        }
        return stun == "none" ? nil : try Self.address(stun)
    }

    /// Says what another port of STUN needs: devices know but one.
    static func noteSTUNPort(_ address: NetworkAddress?) {
        guard let address, address.port != 3_478, address.port != 0 else { return }
        note("Devices ask at UDP port 3478 of the relay: have that passed on to \(address).")
    }

    /// Reads an address, or a port alone.
    static func address(_ argument: String) throws -> NetworkAddress {
        if let port = UInt16(argument), let address = NetworkAddress("[::]:\(port)") { return address }
        guard let address = NetworkAddress(argument), !address.isMulticast else {
            throw ValidationError("An address and a port are wanted here, such as [::]:443 or 127.0.0.1:3340.")
        }
        return address
    }

    /// Reads a name or an IP address for a certificate.
    static func identifier(_ argument: String) throws -> ACMEIdentifier {
        guard let identifier = ACMEIdentifier(argument) else {
            throw ValidationError(
                "--domain takes a name such as relay.example.org or an IP address; no wildcard, and other letters than "
                    + "those of English in their xn-- form.")
        }
        return identifier
    }

    /// Reads an address of mail.
    static func email(_ argument: String) throws -> String {
        let parts = argument.split(separator: "@", omittingEmptySubsequences: false)
        let isPlain = argument.utf8.allSatisfy { (0x21..<0x7F).contains($0) && !"?,<>\"%".utf8.contains($0) }
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty, argument.utf8.count <= 254, isPlain else {
            throw ValidationError("--email takes one address, such as me@example.org.")
        }
        return argument
    }

    /// Reads the URL of an authority's directory.
    static func directory(_ argument: String) throws -> ACMEURL {
        guard let url = ACMEURL(argument) else {
            throw ValidationError("--acme-directory takes a URL, such as \(ACMEURL.letsEncrypt).")
        }
        return url
    }

    /// Reads the URL of a relay.
    static func relay(_ argument: String) throws -> RelayAddress {
        guard let address = RelayAddress(argument) else {
            throw ValidationError("--public-url takes a relay's URL, such as https://relay.example.org.")
        }
        return address
    }

    /// Reads the name of a region.
    static func region(_ argument: String) throws -> String {
        guard !argument.isEmpty, EtcdRelay.isRegion(argument) else {
            throw ValidationError("--region takes up to 64 letters, digits and signs of ASCII.")
        }
        return argument
    }

    /// Reads a DeviceID.
    static func device(_ argument: String) throws -> DeviceID {
        guard let id = DeviceID(argument) else {
            throw ValidationError("--allow takes a whole DeviceID, as `kith status` shows it.")
        }
        return id
    }

    /// Reads a number of bytes.
    static func rate(_ argument: String) throws -> UInt64 {
        let units: [Character: UInt64] = ["k": 1_000, "M": 1_000_000, "G": 1_000_000_000]
        let unit = argument.last.flatMap { units[$0] }
        guard let number = UInt64(unit == nil ? argument[...] : argument.dropLast()), number > 0,
            case let (bytes, isOver) = number.multipliedReportingOverflow(by: unit ?? 1), !isOver
        else { throw ValidationError("--rate takes bytes in a second, such as 500000, 500k or 2M.") }
        return bytes
    }

    func validate() throws {
        guard etcd.endpoints != nil || (publicURL == nil && region == nil) else {
            throw ValidationError("--public-url and --region are told etcd: they go with --etcd.")
        }
        if let listenQUIC, listenQUIC != "none" { _ = try Self.address(listenQUIC) }
        if isSelfSigned, !domains.isEmpty || cert != nil || key != nil || noTLS {
            throw ValidationError("Choose: --domain, --cert and --key, --self-signed, or --plain.")
        }
        if !domains.isEmpty {
            guard cert == nil, key == nil, !noTLS else {
                throw ValidationError("Choose: --domain, --cert and --key, or --plain.")
            }
            guard domains.count <= Self.mostDomains, Set(domains).count == domains.count else {
                throw ValidationError("--domain is for up to \(Self.mostDomains) names, each once.")
            }
        } else {
            guard authority == nil, authorityRoot == nil, email == nil, httpListen == nil, !agreesToTerms else {
                throw ValidationError(
                    "--acme-directory, --acme-root, --email, --http-listen and --agree-to-terms go with --domain.")
            }
            if noTLS {
                guard cert == nil, key == nil else { throw ValidationError("Choose: --cert and --key, or --plain.") }
            } else if !withoutTLS, !isSelfSigned {
                guard cert != nil, key != nil else {
                    throw ValidationError(
                        "Give --domain and this machine's name, or --cert and --key (PEM files), or --self-signed for Kith's devices, or "
                            + "--plain for a LAN. `kith relay --help` shows how.")
                }
            }
        }
        if guests, tokens.isEmpty, allowed.isEmpty {
            throw ValidationError("--guests goes with --allow or --token: without them everybody may do everything.")
        }
        if let perAddress, perAddress < 1 { throw ValidationError("--per-address takes a number from 1.") }
    }

    /// The most names of one certificate.
    private static let mostDomains = 10

    func run() async throws {
        kith_raise_descriptor_limit()
        kith_forbid_core()
        var options = try self.options()
        let etcd = try self.etcd.options()
        let presence = PresenceFeed()
        if etcd != nil { options.onPresence = { presence.noted($0) } }
        let server = try await RelayServer.open(options, logger: globals.logger)
        let ending: Signals.Ending<Void>
        do {
            let keeper = try keeper(server)
            let command = self
            let (hangUps, hangUp) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            let readAgain: @Sendable () -> Void = { hangUp.yield() }
            ending = try await Signals.untilInterrupted(onHangUp: readsAgain ? readAgain : nil) {
                try await keeper?.open()
                command.announce(server, keeper?.certificate)
                try await withThrowingTaskGroup { group in
                    if let etcd {
                        let rows = try EtcdRelayRows(
                            etcd, url: try command.publicAddress(server), region: command.region ?? "",
                            logger: command.operatorLogger)
                        presence.lead(to: rows)
                        group.addTask { await rows.run(server) }
                    }
                    if command.cert != nil { group.addTask { await command.followCertificate(server, hangUps) } }
                    await keeper?.run()
                    try await Promise<Void>().valueUnlessCancelled()
                    group.cancelAll()
                }
            }
        } catch {
            await server.close()
            throw error
        }
        guard case .interrupted = ending else { return }
        if !globals.json { note("Telling \(server.clientCount) clients to come back, and stopping.") }
        await server.restart()
    }

    /// What sees to the certificate; `nil` without `--domain`.
    private func keeper(_ server: RelayServer) throws -> CertificateKeeper? {
        guard !domains.isEmpty else { return nil }
        try DataDirectory.prepare(globals.directory)
        var options = CertificateKeeper.Options(domains, folder: "\(globals.directory)/relay")
        options.directory = authority ?? .letsEncrypt
        options.email = email
        options.agreesToTerms = agreesToTerms
        if let authorityRoot {
            guard let roots = FileManager.default.contents(atPath: authorityRoot) else {
                throw KithError(.notFound, "The certificates in \(authorityRoot) cannot be read.")
            }
            options.roots = Array(roots)
        }
        let (isSilent, host) = (globals.json, options.directory.host)
        return try CertificateKeeper(
            options, challenges: server.challenges, clock: { Int64(Date().timeIntervalSince1970) },
            use: { certificate throws(KithError) in try server.use(certificate) }
        ) { event in
            switch event {
            case .stage(let stage): if !isSilent { note(Self.text(stage, host)) }
            case .using(let certificate, isNew: true):
                if !isSilent { note("There is a new certificate, until \(Self.date(certificate.notAfter)).") }
            case .using: break
            case .failed(let error, let next):
                note(
                    "kith: there is no newer certificate yet: \(printable(error.message)) "
                        + "It is tried again at \(Self.date(next)).")
            }
        }
    }

    private static func text(_ stage: ACMEIssuance.Stage, _ host: String) -> String {
        switch stage {
        case .asking: "Asking \(host) for a certificate …"
        case .registering(nil): "Making an account there …"
        case .registering(let terms?): "Making an account there, with agreement to its terms, \(printable(terms)) …"
        case .ordering: "Ordering …"
        case .proving(let name): "Showing that \(name.value) is this machine …"
        case .issuing: "Fetching the certificate …"
        }
    }

    /// A time in seconds since 1970, for a person and for a program.
    private static func date(_ time: Int64) -> String {
        Date(timeIntervalSince1970: Double(time)).formatted(.iso8601)
    }

    private func options() throws -> RelayServerOptions {
        let port = RelayAddress.defaultPort(isSecure: !withoutTLS)
        guard let everywhere = NetworkAddress("[::]:\(port)") else { preconditionFailure("an address") }
        var options = RelayServerOptions(address: listen ?? everywhere)
        options.stunAddress = try stunAddress(beside: options.address)
        Self.noteSTUNPort(options.stunAddress)
        options.discoveryAddress = try discoveryAddress(beside: options.address)
        if let cert, let key { options.certificate = (cert, key) }
        if listenQUIC != "none" {
            options.quicAddress = try listenQUIC.map(Self.address) ?? options.address
            options.requiresQUIC = listenQUIC != nil
        }
        if options.quicAddress != nil || isSelfSigned {
            let key = try ownKey()
            if options.quicAddress != nil { options.quicKey = key }
            if isSelfSigned { options.identity = key }
        }
        if !domains.isEmpty {
            options.awaitsCertificate = true
            options.httpAddress = try httpListen ?? Self.address("80")
        }
        if !tokens.isEmpty || !allowed.isEmpty {
            options.access = RelayAccess(
                keys: Set(allowed), tokens: try tokens.map(Self.token), admitsGuests: guests)
        }
        options.rate = rate
        if let perAddress { options.limits.sockets = perAddress }
        return options
    }

    /// The relay's own key, made at the first start.
    private func ownKey() throws -> DeviceKey {
        try DataDirectory.prepare(globals.directory)
        return try RelayKeyFile.key(in: "\(globals.directory)/relay")
    }

    /// A token, or the first line of a file of them: command lines are seen by everybody on a machine.
    static func token(_ argument: String) throws -> String {
        var token = argument
        if argument.hasPrefix("@") { token = try firstLine(of: String(argument.dropFirst()), as: "token") }
        // It goes in a header of HTTP.
        guard (1...RelayAccess.maxToken).contains(token.utf8.count),
            token.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw KithError(
                .invalid,
                "A token has 1 to \(RelayAccess.maxToken) letters, digits and signs of ASCII, and no spaces.")
        }
        return token
    }

    /// The first line of a file that holds a secret.
    static func firstLine(of path: String, as name: String) throws -> String {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            throw KithError(.notFound, "The \(name) in \(path) cannot be read.")
        }
        return text.split(whereSeparator: \.isNewline).first.map(String.init) ?? ""
    }

    private static func count(_ count: Int, _ word: String) -> String { "\(count) \(word)\(count == 1 ? "" : "s")" }

    /// The URL that devices are given; `nil` when this machine has no name that could stand in one.
    private func url(_ server: RelayServer) -> RelayAddress? { urls(server).first }

    /// The URLs by which devices may reach it, the likeliest first.
    private func urls(_ server: RelayServer) -> [RelayAddress] {
        hosts(server).compactMap { host in
            RelayAddress(
                host: host, port: server.address.port, isSecure: !withoutTLS, key: server.quicKey ?? server.key,
                isCertified: !isSelfSigned)
        }
    }

    /// The names or addresses at which this relay is reached.
    private func hosts(_ server: RelayServer) -> [String] {
        if let name = name ?? domains.first?.value { return [name] }
        if !server.address.isUnspecified { return [RelayPlace.host(of: server.address)] }
        // A certificate is for a name. Others need not know the one of this machine, and reach its addresses.
        let addresses = cert == nil ? RelayPlace.addressesOfThisMachine : []
        let reached = addresses.filter { server.address.isIPv6 || !$0.isIPv6 }.map(RelayPlace.host)
        return reached.isEmpty ? [ProcessInfo.processInfo.hostName] : reached
    }

    /// A log that says also without --verbose when etcd is away.
    private var operatorLogger: Logger {
        var logger = globals.logger
        if !globals.verbose { logger.logLevel = .warning }
        return logger
    }

    /// The URL that is told etcd.
    private func publicAddress(_ server: RelayServer) throws -> RelayAddress {
        if let publicURL { return publicURL }
        guard let address = url(server) else {
            throw KithError(.invalid, "Say under which URL devices reach this relay: --public-url URL")
        }
        return address
    }

    private func announce(_ server: RelayServer, _ certificate: RelayCertificate?) {
        let isOpen = tokens.isEmpty && allowed.isEmpty
        let (address, others) = (url(server), urls(server).dropFirst().map(\.description))
        let url = address?.description ?? "\(withoutTLS ? "http" : "https")://HOST:\(server.address.port)"
        let otherURL = isSelfSigned || address?.key == nil ? nil : address?.withoutKey.description
        if globals.json {
            struct Announcement: Encodable {
                var url: String
                var otherURLs: [String]?
                var urlWithoutKey: String?
                var key: String?
                var address: String
                var quicAddress: String?
                var isOpen: Bool
                var allowed: Int
                var tokens: Int
                var certificateUntil: String?
            }
            let announcement = Announcement(
                url: url, otherURLs: others.isEmpty ? nil : others, urlWithoutKey: otherURL,
                key: (server.quicKey ?? server.key)?.description,
                address: server.address.description, quicAddress: server.quicAddress?.description, isOpen: isOpen,
                allowed: allowed.count,
                tokens: tokens.count, certificateUntil: certificate.map { Self.date($0.notAfter) })
            if let text = try? jsonText(announcement) { printLine(text) }  // strings and numbers are always JSON
            return
        }
        printLine("\(styled("The relay", .bold)) is up\(isatty(STDOUT_FILENO) == 1 ? "; Ctrl-C stops it" : "")")
        printLine("  URL        \(url)")
        for other in others { printLine("          or \(other)") }
        if let otherURL { printLine("  for iroh   \(otherURL)") }
        printLine("  listens on \(server.address)")
        printLine("  QUIC       \(server.quicAddress.map { "UDP \($0)" } ?? "none: devices come by TCP alone")")
        if let http = server.httpAddress { printLine("  port 80    \(http), for the certificate authority") }
        if let certificate { printLine("  valid to   \(Self.date(certificate.notAfter)), renewed before") }
        if let stun = server.stunAddress { printLine("  STUN       \(stun)") }
        if let discovery = server.discoveryAddress { printLine("  QAD        \(discovery)") }
        printLine(
            "  for        \(isOpen ? "everybody" : "\(Self.count(allowed.count, "key")), \(Self.count(tokens.count, "token"))\(guests ? "; others as guests" : "")")"
        )
        var limit = rlimit()
        #if canImport(Darwin)
        let resource = RLIMIT_NOFILE
        #else
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #endif
        if unsafe getrlimit(resource, &limit) == 0, limit.rlim_cur < 4_096 {
            note("kith: only \(limit.rlim_cur) descriptors may be open (ulimit -n): no more clients than that")
        }
    }
}

/// Hands on who comes and goes, once there is somebody to tell.
private final class PresenceFeed: Sendable {
    private let rows = Mutex<EtcdRelayRows?>(nil)

    func noted(_ device: DeviceID) { rows.withLock { $0 }?.noted(device) }

    func lead(to rows: EtcdRelayRows) { self.rows.withLock { $0 = rows } }
}
