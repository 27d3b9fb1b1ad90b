import Foundation
import KithAPI
import KithIdentity
import KithWire
import Synchronization
import Testing

@testable import KithFiles

@Suite struct SearchTests {
    /// Searches the laptop: returns paths with what they are, and what was left out.
    private func find(
        _ client: Client, _ input: Files.Find.Input
    ) async throws -> (entries: [Files.Entry], skipped: [Files.Skipped], largest: Int) {
        let messages = try await client.open(Files.Find.self, input, on: "laptop").stream
        var entries: [Files.Entry] = []
        var skipped: [Files.Skipped] = []
        var largest = 0
        while let found = try await messages.receive() {
            entries += found.entries
            skipped += found.skipped
            largest = max(largest, found.entries.count)
            if let failure = found.failure { throw failure.error }
            if found.isLast { return (entries, skipped, largest) }
        }
        throw KithError(.closed, "no last message")
    }

    private func usage(_ client: Client, _ input: Files.Usage.Input) async throws -> [Files.Used.Item] {
        let messages = try await client.open(Files.Usage.self, input, on: "laptop").stream
        var items: [Files.Used.Item] = []
        while let used = try await messages.receive() {
            items += used.items
            if let failure = used.failure { throw failure.error }
            if used.isLast { return items }
        }
        throw KithError(.closed, "no last message")
    }

    private func paths(_ client: Client, _ input: Files.Find.Input) async throws -> [String] {
        try await find(client, input).entries.map(\.name.description).sorted()
    }

    @Test func `a pattern means what it means to the C library`() {
        var random = 0x5EED as UInt64
        func next(_ count: Int) -> Int {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((random >> 33) % UInt64(count))
        }
        let pieces = [
            "a", "b", "c", "-", ".", "*", "?", "[a-b]", "[!a]", "[^bc]", "[]a]", "[[:digit:]]", "\\*", "\\a", "7",
        ]
        let letters = ["a", "b", "c", "-", ".", "*", "]", "7"]
        print("seed 0x5EED")
        for _ in 0..<20_000 {
            let glob = (0..<next(7)).map { _ in pieces[next(pieces.count)] }.joined()
            let text = (0..<next(8)).map { _ in letters[next(letters.count)] }.joined()
            #expect(GlobPattern(glob).matches(Array(text.utf8)) == (fnmatch(glob, text, 0) == 0), "\(glob) on \(text)")
        }
        #expect(GlobPattern("?.JPG", ignoresCase: true).matches(Array("Ä.jpg".utf8)))
        #expect(GlobPattern("ä*", ignoresCase: true).matches(Array("ÄRGER".utf8)))
        #expect(!GlobPattern("?").matches(Array("ab".utf8)))
        #expect(GlobPattern("a?b").matches([0x61, 0xFF, 0x62]))
        #expect(GlobPattern("[a").matches(Array("[a".utf8)))
        #expect(GlobPattern("").matches([]))
    }

    @Test func `a hostile pattern takes no more time than its length allows`() {
        // A matcher that tries every way would not end before the sun does.
        let glob = GlobPattern(String(repeating: "*a", count: 500) + "b")
        #expect(!glob.matches([UInt8](repeating: 0x61, count: 4_000)))
    }

    @Test func `a search tells what meets all of it, whatever the names are`() async throws {
        let folders = try Folders()
        try folders.write("srv/a/one.txt", "1")
        try folders.write("srv/a/b/two.txt", String(repeating: "2", count: 2_000))
        try folders.write("srv/a/b/new\nline\u{1B}]52;c;!\u{7}", "3")
        try folders.write("srv/a/\u{1F30D}.TXT", "")
        try FileManager.default.createSymbolicLink(
            atPath: folders.srv + "/a/up", withDestinationPath: folders.srv + "/a")
        try FileManager.default.createSymbolicLink(atPath: folders.srv + "/a/out", withDestinationPath: "/etc")
        let client = folders.client(.read)

        let all = try await find(client, .init(path: "a"))
        #expect(
            all.entries.map(\.name.description).sorted() == [
                "", "b", "b/new\nline\u{1B}]52;c;!\u{7}", "b/two.txt", "one.txt", "out", "up", "\u{1F30D}.TXT",
            ])
        #expect(all.entries.first { $0.name == "out" }?.target == "/etc")
        #expect(all.skipped.isEmpty)

        var filter = Files.Filter(patterns: [.init("*.txt")])
        #expect(try await paths(client, .init(path: "a", filter: filter)) == ["b/two.txt", "one.txt"])
        filter.patterns = [.init("*.txt", ignoresCase: true)]
        #expect(try await paths(client, .init(path: "a", filter: filter)).count == 3)
        filter.size = .init(minimum: 1_000)
        #expect(try await paths(client, .init(path: "a", filter: filter)) == ["b/two.txt"])
        filter = Files.Filter(patterns: [.init("a/b/*", isPath: true)])
        #expect(try await paths(client, .init(path: "a", filter: filter)).count == 2)
        filter = Files.Filter(kinds: [.folder])
        #expect(try await paths(client, .init(path: "a", filter: filter)) == ["", "b"])
        filter.kinds = [.link]
        #expect(try await paths(client, .init(path: "a", filter: filter)) == ["out", "up"])
        #expect(try await paths(client, .init(path: "a", maximumDepth: 0)) == [""])
        #expect(try await paths(client, .init(path: "a", minimumDepth: 2)).allSatisfy { $0.hasPrefix("b/") })
        // A link is not followed where it is the path itself, either; with a slash it would be, and leads out.
        #expect(try await paths(client, .init(path: "a/out")) == [""])
        await #expect(throws: KithError(.denied, "")) { _ = try await find(client, .init(path: "a/out/")) }
        #expect(try await paths(client, .init(path: "a/up")) == [""])
        await #expect(throws: KithError(.denied, "")) { _ = try await find(client, .init(path: "/etc")) }
        await #expect(throws: KithError(.notFound, "")) { _ = try await find(client, .init(path: "none")) }
    }

    @Test func `the age of what is found is the one asked for`() async throws {
        let folders = try Folders()
        for (name, days) in [("new", 0.0), ("old", 10), ("future", -3)] {
            try folders.write("srv/\(name)", name)
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -days * 86_400 - 60)],
                ofItemAtPath: folders.srv + "/" + name)
        }
        let client = folders.client()
        let files = Files.Filter(kinds: [.file])
        var filter = files
        filter.age = .init(minimum: 8 * 86_400)
        #expect(try await paths(client, .init(path: Files.Path(folders.srv), filter: filter)) == ["old"])
        filter.age = .init(maximum: 86_399)
        #expect(try await paths(client, .init(path: Files.Path(folders.srv), filter: filter)) == ["future", "new"])
    }

    @Test func `what cannot be looked into is told, and the rest is found`() async throws {
        let folders = try Folders()
        // Deeper than descriptors are held for.
        var deep = Array("srv/deep".utf8)
        for _ in 0..<210 { deep += Array("/d".utf8) }
        try FileManager.default.createDirectory(
            atPath: folders.top + "/" + String(decoding: deep, as: UTF8.self), withIntermediateDirectories: true)
        try folders.write("srv/deep/file", "x")
        let found = try await find(folders.client(), .init(path: "deep"))
        #expect(found.entries.contains { $0.name == "file" })
        #expect(found.skipped.map(\.failure.code) == [.exhausted])
        let items = try await usage(folders.client(), .init(path: "deep"))
        #expect(items.last?.path == "" && items.last?.apparent == 1)
    }

    @Test func `a file of several names counts once, and holes count nothing`() async throws {
        let folders = try Folders()
        try folders.write("srv/a/file", bytes(100_000, seed: 1))
        try FileManager.default.linkItem(atPath: folders.srv + "/a/file", toPath: folders.srv + "/a/again")
        try folders.write("srv/a/b/c", bytes(5_000, seed: 2))
        try folders.write("srv/a/b/sparse", "")
        #expect(truncate(folders.srv + "/a/b/sparse", 50_000_000) == 0)
        try FileManager.default.createSymbolicLink(atPath: folders.srv + "/a/out", withDestinationPath: "/usr")
        let client = folders.client()
        let items = try await usage(client, .init(path: "a"))
        #expect(items.map(\.path.description) == ["b", ""])
        #expect(items[0].apparent == 50_005_000)
        #expect(items[1].apparent == 50_105_004)  // four of the link
        #expect(items[1].allocated < 1_000_000)
        #expect(items[1].allocated >= 105_000)
        let files = try await usage(client, .init(path: "a", maximumDepth: 1, files: true))
        #expect(files.count == 4 && files.last?.apparent == items[1].apparent)
        #expect(try await usage(client, .init(path: "a/file")).map(\.apparent) == [100_000])
        #expect(try await usage(client, .init(path: "a/out")).map(\.apparent) == [4])
    }

    @Test func `filters in filters are met all, one or none of, as far as they nest`() async throws {
        let folders = try Folders()
        for name in ["a.jpg", "b.png", "sub/c.jpg", "d.txt"] { try folders.write("srv/tree/" + name, name) }
        let client = folders.client(.read)
        func name(_ glob: String) -> Files.Filter { Files.Filter(patterns: [.init(glob)]) }
        func found(_ filter: Files.Filter) async throws -> [String] {
            try await paths(client, .init(path: "tree", filter: filter, minimumDepth: 1)).sorted()
        }
        #expect(try await found(.init(anyOf: [name("*.jpg"), name("*.png")])) == ["a.jpg", "b.png", "sub/c.jpg"])
        #expect(try await found(.init(kinds: [.file], noneOf: [name("*.jpg"), name("d*")])) == ["b.png"])
        #expect(try await found(.init(allOf: [name("*.jpg"), .init(noneOf: [name("a*")])])) == ["sub/c.jpg"])
        #expect(
            try await found(.init(allOf: [.init(anyOf: [name("a*"), name("b*")]), .init(anyOf: [name("*.png")])]))
                == ["b.png"])
        // What would take very much of the device is refused before it begins.
        var deep = name("a")
        for _ in 0..<16 { deep = Files.Filter(noneOf: [deep]) }
        let many = Files.Filter(anyOf: Array(repeating: name("a"), count: 65))
        let wide = Files.Filter(anyOf: Array(repeating: Files.Filter(), count: 128))
        for filter in [deep, many, wide, name(String(repeating: "a", count: 1_025))] {
            await #expect(throws: KithError(.invalid, "")) { _ = try await found(filter) }
        }
    }

    @Test func `a folder swapped for a link while it is searched leads nowhere`() async throws {
        let folders = try Folders()
        try folders.write("outside/secret/name", "secret")
        for index in 0..<20 { try folders.write("srv/tree/in/\(index)/file", "x") }
        let (inside, outside) = (folders.srv + "/tree/in", folders.top + "/outside")
        let aside = folders.srv + "/tree/aside"
        let isDone = Atomic(false)
        let swapper = Thread {
            while !isDone.load(ordering: .relaxed) {
                rename(inside, aside)
                symlink(outside, inside)
                unlink(inside)
                rename(aside, inside)
            }
        }
        swapper.start()
        defer { isDone.store(true, ordering: .relaxed) }
        let client = folders.client(.read)
        for _ in 0..<200 {
            let found = try await find(client, .init(path: "tree"))
            #expect(!found.entries.contains { $0.name.description.contains("secret") })
            let items = try await usage(client, .init(path: "tree", files: true))
            #expect(!items.contains { $0.path.description.contains("secret") })
        }
    }

    @Test func `a hundred thousand entries come in small pieces, and stop when nobody reads`() async throws {
        let folders = try Folders()
        let folder = folders.srv + "/many"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        for index in 0..<100_000 {
            let file = open("\(folder)/\(index)", O_CREAT | O_WRONLY, 0o600)
            try #require(file >= 0)
            close(file)
        }
        let client = folders.client()
        let found = try await find(client, .init(path: "many"))
        #expect(found.entries.count == 100_001)
        #expect(found.largest <= 1_024)
        #expect(try await usage(client, .init(path: "many")).count == 1)

        // Whoever reads one piece and goes does not leave the search running behind.
        let stream = try await client.open(Files.Find.self, .init(path: "many"), on: "laptop").stream
        _ = try await stream.receive()
        stream.abort(.cancelled)
    }

    @Test func `names alone are those of a whole search, with the kinds, and nothing else is told`() async throws {
        let folders = try Folders()
        for index in 0..<3_000 { try folders.write("srv/some/deep\(index % 7)/a file with spaces \(index)", "x") }
        #expect(mkfifo(folders.srv + "/some/pipe", 0o600) == 0)
        #expect(symlink("nowhere", folders.srv + "/some/link") == 0)
        let client = folders.client()
        for (minimum, maximum) in [(0, nil), (1, 1), (2, nil), (0, 0)] as [(UInt32, UInt32?)] {
            var input = Files.Find.Input(path: "some", minimumDepth: minimum, maximumDepth: maximum)
            let whole = try await find(client, input).entries
            input.namesOnly = true
            var names: [Files.Entry] = []
            let stream = try await client.open(Files.Find.self, input, on: "laptop").stream
            for try await found in stream.messages {
                let unpacked = try found.unpacked()
                try FoundCheck(input, from: "laptop").check(unpacked)
                names += unpacked.entries
                #expect(unpacked.names == nil)
                if found.isLast { break }
            }
            func lines(_ entries: [Files.Entry]) -> [String] {
                entries.map { "\($0.name) \($0.kind) \(String(describing: $0.special))" }.sorted()
            }
            #expect(lines(names) == lines(whole))
        }
        // What is asked about each is looked up all the same.
        var filter = Files.Filter()
        filter.size.minimum = 1
        let filtered = Files.Find.Input(
            path: "some", filter: filter, namesOnly: true)
        let found = try await find(client, filtered).entries
        #expect(found.count >= 3_000)
        #expect(found.allSatisfy { $0.size > 0 })
    }

    @Test(arguments: ["x", "fname", "?name\u{0}", "\u{0}", "fa\u{0}f"])
    func `a list of names that makes no sense is refused`(packed: String) {
        #expect(throws: KithError(.invalid, "")) {
            try Files.Found(names: ByteString(Array(packed.utf8))).unpacked()
        }
    }

    @Test func `pipes and devices are told of and never opened`() async throws {
        let folders = try Folders()
        #expect(mkfifo(folders.srv + "/pipe", 0o600) == 0)
        let client = folders.client()
        let found = try await find(client, .init(path: "pipe"))
        #expect(found.entries.map(\.kind) == [.special])
        #expect(try await usage(client, .init(path: "pipe")).count == 1)
        await #expect(throws: KithError(.unsupported, "")) {
            _ = try await client.open(Files.Read.self, .init(path: "pipe"), on: "laptop")
        }
        await #expect(throws: KithError(.unsupported, "")) {
            _ = try await client.open(Files.Follow.self, .init(path: "pipe", follows: true), on: "laptop")
        }
        // The owner of a device may name any path of it.
        for path in ["/dev/zero", "/dev/null"] {
            await #expect(throws: KithError.self, "\(path)") {
                _ = try await client.open(Files.Follow.self, .init(path: Files.Path(path)))
            }
        }
    }
}
