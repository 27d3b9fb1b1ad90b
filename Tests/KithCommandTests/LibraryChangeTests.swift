import Foundation
import KithTesting
import Testing

/// Changes of a library by its commands, and the way back.
@Suite(.timeLimit(.minutes(3))) struct LibraryChangeTests {
    private func withTree(_ body: (_ machine: Machine, _ top: String) async throws -> Void) async throws {
        let machine = try Machine("change")
        let top = URL(fileURLWithPath: machine.path("tree")).resolvingSymlinksInPath().path
        for name in ["one.txt", "two.o", "sub/three.txt", ".secret"] { try write(name, to: top + "/" + name) }
        try await machine.expect("add", top)
        try await body(machine, top)
        await machine.remove()
    }

    @Test func `tags, notes and stars are taken back, and listed beside what was done to files`() async throws {
        try await withTree { machine, top in
            let one = top + "/one.txt"
            try await machine.expect("tags", "add", "work/ana", one, top + "/two.o")
            try await machine.expect("rate", one, "4")
            try await machine.expect("note", one, "call back")
            let listed = try await machine.expect("undo", "--list")
            #expect(listed.contains("tags work, work/ana of 2 files") || listed.contains("work/ana"), "\(listed)")
            #expect(listed.contains("stars of 1 file") && listed.contains("note of 1 file"), "\(listed)")
            #expect(listed.split(separator: "\n").allSatisfy { $0.count <= 160 })
            let asked = try await machine.kith(["undo"])
            #expect(asked.status != 0 && asked.error.contains("-y"), "\(asked)")
            let undone = try await machine.kith(["undo", "-y"])
            #expect(undone.status == 0 && undone.error.contains("Taken back: note of 1 file"), "\(undone)")
            #expect(try await machine.kith(["note", one]).status == 3)
            try await machine.expect("undo", "-y")
            #expect(try await machine.kith(["search", "rating:4"]).status == 3)
            let plan = try await machine.kith(["undo", "--plan"])
            #expect(plan.error.contains("It would take back: tags") && plan.status == 0, "\(plan)")
            try await machine.expect("undo", "-y")
            #expect(try await machine.kith(["search", "tag:work"]).status == 3)
            let none = try await machine.kith(["undo", "-y"])
            #expect(none.status == 3 && none.error.contains("--list"), "\(none)")
            // By the beginning of its name, the way back is taken back.
            let json = try await machine.expect("undo", "--list", "--json")
            struct Entry: Decodable { var id: String, kind: String, library: String? }
            let entries = try JSONDecoder().decode([Entry].self, from: Data(json.utf8))
            #expect(entries.map(\.kind) == ["undo", "undo", "undo", "annotation", "annotation", "tags"])
            try await machine.expect("undo", String(entries[0].id.prefix(8)), "-y")
            #expect(try await machine.expect("search", "--count", "tag:work") == "2\n")
        }
    }

    @Test func `a tag gets another name on all its files, which is said and taken back`() async throws {
        try await withTree { machine, top in
            try await machine.expect("tags", "add", "work/ana", top + "/one.txt", top + "/two.o")
            try await machine.expect("tags", "add", "clients", top + "/sub/three.txt")
            let renamed = try await machine.kith(["tags", "rename", "work", "office"])
            #expect(renamed.status == 0 && renamed.output.isEmpty, "\(renamed)")
            #expect(renamed.error.contains("work with 1 beneath it is called office now, on 2 files."), "\(renamed)")
            #expect(try await machine.expect("search", "--count", "tag:office/ana") == "2\n")
            #expect(try await machine.kith(["search", "tag:work"]).status == 3)
            let merged = try await machine.expect("tags", "rename", "office/ana", "clients", "--json")
            struct Answer: Decodable, Equatable { var tags: Int, files: Int, isMerged: Bool }
            #expect(
                try JSONDecoder().decode(Answer.self, from: Data(merged.utf8))
                    == Answer(tags: 1, files: 2, isMerged: true))
            #expect(try await machine.expect("search", "--count", "tag:clients") == "3\n")
            let same = try await machine.kith(["tags", "rename", "clients", "clients"])
            #expect(same.status == 0 && same.error.contains("Nothing to do"), "\(same)")
            #expect(try await machine.kith(["tags", "rename", "gone", "x"]).status == 3)
            #expect(try await machine.kith(["tags", "rename", "clients", "a//b"]).status == 64)
            try await machine.expect("undo", "-y")
            #expect(try await machine.expect("search", "--count", "tag:office/ana") == "2\n")
        }
    }

    @Test func `events tell of notes, and of locations and libraries that are changed`() async throws {
        try await withTree { machine, top in
            try await machine.up()
            let following = try machine.start([
                "events", "--resource", "library", "--resource", "annotation", "--type", "library.created", "--type",
                "library.renamed", "--type", "annotations.changed", "--type", "location.changed", "--resource",
                "location",
            ])
            var stars = 0
            // Until it listens, what happens is not told.
            try await eventually {
                stars = stars % 5 + 1
                try await machine.expect("rate", top + "/one.txt", "\(stars)")
                return following.soFar.contains("notes    stars of \(top)/one.txt")
            }
            try await machine.expect("library", "set", "tree", "--name", "letters")
            try await machine.expect("library", "create", "Work")
            try await machine.expect("library", "rename", "Work", "Office")
            try await eventually { following.soFar.contains("Office") }
            let text = following.soFar
            #expect(text.contains("location letters (\(top)) was changed"), "\(text)")
            #expect(text.contains("library  Work was made"), "\(text)")
            #expect(text.contains("library  Work is called Office now"), "\(text)")
            following.process.interrupt()
            _ = try await following.outcome(seconds: 60)
        }
    }

    @Test func `a location is changed without being removed, and a library says what new ones are like`() async throws {
        try await withTree { machine, top in
            try await machine.expect("tags", "add", "kept", top + "/one.txt")
            let narrowed = try await machine.expect("library", "set", "tree", "--exclude", "*.o")
            #expect(narrowed == "tree: 1 removed.\n")
            #expect(try await machine.kith(["search", "two.o"]).status == 3)
            #expect(try await machine.expect("library", "set", "tree", "--usual") == "tree: 1 added.\n")
            #expect(try await machine.expect("library", "set", "tree", "--mode", "shallow").contains("tree: "))
            #expect(try await machine.kith(["search", "three"]).status == 3)
            #expect(try await machine.expect("library", "set", "tree", "--mode", "recursive").contains("added"))
            let named = try await machine.kith(["library", "set", top, "--name", "letters"])
            #expect(named.status == 0 && named.error.contains("letters is changed"), "\(named)")
            #expect(try await machine.expect("search", "tag:kept") == top + "/one.txt\n")
            #expect(try await machine.expect("search", "--count", "is:file") == "4\n")

            let usual = try await machine.kith(["library", "set", "--exclude", ".secret", "--mode", "shallow"])
            #expect(usual.error.contains("is shallow, without .secret"), "\(usual)")
            let other = machine.path("other")
            for name in ["a", ".secret", "deep/b"] { try write("", to: other + "/" + name) }
            #expect(try await machine.expect("add", other).contains("other: 2 names in 1 folder"))
            let nothing = try await machine.kith(["library", "set", "letters"])
            #expect(nothing.status == 64 && nothing.error.contains("--mode"), "\(nothing)")
            let unknown = try await machine.kith(["library", "set", "nowhere", "--name", "x"])
            #expect(unknown.status == 3 && unknown.error.contains("kith library"), "\(unknown)")
        }
    }

    @Test func `a location goes to another machine with its tags and notes`() async throws {
        try await withTree { machine, top in
            try await machine.expect("tags", "add", "trip", top + "/one.txt", top + "/sub/three.txt")
            try await machine.expect("note", top + "/one.txt", "the first")
            let file = machine.path("l.kithlocation")
            let written = try await machine.kith(["library", "export-location", top, "-o", file])
            #expect(written.status == 0 && written.error.contains("notes of 2 files"), "\(written)")
            let there = try await machine.kith(["library", "export-location", top, "-o", file])
            #expect(there.status == 4 && there.error.contains("--overwrite"), "\(there)")

            let other = try Machine("other")
            let lost = try await other.kith(["library", "import-location", machine.path("none")])
            #expect(lost.status == 3, "\(lost)")
            try write("x", to: other.path("elsewhere/one.txt"))
            let added = try await other.kith(
                ["library", "import-location", file, "--folder", other.path("elsewhere"), "--name", "trips"])
            #expect(added.status == 0 && added.output == "trips: 1 name in 1 folder.\n", "\(added)")
            let place = URL(fileURLWithPath: other.path("elsewhere/one.txt")).resolvingSymlinksInPath().path
            #expect(try await other.expect("search", "tag:trip") == place + "\n")
            #expect(try await other.expect("note", place) == "the first\n")
            // What comes later gets its tag then.
            try write("y", to: other.path("elsewhere/sub/three.txt"))
            try await other.expect("library", "rescan")
            #expect(try await other.expect("search", "--count", "tag:trip") == "2\n")
            try write("{\"version\": 1}", to: other.path("bad"))
            let bad = try await other.kith(["library", "import-location", other.path("bad")])
            #expect(bad.status == 12 && bad.error.contains("export-location"), "\(bad)")
            await other.remove()
        }
    }
}
