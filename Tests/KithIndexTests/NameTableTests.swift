import Foundation
import GRDB
import KithCatalog
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithIndex

@Suite struct NameTableTests {
    @Test func `random edits leave what a dictionary holds`() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<20 {
            var names = NameTable.Names(version: 0, blocks: [])
            var model: [Int64: String] = [:]
            // More than a block holds, and numbers that come again.
            let numbers = Int64.random(in: 10...12_000, using: &random)
            for _ in 0..<6_000 {
                let id = Int64.random(in: 1...numbers, using: &random)
                let name = String(repeating: "x", count: Int.random(in: 1...40, using: &random)) + "\(id)"
                let folder = Int.random(in: 1...300, using: &random)
                let isFile = Bool.random(using: &random)
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<6:
                    names.apply([.set(id, Array(name.utf8), .init(name: name.count, folder: folder, isFile: isFile))])
                    model[id] = "\(name) \(name.count) \(isFile) \(folder)"
                case 6..<9:
                    names.apply([.removed(id)])
                    model[id] = nil
                default:
                    names.apply([.folder(id, length: folder)])
                    if let old = model[id] {
                        model[id] = old.split(separator: " ").dropLast().joined(separator: " ") + " \(folder)"
                    }
                }
            }
            #expect(names.contents == model, "seed \(seed)")
            #expect(names.count == model.count, "seed \(seed)")
            let ids = names.blocks.flatMap { block in (0..<block.count).map(block.id) }
            #expect(ids == ids.sorted(), "seed \(seed)")
        }
    }

    @Test func `a text is found where trying each place finds it`() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<20_000 {
            // Few letters, so that there is much that nearly fits.
            let text = (0..<Int.random(in: 0...90, using: &random)).map { _ in UInt8.random(in: 0...2, using: &random) }
            let wanted = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                UInt8.random(in: 0...2, using: &random)
            }
            let start = Int.random(in: 0...text.count, using: &random)
            let expected = (start..<max(start, text.count - wanted.count + 1)).first {
                text[$0...].starts(with: wanted)
            }
            let found = unsafe text.withUnsafeBytes { unsafe $0.firstIndex(of: wanted, from: start) }
            guard !wanted.isEmpty, !text.isEmpty else { continue }
            #expect(found == expected, "seed \(seed): \(wanted) in \(text) from \(start)")
        }
    }

    @Test func `numbers far apart lie in blocks of their own`() {
        var names = NameTable.Names(version: 0, blocks: [])
        let ids: [Int64] = [.max, 1, 1 << 40, 2, (1 << 40) + 5, 7]
        for id in ids {
            names.apply([.set(id, Array("name".utf8), .init(name: 4, folder: 1, isFile: true))])
        }
        #expect(Set(names.contents.keys) == Set(ids))
        #expect(names.blocks.map(\.first) == names.blocks.map(\.first).sorted())
    }

    @Test func `the best of many are those that sorting puts first`() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let ranks = (0..<2_000).map { id in
            let name = Array(String(repeating: "ab", count: Int.random(in: 1...4, using: &random)).utf8)
            let measure = NameBlock.Measure(name: Int.random(in: 1...9, using: &random), folder: 1, isFile: true)
            return unsafe RankWords(["b"]).withTexts { words in
                unsafe name.withUnsafeBytes { unsafe Rank($0, measure, Int64(id), words) }
            }
        }
        for isReversed in [false, true] {
            let sorted = isReversed ? ranks.sorted(by: >) : ranks.sorted()
            for count in [1, 7, 64, 3_000] {
                #expect(ranks.first(count, isReversed: isReversed, behind: nil) == Array(sorted.prefix(count)))
                let behind = sorted.dropFirst(501).prefix(count)
                #expect(ranks.first(count, isReversed: isReversed, behind: sorted[500]) == Array(behind), "\(seed)")
            }
        }
    }

    private func search(_ index: FileIndex, _ text: String, limit: Int = 1_000) async throws -> FoundPage {
        try await index.search(try SearchQuery(text, now: 0, offsetFromUTC: 0), limit: limit)
    }

    @Test func `what fits best comes first, as trying and sorting each entry says`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        let words = ["report", "re", "Ämter", "port", "a.b", "é", "100%", "_", "-"]
        for _ in 0..<400 {
            let folder = ["", "docs/", "docs/old/"].randomElement(using: &random) ?? ""
            try tree.make(folder)
            let name = (0..<Int.random(in: 1...4, using: &random)).map { _ in words.randomElement(using: &random) ?? ""
            }
            let end = ["", ".txt", ".tar.gz", ".TXT"].randomElement(using: &random) ?? ""
            try tree.write(folder + name.joined() + end, String(repeating: "x", count: name.count))
        }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let everything = try await search(tree.index, "").entries
        for text in [
            "report", "re port", "re OR é", "\"100%\" OR Ämter", "report ext:txt", "re size:>2", "ämter -port",
            "re*", "name:*\"txt\"", "ext:txt OR port", "regex:(re|port)$ re", "re kind:folder",
        ] {
            let query = try SearchQuery(text, now: 0, offsetFromUTC: 0)
            let wanted = asked(query.condition)
            let expected = everything.filter { entry in
                query.matches(
                    Subject(
                        name: NameFolding.display(entry.name), path: NameFolding.display(entry.path), kind: entry.kind,
                        category: entry.category, size: entry.kind == .file ? entry.size : nil))
            }.sorted { reference($0, wanted).lexicographicallyPrecedes(reference($1, wanted)) }
            let (size, limit) = (Int.random(in: 1...40, using: &random), expected.count)
            var (found, next) = ([FoundEntry](), SearchPlace?.none)
            repeat {
                let page = try await tree.index.search(query, after: next, limit: size)
                if let total = page.total { #expect(total == limit, "seed \(seed): \(text)") }
                found += page.entries
                next = page.next
            } while next != nil
            #expect(found.map(\.id) == expected.map(\.id), "seed \(seed): \(text)")
        }
    }

    private func asked(_ condition: Condition) -> [String] {
        switch condition {
        case .everything, .not: []
        case .all(let conditions), .any(let conditions): conditions.flatMap(asked)
        case .term(.name(.contains(let text))), .term(.name(.prefix(let text))), .term(.name(.suffix(let text))): [text]
        case .term(.name(.glob(let glob))): glob.parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
        case .term(.name(.regex(let expression))): expression.requiredText.map { [$0] } ?? []
        case .term: []
        }
    }

    /// The rank of an entry, as text is compared.
    private func reference(_ entry: FoundEntry, _ words: [String]) -> [Int] {
        let name = Array(foldedName(entry.name).utf8)
        var fit = 0
        for word in words.map({ Array($0.utf8) }) {
            let starts = name.indices.filter { name[$0...].starts(with: word) }
            if starts.first == 0 {
                fit += name.count == word.count ? 0 : name[word.count] == UInt8(ascii: ".") ? 1 : 2
            } else if starts.contains(where: { start in
                let before = name[start - 1]
                return before < 0x80 && !Character(UnicodeScalar(before)).isLetter
                    && !Character(UnicodeScalar(before)).isNumber
            }) {
                fit += 3
            } else {
                fit += 4
            }
        }
        return [fit, entry.name.count, entry.folder.count, Int(entry.id)]
    }

    @Test func `the names in memory are those of the database, whatever happens to the files`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let tree = try IndexedTree()
        try tree.make("a")
        try tree.write("a/first")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        #expect(try await search(tree.index, "first").entries.count == 1)
        for step in 0..<40 {
            try tree.change(step, using: &random)
            _ = try await tree.index.scan(location.id)
            let (searched, expected) = try await tree.index.database.read { database in
                (try IndexedTree.searched(tree.index, database), try IndexedTree.expected(database))
            }
            #expect(searched == expected, "seed \(seed), step \(step)")
            #expect(try await search(tree.index, "step\(step)").entries.count >= 1, "seed \(seed), step \(step)")
        }
        try await tree.index.removeLocation(location.id)
        #expect(try await search(tree.index, "step").entries.isEmpty)
    }

    @Test func `what somebody else writes into the database is found, too`() async throws {
        let tree = try IndexedTree()
        try tree.write("one")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        #expect(try await search(tree.index, "one").entries.count == 1)
        let other = try FileIndex(path: tree.index.path, logger: Logger(label: "test"))
        defer { other.close() }
        try tree.write("two and one")
        _ = try await other.scan(location.id)
        #expect(try await search(tree.index, "one").entries.count == 2)
        #expect(try await search(other, "one").entries.count == 2)
    }

    @Test func `an index of before the names were kept in memory opens, and finds the same`() async throws {
        let tree = try IndexedTree()
        try tree.write("annual report.txt")
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let found = try await search(tree.index, "report").entries
        let path = tree.folder.path + "/old.sqlite"
        let old = try DatabaseQueue(path: path)
        try IndexSchema.migrator.migrate(old, upTo: "annotations")
        #expect(try await old.read { try $0.tableExists("name_index") })
        try old.close()
        try await tree.index.database.writeWithoutTransaction { database in
            try database.execute(sql: "ATTACH ? AS old", arguments: [path])
            for table in ["meta", "location", "entry", "folder"] {
                try database.execute(
                    sql: "DELETE FROM old.\(table); INSERT INTO old.\(table) SELECT * FROM main.\(table)")
            }
            try database.execute(sql: "DELETE FROM old.meta WHERE name = 'names'")
            try database.execute(
                sql: "INSERT INTO old.name_index (rowid, name) SELECT id, lower(name) FROM main.entry WHERE folder <> 0"
            )
            try database.execute(sql: "DETACH old")
        }
        let opened = try FileIndex(path: path, logger: Logger(label: "test"))
        defer { opened.close() }
        #expect(try await search(opened, "report").entries == found && found.count == 1)
        #expect(try await opened.database.read { try !$0.tableExists("name_index") })
        try tree.write("report two")
        _ = try await opened.scan(location.id)
        #expect(try await search(opened, "report").entries.count == 2)
    }
}

extension IndexedTree {
    /// Changes something in the tree; after it there is a name with `step` and its number in it.
    func change(_ step: Int, using random: inout some RandomNumberGenerator) throws {
        let manager = FileManager.default
        let all = (manager.enumerator(atPath: top)?.allObjects as? [String] ?? []).sorted()
        let (folders, files) = (
            all.filter { isFolder($0) }, all.filter { !isFolder($0) && !$0.hasSuffix("mark") }
        )
        let folder = folders.randomElement(using: &random) ?? "a"
        switch Int.random(in: 0..<7, using: &random) {
        case 0: try make("\(folder)/folder \(step)")
        case 1:
            if let file = files.randomElement(using: &random) { try remove(file) }
        case 2:
            if let file = files.randomElement(using: &random) { try move(file, to: "\(folder)/moved \(step)") }
        case 3 where folder != "a": try move(folder, to: "other \(step)")
        case 4 where folder != "a": try remove(folder)
        case 5:
            if let file = files.randomElement(using: &random) { try write(file, "longer \(step)") }
        default:
            for number in 0..<5 { try write("\(folder)/file \(step) \(number)") }
        }
        try make("a")
        try write("a/step\(step).txt")
    }

    private func isFolder(_ name: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path(name), isDirectory: &isFolder) && isFolder.boolValue
    }
}
