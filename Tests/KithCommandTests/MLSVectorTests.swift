import Foundation
import KithTesting
import Testing

@Suite struct MLSVectorTests {
    @Test func `files that are not known, or hold something else, keep nobody from verifying the others`()
        async throws
    {
        let machine = try Machine("laptop")
        defer { try? FileManager.default.removeItem(at: machine.folder) }  // the next boot empties /tmp at the latest
        let folder = machine.folder.appendingPathComponent("vectors")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: folder.appendingPathComponent(name))
        }
        func verify() async throws -> Machine.Outcome {
            try await machine.start(["mls", "vectors", "verify", folder.path], byEnvironment: true).outcome(seconds: 60)
        }
        let nothing = try await verify()
        #expect(nothing.status == 3 && nothing.error.contains("There are no vectors in"), "\(nothing)")
        // A tree of two leaves: three nodes, of which 1 is the root.
        try write(
            "tree-math.json",
            """
            [{"n_leaves": 2, "n_nodes": 3, "root": 1, "left": [null, 0, null], "right": [null, 2, null],
              "parent": [1, null, 1], "sibling": [2, null, 0]}]
            """)
        try write("from-the-future.json", "{}")
        let good = try await verify()
        #expect(good.status == 0 && good.output.contains("1 cases passed, 0 failed"), "\(good)")
        #expect(good.error.contains("from-the-future.json") && good.error.contains("treekem.json"), "\(good)")
        try write("deserialization.json", "{\"vlbytes_header\": 1}")
        let bad = try await verify()
        #expect(bad.status == 1 && bad.output.contains("1 cases passed, 1 failed"), "\(bad)")
        #expect(bad.output.contains("deserialization.json holds no"), "\(bad)")
    }
}
