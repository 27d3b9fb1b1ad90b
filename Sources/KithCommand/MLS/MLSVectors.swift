import ArgumentParser
import Foundation
import KithCommandLine
import KithMLSVectors
import KithWire

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

extension VectorKind {
    /// The kind whose file is called so.
    init(named name: String) throws {
        guard let kind = VectorKind(rawValue: name) else {
            let known = VectorKind.allCases.map(\.rawValue).joined(separator: ", ")
            throw KithError(.invalid, "There are no \(printable(name)) vectors; there are \(known).")
        }
        self = kind
    }
}
