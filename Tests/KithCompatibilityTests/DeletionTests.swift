import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

@Suite struct `Files of the reference that are deleted` {
    private static let answers: [String: JSONValue] = [
        "operations.plan": ["id": "p", "totals": ["unresolved": 0]], "operations.confirm": ["job": "j"],
    ]

    /// A device with a folder that has something in it, one that has not, and a file.
    private func makeDevice() throws -> (CompatibilityAdapter, FakeCarrier) {
        try makeAdapter(
            Self.answers,
            [
                "files.stat": { ["kind": $0.member("path")?.text == "/file" ? "file" : "folder"] },
                "files.list": {
                    ["entries": $0.member("path")?.text == "/full" ? [["name": ".hidden", "kind": "file"]] : []]
                },
            ])
    }

    @Test(arguments: [true, false])
    func `take no folder with something in it along where that was not asked for`(isPermanent: Bool) async throws {
        let (adapter, carrier) = try makeDevice()
        func delete(_ paths: [JSONValue]) async throws {
            _ = try await adapter.run(
                "action:files.delete",
                ["targets": ["paths": .array(paths)], "permanent": .boolean(isPermanent), "recursive": false],
                library: .string(library))
        }
        await #expect(throws: KithError(.conflict, "")) { try await delete(["/file", "/full"]) }
        #expect(carrier.inputs(of: "operations.confirm").isEmpty)
        try await delete(["/file", "/empty"])
        #expect(carrier.inputs(of: "operations.confirm").count == 1)
    }

    /// Its clients say so each time.
    @Test(arguments: [["recursive": true], [:]] as [[String: JSONValue]])
    func `take a folder with all in it otherwise`(more: [String: JSONValue]) async throws {
        let (adapter, carrier) = try makeDevice()
        let input: [String: JSONValue] = ["targets": ["paths": ["/full"]], "permanent": true]
        _ = try await adapter.run(
            "action:files.delete", .object(input.merging(more) { $1 }), library: .string(library))
        #expect(carrier.inputs(of: "operations.plan").first?.member("kind")?.text == "delete")
        #expect(carrier.inputs(of: "operations.confirm").count == 1)
    }
}
