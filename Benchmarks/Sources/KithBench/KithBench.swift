import Foundation

/// Measures both ends in one process: `kith-bench [--json FILE] [--mebibytes N] [--only PART] [--rounds N] [--files N]`.
@main struct KithBench {
    private static let usage = """
        usage: kith-bench [--json FILE] [--mebibytes N] [--only PART] [--rounds N] [--files N]
          PART is one of \(Part.allCases.map(\.rawValue).joined(separator: ", "));
          N rounds of connecting (200); N files in a library (100000)
        """

    private enum Part: String, CaseIterable {
        case bulk, engine, connect, first, echo, streams, idle, coding, calls, events, requests, peers, trust,
            discovery, node, library, rpc, socket
    }

    static func main() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        var json: String?
        var mebibytes = 1024
        var rounds = 200
        var files = 100_000
        // Its parts are among the others.
        var parts = Part.allCases.filter { $0 != .rpc }
        while let argument = arguments.popFirst() {
            let value = arguments.popFirst()
            switch (argument, value, value.flatMap { Int($0) }, value.flatMap { Part(rawValue: $0) }) {
            case ("--json", let file?, _, _): json = file
            case ("--mebibytes", _, let number?, _): mebibytes = number
            case ("--rounds", _, let number?, _): rounds = number
            case ("--files", _, let number?, _): files = number
            case ("--only", _, _, .node?):
                parts = [.requests, .peers, .trust, .discovery, .node, .events, .coding, .connect, .idle]
            case ("--only", _, _, let part?): parts = [part]
            default:
                print(usage)
                exit(64)
            }
        }
        var report = Report()
        for part in parts {
            switch part {
            case .bulk: try await Bench.bulk(mebibytes: mebibytes, into: &report)
            case .engine: try Bench.engine(mebibytes: min(mebibytes, 512), into: &report)
            case .connect: try await Bench.connect(rounds: rounds, into: &report)
            case .first: try await Bench.firstRequest(rounds: 10, into: &report)
            case .echo: try await Bench.echo(rounds: 2000, into: &report)
            case .streams: try await Bench.streams(1000, into: &report)
            case .idle:
                try await Bench.idleStreams(10_000, into: &report)
                try Bench.idleConnections(500, into: &report)
            case .calls:
                try await Bench.calls(rounds: 10_000, into: &report)
                try await Bench.observedCalls(rounds: 10_000, into: &report)
            case .events:
                try await Bench.events(into: &report)
                try await Bench.fanOut(into: &report)
            case .rpc:
                try await Bench.calls(rounds: 10_000, into: &report)
                try await Bench.fanOut(into: &report)
            case .requests: try await Bench.requests(into: &report)
            case .peers: try await Bench.peers(into: &report)
            case .trust: try await Bench.trust(into: &report)
            case .discovery: try await Bench.discovery(into: &report)
            case .node: try await Bench.node(into: &report)
            case .socket: try await Bench.socket(clients: 1_000, into: &report)
            case .library: try await Bench.library(files: files, into: &report)
            case .coding: try Bench.coding(files: 50_000, into: &report)
            }
        }
        print(report.table)
        if let json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            try encoder.encode(report).write(to: URL(fileURLWithPath: json))
        }
    }
}
