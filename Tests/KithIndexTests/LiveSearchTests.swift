import Foundation
import KithCatalog
import KithTesting
import KithWire
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct LiveSearchTests {
    private static let queries = [
        "step", "ext:txt", "file size:>1", "kind:folder", "in:a moved", "tag:work", "-file", "is:favorite OR other",
        "rating:>2", "path:folder",
    ]

    @Test func `what changes are followed by is what searching anew finds`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        try tree.make("a")
        try tree.write("a/mark")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let follower = tree.index.changeSets()
        var live: [(text: String, query: SearchQuery, search: LiveSearch)] = []
        for text in Self.queries {
            let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
            #expect(LiveSearch.follows(query.condition))
            var search = LiveSearch(query, limit: 1_000)
            _ = try await search.search(in: tree.index)
            live.append((text, query, search))
        }
        for step in 0..<60 {
            try tree.change(step, using: &random)
            _ = try await tree.index.scan(location.id)
            let noted = Array(tree.path("a/step\(step).txt").utf8)
            switch step % 4 {
            case 0: _ = try await tree.index.changeTags(of: [noted], add: [["work"]], remove: [])
            case 1: try await tree.index.annotate([noted], isFavorite: true, rating: step % 6)
            case 2 where step % 20 == 18: try await tree.index.deleteTag(["work"])
            default: break
            }
            // So that there is one change at least.
            try await tree.index.annotate([Array(tree.path("a/mark").utf8)], rating: step % 5 + 1)
            let changes = try #require(await follower.nextJoined())
            for index in live.indices {
                let before = live[index].search.entries
                let difference = try await live[index].search.apply(changes, in: tree.index)
                let expected = try await tree.index.search(live[index].query, limit: 1_000).entries
                #expect(
                    live[index].search.entries
                        == Dictionary(uniqueKeysWithValues: expected.map { ($0.id, $0) }),
                    "seed \(seed), step \(step): \(live[index].text)")
                // What was told makes of what was there before what is there now.
                var told = before
                for id in difference.gone { #expect(told.removeValue(forKey: id) != nil) }
                for entry in difference.found { told[entry.id] = entry }
                #expect(told == live[index].search.entries, "seed \(seed), step \(step): \(live[index].text)")
            }
        }
    }

    @Test func `a change of one file is not searched for anew`() async throws {
        let tree = try IndexedTree()
        for number in 0..<20 { try tree.write("file \(number)") }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let follower = tree.index.changeSets()
        var live = LiveSearch(try SearchQuery("file", now: 0, offsetFromUTC: 0), limit: 100)
        #expect(try await live.search(in: tree.index).found.count == 20)
        try tree.write("file 20")
        try tree.remove("file 3")
        _ = try await tree.index.scan(location.id)
        let changes = try #require(await follower.nextJoined())
        // The two, and the folder around them.
        #expect(changes.touched?.count == 3)
        let difference = try await live.apply(changes, in: tree.index)
        #expect(difference.found.map(\.name) == [Array("file 20".utf8)] && difference.gone.count == 1)
    }

    @Test func `of very much nobody lists everything`() {
        var set = ChangeSet()
        for id in 0...Int64(ChangeSet.touchedLimit) { set.touch(id) }
        #expect(set.touched == nil && !set.isEmpty)
        var folders = ChangeSet()
        for number in 0...(ChangeSet.touchedLimit / 100) { folders.empty(Array("/a/\(number)".utf8)) }
        #expect(folders.touched == nil && folders.goneFolders.isEmpty)
        var joined = ChangeSet()
        joined.touch(1)
        joined.join(set)
        #expect(joined.touched == nil)
    }

    @Test func `more than can be followed is refused`() async throws {
        let tree = try IndexedTree()
        for number in 0..<3 { try tree.write("file \(number)") }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let follower = tree.index.changeSets()
        var live = LiveSearch(try SearchQuery("file", now: 0, offsetFromUTC: 0), limit: 3)
        #expect(try await live.search(in: tree.index).found.count == 3)
        try tree.write("file 3")
        _ = try await tree.index.scan(location.id)
        let changes = try #require(await follower.nextJoined())
        await #expect(throws: KithError(.exhausted, "")) { _ = try await live.apply(changes, in: tree.index) }
    }

    @Test(arguments: ["is:duplicate", "is:offline", "content:x", "width:>1", "taken:2020", "-is:empty"])
    func `what depends on more than an entry itself is not followed by its changes`(text: String) throws {
        let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
        #expect(!LiveSearch.follows(query.condition))
    }
}
