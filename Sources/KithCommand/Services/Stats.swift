import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// `kith stats`.
struct StatsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stats",
        abstract: "Count the calls of this device's services: how many, how long, how many failed and why.",
        discussion: helpText(
            """
              kith stats                 every method that was called since this device started
              kith stats files           those of one service
              kith stats --providers     requests to any provider: which device was asked, and how that went
              kith stats --json | jq '.services.files'

            P50 and P99 are the times within which half and 99 % of the calls ended; each is the upper end of a bucket
            twice as wide as the one before.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Only this service.")
    var service: String?

    @Flag(help: "List the devices that requests to any provider went to.")
    var providers = false

    func validate() throws {
        guard service == nil || !providers else {
            throw ValidationError("--providers takes no service: it lists the providers of all of them.")
        }
    }

    func run() async throws {
        if providers { return try await showProviders() }
        let counts = try await withClient(globals) { client in
            guard let service else {
                return try await client.request("$registry/stats", as: Registry.AllStatistics.self)
            }
            let topic = try TopicPath(service: service)
            let one = try await client.request(
                "$registry/services/\(topic.methodName)/stats", Registry.Query(network: topic.network),
                as: Registry.Statistics.self)
            return Registry.AllStatistics(services: [service: one])
        }
        if globals.json { return printLine(try jsonText(counts)) }
        let rows = counts.services.sorted { $0.key < $1.key }.flatMap { Self.rows($0.value) }
        guard !rows.isEmpty else { return note("Nothing was called since this device started.") }
        printLine(table(["METHOD", "CALLS", "FAILED", "NOW", "P50", "P99", "LAST FAILURE"], rows))
    }

    private static func rows(_ counts: Registry.Statistics) -> [[String]] {
        counts.actions.filter { $0.value.calls > 0 || $0.value.running > 0 }.sorted { $0.key < $1.key }
            .map { name, action in
                let failure = action.lastError.map {
                    "\($0.code.rawValue), \(relative($0.time / 1_000)): \(printable($0.message))"
                }
                return [
                    printable(name), "\(action.calls)", "\(action.errors)", "\(action.running)",
                    time(action.latency.microseconds(at: 0.5)), time(action.latency.microseconds(at: 0.99)),
                    failure ?? "",
                ]
            }
    }

    private func showProviders() async throws {
        let (states, devices) = try await withClient(globals) { client in
            (
                try await client.request("$registry/providers", as: Registry.ProviderStates.self),
                try await client.call(Devices.List.self, .init(probe: false))
            )
        }
        if globals.json { return printLine(try jsonText(states)) }
        guard !states.providers.isEmpty else {
            return note("No request went to any provider: `kith call math/add --on '*'`, Provider.any in Swift.")
        }
        let names = Dictionary(devices.map { ($0.id, $0.name) }) { $1 }
        printLine(
            table(
                ["METHOD", "DEVICE", "CALLS", "FAILED", "NOW", "USUALLY", "BREAKER"],
                states.providers.map { state in
                    [
                        printable(state.path),
                        state.device.map { names[$0].map(printable) ?? $0.short } ?? "this device",
                        "\(state.calls)", "\(state.errors)", "\(state.running)",
                        Self.time(state.latency.flatMap { UInt64(exactly: $0.rounded()) }), printable(state.breaker),
                    ]
                }))
    }

    /// `350 µs`, `2.1 ms`, `40 s`.
    private static func time(_ microseconds: UInt64?) -> String {
        guard let microseconds else { return "" }
        return switch microseconds {
        case 0..<1_000: "\(microseconds) µs"
        case 0..<1_000_000: "\(Double(microseconds / 100) / 10) ms"
        default: "\(Double(microseconds / 100_000) / 10) s"
        }
    }
}
