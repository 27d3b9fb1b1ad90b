import ArgumentParser
import Foundation
import KithCommandLine
import KithMLS
import KithMLSVectors
import KithWire

/// `kith mls`.
struct MLSCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mls",
        abstract: "Look into messages of secure groups, and check the engine (MLS, RFC 9420).",
        discussion: helpText(
            """
              kith mls inspect message.mls             any MLS message as JSON; needs no keys
              kith mls vectors verify vectors/mls      the official test vectors, case by case
              kith mls vectors generate treekem        the same with fresh values, for others to verify
              kith mls bench                           what groups cost on this machine
              kith mls demo                            three processes in a group, killed now and then
            """),
        subcommands: [MLSInspect.self, MLSVectors.self, MLSBench.self, MLSDemo.self, MLSDemoMember.self])
}

/// `kith mls inspect`.
struct MLSInspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Print an MLS message as JSON.",
        discussion: helpText(
            """
              kith mls inspect message.mls
              kith mls inspect - < message.hex

            The message may be binary or hexadecimal text. What is encrypted stays so: no keys are asked for.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The file that holds one message; - for standard input.", completion: .file())
    var file: String

    func run() throws {
        let bytes = try Self.content(of: file)
        do {
            say(try jsonText(Inspection(try MLSMessage(bytes))))
        } catch let error as MLSError {
            throw KithError(.invalid, "\(printable(file)) is no MLS message: \(error).", cause: error)
        }
    }

    /// The file's bytes, of hexadecimal text what it stands for.
    private static func content(of file: String) throws -> [UInt8] {
        let data: Data
        do {
            data =
                try file == "-" ? FileHandle.standardInput.readToEnd() ?? Data() : Data(contentsOf: URL(filePath: file))
        } catch {
            throw KithError(.notFound, "Could not read \(printable(file)).", cause: error)
        }
        let bytes = [UInt8](data)
        let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
        // A binary message begins with the version, two bytes that are no digits.
        return Hex.decode(text) ?? bytes
    }
}

/// `kith mls vectors`.
struct MLSVectors: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vectors", abstract: "Verify the official test vectors of MLS, and make such vectors.",
        discussion: helpText(
            """
              kith mls vectors verify ./test-vectors
            """),
        subcommands: [MLSVectorsVerify.self, MLSVectorsGenerate.self])
}

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
        if globals.json { say(try jsonText(rows)) } else { total(rows) }
        if rows.contains(where: { !$0.failures.isEmpty }) { throw ExitCode(1) }
    }

    private func show(_ report: VectorReport, _ seconds: Double) {
        say("\(report.description)  (\(String(format: "%.2f", seconds)) s)")
        for failure in report.failures { say("  \(failure)") }
    }

    private func total(_ rows: [Row]) {
        func sum(_ cases: [String: Int]) -> Int { cases.values.reduce(0, +) }
        let passed = rows.map { sum($0.passed) }.reduce(0, +)
        let skipped = rows.map { sum($0.skipped) }.reduce(0, +)
        let failed = rows.map(\.failures.count).reduce(0, +)
        let seconds = String(format: "%.1f", rows.map(\.seconds).reduce(0, +))
        say("\(passed) cases passed, \(failed) failed, \(skipped) skipped, in \(seconds) s")
    }

    private static func named(_ cases: [UInt16: Int]) -> [String: Int] {
        Dictionary(uniqueKeysWithValues: cases.map { ($0.key == 0 ? "any" : "\($0.key)", $0.value) })
    }
}

extension VectorKind {
    /// The kind whose file is called so.
    fileprivate init(named name: String) throws {
        guard let kind = VectorKind(rawValue: name) else {
            let known = VectorKind.allCases.map(\.rawValue).joined(separator: ", ")
            throw KithError(.invalid, "There are no \(printable(name)) vectors; there are \(known).")
        }
        self = kind
    }
}

/// `kith mls vectors generate`.
struct MLSVectorsGenerate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "generate",
        abstract: "Make test vectors with fresh values.",
        discussion: helpText(
            """
              kith mls vectors generate treekem
              kith mls vectors generate welcome --suite 2 --count 10 --output welcome.json
              kith mls vectors generate passive-client-random --seed 42

            The file has the form of mlswg/mls-implementations, so that another implementation can check this one. The
            seed, shown on standard error, repeats the choices: sizes, orders, labels, plain bytes. Keys, nonces and
            signatures come from the system and are new each time.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(
        help: "The kind to make, as its file is called without .json.",
        completion: .list(VectorKind.allCases.map(\.rawValue)))
    var kind: String

    @Option(
        name: .customLong("suite"),
        help: ArgumentHelp("A cipher suite, 1 to 65535; may be given several times. Default: all.", valueName: "number")
    )
    var suites: [UInt16] = []

    @Option(
        help: ArgumentHelp(
            "How many cases for each suite; of kinds without suites, in all. Default: a few.", valueName: "number"))
    var count: Int?

    @Option(
        help: ArgumentHelp("Repeat the choices of an earlier file: the seed it told, 0 or more.", valueName: "number"))
    var seed: UInt64?

    @Option(help: ArgumentHelp("Write to a file instead of standard output.", valueName: "file"), completion: .file())
    var output: String?

    func run() throws {
        let kind = try VectorKind(named: kind)
        let chosen = try suites.map { number in
            guard let suite = CipherSuites[id: CipherSuiteID(rawValue: number)] else {
                throw KithError(.invalid, "There is no cipher suite \(number) in this engine.")
            }
            return suite
        }
        guard count.map({ 1...kind.largestCount ~= $0 }) ?? true else {
            throw KithError(.invalid, "A file of \(kind.rawValue) vectors has 1 to \(kind.largestCount) cases a suite.")
        }
        let seed = seed ?? UInt64.random(in: 0...UInt64(UInt32.max))
        note("seed \(seed)")
        let json: [UInt8]
        do {
            json = try Vectors.generate(
                kind, suites: chosen.isEmpty ? CipherSuites.all : chosen, count: count, seed: seed)
        } catch {
            throw KithError(.internal, "The \(kind.rawValue) vectors could not be made: \(error).", cause: error)
        }
        guard let output else { return say(String(decoding: json, as: UTF8.self)) }
        do { try Data(json + [UInt8(ascii: "\n")]).write(to: URL(filePath: output)) } catch {
            throw KithError(.invalid, "Could not write \(printable(output)).", cause: error)
        }
    }
}
