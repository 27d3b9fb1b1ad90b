import Foundation
import KithAPI
import KithRPC
import KithWire
import Testing

@testable import KithCompatibility

@Suite struct `The operations of the reference that are there` {
    @Test func `are those that Socket.md lists`() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Documentation/Socket.md").standardizedFileURL
        let text = try String(contentsOf: file, encoding: .utf8)
        let section = try #require(text.components(separatedBy: "## Clients of Spacedrive").last)
        var listed: Set<String> = []
        for line in section.replacing("\n  ", with: " ").split(separator: "\n") where line.hasPrefix("- `") {
            let words = line.split(separator: "`").enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
            for name in words.dropFirst() { listed.insert(words[0] + name) }
        }
        #expect(listed == Set(Operation.all.map(\.name)))
    }

    @Test(arguments: [
        "query:spaces.list", "action:spaces.update", "query:sync.metrics", "query:models.whisper.list",
        "action:network.pair.vouch", "action:network.stop", "action:network.sync_setup", "query:core.ephemeral_status",
    ])
    func `do not take in others, of which the reason is said`(_ name: String) async throws {
        let (adapter, _) = try makeAdapter()
        let error = await #expect(throws: KithError.self) {
            try await adapter.run(name, .null, library: .string(library))
        }
        #expect(error?.code == .unsupported && error?.message.contains("Socket.md") == false)
    }

    @Test func `are named by a document where one is not known at all`() async throws {
        let (adapter, _) = try makeAdapter()
        let error = await #expect(throws: KithError.self) {
            try await adapter.run("query:no.such", .null, library: nil)
        }
        #expect(error?.message.contains("Documentation/Socket.md") == true)
    }
}
