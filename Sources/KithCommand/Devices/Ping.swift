import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith ping`.
struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping",
        abstract: "Measure the round trip to a device, through the whole stack.",
        discussion: helpText(
            """
              kith ping laptop
              kith ping laptop --count 100 --interval 0 --size 1000 --json
              kith ping laptop --path relay         through its relay, though a direct path may be open

            With --path it is reached that way as long as the command runs: direct, relay, or local for this network
            alone. kith path sets it for longer.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(name: .shortAndLong, help: "How many times, 1 to 1,000,000; without it, until interrupted.")
    var count: Int?

    @Option(name: .shortAndLong, help: "Seconds between two, 0 to 3,600.")
    var interval = 0.2

    @Option(name: .shortAndLong, help: "Bytes to send and get back, 0 to 1,000,000.")
    var size = 56

    @Option(
        help: ArgumentHelp("Reach it this way: auto, direct, relay or local.", valueName: "way"),
        transform: PingCommand.path)
    var path: Reach.Path?

    /// Reads a way.
    static func path(_ argument: String) throws -> Reach.Path {
        guard let path = Reach.Path(rawValue: argument) else {
            throw ValidationError("--path takes auto, direct, relay or local.")
        }
        return path
    }

    func validate() throws {
        guard count.map({ (1...1_000_000).contains($0) }) ?? true else {
            throw ValidationError("--count takes 1 to 1,000,000.")
        }
        guard (0...1_000_000).contains(size) else { throw ValidationError("--size takes 0 to 1,000,000.") }
        guard interval >= 0, interval <= 3_600 else { throw ValidationError("--interval takes 0 to 3,600 seconds.") }
    }

    /// The output of `--json`.
    private struct Report: Encodable {
        var device: String
        var sent: Int
        var lost: Int
        var milliseconds: [Double]
        /// The address, or the URL of the relay, of the way that was asked for.
        var path: String?
    }

    func run() async throws {
        let (sent, times, place) = (Locked(0), Locked<[Double]>([]), Locked<String?>(nil))
        var (signal, failure): (Int32?, (any Error)?)
        do {
            signal = try await Signals.untilInterrupted { try await send(counting: sent, into: times, by: place) }
                .signal
        } catch {
            failure = error
            guard !times.value.isEmpty else { throw error }
        }
        // Like the ping for hosts: a person who has seen enough, or whose device went, is shown what there was.
        try summarize(sent: sent.value, times.value, by: place.value)
        if let failure { throw failure }
        if times.value.isEmpty, let signal { throw ExitCode(128 + signal) }
    }

    /// Sends so many, or for ever.
    private func send(
        counting sent: Locked<Int>, into times: Locked<[Double]>, by way: Locked<String?>
    ) async throws {
        let payload = ThisDevice.Echo.Payload(bytes: ByteString((0..<size).map { UInt8(truncatingIfNeeded: $0) }))
        try await withClient(globals) { client in
            var held: MethodStream<Nothing, Nothing>?
            if let path {
                let opened = try await client.open(
                    Reach.Hold.self, Reach.Hold.Input(device: device, path: path),
                    options: CallOptions(timeout: .seconds(15)))
                held = opened.stream
                let place = opened.output.path
                way.set(place)
                if !globals.json {
                    let name = place.contains("://") ? "the relay \(printable(place))" : printable(place)
                    printLine("\(printable(device)) is reached \(place.contains("://") ? "through" : "at") \(name)")
                }
            }
            defer { held?.abort(.cancelled) }
            for number in 1...(count ?? .max) {
                if number > 1 { try await Task.sleep(for: .seconds(interval)) }
                sent.set(number)
                let start = ContinuousClock.now
                let answer = try await client.call(
                    ThisDevice.Echo.self, payload, on: device, options: CallOptions(timeout: .seconds(10)))
                let time = (ContinuousClock.now - start) / .milliseconds(1)
                guard answer.bytes == payload.bytes else {
                    throw KithError(.corrupt, "\(device) sent back something other than it was sent.")
                }
                times.set(times.value + [time])
                guard !globals.json else { continue }
                printLine(
                    "\(size) bytes from \(printable(device)): seq=\(number) time=\(String(format: "%.2f ms", time))")
            }
        }
    }

    private func summarize(sent: Int, _ times: [Double], by place: String?) throws {
        if globals.json {
            return printLine(
                try jsonText(
                    Report(
                        device: device, sent: sent, lost: sent - times.count, milliseconds: times, path: place)))
        }
        let sorted = times.sorted()
        guard let minimum = sorted.first, let maximum = sorted.last else { return printLine("0 of \(sent) came back") }
        printLine(
            String(
                format: "%d of %d came back; minimum %.3f, median %.3f, maximum %.3f ms", sorted.count, sent,
                minimum, sorted[sorted.count / 2], maximum))
    }
}
