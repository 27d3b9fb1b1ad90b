import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// `kith services`.
struct ServicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "services",
        abstract: "List the services of this device and those that other devices offer it; pause and resume them.",
        discussion: helpText(
            """
              kith services                    those of this device, then those that connected devices offer
              kith services laptop             what laptop offers this device; connects if need be
              kith services laptop --actions   with what each can be asked, as `kith call` takes it
              kith services --pause math       calls of math fail until it is resumed
              kith services --resume math

            A device offers what its grants let this one call, of the services that were added to it: those of programs
            (Examples/Python/clock.py) and of applications. What every device has (shell, files, …) is listed for this
            device alone.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device whose services to list, when it is not this one.")
    var device: String?

    @Flag(name: .shortAndLong, help: "List what each service can be asked.")
    var actions = false

    @Option(
        help: ArgumentHelp("Have a service of this device answer nothing until it is resumed.", valueName: "service"))
    var pause: String?

    @Option(help: ArgumentHelp("Have a paused service of this device answer again.", valueName: "service"))
    var resume: String?

    func validate() throws {
        guard pause == nil || resume == nil else { throw ValidationError("One of --pause and --resume at a time.") }
        guard device == nil || (pause == nil && resume == nil) else {
            throw ValidationError("Services are paused and resumed on the device they belong to: run this there.")
        }
    }

    func run() async throws {
        if let service = pause ?? resume { return try await change(service) }
        let services = try await withClient(globals) { client in
            if let device { return try await offered(by: device, to: client) }
            return try await client.request("$registry/services/list", as: Registry.Services.self).services
        }
        if globals.json { return printLine(try jsonText(Registry.Services(services: services))) }
        guard !services.isEmpty else {
            let name = device.map(printable) ?? "this device"
            return note(
                "\(name) offers this device nothing. What it may call is granted there: `kith grant NAME --add 'node:math/*'`."
            )
        }
        let names = try await deviceNames()
        printLine(
            table(
                ["SERVICE", "DEVICE", "STATE", "VERSION", "ABOUT"],
                services.flatMap { service in
                    [
                        [
                            printable(Self.path(service)),
                            (service.device.map { names[$0] ?? $0.short } ?? device).map(printable) ?? "this device",
                            printable(service.state.description), printable(service.version),
                            printable(service.description),
                        ]
                    ] + (actions ? service.actions.map(Self.row) : [])
                }))
    }

    private static func row(_ action: Registry.Action) -> [String] {
        ["  " + printable(action.name), "", action.kind.rawValue, "", printable(action.summary)]
    }

    private static func path(_ service: Registry.Service) -> String {
        service.network == TopicPath.defaultNetwork ? service.path : "\(service.network):\(service.path)"
    }

    private func deviceNames() async throws -> [DeviceID: String] {
        guard device == nil else { return [:] }
        let devices = try await withClient(globals) { try await $0.call(Devices.List.self, .init(probe: false)) }
        return Dictionary(devices.map { ($0.id, $0.name) }) { $1 }
    }

    /// What a device tells this one first, which is everything.
    private func offered(by device: String, to client: Client) async throws -> [Registry.Service] {
        let stream = try await client.open(Services.Watch.self, Nothing(), on: device).stream
        var services: [Registry.Service] = []
        while let change = try await stream.receive() {
            services += change.changed
            guard change.hasMore == true else { break }
        }
        stream.abort(.cancelled)
        return services
    }

    private func change(_ service: String) async throws {
        let verb = pause == nil ? "resume" : "pause"
        let topic = try TopicPath(service: service)
        let path = "$registry/services/\(topic.methodName)/\(verb)"
        let state = try await withClient(globals) { client in
            try await client.request(
                path, Registry.Query(network: topic.network), as: Registry.State.self)
        }
        if globals.json { return printLine(try jsonText(state)) }
        printLine("\(printable(service)) is \(printable(state.state?.description ?? "not there")).")
    }
}
