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

    @Test(arguments: FuzzTarget.allCases) func `every kept input keeps its promise`(target: FuzzTarget) throws {
        let seeds = try inputs("Corpus", target)
        #expect(!seeds.isEmpty)
        for file in try seeds + inputs("Found", target) + inputs("Crashes", target) {
            let bytes = [UInt8](try Data(contentsOf: file))
            bytes.withUnsafeBytes { unsafe target.run($0) }
        }
    }

    @Test(arguments: FuzzTarget.allCases) func `seeds cut short or damaged keep the promise too`(
        target: FuzzTarget
    ) throws {
        var random = SeededRandom.fromEnvironment()
        for file in try inputs("Corpus", target).sorted(by: { $0.path < $1.path }) {
            let bytes = [UInt8](try Data(contentsOf: file))
            // A conversation takes as long as two hundred parsings, a screen drawn at every step as twenty.
            for _ in 0..<(target == .conversation || target == .terminal ? 10 : 200) {
                var damaged = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))
                for _ in 0..<Int.random(in: 0...4, using: &random) where !damaged.isEmpty {
                    damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
                damaged.withUnsafeBytes { unsafe target.run($0) }
            }
        }
    }
}
