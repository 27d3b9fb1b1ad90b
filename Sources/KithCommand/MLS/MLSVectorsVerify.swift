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
            cases by cipher suite, and what was left out; other files are named at the end. The exit status is 1 when a case
            fails, or a file does not hold what its name says.
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
        let files = try self.files()
        var rows: [Row] = []
        for kind in files.kinds {
            let content = try read(kind)
            let start = ContinuousClock.now
            let report: VectorReport
            do { report = try Vectors.verify(kind, json: [UInt8](content)) } catch {
                // One bad file says nothing of the others.
                let failure = "holds no \(kind.rawValue) vectors"
                rows.append(Row(file: kind.fileName, passed: [:], skipped: [:], failures: [failure], seconds: 0))
                if !globals.json { printLine("\(kind.fileName) \(failure)") }
                continue
            }
            let seconds = Double((ContinuousClock.now - start) / .milliseconds(1)) / 1000
            rows.append(
                Row(
                    file: kind.fileName, passed: Self.named(report.passed), skipped: Self.named(report.skipped),
                    failures: report.failures, seconds: seconds))
            if !globals.json { show(report, seconds) }
        }
        if globals.json { printLine(try jsonText(rows)) } else { total(rows) }
        if !files.missing.isEmpty { note("kith: not there: \(files.missing.joined(separator: ", "))") }
        if !files.unknown.isEmpty {
            note("kith: left out, of no kind that is known: \(files.unknown.joined(separator: ", "))")
        }
        if rows.contains(where: { !$0.failures.isEmpty }) { throw ExitCode(1) }
    }

    /// What is to be verified: the kinds that were named, or those that are there.
    private func files() throws -> (kinds: [VectorKind], missing: [String], unknown: [String]) {
        if !kinds.isEmpty { return (try kinds.map(VectorKind.init(named:)), [], []) }
        let names: [String]
        do { names = try FileManager.default.contentsOfDirectory(atPath: folder) } catch {
            throw KithError(.notFound, "Could not read \(printable(folder)).", cause: error)
        }
        let (there, missing) = (
            VectorKind.allCases.filter { names.contains($0.fileName) },
            VectorKind.allCases.map(\.fileName).filter { !names.contains($0) }
        )
        guard !there.isEmpty else {
            throw KithError(
                .notFound, "There are no vectors in \(printable(folder)): files such as \(missing.first ?? "").")
        }
        let unknown = names.filter {
            $0.hasSuffix(".json") && !VectorKind.allCases.map(\.fileName).contains($0)
        }
        return (there, missing, unknown.sorted().map(printable))
    }

    private func read(_ kind: VectorKind) throws -> Data {
        let place = URL(filePath: folder).appending(path: kind.fileName)
        do { return try Data(contentsOf: place) } catch {
            throw KithError(.notFound, "Could not read \(printable(place.path)).", cause: error)
        }
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
