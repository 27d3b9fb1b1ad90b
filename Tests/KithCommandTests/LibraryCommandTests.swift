import Foundation
import KithTesting
import Testing

@testable import KithCommand

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

            let tagged = try await laptop.kith(["tags", "add", "work/clients", "\(top)/docs/old/photo.JPG"])
            #expect(tagged.status == 0 && tagged.error.contains("Tagged 1 file work/clients"), "\(tagged)")
            try FileManager.default.moveItem(atPath: top + "/docs/old/photo.JPG", toPath: top + "/moved.JPG")
            // The daemon may have noticed it first.
            let rescan = try await laptop.expect("library", "rescan")
            #expect(rescan.contains("1 moved") || rescan.contains("nothing new"), "\(rescan)")
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

    @Test func `files are noted, rated and counted, and folders of the shell are meant by a dot`() async throws {
        try await withTree { laptop, _, top in
            try await laptop.expect("add", top)
            let photo = top + "/docs/old/photo.JPG"
            try await laptop.expect("note", photo, "call Ana back")
            try await laptop.expect("rate", photo, "4")
            try await laptop.expect("favorite", photo)
            #expect(try await laptop.expect("note", photo) == "call Ana back\n")
            #expect(try await laptop.expect("search", "note:ana rating:>=4 is:favorite") == "\(photo)\n")
            try await laptop.expect("favorite", photo, "--remove")
            try await laptop.expect("note", photo, "--remove")
            #expect(try await laptop.kith(["search", "is:favorite"]).status == 3)
            let none = try await laptop.kith(["search", "--json", "note:ana"])
            #expect(none.status == 3 && none.output.hasPrefix("["), "\(none)")
            let facets = try await laptop.expect("search", "--facets", "is:file")
            #expect(facets.contains("4 names, ") && facets.contains("KIND") && facets.contains("jpg"), "\(facets)")
            #expect(try await laptop.expect("library").contains("NAME  FILES  FOLDERS"))
            let unknown = try await laptop.kith(["search", "type:report"])
            #expect(unknown.error.contains("no filter type:") && unknown.error.contains("did you mean kind:?"))
            let relative = try await laptop.kith(["search", "in:./nowhere"])
            #expect(relative.status == 3 && relative.error.contains("in:./nowhere"), "\(relative)")
            #expect(try await laptop.kith(["search", "in:~", "--device", "laptop"]).error.contains("this shell"))
            let problems = try await laptop.kith(["library", "problems"])
            #expect(problems.status == 0 && problems.output.isEmpty, "\(problems)")
        }
    }

    @Test func `one folder that cannot be added does not keep the others out`() async throws {
        try await withTree { laptop, _, top in
            for name in ["one", "two"] { try write("", to: top + "/docs/\(name)/only") }
            let added = try await laptop.kith(["add", top + "/docs/one", top + "/nope", top + "/docs/two"])
            #expect(added.status == 3 && added.error.contains("nope cannot be added"), "\(added)")
            #expect(added.output == "one: 1 name in 1 folder.\ntwo: 1 name in 1 folder.\n", "\(added)")
        }
    }

    @Test func `a name that is not UTF-8 is meant by its bytes`() throws {
        let bytes: [UInt8] = [0x61, 0xFF, 0x62]
        let other: [UInt8] = [0x61, 0xFE, 0x62]
        let text = String(decoding: bytes, as: UTF8.self)
        let line = [Array("kith".utf8), bytes, Array("a\u{FFFD}b".utf8), other]
        #expect(ExactArguments.bytes(of: [text, text, "plain"], in: line) == [bytes, other, Array("plain".utf8)])
        #expect(ExactArguments.bytes(of: [text], in: [Array(text.utf8)]) == [Array(text.utf8)])
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
