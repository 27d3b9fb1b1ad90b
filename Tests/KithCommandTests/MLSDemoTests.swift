import Foundation
import Testing

/// The real command as three processes in one group.
@Suite struct MLSDemoTests {
    private struct Result: Decodable {
        var members: Int
        var kills: Int
        var epoch: UInt64
        var sent: Int
        var lost: [String]
        var doubled: [String]
        var waited: Int
        var agrees: Bool
    }

    @Test func `three processes that are killed and away agree in the end, and nothing is lost or doubled`()
        async throws
    {
        let machine = try Machine("mls-demo")
        defer { try? FileManager.default.removeItem(at: machine.folder) }  // the next boot empties /tmp at the latest
        let running = try machine.start(["mls", "demo", "--rounds", "4", "--json"], byEnvironment: true)
        let outcome = try await running.outcome(seconds: 120)
        try #require(outcome.status == 0, "\(outcome)")
        let result = try JSONDecoder().decode(Result.self, from: Data(outcome.output.utf8))
        #expect(result.members == 3 && result.kills == 9)
        #expect(result.agrees && result.lost.isEmpty && result.doubled.isEmpty)
        #expect(result.sent >= 12 && result.epoch >= 2 && result.waited >= 8)
    }

    @Test func `it tells what happens, and keeps the databases where it is asked to`() async throws {
        let machine = try Machine("mls-demo")
        defer { try? FileManager.default.removeItem(at: machine.folder) }  // the next boot empties /tmp at the latest
        let kept = machine.folder.appending(path: "kept").path
        let outcome = try await machine.start(
            ["mls", "demo", "--rounds", "1", "--keep", kept], byEnvironment: true
        ).outcome(seconds: 120)
        try #require(outcome.status == 0, "\(outcome)")
        for text in [
            "anna   made a group", "cleo   is away", "kill -9", "cleo   is back", "the same secrets",
            "0 lost, 0 doubled",
        ] {
            #expect(outcome.output.contains(text), "\(text) in \(outcome)")
        }
        for name in ["delivery", "anna/groups.sqlite", "anna/groups.sealed", "anna/machine.key"] {
            #expect(FileManager.default.fileExists(atPath: "\(kept)/\(name)"), "\(name)")
        }
        // The same folder again is no new group.
        let again = try await machine.start(["mls", "demo", "--keep", kept], byEnvironment: true).outcome(seconds: 60)
        #expect(again.status != 0 && again.error.contains("Could not make the folder"))
    }
}
