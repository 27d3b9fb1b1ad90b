import Foundation

/// Measures both ends in one process: `kith-bench [--json FILE] [--mebibytes N]`.
@main struct KithBench {
    static func main() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        var json: String?
        var mebibytes = 1024
        while let argument = arguments.popFirst() {
            switch argument {
            case "--json": json = arguments.popFirst()
            case "--mebibytes": mebibytes = arguments.popFirst().flatMap { Int($0) } ?? mebibytes
            default:
                print("usage: kith-bench [--json FILE] [--mebibytes N]")
                exit(64)
            }
        }
        var report = Report()
        try await Bench.bulk(mebibytes: mebibytes, into: &report)
        try Bench.engine(mebibytes: min(mebibytes, 512), into: &report)
        try await Bench.connect(rounds: 200, into: &report)
        try await Bench.echo(rounds: 2000, into: &report)
        try await Bench.streams(1000, into: &report)
        try await Bench.idleStreams(10_000, into: &report)
        try Bench.idleConnections(500, into: &report)
        print(report.table)
        if let json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            try encoder.encode(report).write(to: URL(fileURLWithPath: json))
        }
    }
}
