import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithForward
import UnixSignals

/// `kith forward`.
struct ForwardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forward",
        abstract: "Carry ports and sockets to or from a device.",
        discussion: helpText(
            """
              kith forward laptop -L 8080:localhost:80       here :8080 is the laptop's own port 80
              kith forward laptop -L 5432:db.lan:5432        … or one of a host the laptop can reach
              kith forward laptop -R 3000:localhost:3000     the laptop's :3000 is this device's
              kith forward laptop -D 1080                    SOCKS5 (also UDP) and HTTP proxy through the laptop
              kith forward laptop -L udp:5353:192.0.2.1:53   datagrams
              kith forward laptop -L /tmp/docker.sock:/run/docker.sock
              kith forward laptop -L 0:localhost:22          any free port; it is printed
              kith forward laptop -D 1080 --detach           in the daemon, until --stop
              kith forward laptop -L 5432:db:5432 --keep     and up again whenever this device is
              kith forward --list                            what is up, and what other devices do here

            What listens does so for the programs of its own machine only, unless an address or * stands before the
            port: -L *:8080:localhost:80. Names are looked up on the device that connects. When the device is gone for
            a while, what listens stays, and connections are refused until it is back.

            The other device must have granted it:
              forward                      everything it can reach, its own loopback and Unix sockets too
              forward:to=db.lan:5432       one host and port; also *.lan:443, 10.0.0.0/8:*,
                                           localhost:80, unix:/run/docker.sock, *:*
                                           (not the device itself, nor its link)
              forward:listen=*:8080        listening (-R) beyond its loopback
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ForwardOptions

    @Flag(help: "Leave it to the daemon and return; `--stop` ends it.")
    var detach = false

    @Flag(help: "Leave it to the daemon, which sets it up again whenever it starts; `--stop` ends it for good.")
    var keep = false

    @Flag(help: "Show what is forwarded now.")
    var list = false

    @Option(
        help: ArgumentHelp("End a forward that --list shows.", valueName: "id"),
        transform: { text in
            if let id = UInt64(text) { return id }
            throw ValidationError("it takes the number that `kith forward --list` shows")
        })
    var stop: UInt64?

    @Argument(help: "The device: a name, or the beginning of its id.")
    var device: String?

    func validate() throws {
        if list || stop != nil {
            guard device == nil, !keep, !detach, try options.forwards().rules.isEmpty else {
                throw ValidationError("--list and --stop take no device and no forwards.")
            }
            return
        }
        guard device != nil else { throw ValidationError("Name the device to forward through.") }
        guard try !options.forwards().rules.isEmpty else {
            throw ValidationError("Choose what to forward: -L, -R or -D. `kith forward --help` shows how.")
        }
    }

    func run() async throws {
        if let stop {
            let stopped = try await withClient(globals) {
                try await $0.call(Forward.Stop.self, Forward.Stop.Input(id: stop))
            }
            if globals.json { printLine(try jsonText(stopped)) } else { note("Stopped.") }
        } else if list {
            try await showList()
        } else if let device {
            let forwards = try options.forwards()
            if detach || keep { try await start(forwards, device) } else { try await keepUp(forwards, device) }
        }
    }

    private func showList() async throws {
        let isUp = try await daemonClient(globals) != nil
        let (list, devices) = try await withClient(globals) { client in
            (
                try await client.call(Forward.List.self, Nothing()),
                try await client.call(Devices.List.self, Devices.List.Input(probe: false))
            )
        }
        let away = Set(devices.filter { !$0.isOnline }.map(\.name))
        if globals.json { return printLine(try jsonText(list)) }
        if list.running.isEmpty, list.inbound.isEmpty { return note("Nothing is forwarded.") }
        if !list.running.isEmpty {
            printLine(
                table(
                    ["ID", "DEVICE", "FORWARD", "KEPT", "OPEN", "TOTAL", "SENT", "RECEIVED"],
                    list.running.flatMap { running in
                        running.rules.map { status in
                            [
                                "\(running.id)",
                                printable(running.device) + (isUp && away.contains(running.device) ? " (away)" : ""),
                                ForwardDisplay.route(status, isUp: isUp), running.isKept == true ? "yes" : "no",
                                "\(status.open)", "\(status.total)", ProgressLine.size(status.sent),
                                ProgressLine.size(status.received),
                            ]
                        }
                    }))
            for running in list.running {
                for failure in running.rules.compactMap(\.lastFailure) {
                    note("\(running.id): last failure: \(printable(failure))")
                }
            }
        }
        if !list.inbound.isEmpty {
            if !list.running.isEmpty { printLine() }
            printLine(
                table(
                    ["FROM", "WHAT", "WHERE", "SENT", "RECEIVED", "FOR"],
                    list.inbound.map { entry in
                        [
                            printable(entry.device), String(entry.method.drop { $0 != "." }.dropFirst()),
                            printable(entry.endpoint), ProgressLine.size(entry.sent), ProgressLine.size(entry.received),
                            ProgressLine.duration(Double(entry.seconds)),
                        ]
                    }))
        }
    }

    /// Hands the rules to the daemon.
    private func start(_ forwards: ForwardSet, _ device: String) async throws {
        let client = try await runningClient(globals, ", so nothing can stay in it")
        let running = try await client.call(
            Forward.Start.self, Forward.Plan(device: device, rules: forwards.rules, isKept: keep ? true : nil))
        if globals.json { return printLine(try jsonText(running)) }
        for status in running.rules { printLine(ForwardDisplay.route(status)) }
        note(
            running.isKept == true
                ? "It is up whenever this device is, until `kith forward --stop \(running.id)`."
                : "It stays up until `kith forward --stop \(running.id)`, or `kith down`.")
    }

    /// Keeps the rules up until asked to stop.
    private func keepUp(_ forwards: ForwardSet, _ device: String) async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
        let isLive = !globals.json && !isPlainTerminal && isatty(STDERR_FILENO) == 1
        let display = ForwardDisplay(isLive: isLive, isJSON: globals.json)
        try await withClient(globals) { client in
            try await forwards.whileUp(to: device, client: client, changed: { display.show($0) }) { running in
                display.begin(running)
                for await _ in signals { break }
                display.end()
            }
        }
    }
}
