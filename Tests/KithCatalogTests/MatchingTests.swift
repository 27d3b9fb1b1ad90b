import Foundation
import KithTesting
import Testing

@testable import KithCatalog

@Suite struct MatchingTests {
    static let subject = Subject(
        name: "Résumé Draft.tar.GZ", path: "/home/kim/Docs/2024/Résumé Draft.tar.GZ", category: .archive, size: 1_000,
        dates: [.modified: 100, .created: 50], tags: [["Work", "Clients", "Acme"], ["Later"]], location: "Home Folder",
        device: "Laptop", flags: [.favorite], rating: 3, note: "Call Zoë back",
        content: "The net gain: 5 % of it.\nÀ la carte.")

    @Test(arguments: [
        ("résumé", true), ("RE\u{301}SUME\u{301}", true), ("resume", false), ("\"é draft\"", true), ("résumé*", true),
        ("*.gz", true), ("r?sum? draft*", false), ("\"x\"", false), ("name:r?sum?\" draft\"*", true),
        ("name:=résumé", false),
        ("name:=\"résumé draft.tar.gz\"", true), ("regex:^r.sum.\\b", true), ("regex:(?-i)draft", false),
        ("path:2024/rés", true),
        ("in:/home/kim", true), ("in:/home/ki", false), ("in:/", true), ("in:Docs", true), ("in:kim/Docs", true),
        ("in:docs", false),
        ("in:im/Docs", false), ("in:\"/home/kim/Docs/2024/Résumé Draft.tar.GZ\"", false),
        ("in:\"Résumé Draft.tar.GZ\"", false),
        ("kind:archive", true), ("kind:image,folder", false), ("is:file", true), ("is:folder", false), ("ext:gz", true),
        ("ext:tar.gz", true), ("ext:z", false), ("ext:zip,GZ", true), ("size:1k", true), ("size:>1k", false),
        ("modified:@100", true),
        ("modified:<=@99", false), ("modified:@0..@100", true), ("added:>=@0", false), ("created:@50..", true),
        ("tag:work", true), ("tag:=work", false), ("tag:=acme", true), ("tag:clients/acme", true),
        ("tag:=clients/acme", true),
        ("tag:work/acme", false), ("tag:acme/x", false), ("tag:LATER", true), ("is:untagged", false),
        ("location:\"home folder\"", true), ("location:home", false), ("device:laptop", true), ("is:favorite", true),
        ("is:empty", false), ("rating:>2", true), ("rating:0", false), ("note:zoë", true), ("note:zoe", false),
        ("content:\"net gain\"", true), ("content:\"gain net\"", false), ("content:gai", false),
        ("content:\"gain 5 of\"", true),
        ("content:\"à LA\"", true), ("content:\"...\"", false), ("-résumé", false), ("-foo", true),
        ("foo OR draft", true),
        ("(foo OR draft) -tar", false), ("", true), ("\"\" -\"\"", false), ("sort:name", true),
    ])
    func `a query finds an entry by each of its properties`(_ text: String, _ isFound: Bool) throws {
        #expect(try read(text).matches(Self.subject) == isFound)
    }

    @Test func `an entry without a property does not have it`() throws {
        let folder = Subject(name: ".config", path: "/.config", kind: .folder)
        for text in [
            "size:>=0", "modified:>=@0", "kind:other", "location:a", "note:a", "content:a", "ext:config", "tag:a",
        ] {
            #expect(try !read(text).matches(folder), "\(text)")
        }
        for text in ["is:folder", "is:untagged", "rating:0", "in:/", "kind:folder"] {
            #expect(try read(text).matches(folder), "\(text)")
        }
    }

    @Test func `names that are not UTF-8 are shown, and found`() throws {
        #expect(NameFolding.display([0x41, 0xFF, 0x62]) == "A\u{FFFD}b")
        #expect(foldedName([0x41, 0xFF, 0x62]) == "a\u{FFFD}b")
        #expect(try read("a\u{FFFD}").matches(Subject(name: NameFolding.display([0x41, 0xFF]), path: "")))
        #expect(Array(NameFolding.display(Array("e\u{301}".utf8)).utf8) == [0xC3, 0xA9])
        #expect(foldedName([]) == "")
    }

    @Test func `folding is the same for equal texts, and for folded ones`() {
        var random = SeededRandom.fromEnvironment(or: 19)
        let letters: [Unicode.Scalar] = [
            "a", "H", "h", "T", "\u{331}", "\u{308}", "\u{301}", "\u{327}", "É", "e", "İ", "I", "ı", "ß", "ẞ", "Σ", "ς",
            "K", "Å", "ǅ", "Ι",
            "ϊ", "\u{345}", "각", "\u{1100}", "\u{1161}", "ﬁ", "\u{FFFD}", "🙂",
        ]
        for _ in 0..<20_000 {
            var scalars = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                scalars.append(letters[Int.random(in: letters.indices, using: &random)])
            }
            let text = String(scalars)
            let folded = NameFolding.folded(text)
            for other in [
                text.decomposedStringWithCanonicalMapping, text.precomposedStringWithCanonicalMapping, folded,
            ] {
                #expect(
                    NameFolding.folded(other).utf8.elementsEqual(folded.utf8),
                    "\(random) \(text.unicodeScalars.map(\.value))")
            }
        }
    }

    @Test func `what is taken to be in form C already is`() {
        // Each scalar beside itself, and all of them after one another.
        for value in UInt32(0x80)...0xFFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(String.UnicodeScalarView([scalar, scalar]))
            let expected = text.precomposedStringWithCanonicalMapping
            if !NameFolding.normalized(text).utf8.elementsEqual(expected.utf8) { Issue.record("U+\(value)") }
        }
    }

    @Test func `a text of very many marks takes no time`() throws {
        let marks = "a" + String(repeating: "\u{301}\u{327}", count: 200_000)
        #expect(try !read("b").matches(Subject(name: marks, path: marks)))
        #expect(try !read("regex:b").matches(Subject(name: marks, path: marks)))
        #expect(
            try !read(String("b" + marks.unicodeScalars.prefix(1_000).map(String.init).joined())).matches(Self.subject))
    }

    // MARK: - Against what is plain to see

    @Test func `random conditions are what a table of truth says`() throws {
        var random = SeededRandom.fromEnvironment(or: 20)
        let words = ["a", "b", "c", "d"]
        /// The text of a condition, and what it says of the letters of a name.
        func condition(_ depth: Int) -> (text: String, isTrue: (Set<String>) -> Bool) {
            switch Int.random(in: 0..<(depth > 0 ? 6 : 1), using: &random) {
            case 1, 2:
                let parts = (0..<Int.random(in: 2...3, using: &random)).map { _ in condition(depth - 1) }
                let separator = [" ", " AND "].randomElement(using: &random) ?? " "
                return (
                    "(" + parts.map(\.text).joined(separator: separator) + ")",
                    { name in parts.allSatisfy { $0.isTrue(name) } }
                )
            case 3, 4:
                let parts = (0..<Int.random(in: 2...3, using: &random)).map { _ in condition(depth - 1) }
                let separator = [" OR ", " | "].randomElement(using: &random) ?? " | "
                return (
                    "(" + parts.map(\.text).joined(separator: separator) + ")",
                    { name in parts.contains { $0.isTrue(name) } }
                )
            case 5:
                let part = condition(depth - 1)
                // Two negations in a row are text.
                let isSimple = part.text.count == 1 || part.text.hasPrefix("(")
                let sign = ["-", "NOT ", "!"].randomElement(using: &random) ?? "-"
                return (sign + (isSimple ? part.text : "(\(part.text))"), { !part.isTrue($0) })
            default:
                let word = words.randomElement(using: &random) ?? "a"
                return (word, { $0.contains(word) })
            }
        }
        var found = 0
        for _ in 0..<1_000 {
            let (text, isTrue) = condition(4)
            let query = try read(text)
            let again = try read(query.description)
            for bits in 0..<16 {
                let letters = words.indices.filter { bits >> $0 & 1 == 1 }.map { words[$0] }
                let subject = Subject(name: letters.shuffled(using: &random).joined(separator: "-"), path: "")
                #expect(query.matches(subject) == isTrue(Set(letters)), "\(random) \(text) \(subject.name)")
                #expect(
                    again.matches(subject) == isTrue(Set(letters)), "\(random) \(query.description) \(subject.name)")
                if isTrue(Set(letters)) { found += 1 }
            }
        }
        #expect(found > 1_000)
    }

    @Test func `random names and patterns match as plain definitions say`() throws {
        var random = SeededRandom.fromEnvironment(or: 21)
        let letters = ["a", "A", "b", "É", "e\u{301}", "Ǆ", "."]
        func text(_ range: ClosedRange<Int>) -> String {
            (0..<Int.random(in: range, using: &random)).compactMap { _ in letters.randomElement(using: &random) }
                .joined()
        }
        for _ in 0..<20_000 {
            let (name, part) = (text(0...7), text(1...3))
            let (foldedName, foldedPart) = (NameFolding.folded(name), NameFolding.folded(part))
            let (whole, needle) = (Array(foldedName.unicodeScalars), Array(foldedPart.unicodeScalars))
            let starts = whole.indices.filter { whole[$0...].starts(with: needle) }
            #expect(NameMatch.contains(foldedPart).matches(name) == !starts.isEmpty, "\(random) \(name) \(part)")
            #expect(NameMatch.prefix(foldedPart).matches(name) == starts.contains(0), "\(random) \(name) \(part)")
            let isSuffix = starts.contains(whole.count - needle.count)
            #expect(NameMatch.suffix(foldedPart).matches(name) == isSuffix, "\(random) \(name) \(part)")
            #expect(NameMatch.exact(foldedPart).matches(name) == (whole == needle), "\(random) \(name) \(part)")
        }
    }

    @Test func `random globs match as a plain recursion says`() {
        var random = SeededRandom.fromEnvironment(or: 22)
        func matches(_ parts: ArraySlice<NameGlob.Unit>, _ name: ArraySlice<Unicode.Scalar>) -> Bool {
            switch parts.first {
            case nil: name.isEmpty
            case .many: matches(parts.dropFirst(), name) || (!name.isEmpty && matches(parts, name.dropFirst()))
            case .one: !name.isEmpty && matches(parts.dropFirst(), name.dropFirst())
            case .scalar(let scalar): name.first == scalar && matches(parts.dropFirst(), name.dropFirst())
            }
        }
        for _ in 0..<20_000 {
            let parts = (0..<Int.random(in: 0...6, using: &random)).map { _ in
                [NameGlob.Part.text("a"), .text("b"), .text("é"), .one, .many, .many][
                    Int.random(in: 0..<6, using: &random)]
            }
            let glob = NameGlob(parts)
            let name = (0..<Int.random(in: 0...8, using: &random)).compactMap { _ in
                ["a", "B", "é", "A"].randomElement(using: &random)
            }.joined()
            let expected = matches(glob.units[...], Array(NameFolding.folded(name).unicodeScalars)[...])
            #expect(glob.matches(name) == expected, "\(random) \(glob) \(name)")
        }
        #expect(
            !NameGlob([.many, .text("a"), .many, .text("a"), .many, .text("b")]).matches(
                String(repeating: "a", count: 5_000)))
    }
}
