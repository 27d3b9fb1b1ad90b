import ArgumentParser
import Foundation
import KithCommandLine
import KithMLSVectors
import KithWire

/// `kith mls vectors verify`.
struct MLSVectorsVerify: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Verify the official test vectors in a folder.",
        discussion: helpText(
            """
              kith mls vectors verify vectors/mls
              kith mls vectors verify vectors/mls treekem welcome

            The folder holds the files of mlswg/mls-implementations (test-vectors/*.json). Each file is shown with its
            cases by cipher suite, and what was left out. The exit status is 1 when a case fails.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The folder with the files.", completion: .directory)
    var folder: String

    @Argument(help: "The kinds to verify, as the files are called without .json; by default all.")
    var kinds: [String] = []

    /// One file's result.
    private struct Row: Encodable {
        var file: String
        var passed: [String: Int]
        var skipped: [String: Int]
        var failures: [String]
        var seconds: Double
    }

    func run() throws {
        let wanted = try kinds.isEmpty ? VectorKind.allCases : kinds.map(VectorKind.init(named:))
        var rows: [Row] = []
        for kind in wanted {
            let place = URL(filePath: folder).appending(path: kind.fileName)
            let content: Data
            do { content = try Data(contentsOf: place) } catch {
                throw KithError(.notFound, "Could not read \(printable(place.path)).", cause: error)
            }
            let start = ContinuousClock.now
            let report: VectorReport
            do { report = try Vectors.verify(kind, json: [UInt8](content)) } catch {
                throw KithError(.invalid, "\(printable(place.path)) holds no \(kind.rawValue) vectors.", cause: error)
            }
            let seconds = Double((ContinuousClock.now - start) / .milliseconds(1)) / 1000
            rows.append(
                Row(
                    file: kind.fileName, passed: Self.named(report.passed), skipped: Self.named(report.skipped),
                    failures: report.failures, seconds: seconds))
            if !globals.json { show(report, seconds) }
        }
        if globals.json { printLine(try jsonText(rows)) } else { total(rows) }
        if rows.contains(where: { !$0.failures.isEmpty }) { throw ExitCode(1) }
    }

    private func show(_ report: VectorReport, _ seconds: Double) {
        printLine("\(report.description)  (\(String(format: "%.2f", seconds)) s)")
        for failure in report.failures { printLine("  \(failure)") }
    }

    private func total(_ rows: [Row]) {
        func sum(_ cases: [String: Int]) -> Int { cases.values.reduce(0, +) }
        let passed = rows.map { sum($0.passed) }.reduce(0, +)
        let skipped = rows.map { sum($0.skipped) }.reduce(0, +)
        let failed = rows.map(\.failures.count).reduce(0, +)
        let seconds = String(format: "%.1f", rows.map(\.seconds).reduce(0, +))
        printLine("\(passed) cases passed, \(failed) failed, \(skipped) skipped, in \(seconds) s")
    }

    private static func named(_ cases: [UInt16: Int]) -> [String: Int] {
        Dictionary(uniqueKeysWithValues: cases.map { ($0.key == 0 ? "any" : "\($0.key)", $0.value) })
    }
}
