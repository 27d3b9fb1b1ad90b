import ArgumentParser
import Foundation
import KithCommandLine
import KithMLS
import KithMLSVectors
import KithWire

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
        help: ArgumentHelp(
            "Repeat the choices of an earlier file: the seed it printed, 0 or more.", valueName: "number"))
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
        guard let output else { return printLine(String(decoding: json, as: UTF8.self)) }
        do { try Data(json + [UInt8(ascii: "\n")]).write(to: URL(filePath: output)) } catch {
            throw KithError(.invalid, "Could not write \(printable(output)).", cause: error)
        }
    }
}
