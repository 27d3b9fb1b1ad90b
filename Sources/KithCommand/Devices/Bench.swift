import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith bench`.
struct BenchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench",
        abstract: "Measure the connection to a device: latency, throughput both ways, loss.",
        discussion: helpText(
            """
              kith bench laptop
              kith bench laptop --time 10 --json
              kith bench laptop --screen              how soon its screen is seen, and a move of the pointer felt

            Bytes that mean nothing are sent each way for as long as --time says; that device must have given this one
            some grant, no matter which. Rates are of what arrived, on top of encryption and everything else Kith does.

            With --screen a session of its screen is measured instead, as kith screen begins it: the first picture, the
            whole picture again, the pointer that is moved a pixel and back (with the grant screen:control), and what
            moves there by itself for as long as --time says.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device.")
    var device: String

    @Option(name: .shortAndLong, help: "Seconds each way, 0.1 to 30.")
    var time = 3.0

    @Option(name: [.customShort("n"), .long], help: "Small requests to time, 1 to 10,000.")
    var requests = 100

    @Flag(help: "Measure a session of its screen.")
    var screen = false

    func validate() throws {
        guard (0.1...30).contains(time) else { throw ValidationError("--time takes 0.1 to 30 seconds.") }
        guard (1...10_000).contains(requests) else { throw ValidationError("--requests takes 1 to 10,000.") }
    }

    /// The output of `--json`.
    private struct Report: Encodable {
        struct Latency: Encodable {
            var requests: Int
            var minimum: Double
            var median: Double
            var p99: Double
            var maximum: Double
        }
        var device: String
        var latencyMilliseconds: Latency
        var downBytesPerSecond: Double
        var upBytesPerSecond: Double
        var link: Reach.Link?
    }

    func run() async throws {
        guard !screen else { return try await measureScreen() }
        var line = StatusLine(isShown: !globals.json, isPlain: globals.isPlain)
        let last = try await withClient(globals) { client in
            let input = Reach.Measure.Input(device: device, milliseconds: Int(time * 1_000), requests: requests)
            let stream = try await client.open(Reach.Measure.self, input).stream
            var last: Reach.Measure.Report?
            for try await report in stream.messages {
                last = report
                if let code = report.code, let message = report.message {
                    line.clear()
                    throw KithError(code, message)
                }
                if report.phase != "done" { line.show(Self.words(report)) }
            }
            return last
        }
        line.clear()
        guard let last, last.phase == "done", !last.latencies.isEmpty, let down = last.down, let up = last.up else {
            throw KithError(.closed, "The measurement was interrupted. Try again.")
        }
        let latencies = last.latencies
        let latency = Report.Latency(
            requests: latencies.count, minimum: latencies[0], median: latencies[latencies.count / 2],
            p99: latencies[min(latencies.count - 1, latencies.count * 99 / 100)],
            maximum: latencies[latencies.count - 1])
        if globals.json {
            printLine(
                try jsonText(
                    Report(
                        device: device, latencyMilliseconds: latency, downBytesPerSecond: down, upBytesPerSecond: up,
                        link: last.link)))
            return
        }
        printLine(
            String(
                format: "latency   minimum %.3f ms, median %.3f ms, p99 %.3f ms, of %d requests", latency.minimum,
                latency.median, latency.p99, latency.requests))
        printLine("down      \(Self.rate(down))")
        printLine("up        \(Self.rate(up))")
        guard let link = last.link else { return }
        let lost = link.packetsSent == 0 ? 0 : Double(link.packetsLost) * 100 / Double(link.packetsSent)
        printLine(
            "loss      \(link.packetsLost) of \(link.packetsSent) packets sent\(String(format: " (%.2f %%)", lost))")
        printLine(
            "path      \(link.path?.description ?? "through a relay"), datagrams of \(link.udpPayloadSize) bytes, window \(ProgressLine.size(UInt64(max(0, link.congestionWindow))))\(link.cipherSuite.map { ", \(printable($0))" } ?? "")"
        )
    }

    private func measureScreen() async throws {
        let line = Locked(StatusLine(isShown: !globals.json, isPlain: globals.isPlain))
        defer { line.change { $0.clear() } }
        let report = try await withClient(globals) { client in
            try await ScreenBench(client: client, device: device, seconds: time, moves: requests).run { text in
                line.change { $0.show("screen  \(text)") }
            }
        }
        line.change { $0.clear() }
        printLine(globals.json ? try jsonText(report) : report.text)
    }

    private static func words(_ report: Reach.Measure.Report) -> String {
        let percent = "\(Wording.percent(report.progress)) %"
        return switch report.phase {
        case "latency": "latency  \(percent)"
        case "down": "down  \(percent)  \(rate(report.down ?? 0))"
        default: "up  \(percent)  \(rate(report.up ?? 0))"
        }
    }

    /// `93.4 MB/s (747 Mbit/s)`.
    private static func rate(_ bytes: Double) -> String {
        "\(Wording.rate(bytes)) (\(String(format: "%.1f", bytes * 8 / 1_000_000)) Mbit/s)"
    }
}
