import Crypto
import Foundation
import KithAPI
import KithWire
import Synchronization
import KithTesting
import Testing

@testable import KithFiles

#if canImport(Glibc)
import CDispatch
import CoreFoundation
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

/// A tree on the disk, to be compared with another.
struct Snapshot: Equatable, CustomStringConvertible {
    var entries: [String: String] = [:]

    /// Looks at everything beneath a path; pipes are not of it.
    init(_ path: String) throws {
        func visit(_ relative: String) throws {
            let full = relative.isEmpty ? path : path + "/" + relative
            var status = stat()
            guard lstat(full, &status) == 0 else { return }
            let time = "\(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
            let mode = String(status.st_mode & 0o777, radix: 8)
            switch status.st_mode & S_IFMT {
            case S_IFDIR:
                entries[relative] = "folder \(mode) \(time)"
                for name in try FileManager.default.contentsOfDirectory(atPath: full) {
                    try visit(relative.isEmpty ? name : relative + "/" + name)
                }
            case S_IFLNK:
                entries[relative] = "link \(time) \(try FileManager.default.destinationOfSymbolicLink(atPath: full))"
            case S_IFREG:
                let content = try Data(contentsOf: URL(fileURLWithPath: full))
                entries[relative] = "file \(mode) \(time) \(content.count) \(SHA256.hash(data: content))"
            default: break
            }
        }
        try visit("")
        // Which names are one file, whatever order they were met in.
        var groups: [UInt64: [String]] = [:]
        for name in entries.keys {
            var status = stat()
            guard lstat(path + "/" + name, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_nlink > 1 else {
                continue
            }
            groups[UInt64(status.st_ino), default: []].append(name)
        }
        for group in groups.values { for name in group { entries[name]? += " = \(group.sorted())" } }
    }

    var description: String { entries.keys.sorted().map { "\($0): \(entries[$0] ?? "")" }.joined(separator: "\n") }

    /// Describes what differs, for a message.
    func difference(from other: Snapshot) -> String {
        Set(entries.keys).union(other.entries.keys).sorted().filter { entries[$0] != other.entries[$0] }
            .map { "\($0): \(entries[$0] ?? "–") / \(other.entries[$0] ?? "–")" }.joined(separator: "\n")
    }
}

/// Makes trees with every type of file, and changes them.
struct TreeMaker {
    var random: SeededRandom

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    mutating func make(at path: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try fill(path, depth: 0)
        try file(path + "/large", 300_000 + number(0...1_200_000))
        try sparse(path + "/sparse")
        link(path + "/large", path + "/second name")
        mkfifo(path + "/pipe", 0o600)
        try finish(path)
    }

    private mutating func fill(_ path: String, depth: Int) throws {
        let odd = ["plain", "new\nline", "esc\u{1B}[31m", "-rf", "ünï", " space ", "quo\"te", "*", ".hidden", "a:b"]
        for _ in 0..<number(1...5) {
            let name = path + "/" + odd[number(0...odd.count - 1)] + "\(number(0...9))"
            // Not `fileExists`, to which a link to nowhere is nothing.
            var status = stat()
            guard lstat(name, &status) != 0 else { continue }
            switch number(0...9) {
            case 0...4: try file(name, number(0...3) == 0 ? number(60_000...400_000) : number(0...9_000))
            case 5...6 where depth < 3:
                try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: true)
                if number(0...3) > 0 { try fill(name, depth: depth + 1) }
                chmod(name, [0o755, 0o700, 0o711][number(0...2)])
            case 7: symlink(["plain", "../up", "/etc/passwd", "nowhere"][number(0...3)], name)
            default: try file(name, 0)
            }
        }
    }

    private mutating func file(_ path: String, _ size: Int) throws {
        try bytes(size, seed: random.next()).write(to: URL(fileURLWithPath: path))
        chmod(path, [0o644, 0o600, 0o755, 0o444][number(0...3)])
    }

    private mutating func sparse(_ path: String) throws {
        let file = open(path, O_CREAT | O_WRONLY, 0o644)
        for _ in 0..<number(0...3) {
            let part = [UInt8](bytes(number(1...70_000), seed: random.next()))
            pwrite(file, part, part.count, off_t(number(0...60) * 65_536))
        }
        ftruncate(file, off_t(number(1...80) * 50_000))
        close(file)
    }

    /// Gives everything times of its own: those of now could be the same by chance.
    private mutating func finish(_ path: String) throws {
        for name in (try FileManager.default.subpathsOfDirectory(atPath: path)).reversed() + [""] {
            var times = [timespec(tv_sec: 0, tv_nsec: 0), timespec(tv_sec: 0, tv_nsec: 0)]
            times[1] = timespec(tv_sec: 1_000_000_000 + number(0...500_000_000), tv_nsec: number(0...999_999_999))
            utimensat(AT_FDCWD, path + "/" + name, &times, AT_SYMLINK_NOFOLLOW)
        }
    }

    /// Changes some of it: contents, names, kinds.
    mutating func change(_ path: String) throws {
        for name in try FileManager.default.subpathsOfDirectory(atPath: path).sorted() where number(0...3) == 0 {
            let full = path + "/" + name
            var status = stat()
            guard lstat(full, &status) == 0, status.st_nlink == 1 else { continue }
            switch status.st_mode & S_IFMT {
            case S_IFREG where number(0...2) == 0: unlink(full)
            case S_IFREG:
                var content = try Data(contentsOf: URL(fileURLWithPath: full))
                if !content.isEmpty { content[number(0...content.count - 1)] ^= 0x55 }
                content.insert(contentsOf: [1, 2, 3], at: number(0...content.count))
                chmod(full, 0o600)
                try content.write(to: URL(fileURLWithPath: full))
            case S_IFLNK:
                unlink(full)
                try file(full, number(0...5_000))
            default: break
            }
        }
        try fill(path, depth: 2)
        try finish(path)
    }
}

@Suite struct RandomSequenceTests {
    @Test func `two hundred random sequences of cuts end equal to the source`() async throws {
        let seed =
            ProcessInfo.processInfo.environment["KITH_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...1 << 48)
        print("KITH_SEED=\(seed)")
        var (cuts, resumed) = (0, 0)
        for round in 0..<200 {
            var maker = TreeMaker(random: SeededRandom(seed: seed &+ UInt64(round)))
            let folders = try Folders()
            let isPush = maker.number(0...1) == 0
            let isMirror = maker.number(0...2) == 0
            let (source, target) = isPush ? ("local", "srv") : ("srv", "local")
            let top = folders.top
            // Sometimes three trees side by side, into a folder that is there.
            let isParallel = !isMirror && maker.number(0...1) == 0
            let names = isParallel ? ["tree/0", "tree/1", "tree/2"] : ["tree"]
            for name in names { try maker.make(at: "\(top)/\(source)/\(name)") }
            if isMirror, maker.number(0...1) == 0 {
                try maker.make(at: "\(top)/\(target)/tree")
            }
            if isParallel {
                try FileManager.default.createDirectory(
                    atPath: "\(top)/\(target)/tree", withIntermediateDirectories: true)
            }
            let from = names.map {
                Files.Location(device: isPush ? nil : "laptop", path: Files.Path("\(top)/\(source)/\($0)"))
            }
            let to = Files.Location(device: isPush ? "laptop" : nil, path: Files.Path("\(top)/\(target)/tree"))
            // Without a mirror, a second copy would go into the tree that is there.
            let receiving = Files.ReceiveOptions(exact: !isParallel, delete: isMirror)
            let selection = Files.Selection(hardLinks: true)
            let isCompressed = BlockCompression.isAvailable && maker.number(0...1) == 0
            let compress = isCompressed ? Files.Compression.always : .never
            // Over one stream for each tree, or over further ones.
            let parallel = UInt32(names.count * [1, 1, 2, 4][maker.number(0...3)])
            for _ in 0..<maker.number(1...4) {
                let limit = maker.number(0...3) == 0 ? maker.number(0...4_000) : maker.number(0...1_500_000)
                do {
                    let (summary, _) = try await folders.client(cut: { limit }).copy(
                        from, to: to, selection: selection, receiving: receiving, compress: compress,
                        parallel: parallel)
                    if summary.unchanged > 0 { resumed += 1 }
                } catch {
                    #expect(error as? KithError == KithError(.closed, ""), "round \(round): \(error)")
                    cuts += 1
                }
                if isMirror, maker.number(0...3) == 0 { try maker.change("\(top)/\(source)/tree") }
            }
            let (summary, _) = try await folders.client().copy(
                from, to: to, selection: selection, receiving: receiving, compress: compress,
                parallel: parallel)
            if summary.sent < summary.bytes || summary.unchanged > 0 { resumed += 1 }
            var isEqual = true
            for name in names {
                let (wanted, found) = (
                    try Snapshot("\(top)/\(source)/\(name)"), try Snapshot("\(top)/\(target)/\(name)")
                )
                let clean = found.entries.filter { !$0.key.contains(".kith-resume-") }
                isEqual = isEqual && clean == wanted.entries
                #expect(
                    clean == wanted.entries,
                    "round \(round) of KITH_SEED=\(seed):\n\(wanted.difference(from: found))")
            }
            if !isEqual { break }
        }
        #expect(cuts > 100 && resumed > 100, "\(cuts) cuts, \(resumed) resumed")
    }
}

@Suite struct TreeOptionTests {
    @Test func `holes stay holes`() async throws {
        let folders = try Folders()
        let descriptor = open(folders.local + "/file", O_CREAT | O_RDWR, 0o644)
        let part = [UInt8](bytes(600_000, seed: 41))
        for offset in [0, 3_000_000, 30_000_000] { #expect(pwrite(descriptor, part, part.count, off_t(offset)) > 0) }
        #expect(ftruncate(descriptor, 50_000_000) == 0)
        close(descriptor)
        func blocks(_ path: String) -> Int {
            var status = stat()
            return stat(folders.top + "/" + path, &status) == 0 ? Int(status.st_blocks) * 512 : -1
        }
        guard blocks("local/file") < 3_000_000 else {
            print("skipped: this file system has no holes")
            return
        }
        let (summary, _) = try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == folders.data("local/file"))
        #expect(blocks("srv/file") < 3_000_000 && summary.sent < 3_000_000 && summary.bytes == 50_000_000)
        // Over a partial that has something where the hole is to be.
        try FileManager.default.removeItem(atPath: folders.srv + "/file")
        // Further on than the pipe between the two holds, so that some of it has arrived.
        await #expect(throws: KithError(.closed, "")) {
            try await folders.client(cut: { 1_300_000 }).copy([here(folders.local + "/file")], to: there(folders.srv))
        }
        let partial = try #require(try folders.names("srv").first)
        try folders.write("srv/" + partial, bytes(10_000_000, seed: 42))
        try await folders.client().copy([here(folders.local + "/file")], to: there(folders.srv))
        #expect(try folders.data("srv/file") == folders.data("local/file"))
        #expect(blocks("srv/file") < 4_000_000, "\(blocks("srv/file"))")
    }

    @Test func `files of several names stay one file on request`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/a/one", "one")
        for name in ["b", "z"] {
            try FileManager.default.createDirectory(
                atPath: folders.local + "/tree/" + name, withIntermediateDirectories: true)
        }
        #expect(link(folders.local + "/tree/a/one", folders.local + "/tree/b/two") == 0)
        #expect(link(folders.local + "/tree/a/one", folders.local + "/tree/z/three") == 0)
        func numbers(_ base: String) -> Set<UInt64> {
            Set(
                ["a/one", "b/two", "z/three"].map { name in
                    var status = stat()
                    return stat("\(folders.top)/\(base)/\(name)", &status) == 0 ? UInt64(status.st_ino) : 0
                })
        }
        let client = folders.client()
        try await client.copy(
            [here(folders.local + "/tree")], to: there(folders.srv + "/linked"), selection: .init(hardLinks: true))
        try await client.copy([here(folders.local + "/tree")], to: there(folders.srv + "/apart"))
        #expect(numbers("srv/linked").count == 1 && !numbers("srv/linked").contains(0))
        #expect(numbers("srv/apart").count == 3)
        // Onto what is there.
        let (again, _) = try await client.copy(
            [here(folders.local + "/tree")], to: there(folders.srv + "/apart"), selection: .init(hardLinks: true),
            receiving: .init(exact: true))
        #expect(numbers("srv/apart").count == 1 && again.files == 2)
    }

    @Test func `extended attributes travel on request, those of the system never`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/file", "file")
        let value = [UInt8]("value\0more".utf8)
        func set(_ path: String, _ attributes: [String: [UInt8]]) throws {
            let file = try Descriptor.open(Array((folders.top + "/" + path).utf8), [])
            try ExtendedAttributes.write(attributes.map { .init(name: Array($0.utf8), value: $1) }, to: file)
        }
        func attributes(_ path: String) throws -> [String: [UInt8]] {
            let file = try Descriptor.open(Array((folders.top + "/" + path).utf8), [])
            let pairs = try ExtendedAttributes.read(file).map { (String(decoding: $0.name, as: UTF8.self), $0.value) }
            return Dictionary(uniqueKeysWithValues: pairs)
        }
        do {
            try set("local/tree/file", ["user.kith": value])
        } catch let error as Errno where error == .notSupported {
            print("skipped: this file system has no extended attributes")
            return
        }
        try set("local/tree", ["user.folder": value])
        let client = folders.client()
        try await client.copy([here(folders.local + "/tree")], to: there(folders.srv))
        #expect(try attributes("srv/tree/file").isEmpty)
        try FileManager.default.removeItem(atPath: folders.srv + "/tree")
        let selection = Files.Selection(attributes: true)
        try await client.copy([here(folders.local + "/tree")], to: there(folders.srv), selection: selection)
        #expect(try attributes("srv/tree/file") == ["user.kith": value])
        #expect(try attributes("srv/tree") == ["user.folder": value])
        // A file that is there already gets them, and loses what the source does not have.
        try set("local/tree/file", ["user.empty": []])
        try await client.copy([here(folders.local + "/tree")], to: there(folders.srv), selection: selection)
        #expect(try attributes("srv/tree/file") == ["user.empty": []])
        #expect(ExtendedAttributes.mayTravel(Array("user.x".utf8)))
        for name in ["security.capability", "trusted.x", "system.other"] {
            #expect(!ExtendedAttributes.mayTravel(Array(name.utf8)))
        }
    }

    @Test func `what is left out by pattern is not sent`() async throws {
        let folders = try Folders()
        for name in ["a.o", "keep.o", "src/b.c", "src/b.o", "build/x", "docs/build/y"] {
            try folders.write("local/tree/" + name, name)
        }
        try await folders.client().copy(
            [here(folders.local + "/tree")], to: there(folders.srv),
            selection: .init(exclude: ["*.o", "!keep.o", "/build/"]))
        #expect(
            try FileManager.default.subpathsOfDirectory(atPath: folders.srv + "/tree").sorted()
                == ["docs", "docs/build", "docs/build/y", "keep.o", "src", "src/b.c"])
    }

    @Test func `a mirror deletes what the source does not have, last, and what is left out stays`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/a", "a")
        try folders.write("local/tree/sub/b", "b")
        try folders.write("local/tree/cache/secret", "not sent")
        for name in [
            "old", "sub/old", "gone/deep/file", "cache/kept", "gone/cache/kept", ".kith-resume-abcdefghijklmnopqrst",
        ] {
            try folders.write("srv/tree/" + name, name)
        }
        #expect(mkfifo(folders.local + "/tree/pipe", 0o600) == 0)
        try folders.write("srv/tree/pipe", "has the name of a pipe of the source")
        let client = folders.client()
        func mirror(dryRun: Bool = false) async throws -> (Files.Summary, [Files.Change]) {
            var changes: [Files.Change] = []
            let (summary, _) = try await client.follow(
                Files.Copy.Input(
                    sources: [here(folders.local + "/tree")], destination: there(folders.srv + "/tree"),
                    recursive: true,
                    selection: .init(exclude: ["cache/"]),
                    receiving: .init(exact: true, delete: true, dryRun: dryRun, report: true))
            ) { changes += $0.changes }
            return (summary, changes)
        }
        let before = try Snapshot(folders.srv)
        let (dry, planned) = try await mirror(dryRun: true)
        #expect(try Snapshot(folders.srv) == before)
        #expect(dry.deleted > 0 && dry.files == 2)
        let (summary, done) = try await mirror()
        #expect(summary.deleted == 4 && summary.files == 2)
        func names(_ changes: [Files.Change], _ kind: Files.Change.Kind) -> [String] {
            changes.filter { $0.kind == kind }.map { String($0.path.description.dropFirst(folders.srv.count + 6)) }
                .sorted()
        }
        #expect(names(planned, .deleted) == ["gone", "old", "sub/old"] && names(planned, .new) == ["a", "sub/b"])
        #expect(names(done, .deleted) == names(planned, .deleted) && names(done, .new) == names(planned, .new))
        #expect(
            try FileManager.default.subpathsOfDirectory(atPath: folders.srv + "/tree").sorted()
                == [
                    ".kith-resume-abcdefghijklmnopqrst", "a", "cache", "cache/kept", "gone", "gone/cache",
                    "gone/cache/kept",
                    "pipe", "sub", "sub/b",
                ])
    }

    @Test func `kinds that changed are replaced by a mirror, and by nothing else`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/was folder", "file")
        try folders.write("local/tree/was file/inner", "inner")
        try folders.write("srv/tree/was folder/inner", "x")
        try folders.write("srv/tree/was file", "x")
        let client = folders.client()
        await #expect(throws: KithError(.conflict, "")) {
            try await client.copy(
                [here(folders.local + "/tree")], to: there(folders.srv + "/tree"), receiving: .init(exact: true))
        }
        try await client.copy(
            [here(folders.local + "/tree")], to: there(folders.srv + "/tree"),
            receiving: .init(exact: true, delete: true)
        )
        #expect(try Snapshot(folders.local + "/tree") == Snapshot(folders.srv + "/tree"))
    }

    @Test(.enabled(if: geteuid() != 0 || FileManager.default.fileExists(atPath: "/proc/self/mem")))
    func `nothing is deleted when not all of the source could be read`() async throws {
        let folders = try Folders()
        try folders.write("local/tree/a", "a")
        try folders.write("srv/tree/old", "old")
        // A name deeper than folders may nest cannot be read by anyone.
        var deep = folders.local + "/tree"
        for _ in 0..<(TreeSource.maximumDepth + 2) {
            deep += "/d"
            try FileManager.default.createDirectory(atPath: deep, withIntermediateDirectories: false)
        }
        await #expect(throws: KithError(.exhausted, "")) {
            try await folders.client().copy(
                [here(folders.local + "/tree")], to: there(folders.srv + "/tree"),
                receiving: .init(exact: true, delete: true))
        }
        #expect(try folders.text("srv/tree/old") == "old" && folders.text("srv/tree/a") == "a")
    }

    @Test func `a copy with a limit arrives, and a limit of nothing is refused`() async throws {
        let folders = try Folders()
        try folders.write("local/file", bytes(60_000, seed: 43))
        func copy(_ limit: UInt64) async throws {
            _ = try await folders.client().follow(
                Files.Copy.Input(
                    sources: [here(folders.local + "/file")], destination: there(folders.srv), limit: limit)
            ) { _ in }
        }
        try await copy(1_000_000)
        #expect(try folders.data("srv/file") == bytes(60_000, seed: 43))
        await #expect(throws: KithError(.invalid, "")) { try await copy(0) }
    }
}
