import Foundation
import KithTesting
import Testing

/// Inputs that once broke a parser, those that reach all code in reach, and the seeds of both, kept in `Fuzz/`.
@Suite("Fuzzers") struct FuzzReplayTests {
    /// The package's folder, from where this file lies.
    static let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private func inputs(_ folder: String, _ target: FuzzTarget) throws -> [URL] {
        let place = Self.package.appending(path: "Fuzz/\(folder)/\(target.rawValue)")
        guard FileManager.default.fileExists(atPath: place.path) else { return [] }
        return try FileManager.default.contentsOfDirectory(at: place, includingPropertiesForKeys: nil)
    }

    @Test(arguments: FuzzTarget.allCases) func `the numbers that arithmetic stumbles over are among the seeds`(
        target: FuzzTarget
    ) throws {
        let folder = Self.package.appending(path: "Fuzz/Corpus/\(target.rawValue)")
        let named = target.extremes.enumerated().map { ("extreme-\($0.offset)", $0.element) }
        if ProcessInfo.processInfo.environment["KITH_WRITE_SEEDS"] == "1" {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for file in try inputs("Corpus", target) where file.lastPathComponent.hasPrefix("extreme-") {
                try FileManager.default.removeItem(at: file)
            }
            for (name, bytes) in named { try Data(bytes).write(to: folder.appending(path: name)) }
        }
        let kept = try inputs("Corpus", target).filter { $0.lastPathComponent.hasPrefix("extreme-") }
        #expect(kept.count == named.count)
        for (name, bytes) in named {
            #expect([UInt8](try Data(contentsOf: folder.appending(path: name))) == bytes, "\(name)")
        }
    }

    @Test(arguments: FuzzTarget.allCases) func `every kept input keeps its promise`(target: FuzzTarget) async throws {
        let seeds = try inputs("Corpus", target)
        #expect(!seeds.isEmpty)
        for file in try seeds + inputs("Found", target) + inputs("Crashes", target) {
            let bytes = [UInt8](try Data(contentsOf: file))
            await target.run(bytes)
        }
    }

    /// How often a seed is damaged: what takes long, less often; of the many alike, each a few times.
    private func rounds(_ target: FuzzTarget, _ file: URL) -> Int {
        switch target {
        // A conversation takes as long as two hundred parsings, a screen drawn at every step as twenty.
        case .conversation, .terminal, .answers, .transfer: file.lastPathComponent.hasPrefix("extreme-") ? 1 : 10
        default: file.lastPathComponent.hasPrefix("extreme-") ? 5 : 200
        }
    }

    @Test(arguments: FuzzTarget.allCases) func `seeds cut short or damaged keep the promise too`(
        target: FuzzTarget
    ) async throws {
        var random = SeededRandom.fromEnvironment()
        for file in try inputs("Corpus", target).sorted(by: { $0.path < $1.path }) {
            let bytes = [UInt8](try Data(contentsOf: file))
            for _ in 0..<rounds(target, file) {
                var damaged = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))
                for _ in 0..<Int.random(in: 0...4, using: &random) where !damaged.isEmpty {
                    damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
                await target.run(damaged)
            }
        }
    }
}
