import KithTesting
import Testing

@testable import KithIndex

@Suite struct WatchedFoldersTests {
    /// A tree of folders on a disk, with the number of each one's watch.
    private struct Tree {
        var paths: [Int32: [String]] = [1: ["srv"]]
        var next: Int32 = 2

        static func bytes(_ path: [String]) -> [UInt8] { Array(("/" + path.joined(separator: "/")).utf8) }

        func within(_ path: [String]) -> [(number: Int32, path: [String])] {
            paths.filter { $0.value.starts(with: path) }.map { ($0.key, $0.value) }.sorted { $0.1.count < $1.1.count }
        }
    }

    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static func watch(_ number: Int32, at path: [UInt8], in folders: inout WatchedFolders) {
        let isAdded = folders.add(number, at: path)
        #expect(isAdded)
    }

    @Test("the paths of watched folders are those on the disk, whatever comes, goes and is renamed", arguments: 0..<6)
    func paths(_ round: Int) throws {
        var random = SeededRandom.fromEnvironment(or: UInt64(round) + 1)
        var tree = Tree()
        var folders = WatchedFolders()
        Self.watch(1, at: Tree.bytes(["srv"]), in: &folders)
        for step in 0..<600 {
            let some = try #require(tree.paths.keys.sorted().randomElement(using: &random))
            let path = try #require(tree.paths[some])
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                let child = path + [["a", "b", "é", "a b"].randomElement(using: &random) ?? "a"]
                guard !tree.paths.values.contains(child) else { continue }
                tree.paths[tree.next] = child
                Self.watch(tree.next, at: Tree.bytes(child), in: &folders)
                tree.next += 1
            case 5:
                // Deleted, and told of in any order.
                guard some != 1 else { continue }
                for (number, _) in tree.within(path).shuffled(using: &random) {
                    folders.remove(number)
                    tree.paths[number] = nil
                }
            case 6, 7:
                // Moved away, which ends its watches; listed again where it is now, with new ones.
                guard some != 1 else { continue }
                let moved = tree.within(path)
                let parent = folders.number(at: Tree.bytes(Array(path.dropLast()))) ?? -1
                let ended = folders.removeAll(in: folders.numbers(of: Array((path.last ?? "").utf8), in: parent))
                #expect(Set(ended) == Set(moved.map(\.number)))
                for (number, old) in moved {
                    tree.paths[number] = nil
                    tree.paths[tree.next] = path.dropLast() + ["moved \(step)"] + old.dropFirst(path.count)
                    Self.watch(tree.next, at: Tree.bytes(tree.paths[tree.next] ?? []), in: &folders)
                    tree.next += 1
                }
            case 8:
                // Listed where it is now before anybody told that it was moved.
                guard some != 1 else { continue }
                for (number, old) in tree.within(path) {
                    tree.paths[number] = path.dropLast() + ["found \(step)"] + old.dropFirst(path.count)
                    Self.watch(number, at: Tree.bytes(tree.paths[number] ?? []), in: &folders)
                }
            default:
                guard tree.paths.count > 40, path.count == 2 else { continue }
                let gone = tree.within(path)
                let ended = folders.removeAll(in: folders.numbers(within: Tree.bytes(path)))
                #expect(Set(ended) == Set(gone.map(\.number)))
                for (number, _) in gone { tree.paths[number] = nil }
            }
            #expect(folders.count == tree.paths.count)
            for (number, path) in tree.paths {
                #expect(folders.path(of: number) == Tree.bytes(path))
                #expect(folders.number(at: Tree.bytes(path)) == number)
            }
        }
        let ended = folders.removeAll(in: folders.numbers(within: Self.bytes("/")))
        #expect(Set(ended) == Set(tree.paths.keys))
        #expect(folders.count == 0)
    }

    @Test("folders are found whose parents are not watched, or were watched later")
    func tops() {
        var folders = WatchedFolders()
        Self.watch(1, at: Self.bytes("/srv/photos/2026"), in: &folders)
        Self.watch(2, at: Self.bytes("/srv"), in: &folders)
        Self.watch(3, at: Self.bytes("/srv/photography"), in: &folders)
        #expect(folders.numbers(within: Self.bytes("/srv/photos")) == [1])
        #expect(folders.numbers(of: Self.bytes("photos"), in: 2).isEmpty)
        Self.watch(4, at: Self.bytes("/srv/photos"), in: &folders)
        Self.watch(1, at: Self.bytes("/srv/photos/2026"), in: &folders)
        #expect(folders.numbers(of: Self.bytes("photos"), in: 2) == [4])
        let ended = folders.removeAll(in: [4])
        #expect(Set(ended) == [1, 4])
        #expect(folders.path(of: 3) == Self.bytes("/srv/photography"))
        Self.watch(5, at: Self.bytes("/"), in: &folders)
        #expect(folders.path(of: 5) == Self.bytes("/"))
        Self.watch(6, at: Self.bytes("/home"), in: &folders)
        #expect(folders.path(of: 6) == Self.bytes("/home"))
        #expect(folders.numbers(within: Self.bytes("/")).isSuperset(of: [2, 5]))
    }

    @Test("two listings that contradict each other make no circle")
    func circles() {
        var folders = WatchedFolders()
        Self.watch(1, at: Self.bytes("/a"), in: &folders)
        Self.watch(2, at: Self.bytes("/a/b"), in: &folders)
        Self.watch(1, at: Self.bytes("/a/b/c"), in: &folders)
        #expect(folders.path(of: 1) == Self.bytes("/a/b/c"))
        #expect(folders.path(of: 2) != nil)
        let ended = folders.removeAll(in: folders.numbers(within: Self.bytes("/")))
        #expect(Set(ended) == [1, 2])
    }

    @Test("names that are not used any more are let go of")
    func room() {
        var folders = WatchedFolders()
        Self.watch(1, at: Array("/srv".utf8), in: &folders)
        let name = String(repeating: "n", count: 200)
        for number in Int32(2)..<20_000 {
            Self.watch(number, at: Array("/srv/\(name)\(number)".utf8), in: &folders)
            if number > 2 { folders.remove(number - 1) }
        }
        #expect(folders.count == 2)
        #expect(folders.textCount < 200_000)
        #expect(folders.path(of: 19_999) == Array("/srv/\(name)19999".utf8))
    }
}
