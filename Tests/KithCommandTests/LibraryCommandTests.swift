import Foundation
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(3))) struct LibraryCommandTests {
    /// Runs `body` with two machines, the first of which has a tree of files.
    private func withTree(_ body: (_ laptop: Machine, _ phone: Machine, _ top: String) async throws -> Void)
        async throws
    {
        try await withTwoMachines { laptop, phone in
            // Without links on the way: paths are printed without them.
            let top = URL(fileURLWithPath: laptop.path("tree")).resolvingSymlinksInPath().path
            try FileManager.default.createDirectory(atPath: top + "/docs/old", withIntermediateDirectories: true)
            for (name, text) in [
                ("docs/annual report.pdf", "12345"), ("docs/old/photo.JPG", "1"), ("docs/a\nb", ""), ("debug.log", ""),
                (".gitignore", "*.log\n"),
            ] { try write(text, to: top + "/" + name) }
            try await body(laptop, phone, top)
        }
    }

    @Test func `files are added, found, tagged and followed, up or down`() async throws {
        try await withTree { laptop, _, top in
            #expect(try await laptop.expect("library").isEmpty)
            let empty = try await laptop.kith(["search", "report"])
            #expect(empty.status == 3 && empty.error.contains("kith add FOLDER"))

            #expect(try await laptop.expect("add", top) == "tree: 6 names in 3 folders.\n")
            #expect(try await laptop.expect("search", "REPORT") == "\(top)/docs/annual report.pdf\n")
            // What a terminal might obey is shown; the exact bytes come with -0.
            #expect(try await laptop.expect("search", "regex:^a\\sb$") == "\(top)/docs/a\\u{a}b\n")
            let exact = try await laptop.kith(["search", "-0", "regex:^a\\sb$"]).output
            #expect(exact == "\(top)/docs/a\nb\0")
            #expect(try await laptop.expect("search", "--count", "is:file") == "4\n")
            #expect(try await laptop.expect("search", "--long", "kind:image").contains("image"))
            // What .gitignore names is left out.
            let left = try await laptop.kith(["search", "debug"])
            #expect(left.status == 3 && left.output.isEmpty)

            try await laptop.expect("tags", "add", "work/clients", "\(top)/docs/old/photo.JPG")
            try FileManager.default.moveItem(atPath: top + "/docs/old/photo.JPG", toPath: top + "/moved.JPG")
            #expect(try await laptop.expect("library", "rescan").contains("1 moved"))
            #expect(try await laptop.expect("search", "tag:work") == "\(top)/moved.JPG\n")
            #expect(try await laptop.expect("tags").contains("work/clients  1"))

            // The daemon notices what changes; without it the library is the same.
            try await eventually { try await laptop.expect("library").contains("watched") }
            try write("", to: top + "/fresh.txt")
            try await eventually { try await laptop.kith(["search", "fresh"]).output == "\(top)/fresh.txt\n" }
            try await laptop.killDaemon()
            #expect(try await laptop.expect("search", "fresh") == "\(top)/fresh.txt\n")
            try await laptop.expect("library", "remove", "tree")
            #expect(try await laptop.expect("library").isEmpty)
        }
    }

    @Test func `a fault is said once, with what to do`() async throws {
        try await withTree { laptop, _, top in
            let query = try await laptop.kith(["search", "report", "size:9Q"])
            #expect(query.status == 64 || query.status == 1 || query.status == 2, "\(query)")
            #expect(query.error.contains("report size:9Q\n") && query.error.contains("^"), "\(query)")
            let missing = try await laptop.kith(["add", top + "/nope"])
            #expect(missing.status == 3 && missing.error.contains("nope cannot be added"), "\(missing)")
            try await laptop.expect("add", top)
            let twice = try await laptop.kith(["add", top + "/docs"])
            #expect(twice.status == 4 && twice.error.contains("lies in \(top)"), "\(twice)")
            let location = try await laptop.kith(["library", "rescan", "other"])
            #expect(location.status == 3 && location.error.contains("kith library"), "\(location)")
        }
    }

    @Test func `another device searches it with the grant`() async throws {
        try await withTree { laptop, phone, top in
            try await laptop.expect("add", top)
            try await laptop.invite(phone, "shell")
            let denied = try await phone.kith(["search", "report", "--device", "laptop"])
            #expect(denied.status == 5 && denied.error.contains("library"), "\(denied)")
            try await laptop.expect("grant", "phone", "--add", "library")
            #expect(
                try await phone.expect("search", "report", "--device", "laptop") == "\(top)/docs/annual report.pdf\n")
            #expect(try await phone.expect("library", "list", "--device", "laptop").contains(top))
        }
    }
}
