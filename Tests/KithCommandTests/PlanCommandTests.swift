import Foundation
import KithTesting
import Testing

/// `kith cp|mv|rm --plan` and `--confirm`, on files of a machine whose trash is in its own folder.
@Suite(.timeLimit(.minutes(3))) struct PlanCommandTests {
    private struct Plan: Decodable {
        var id: String
        var totals: Totals
        struct Totals: Decodable {
            var conflicts: Int
            var bytes: UInt64
        }
        var room: [Room]
        struct Room: Decodable { var needed: UInt64 }
    }

    private func withTree(_ body: (_ machine: Machine, _ top: String) async throws -> Void) async throws {
        let machine = try Machine("plan")
        let top = URL(fileURLWithPath: machine.path("tree")).resolvingSymlinksInPath().path
        try write("12345", to: top + "/a.txt")
        try write("1", to: top + "/folder/b.txt")
        try write("other", to: top + "/into/a.txt")
        try await body(machine, top)
        await machine.remove()
    }

    private func run(_ machine: Machine, _ words: String...) async throws -> Machine.Outcome {
        try await machine.start(
            words, environment: ["HOME": machine.folder.path, "XDG_DATA_HOME": machine.path("xdg")]
        ).outcome(seconds: 60)
    }

    private func plan(_ machine: Machine, _ words: String...) async throws -> Plan {
        let outcome = try await machine.start(
            words + ["--plan", "--json"],
            environment: ["HOME": machine.folder.path, "XDG_DATA_HOME": machine.path("xdg")]
        ).outcome(seconds: 60)
        try #require(outcome.status == 0, "\(outcome)")
        return try JSONDecoder().decode(Plan.self, from: Data(outcome.output.utf8))
    }

    private func names(_ top: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: top).sorted()
    }

    @Test func `a copy is planned with what is in its way and what it needs, and done by its id`() async throws {
        try await withTree { machine, top in
            let before = try names(top)
            let shown = try await run(machine, "cp", top + "/a.txt", top + "/into", "--plan")
            #expect(
                shown.status == 0 && shown.output.contains("taken by a file") && shown.output.contains("5 B needed"))
            #expect(shown.error.contains("kith cp --confirm "))
            #expect(try names(top) == before)
            let plan = try await plan(machine, "cp", top + "/a.txt", top + "/into")
            #expect(plan.totals.conflicts == 1 && plan.totals.bytes == 5 && plan.room.map(\.needed) == [5])
            // What is in the way is said to be, and nothing else confirms it.
            let unresolved = try await run(machine, "cp", "--confirm", plan.id)
            #expect(unresolved.status == 4 && unresolved.error.contains("--on-conflict"), "\(unresolved)")
            let other = try await run(machine, "rm", "--confirm", plan.id)
            #expect(other.status == 64 || other.status != 0 && other.error.contains("plan is to copy"), "\(other)")
            let done = try await run(machine, "cp", "--confirm", plan.id, "--on-conflict", "keep-both")
            #expect(done.status == 0 && done.error.contains("1 step done"), "\(done)")
            #expect(try names(top) == (before + ["into/a (2).txt"]).sorted())
            let again = try await run(machine, "cp", "--confirm", plan.id)
            #expect(again.status == 4 && again.error.contains("already"), "\(again)")
        }
    }

    @Test func `a folder is copied and deleted by a plan only with -r`() async throws {
        try await withTree { machine, top in
            for words in [["cp", top + "/folder", top + "/new"], ["rm", top + "/folder"]] {
                let refused = try await machine.start(
                    words + ["--plan"], environment: ["HOME": machine.folder.path]
                ).outcome(seconds: 60)
                #expect(refused.status != 0 && refused.error.contains("pass -r"), "\(refused)")
            }
            let plan = try await plan(machine, "rm", "-r", top + "/folder")
            #expect(try names(top).contains("folder/b.txt"))
            let done = try await run(machine, "rm", "--confirm", plan.id)
            #expect(done.status == 0, "\(done)")
            #expect(try !names(top).contains("folder"))
        }
    }

    @Test func `a move is planned, and what has changed since is left alone`() async throws {
        try await withTree { machine, top in
            let plan = try await plan(machine, "mv", top + "/folder/b.txt", top + "/c.txt")
            try write("longer than before", to: top + "/folder/b.txt")
            let done = try await run(machine, "mv", "--confirm", plan.id)
            #expect(done.error.contains("left out") || done.status != 0, "\(done)")
            #expect(try names(top).contains("folder/b.txt") && !names(top).contains("c.txt"))
        }
    }

    @Test func `what cannot be planned says what to do instead`() async throws {
        try await withTree { machine, top in
            let remote = try await run(machine, "cp", "laptop:/srv/a", top, "--plan")
            #expect(remote.status == 10 && remote.error.contains("--dry-run"), "\(remote)")
            let both = try await run(machine, "cp", "--confirm", "x", top)
            #expect(both.status == 64 && both.error.contains("without paths"), "\(both)")
            let alone = try await run(machine, "cp", top, top, "--on-conflict", "skip")
            #expect(alone.status == 64 && alone.error.contains("--plan"), "\(alone)")
            _ = try await run(machine, "cp", top + "/a.txt", top + "/z", "--plan")
            let unknown = try await run(machine, "cp", "--confirm", "no-such-plan")
            #expect(unknown.status == 3 && unknown.error.contains("ten minutes"), "\(unknown)")
        }
    }
}
