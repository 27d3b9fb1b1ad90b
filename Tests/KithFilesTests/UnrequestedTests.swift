import Foundation
#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif
import KithAPI
import KithIdentity
import KithWire
import Synchronization
import Testing

@testable import KithFiles

/// A device that is copied from and sends what nobody asked for.
@Suite(.timeLimit(.minutes(4))) struct UnrequestedTests {
    private static func attributes(_ name: String, identity: UInt64 = 1) -> TransferFrame.Attributes {
        TransferFrame.Attributes(name: Array(name.utf8), mode: 0o644, seconds: 1, nanoseconds: 2, identity: identity)
    }

    private static func file(_ name: String, identity: UInt64 = 1) -> TransferFrame {
        .file(attributes(name, identity: identity), size: 5, [])
    }

    private static func folder(_ name: String, _ inside: [TransferFrame] = []) -> [TransferFrame] {
        [.folder(attributes(name))] + inside + [.folderEnd(isComplete: true)]
    }

    private static func link(_ name: String, to target: String) -> TransferFrame {
        .link(attributes(name), target: Array(target.utf8))
    }

    /// A laptop, and an evil device that lists this and then sends whatever is wanted of it.
    private func client(_ folders: Folders, listing frames: [TransferFrame]) -> Client {
        var carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        carrier.evil = { _, stream in
            var hash = TreeHash(leafSize: TreeHash.leafSize(for: 5))
            hash.update(Array("owned".utf8)[...])
            let contents = TransferFrame.small(root: hash.root(), Array("owned".utf8)[...])
            try await stream.say(frames)
            var parser = TransferParser()
            var left = frames.count { if case .file = $0 { true } else { false } }
            while let bytes = try await stream.read(upTo: 1_000) {
                parser.feed(bytes)
                while let frame = try parser.next() {
                    var answer: [UInt8] = []
                    switch frame {
                    case .send(let count):
                        for _ in 0..<count { try contents.append(to: &answer) }
                        left -= Int(count)
                    case .notNeeded(let count): left -= Int(count)
                    case .acknowledgement: return
                    default: continue
                    }
                    if left == 0 { try TransferFrame.end(isComplete: true).append(to: &answer) }
                    try await stream.write(answer)
                }
                if left == 0, frames.allSatisfy({ if case .file = $0 { false } else { true } }) {
                    var answer: [UInt8] = []
                    try TransferFrame.end(isComplete: true).append(to: &answer)
                    try await stream.write(answer)
                    left = -1
                }
            }
        }
        return Client(carrier)
    }

    private func evil(_ path: String) -> Files.Location { Files.Location(device: "evil", path: Files.Path(path)) }

    /// Copies from evil, and returns what was said against it.
    private func refusal(
        _ folders: Folders, _ source: String, to destination: Files.Location, recursive: Bool = true,
        selection: Files.Selection = .init(), receiving: Files.ReceiveOptions = .init(), _ frames: [TransferFrame]
    ) async throws -> KithError {
        try await #require(throws: KithError.self) {
            try await client(folders, listing: frames).copy(
                [evil(source)], to: destination, recursive: recursive, selection: selection, receiving: receiving)
        }
    }

    @Test func `what was asked for arrives from a device made by hand, too`() async throws {
        let folders = try Folders()
        try await client(folders, listing: [Self.file("report.pdf")]).copy(
            [evil("/x/report.pdf")], to: here(folders.local), recursive: false)
        #expect(try folders.text("local/report.pdf") == "owned")
        try await client(folders, listing: Self.folder("d", [Self.file("a")] + Self.folder("e", [Self.file("b")])))
            .copy([evil("d")], to: here(folders.local))
        #expect(try folders.text("local/d/e/b") == "owned")
        // A new name is this person's choice.
        try await client(folders, listing: [Self.file("report.pdf")]).copy(
            [evil("/x/report.pdf")], to: here(folders.local + "/new"), recursive: false)
        #expect(try folders.text("local/new") == "owned")
    }

    @Test(arguments: ["here", "relayed"])
    func `a copy takes one thing, of the name and the kind that were asked for`(_ way: String) async throws {
        let folders = try Folders()
        let destination = way == "here" ? here(folders.local) : there(folders.srv)
        let received = way == "here" ? "local" : "srv"
        let report = Self.file("report.pdf")
        for frames in [
            [Self.file(".bashrc")], [report, Self.file(".bashrc", identity: 2)], [Self.file(".bashrc"), report],
            [report, report], Self.folder("report.pdf", [Self.file(".bashrc")]), [report] + Self.folder(".ssh"),
            [Self.link("report.pdf", to: "/etc/passwd")], [report, Self.link("x", to: "/")],
            [report, .hardLink(name: Array(".bashrc".utf8), to: 0)],
            [.extended([.init(name: Array("user.x".utf8), value: [1])]), report],
        ] {
            let error = try await refusal(folders, "/x/report.pdf", to: destination, recursive: false, frames)
            #expect(error.code == .denied && error.message.contains("evil sent"), "\(frames): \(error)")
            #expect(try folders.names(received).allSatisfy { $0 == "report.pdf" || $0.hasPrefix(".kith-resume-") })
        }
        #expect(
            try await refusal(folders, "report.pdf", to: destination, [Self.file(".bashrc")]).message.contains(
                ".bashrc"))
        // With -r, one folder or file or link of that name; with a slash behind, a folder.
        for (source, frames) in [
            ("d", Self.folder("d") + Self.folder(".ssh")), ("d", Self.folder(".ssh", [Self.file("authorized_keys")])),
            ("d", [Self.link("d", to: "/root/.ssh")] + Self.folder("d", [Self.file("authorized_keys")])),
            ("d/", [Self.link("d", to: "/root/.ssh")]), ("d/.", [Self.file("d")]), ("/x/./d//", [Self.file("x")]),
        ] {
            let folders = try Folders()
            let destination = way == "here" ? here(folders.local) : there(folders.srv)
            let error = try await refusal(folders, source, to: destination, frames)
            #expect(error.code == .denied, "\(source) \(frames): \(error)")
            #expect(!folders.exists("\(received)/.ssh") && !folders.exists("\(received)/x"))
        }
    }

    @Test(arguments: ["here", "relayed"])
    func `what has no name in the request gets the name of its device`(_ way: String) async throws {
        for path in ["~", ".", "~/."] {
            let folders = try Folders()
            let destination = way == "here" ? here(folders.local) : there(folders.srv)
            let received = way == "here" ? "local" : "srv"
            let frames = Self.folder(".ssh", [Self.file("authorized_keys")])
            try await client(folders, listing: frames).copy([evil(path)], to: destination)
            #expect(try folders.names(received) == ["evil"], "\(path)")
            // Again, it goes on with that; under a name of its own it gets that.
            try await client(folders, listing: frames).copy([evil(path)], to: destination)
            #expect(try folders.text(received + "/evil/authorized_keys") == "owned")
            try await client(folders, listing: frames).copy(
                [evil(path)], to: Files.Location(device: destination.device, path: destination.path.appending([0x61])))
            #expect(try folders.names(received) == ["a", "evil"])
        }
    }

    @Test func `several sources each bring their own and nothing else`() async throws {
        let folders = try Folders()
        var carrier = LocalCarrier(grants: [])
        carrier.evil = { input, stream in
            try await stream.say([Self.file(input.path == "/a" ? "b" : "a")])
            _ = await stream.everything()
        }
        await #expect(throws: KithError(.denied, "")) {
            try await Client(carrier).copy([evil("/a"), evil("/b")], to: here(folders.local), recursive: false)
        }
        #expect(try folders.names("local").isEmpty)
    }

    @Test func `a mirror takes nothing beside its root and nothing that was left out, and deletes nothing there`()
        async throws
    {
        let folders = try Folders()
        try folders.write("local/site/old", "old")
        try folders.write("local/site/keep.secret", "mine")
        try folders.write("local/beside", "mine")
        let exact = Files.ReceiveOptions(exact: true, delete: true)
        let selection = Files.Selection(exclude: ["*.secret", "/cache/"])
        for frames in [
            Self.folder("site", [Self.file("keep.secret")]), Self.folder("site", Self.folder("cache")),
            Self.folder("site", Self.folder("a", [Self.file("b.secret")])), Self.folder("site") + Self.folder("site"),
            Self.folder("site") + [Self.file("beside")], [Self.file("beside")], Self.folder("other"),
            Self.folder("site", [Self.file("a"), .hardLink(name: [0x62], to: 0)]),
        ] {
            let error = try await refusal(
                folders, "/srv/site", to: here(folders.local + "/site"), selection: selection, receiving: exact, frames)
            #expect(error.code == .denied, "\(frames): \(error)")
        }
        #expect(try folders.text("local/site/keep.secret") == "mine")
        #expect(try folders.text("local/beside") == "mine" && folders.exists("local/site/old"))
        // What may come is mirrored.
        try await client(folders, listing: Self.folder("site", [Self.file("new")])).copy(
            [evil("/srv/site")], to: here(folders.local + "/site"), selection: selection, receiving: exact)
        #expect(try folders.names("local/site") == ["keep.secret", "new"])
    }

    // MARK: - Links at the root

    @Test(arguments: ["here", "relayed"])
    func `a mirror takes no link as its root, nor does what has no name`(_ way: String) async throws {
        for source in ["/src/photos", "~", "."] {
            let folders = try Folders()
            let received = way == "here" ? "local" : "srv"
            func at(_ path: String) -> Files.Location {
                way == "here" ? here(folders.local + path) : there(folders.srv + path)
            }
            try folders.write("\(received)/victim/mine", "mine")
            let isNamed = source == "/src/photos"
            for path in isNamed ? ["/photos", "/photos/"] : ["/photos", ""] {
                let error = try await refusal(
                    folders, source, to: at(path), receiving: Files.ReceiveOptions(exact: isNamed, delete: isNamed),
                    [Self.link("photos", to: "victim")])
                #expect(error.code == .denied && error.message.contains("a link"), "\(error)")
            }
            #expect(try folders.names(received) == ["victim"])
        }
    }

    @Test(arguments: ["here", "relayed"])
    func `a link that was received is not followed by the next copy, nor the next attempt`(_ way: String) async throws {
        let folders = try Folders()
        let received = way == "here" ? "local" : "srv"
        func at(_ path: String) -> Files.Location {
            way == "here" ? here(folders.local + path) : there(folders.srv + path)
        }
        try folders.write("\(received)/victim/mine", "mine")
        try await client(folders, listing: [Self.link("p2", to: "victim")]).copy([evil("/src/p2")], to: at("/p2"))
        let frames = Self.folder("p2", [Self.file(".bashrc")])
        for receiving in [
            Files.ReceiveOptions(), .init(exact: true), .init(exact: true, delete: true), .init(intoFolder: true),
        ] {
            let error = try await refusal(folders, "/src/p2", to: at("/p2"), receiving: receiving, frames)
            #expect(error.code == .conflict && error.message.contains("/p2 is a link. Use "), "\(error)")
        }
        for (source, frames) in [
            ("/src/p2", [Self.file("p2")]), ("~", frames), ("/src/p2", [Self.link("p2", to: "/")]),
        ] {
            let error = try await refusal(folders, source, to: at("/p2"), frames)
            #expect(error.code == .conflict && error.message.contains("/p2 is a link. Use "), "\(error)")
        }
        // In the folder around it, too, it is not gone through.
        #expect(try await refusal(folders, "/src/p2", to: at(""), frames).code == .conflict)
        #expect(try folders.names("\(received)/victim") == ["mine"])
        #expect(try folders.names(received) == ["p2", "victim"])

        // The first attempt lands it and is cut; the second would fill it.
        var carrier = LocalCarrier(grants: [.files(.write, root: folders.srv)])
        let attempts = Mutex(0)
        carrier.evil = { _, stream in
            let attempt = attempts.withLock { attempts in
                attempts += 1
                return attempts
            }
            guard attempt == 1 else {
                return try await stream.say(Self.folder("p3", Self.folder("x")) + [.end(isComplete: true)])
            }
            try await stream.say([Self.link("p3", to: "victim")])
            while !folders.exists("\(received)/p3") { await Task.yield() }
        }
        let error = try await #require(throws: KithError.self) {
            try await Client(carrier).copy([evil("/src/p3")], to: at("/p3"), retrySeconds: 20)
        }
        // It is not even asked again.
        #expect(error.message.contains("/p3 is a link. Use ") && attempts.withLock { $0 } == 1, "\(error)")
        #expect(try folders.names("\(received)/victim") == ["mine"])
    }

    @Test(arguments: ["here", "relayed"])
    func `a link of this person's own is followed with a slash behind it, and for a file`(_ way: String) async throws {
        let folders = try Folders()
        let received = way == "here" ? "local" : "srv"
        func at(_ path: String) -> Files.Location {
            way == "here" ? here(folders.local + path) : there(folders.srv + path)
        }
        try folders.write("\(received)/disk/old", "old")
        #expect(symlink("disk", "\(folders.top)/\(received)/link") == 0)
        try await client(folders, listing: [Self.file("a")]).copy([evil("/src/a")], to: at("/link"), recursive: false)
        try await client(folders, listing: Self.folder("d", [Self.file("b")])).copy([evil("/src/d")], to: at("/link/"))
        #expect(try folders.names("\(received)/disk") == ["a", "d", "old"])
        try await client(folders, listing: Self.folder("d", [Self.file("b")])).copy(
            [evil("/src/d")], to: at("/link/"), receiving: Files.ReceiveOptions(exact: true, delete: true))
        #expect(try folders.names("\(received)/disk") == ["b"])
        // A mirror of what is here asks for the slash, too: somebody else's copy may have put the link there.
        guard way == "relayed" else { return }
        try folders.write("local/own/c", "c")
        let receiving = Files.ReceiveOptions(exact: true, delete: true)
        let error = try await #require(throws: KithError.self) {
            try await folders.client().copy([here(folders.local + "/own")], to: at("/link"), receiving: receiving)
        }
        #expect(error.code == .conflict && error.message.contains("/link is a link. Use "), "\(error)")
        #expect(try folders.names("srv/disk") == ["b"])
        try await folders.client().copy([here(folders.local + "/own")], to: at("/link/"), receiving: receiving)
        #expect(try folders.names("srv/disk") == ["c"])
    }

    @Test func `a request follows the listing through every folder`() throws {
        let rules = Files.Selection(exclude: ["/a/b/x", "y/"])
        var tree = try RequestedTree(evil("/srv/top"), recursive: true, selection: rules)
        for frame in Self.folder("top", Self.folder("a", Self.folder("b", [Self.file("ok")]) + [Self.file("x")])) {
            try tree.take(frame)
        }
        tree = try RequestedTree(evil("/srv/top"), recursive: true, selection: rules)
        #expect(throws: KithError(.denied, "")) {
            for frame in Self.folder("top", Self.folder("a", Self.folder("c") + Self.folder("b", [Self.file("x")]))) {
                try tree.take(frame)
            }
        }
        tree = try RequestedTree(evil("/srv/top"), recursive: true, selection: rules)
        #expect(throws: KithError(.denied, "")) {
            for frame in Self.folder("top", Self.folder("y")) { try tree.take(frame) }
        }
        // An end that has no beginning is not its concern, and leads nowhere.
        try tree.take(.folderEnd(isComplete: true))
    }

    // MARK: - Answers

    private func entry(
        _ name: String, _ kind: Files.Kind = .file, special: Files.Special? = nil, size: UInt64 = 0
    ) -> Files.Entry {
        Files.Entry(
            name: Files.Path(name), kind: kind, size: size, mode: 0o644, modified: .min, modifiedNanoseconds: 0,
            special: special)
    }

    @Test func `an answer to a search holds what was asked for and nothing else`() throws {
        var input = Files.Find.Input(
            path: "/srv", filter: Files.Filter(patterns: [.init("*.jpg")]), minimumDepth: 1, maximumDepth: 2)
        var check = try FoundCheck(input, from: "evil")
        try check.check(Files.Found(entries: [entry("a.jpg"), entry("d/\u{1B}]0;x\u{7}.jpg")]))
        for name in [
            "", ".bashrc", "../a.jpg", "/a.jpg", "d//a.jpg", "d/../a.jpg", "./a.jpg", "a/b/c.jpg", "d/", "a\0.jpg",
        ] {
            #expect(throws: KithError(.denied, ""), "\(name)") { try check.check(Files.Found(entries: [entry(name)])) }
        }
        input.filter = Files.Filter(
            kinds: [.special], specials: [.pipe], size: .init(maximum: 10), noneOf: [.init(patterns: [.init("*.tmp")])])
        check = try FoundCheck(input, from: "evil")
        try check.check(Files.Found(entries: [entry("p", .special, special: .pipe)]))
        for bad in [
            entry("f"), entry("s", .special, special: .socket), entry("p", .special, special: .pipe, size: 11),
            entry("p.tmp", .special, special: .pipe),
        ] {
            #expect(throws: KithError(.denied, ""), "\(bad)") { try check.check(Files.Found(entries: [bad])) }
        }
        // Its clock is its own: only what that cannot decide is refused.
        input.filter = Files.Filter(patterns: [.init("a")], noneOf: [.init(age: .init(minimum: 10))])
        check = try FoundCheck(input, from: "evil")
        try check.check(Files.Found(entries: [entry("a")]))
        #expect(throws: KithError(.denied, "")) { try check.check(Files.Found(entries: [entry("b")])) }
    }

    @Test func `what could not be looked into lies where it was looked`() throws {
        func skipped(_ path: String) -> [Files.Skipped] {
            [Files.Skipped(path: Files.Path(path), failure: Files.Failure(code: .denied, message: "No."))]
        }
        let found = try FoundCheck(Files.Find.Input(path: "/srv"), from: "evil")
        let used = UsedCheck(Files.Usage.Input(path: "/srv", maximumDepth: 1), from: "evil")
        for path in ["", "a", "a/b/c"] {
            try found.check(Files.Found(skipped: skipped(path), skippedCount: 1))
            try used.check(Files.Used(skipped: skipped(path), skippedCount: 1))
        }
        for path in ["/etc", "..", "a/../../b", "a//b"] {
            #expect(throws: KithError(.denied, ""), "\(path)") {
                try found.check(Files.Found(skipped: skipped(path), skippedCount: 1))
            }
            #expect(throws: KithError(.denied, ""), "\(path)") {
                try used.check(Files.Used(skipped: skipped(path), skippedCount: 1))
            }
        }
    }

    @Test func `what folders take is said of those that were asked about`() throws {
        let check = UsedCheck(Files.Usage.Input(path: "/srv", maximumDepth: 1), from: "evil")
        func used(_ path: String) -> Files.Used {
            Files.Used(items: [Files.Used.Item(path: Files.Path(path), allocated: 1, apparent: 1)])
        }
        for path in ["", "a"] { try check.check(used(path)) }
        for path in ["a/b", "/a", "..", "a/"] {
            #expect(throws: KithError(.denied, ""), "\(path)") { try check.check(used(path)) }
        }
    }

    @Test func `of the end of a file no more is taken than was asked for`() throws {
        func taken(_ start: Files.Follow.Start, follows: Bool = false, _ parts: String...) -> Int {
            let input = Files.Follow.Input(path: "/log", start: start, follows: follows)
            var check = Files.FollowCheck(input, from: "evil")
            for (index, part) in parts.enumerated() {
                do {
                    try check.check(Array(part.utf8))
                } catch {
                    #expect(error.code == .denied)
                    return index
                }
            }
            return parts.count
        }
        #expect(taken(.init(count: 2), "a\n", "b", "b\n", "") == 4)
        #expect(taken(.init(count: 2), "a\nb") == 1)
        #expect(taken(.init(count: 2), "a\nb\n", "c") == 1)
        #expect(taken(.init(count: 2), "a\nb\nc") == 0)
        #expect(taken(.init(count: 0), "", "a") == 1)
        #expect(taken(.init(count: 3, isBytes: true), "abc") == 1)
        #expect(taken(.init(count: 3, isBytes: true), "ab", "c", "d") == 2)
        // There is no end to these.
        #expect(taken(.init(count: 1, isFromBeginning: true), "a\nb\nc\n") == 1)
        #expect(taken(.init(count: 1), follows: true, "a\nb\nc\n") == 1)
    }

    @Test func `a page of a folder holds names of that folder, behind the last one`() throws {
        let input = Files.List.Input(path: "/srv", after: "b", limit: 3)
        func check(_ names: [String]) throws {
            try Files.List.Output(entries: names.map { entry($0) }, hasMore: false).check(against: input, from: "evil")
        }
        try check(["c", "d"])
        try check(["/srv"])
        for names in [["a"], ["d", "c"], ["c", "c"], ["c/d"], [".."], [""], ["c", "d", "e", "f"], ["/srv", "/srv"]] {
            #expect(throws: KithError(.denied, ""), "\(names)") { try check(names) }
        }
    }
}
