import Foundation
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(3))) struct OrganizeCommandTests {
    @Test func `files are copied, moved, renamed, put into the trash and brought back`() async throws {
        try await withTwoMachines { laptop, _ in
            let top = laptop.path("tree")
            try FileManager.default.createDirectory(atPath: top + "/into", withIntermediateDirectories: true)
            for name in ["a.txt", "b.txt"] { try write(name, to: "\(top)/\(name)") }
            func names() throws -> [String] { try FileManager.default.subpathsOfDirectory(atPath: top).sorted() }

            // A plan changes nothing, up or down.
            let plan = try await laptop.expect("organize", "copy", top + "/a.txt", top + "/into", "--plan")
            #expect(plan.contains("1 file, 5") && plan.contains("kith undo"))
            #expect(try names() == ["a.txt", "b.txt", "into"])
            try await laptop.expect("organize", "copy", top + "/a.txt", top + "/into")
            #expect(try names() == ["a.txt", "b.txt", "into", "into/a.txt"])
            let taken = try await laptop.kith(["organize", "copy", top + "/a.txt", top + "/into"])
            #expect(taken.status != 0 && taken.error.contains("--on-conflict"))
            try await laptop.expect("organize", "copy", top + "/a.txt", top + "/into", "--on-conflict", "keep-both")
            #expect(try names().contains("into/a (2).txt"))
            #expect(try await laptop.expect("undo", "--list").contains("can be undone"))
            try FileManager.default.removeItem(atPath: top + "/into/a (2).txt")

            try await laptop.killDaemon()
            try await laptop.expect(
                "organize", "rename", top + "/a.txt", top + "/b.txt", "--pattern", "n-{n:2}.{ext}", "-y")
            #expect(try names() == ["into", "into/a.txt", "n-01.txt", "n-02.txt"])
            // Not the copy before it: that would go into the trash of whoever runs the tests.
            try await laptop.expect("undo", "-y")
            #expect(try names() == ["a.txt", "b.txt", "into", "into/a.txt"])
            try await laptop.expect(
                "organize", "rename", top + "/a.txt", top + "/b.txt", "--pattern", "n-{n:2}.{ext}", "-y")
            try await laptop.expect("organize", "move", top + "/n-01.txt", top + "/into")
            let gone = try await laptop.kith(["organize", "move", top + "/n-01.txt", top + "/into"])
            #expect(gone.status != 0 && gone.error.contains("it is not there"))
            let asked = try await laptop.kith(["organize", "delete", top + "/into"])
            #expect(asked.status != 0 && asked.error.contains("-y"))
            try await laptop.expect("organize", "delete", top + "/into", "-y")
            #expect(try names() == ["n-02.txt"])
            #expect(try await laptop.expect("volumes").contains("FREE"))
        }
    }
}
