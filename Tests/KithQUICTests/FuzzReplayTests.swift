import Foundation
import KithTesting
import Testing

/// Inputs that once broke a parser, those that reach all code in reach, and the seeds of both, kept in `Fuzz/`.
@Suite("Fuzzers") struct FuzzReplayTests {
    /// The package's folder, from where this file lies.
    static let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private func inputs(_ folder: String, _ target: FuzzTarget) throws -> [[UInt8]] {
        let place = Self.package.appending(path: "Fuzz/\(folder)/\(target.rawValue)")
        guard FileManager.default.fileExists(atPath: place.path) else { return [] }
        return try FileManager.default.contentsOfDirectory(at: place, includingPropertiesForKeys: nil)
            .sorted { $0.path < $1.path }
            .map { [UInt8](try Data(contentsOf: $0)) }
    }

    @Test func `make fuzz runs every target`() throws {
        let script = try String(contentsOf: Self.package.appending(path: "scripts/fuzz"), encoding: .utf8)
        let list = try #require(script.firstMatch(of: /\ntargets="([^"]*)"/)).1
        let known = list.split(whereSeparator: \.isWhitespace).map(String.init)
        #expect(known.sorted() == FuzzTarget.allCases.map(\.rawValue).sorted())
    }

    @Test(arguments: FuzzTarget.allCases) func `every kept input keeps its promise`(target: FuzzTarget) async throws {
        let seeds = try inputs("Corpus", target) + target.extremes
        #expect(!seeds.isEmpty)
        for bytes in try seeds + inputs("Found", target) + inputs("Crashes", target) { await target.run(bytes) }
    }

    @Test(arguments: FuzzTarget.allCases) func `seeds cut short or damaged keep the promise too`(
        target: FuzzTarget
    ) async throws {
        var random = SeededRandom.fromEnvironment()
        // What takes long, less often; of the extreme numbers, which are many alike, each a few times.
        let isSlow = [.conversation, .terminal, .difference, .answers, .transfer, .caller].contains(target)
        let seeds =
            try inputs("Corpus", target).map { (bytes: $0, rounds: isSlow ? 10 : 200) }
            + target.extremes.map { (bytes: $0, rounds: isSlow ? 1 : 5) }
        for seed in seeds {
            for _ in 0..<seed.rounds {
                var damaged = Array(seed.bytes.prefix(Int.random(in: 0...seed.bytes.count, using: &random)))
                for _ in 0..<Int.random(in: 0...4, using: &random) where !damaged.isEmpty {
                    damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
                await target.run(damaged)
            }
        }
    }
}
