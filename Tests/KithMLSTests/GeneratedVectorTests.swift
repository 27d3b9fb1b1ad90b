import Foundation
import KithMLS
import KithMLSVectors
import Testing

/// Vectors of this engine's own making, verified by itself and, where there is one, by another implementation.
@Suite struct GeneratedVectorTests {
    @Test(arguments: VectorKind.allCases, [1, 2, 3, 5, 7] as [UInt16])
    func `what is generated verifies`(kind: VectorKind, suite: UInt16) throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        let count = kind == .treeOperations ? 5 : kind == .pskSecret ? 4 : suite < 5 ? 3 : 1
        let json = try Vectors.generate(kind, suites: [cipherSuite(suite)], count: count, seed: seed)
        let report = try Vectors.verify(kind, json: json)
        #expect(report.failures.isEmpty, "seed \(seed): \(report.failures.joined(separator: "\n"))")
        #expect(report.passed.values.reduce(0, +) == count)
        #expect(report.skipped.isEmpty)
    }

    @Test(arguments: VectorKind.allCases)
    func `a generated value that was changed does not verify`(kind: VectorKind) throws {
        let json = try Vectors.generate(kind, suites: [cipherSuite(1)], count: 3, seed: 1)
        let cases = try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [[String: Any]])
        let field = try #require(Self.telling[kind])
        let changed = cases.map { one in
            var one = one
            switch one[field] {
            // Of a message anything may be said but what its shape is.
            case let text as String where kind == .messages: one[field] = text + "00"
            case let text as String: one[field] = text.dropLast() + (text.hasSuffix("0") ? "1" : "0")
            case let number as Int: one[field] = number + 1
            case var list as [Any] where list.first is String:
                list[0] = String(repeating: "0", count: 64)
                one[field] = list
            case var list as [[String: Any]]:
                for index in list.indices { list[index]["commit_secret"] = String(repeating: "0", count: 64) }
                one[field] = list
            case var object as [String: Any]:
                object["out"] = "00"
                one[field] = object
            default: Issue.record("\(field) is none of the above")
            }
            return one
        }
        let report = try Vectors.verify(kind, json: [UInt8](try JSONSerialization.data(withJSONObject: changed)))
        #expect(report.failures.count == cases.count)
    }

    /// A field of each kind that the rest of a case determines.
    private static let telling: [VectorKind: String] = [
        .treeMath: "root", .deserialization: "length", .messages: "commit", .cryptoBasics: "derive_secret",
        .secretTree: "encryption_secret", .messageProtection: "membership_key", .keySchedule: "epochs",
        .pskSecret: "psk_secret", .transcriptHashes: "interim_transcript_hash_after", .welcome: "welcome",
        .treeOperations: "tree_hash_after", .treeValidation: "tree_hashes", .treeKEM: "update_paths",
        .passiveClientWelcome: "initial_epoch_authenticator",
        .passiveClientHandlingCommit: "initial_epoch_authenticator",
        .passiveClientRandom: "initial_epoch_authenticator",
    ]

    @Test func `a seed repeats the choices`() throws {
        // Nothing of these kinds comes from the system's source.
        for kind in [VectorKind.secretTree, .pskSecret, .keySchedule] {
            let first = try Vectors.generate(kind, suites: [cipherSuite(1)], seed: 7)
            #expect(try Vectors.generate(kind, suites: [cipherSuite(1)], seed: 7) == first)
            #expect(try Vectors.generate(kind, suites: [cipherSuite(1)], seed: 8) != first)
        }
    }

    @Test func `generated files have the names of the official ones`() throws {
        guard let folder = OfficialVectorTests.folder() else { return }
        for kind in VectorKind.allCases {
            // The one official random history has no pre-shared keys, whose names are those of the other histories.
            let model = kind == .passiveClientRandom ? VectorKind.passiveClientHandlingCommit : kind
            let official = try Self.shape(Data(contentsOf: folder.appending(path: model.fileName)))
            let own = try Self.shape(Data(Vectors.generate(kind, suites: [cipherSuite(1)], seed: 3)))
            #expect(own.isSubset(of: official), "\(kind.fileName): \(own.subtracting(official)) is not official")
            #expect(official.isSubset(of: own), "\(kind.fileName): \(official.subtracting(own)) is missing")
        }
    }

    /// All names in a file, with the path to them.
    private static func shape(_ data: Data) throws -> Set<String> {
        var names: Set<String> = []
        func visit(_ value: Any, _ path: String) {
            if let object = value as? [String: Any] {
                for (name, inner) in object {
                    names.insert(path + name)
                    visit(inner, path + name + ".")
                }
            } else if let list = value as? [Any] {
                for inner in list { visit(inner, path) }
            }
        }
        visit(try JSONSerialization.jsonObject(with: data), "")
        return names
    }
}
