import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithForward
import KithShell
import KithWire

/// `kith via`.
struct ViaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "via",
        abstract: "Reach the network as from a device: run a command through it, or connect to a host and port.",
        discussion: helpText(
            """
              kith via laptop -- curl https://intranet.lan/
              kith via laptop -- git clone https://git.lan/repository
              kith via laptop intranet.lan 22
              ssh -o ProxyCommand='kith via laptop %h %p' intranet.lan

            A command runs here and finds a proxy of its own (ALL_PROXY, HTTP_PROXY, HTTPS_PROXY, also in lower case),
            behind a password that only it gets, for as long as it runs. Programs that look at none of these go
            their usual way. Exit status: the command's; 128 plus the number when a signal ended it.

            With a host and a port, standard input and output are the connection. The end of the input ends that
            direction only.

            The device must have granted `forward`, or what is wanted of it: see `kith forward --help`.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device: a name, or the beginning of its id.")
    var device: String

    @Argument(help: "A host, host:port, or unix:/path.")
    var host: String?

    @Argument(help: "The port, when the host does not say it.")
    var port: String?

    @Argument(parsing: .postTerminator, help: "After --: the command and its arguments.")
    var command: [String] = []

    private var target: [String] { [host, port].compactMap { $0 } }

    func validate() throws {
        guard command.isEmpty != target.isEmpty else {
            throw ValidationError("Name either what to run (-- COMMAND) or where to connect to (HOST PORT).")
        }
        if !target.isEmpty { _ = try endpoint() }
    }

    func run() async throws {
        let status = try await withClient(globals) { client in
            command.isEmpty ? try await connect(client) : try await runCommand(client)
        }
        throw ExitCode(status)
    }

    private func endpoint() throws -> Forward.Endpoint {
        let endpoint: Forward.Endpoint?
        switch target.count {
        case 1: endpoint = Forward.Endpoint(target[0])
        case 2:
            let host = target[0].hasPrefix("[") ? String(target[0].dropFirst().dropLast()) : target[0]
            endpoint = UInt16(target[1]).flatMap { Forward.Endpoint(host: host, port: $0) }
        default: endpoint = nil
        }
        guard let endpoint, endpoint.port != 0 else {
            let words = ShellService.Options.commandLine(for: target)
            throw ValidationError(
                "“\(target.joined(separator: " "))” is not a host and port. Write HOST PORT or HOST:PORT. "
                    + "To run a command, put -- before it: kith via \(device) -- \(words)")
        }
        if case .every = endpoint { throw ValidationError("* is not a host to connect to.") }
        return endpoint
    }

    // MARK: - A connection

    private func connect(_ client: Client) async throws -> Int32 {
        let opened = try await client.open(
            Forward.Connect.self, Forward.Connect.Input(to: try endpoint()), on: device,
            options: CallOptions(timeout: .seconds(30)))
        let opening = opened.output
        guard opening.outcome == .connected else {
            let message = opening.message ?? "\(opening.outcome.rawValue)"
            switch opening.outcome {
            case .timedOut: throw KithError(.timedOut, message)
            case .notFound: throw KithError(.notFound, message)
            default: throw KithError(.unreachable, message)
            }
        }
        let ends = StandardStreams()
        let stream = ForwardStream(opened.stream.bytes)
        let isTerminal = isatty(STDIN_FILENO) == 1
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                while let bytes = try await stream.read(upTo: 256 << 10) {
                    guard await ends.write(bytes) else {
                        // Whoever read our output has enough.
                        stream.abort(.cancelled)
                        throw ExitCode(128 + SIGPIPE)
                    }
                }
                ends.finish()
                return true
            }
            group.addTask {
                while let bytes = await ends.read() { try await stream.write(bytes) }
                try await stream.finish()
                return false
            }
            // A person at a terminal need not say that there is nothing more to say to a host that has left.
            while let outputHasEnded = try await group.next() {
                if outputHasEnded, isTerminal { break }
            }
            group.cancelAll()
            return 0
        }
    }

    // MARK: - A command

    private func runCommand(_ client: Client) async throws -> Int32 {
        let credentials = Self.freshCredentials()
        let rule = Forward.Rule(
            .local, listen: .name("localhost", port: 0), target: nil, credentials: credentials)
        let command = command
        let device = device
        return try await ForwardSet([rule]).status(whileUp: device, client: client) { running in
            let port = running.rules.first?.listening.first?.port ?? 0
            return try await ChildProcess.run(
                command, environment: Self.environment(credentials, port: port, device: device))
        }
    }

    /// Credentials nobody else knows: a name, a colon and 128 random bits in hexadecimal.
    static func freshCredentials() -> String {
        "kith:\(Hex.encode((0..<16).map { _ in UInt8.random(in: .min ... .max) }))"
    }

    /// The environment of a command that is to use the proxy.
    static func environment(_ credentials: String, port: UInt16, device: String) -> [String: String] {
        var environment = ProcessInfo.processInfo.environment
        let proxy = "\(credentials)@127.0.0.1:\(port)"
        for (name, value) in [
            ("ALL_PROXY", "socks5h://\(proxy)"), ("HTTP_PROXY", "http://\(proxy)"), ("HTTPS_PROXY", "http://\(proxy)"),
        ] {
            environment[name] = value
            environment[name.lowercased()] = value
        }
        environment["RSYNC_PROXY"] = proxy
        environment["KITH_VIA"] = device
        // What this machine reaches without a proxy, it is to reach through the device now.
        environment["NO_PROXY"] = nil
        environment["no_proxy"] = nil
        return environment
    }
}
