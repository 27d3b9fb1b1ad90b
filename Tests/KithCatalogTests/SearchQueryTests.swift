import KithTesting
import Testing

@testable import KithCatalog

/// 2026-11-26 15:30 in a place two hours ahead of Greenwich; a Thursday.
let queryTime: Int64 = 1_795_699_800

func read(_ text: String) throws(QueryError) -> SearchQuery {
    try SearchQuery(text, now: queryTime, offsetFromUTC: 7_200)
}

func named(_ text: String) -> Condition { .term(.name(.contains(text))) }

@Suite struct SearchQueryTests {
    @Test(arguments: [
        "report.txt", "annual-report", "O'Brien", "c++", "foo(bar)", "AND", "OR", "NOT", "|", "-", "!", "(", ")", "()",
        ":)",
        ":(", "f(x)(y)", "(1).pdf", "(a)(b).txt", "foo:bar", "12:30", "C:\\dir", "https://kith.example/a?b",
        "std::vector",
        "Re:", "a|b", "--", "--help", "->", "5\"disk", "a\"b\"c", "\"Heroes\"-live.mp3", "100%", "[x]", "{y}", "@home",
        "#1", "été", "日本語", "a&b", "$HOME", "~", "=", "!=", "size", "and", "or", "mail@x.org", "a,b", "(draft",
        "draft)",
        "((", "))(", "-(", "-)", "e=mc²", "\\", "'", "naïve.txt", "site", "a:b:c",
    ])
    func `a name without wildcards is text`(_ name: String) throws {
        let condition = try read(name).condition
        // Only a question mark means something, and it matches itself.
        if name.contains("?") {
            #expect(condition.matches(Subject(name: name, path: "")))
        } else {
            #expect(condition == named(NameFolding.folded(name)))
        }
    }

    @Test(arguments: [
        "Heroes (live).mp3", "report (final version).pdf", "Artist - Song.mp3", "foo (copy", "a (b) (c) d", "(a) - (b)",
        "What Is This?", "Who?! (2)", "Why ? Because.txt", "Re: your mail (2).eml", "this AND", "OR that",
        "Q&A (v1.2) [final].docx", "( b", "a )", "Tom & Jerry",
    ])
    func `a name of several words, pasted in, finds its file`(_ name: String) throws {
        #expect(try read(name).matches(Subject(name: name, path: "/x/\(name)")))
        #expect(try !read(name).matches(Subject(name: "other.txt", path: "/x/other.txt")))
    }

    static let syntax: [(String, Condition)] = [
        ("", .everything), ("  \u{3000}\n", .everything), ("\"\"", .everything),
        ("annual report", .all([named("annual"), named("report")])), ("\"annual report\"", named("annual report")),
        ("\"say \"\"hi\"\"\"", named("say \"hi\"")), ("\"AND\"", named("and")), ("\"*\"", named("*")),
        ("a OR b", .any([named("a"), named("b")])), ("a | b", .any([named("a"), named("b")])),
        ("a AND b", .all([named("a"), named("b")])),
        ("a b OR c d", .any([.all([named("a"), named("b")]), .all([named("c"), named("d")])])),
        ("(a OR b) c", .all([.any([named("a"), named("b")]), named("c")])),
        ("( a OR b ) c", .all([.any([named("a"), named("b")]), named("c")])),
        ("((a OR b))", .any([named("a"), named("b")])), ("a (b c)", .all([named("a"), named("b"), named("c")])),
        ("(a OR foo(bar))", .any([named("a"), named("foo(bar)")])),
        ("(foo(bar) OR a)", .any([named("foo(bar)"), named("a")])),
        ("(\"a b\" OR c)", .any([named("a b"), named("c")])),
        ("-a", .not(named("a"))), ("!a", .not(named("a"))), ("NOT a", .not(named("a"))), ("NOT NOT a", named("a")),
        ("-\"a b\"", .not(named("a b"))), ("-(a OR b)", .not(.any([named("a"), named("b")]))),
        ("(-a OR b)", .any([.not(named("a")), named("b")])), ("-(-a)", named("a")), ("(NOT a)", .not(named("a"))),
        ("a NOT b", .all([named("a"), .not(named("b"))])), ("a OR -b", .any([named("a"), .not(named("b"))])),
        ("a OR NOT b", .any([named("a"), .not(named("b"))])), ("-ext:jpg", .not(.term(.fileExtension(["jpg"])))),
        ("a OR", .all([named("a"), named("or")])), ("a OR OR b", .any([named("a"), .all([named("or"), named("b")])])),
        ("a - b", .all([named("a"), named("-"), named("b")])), ("A É", .all([named("a"), named("é")])),
        ("e\u{301}", named("é")),
        ("*.jpg", .term(.name(.suffix(".jpg")))), ("img*", .term(.name(.prefix("img")))), ("*mid*", named("mid")),
        ("**a**", named("a")), ("IMG_????", .term(.name(.glob(NameGlob([.text("img_"), .one, .one, .one, .one]))))),
        ("what?", named("what?")), ("name:what?", .term(.name(.glob(NameGlob([.text("what"), .one]))))),
        ("?", named("?")),
        ("a*b", .term(.name(.glob(NameGlob([.text("a"), .many, .text("b")]))))),
        ("*", .term(.name(.glob(NameGlob([.many]))))), ("-*.tmp", .not(.term(.name(.suffix(".tmp"))))),
        ("name:foo", named("foo")), ("NAME:foo", named("foo")), ("name:=Read.me", .term(.name(.exact("read.me")))),
        ("name:=\"a b\"", .term(.name(.exact("a b")))), ("name:=a*", .term(.name(.exact("a*")))),
        ("name:\"my pic\"*", .term(.name(.prefix("my pic")))), ("name:*\"end.txt\"", .term(.name(.suffix("end.txt")))),
        ("name:\"a*\"?", .term(.name(.glob(NameGlob([.text("a*"), .one]))))),
        ("name:\"size:9\"", named("size:9")), ("name:foo(bar)", named("foo(bar)")), ("(name:b)", named("b")),
        ("path:photos/2024", .term(.path("photos/2024"))), ("in:~/Docs/", .term(.inFolder("~/Docs"))),
        ("in:/", .term(.inFolder("/"))), ("in:\"/my docs\"", .term(.inFolder("/my docs"))),
        ("kind:image", .term(.category([.image]))), ("kind:images,Videos", .term(.category([.image, .video]))),
        ("kind:folder", .term(.entry(.folder))), ("kind:links", .term(.entry(.link))),
        ("kind:image,folder", .any([.term(.category([.image])), .term(.entry(.folder))])),
        ("ext:jpg,.PNG,tar.gz", .term(.fileExtension(["jpg", "png", "tar.gz"]))),
        ("extension:c++", .term(.fileExtension(["c++"]))),
        ("tag:Work", .term(.tag("work", includingDescendants: true))),
        ("tag:=work/2024", .term(.tag("work/2024", includingDescendants: false))),
        ("tag:\"to do\"", .term(.tag("to do", includingDescendants: true))),
        ("tag:\"=a\"", .term(.tag("=a", includingDescendants: true))),
        ("location:Photos", .term(.location("photos"))), ("device:laptop", .term(.device("laptop"))),
        ("is:duplicate", .term(.flag(.duplicate))), ("is:favourite", .term(.flag(.favorite))),
        ("is:hidden", .term(.flag(.hidden))), ("is:empty", .term(.flag(.empty))),
        ("is:offline", .term(.flag(.offline))),
        ("is:untagged", .term(.untagged)), ("is:file", .term(.entry(.file))),
        ("rating:4", .term(.rating(4...4))), ("rating:>=3", .term(.rating(3...5))),
        ("rating:<3", .term(.rating(0...2))),
        ("rating:2..4", .term(.rating(2...4))), ("note:\"call back\"", .term(.note("call back"))),
        ("content:\"Net Gain\"", .term(.content("net gain"))),
        ("size:0", .term(.size(SizeRange(from: 0, through: 0)))),
        ("size:>10M", .term(.size(SizeRange(from: 10_000_001)))),
        ("size:>=10MB", .term(.size(SizeRange(from: 10_000_000)))),
        ("size:<=3KiB", .term(.size(SizeRange(through: 3_072)))), ("size:<1k", .term(.size(SizeRange(through: 999)))),
        ("size:1M..5M", .term(.size(SizeRange(from: 1_000_000, through: 5_000_000)))),
        ("size:1.5Gi..", .term(.size(SizeRange(from: 1_610_612_736)))),
        ("size:..2T", .term(.size(SizeRange(through: 2_000_000_000_000)))),
        ("size:=18446744073709551615", .term(.size(SizeRange(from: .max, through: .max)))),
    ]

    @Test(arguments: syntax)
    func `every form of the language means what the help says`(_ text: String, _ condition: Condition) throws {
        #expect(try read(text).condition == condition)
    }

    @Test(
        arguments: [
            // Midnight of the 26th is at 22:00 of the day before at Greenwich.
            ("today", 1_795_644_000, 1_795_730_400), ("yesterday", 1_795_557_600, 1_795_644_000),
            ("week", 1_795_384_800, 1_795_989_600), ("month", 1_793_484_000, 1_796_076_000),
            ("year", 1_767_218_400, 1_798_754_400), ("2024", 1_704_060_000, 1_735_682_400),
            ("2024-02", 1_706_738_400, 1_709_244_000), ("2024-05-31", 1_717_106_400, 1_717_192_800),
            (">2024-01-01", 1_704_146_400, nil), (">=2024-01-01", 1_704_060_000, nil), ("<2024", nil, 1_704_060_000),
            ("<=2024", nil, 1_735_682_400), ("2024-01..2024-06", 1_704_060_000, 1_719_784_800),
            ("2024..", 1_704_060_000, nil),
            ("..yesterday", nil, 1_795_644_000), ("<7d", queryTime - 604_800, nil), ("7d", queryTime - 604_800, nil),
            (">1y", nil, queryTime - 31_536_000), ("1d..2w", queryTime - 1_209_600, queryTime - 86_399),
            ("<=30min", queryTime - 1_800, nil), ("<2mo", queryTime - 5_184_000, nil), ("@5", 5, 6), ("@-5..@7", -5, 8),
            ("@9223372036854775807", .max, nil), ("TODAY", 1_795_644_000, 1_795_730_400),
        ] as [(String, Int64?, Int64?)])
    func `dates are those of the clock of whoever asks`(_ text: String, _ from: Int64?, _ until: Int64?) throws {
        for field in DateField.allCases {
            let expected = TimeRange(from: from, until: until)
            #expect(try read("\(field.rawValue):\(text)").condition == .term(.date(field, expected)))
        }
    }

    @Test func `every day of the calendar follows the one before`() {
        var seconds = CalendarDay.seconds(1, 1, 1)
        #expect(CalendarDay.seconds(1970, 1, 1) == 0)
        for year in Int64(1)...2_500 {
            for month in 1...12 {
                for day in 1...CalendarDay.count(year, month) {
                    #expect(CalendarDay.seconds(year, month, day) == seconds)
                    seconds += 86_400
                }
            }
        }
    }

    @Test func `an order stands anywhere outside of groups`() throws {
        let query = try read("sort:-size a sort:name,-size,ext b")
        #expect(query.condition == .all([named("a"), named("b")]))
        #expect(query.sort == [SortKey(.size, descending: true), SortKey(.name), SortKey(.ext)])
        #expect(try read("sort:relevance").condition == .everything)
    }

    @Test func `a week is that of Monday at any time`() throws {
        for days in Int64(-30)...30 {
            for offset in [-43_200, 0, 50_400] {
                let now = queryTime + days * 86_400
                let query = try SearchQuery("modified:week", now: now, offsetFromUTC: offset)
                guard case .term(.date(.modified, let range)) = query.condition, let from = range.from else {
                    Issue.record("no date")
                    continue
                }
                #expect(range.contains(now) && range.until == from + 604_800)
                // 2026-11-23 was a Monday.
                #expect((from + Int64(offset) - CalendarDay.seconds(2026, 11, 23)) % 604_800 == 0)
            }
        }
    }

    // MARK: - Faults

    @Test(
        arguments: [
            ("a \"b c", .unpairedQuote, 2, 3), ("tag:\"b", .unpairedQuote, 4, 5),
            ("(a OR b", .unpairedParenthesis, 0, 1),
            ("a OR b)", .unpairedParenthesis, 6, 7), ("(kind:image", .unpairedParenthesis, 0, 1),
            ("é ((a) OR b", .unpairedParenthesis, 3, 4), ("a OR ( )", .emptyGroup, 5, 8),
            ("knd:image", .unknownField, 0, 3),
            ("é siz:>5", .unknownField, 3, 6), ("kind:", .missingValue, 0, 5), ("a -tag: b", .missingValue, 3, 7),
            ("name:\"\"", .missingValue, 0, 5), ("(size:)", .missingValue, 1, 6),
            ("kind:imgae", .invalidValue, 5, 10), ("kind:image,xyz", .invalidValue, 11, 14),
            ("kind:image,", .invalidValue, 10, 11), ("ext:.", .invalidValue, 4, 5), ("ext:a,,b", .invalidValue, 6, 7),
            ("size:big", .invalidValue, 5, 8), ("size:>x", .invalidValue, 6, 7), ("size:5M..1M", .invalidValue, 5, 11),
            ("size:..", .invalidValue, 5, 7), ("size:>", .invalidValue, 5, 6), ("size:<0", .invalidValue, 5, 7),
            ("size:99999999999E", .invalidValue, 5, 17), ("size:18446744073709551616", .invalidValue, 5, 25),
            ("size:>18446744073709551615", .invalidValue, 5, 26), ("size:1.E", .invalidValue, 5, 8),
            ("size:18.446744073709551616E", .invalidValue, 5, 27),
            ("modified:2024-13", .invalidValue, 9, 16), ("modified:2023-02-29", .invalidValue, 9, 19),
            ("modified:0000", .invalidValue, 9, 13), ("modified:24", .invalidValue, 9, 11),
            ("added:2025..2024", .invalidValue, 6, 16),
            ("added:7d..1d", .invalidValue, 6, 12), ("created:todya", .invalidValue, 8, 13),
            ("modified:@x", .invalidValue, 9, 11),
            ("rating:6", .invalidValue, 7, 8), ("rating:>5", .invalidValue, 7, 9), ("is:new", .invalidValue, 3, 6),
            ("tag:/", .invalidValue, 4, 5), ("sort:siez", .invalidValue, 5, 9), ("sort:name,-", .invalidValue, 10, 11),
            ("regex:a(b", .invalidExpression, 7, 8), ("regex:\"a [b\"", .invalidExpression, 9, 10),
            ("regex:a{2000}", .invalidExpression, 7, 13), ("regex:*", .invalidExpression, 6, 7),
            ("(sort:name a)", .misplacedSort, 1, 10), ("-sort:name", .misplacedSort, 1, 10),
            ("NOT sort:name", .misplacedSort, 4, 13),
        ] as [(String, QueryError.Code, Int, Int)])
    func `a fault is shown where it is`(_ text: String, _ code: QueryError.Code, _ start: Int, _ end: Int) {
        let error = #expect(throws: QueryError.self) { try read(text) }
        #expect(error?.code == code)
        #expect(error?.range == start..<end, "\(error?.message ?? "")")
    }

    @Test func `a near miss names what was meant`() {
        #expect(message("knd:image").contains("Did you mean kind:?"))
        #expect(message("kind:imgae").contains("Did you mean image?"))
        #expect(message("is:favorit").contains("Did you mean favorite?"))
        #expect(message("sort:siez").contains("Did you mean size?"))
        #expect(message("modified:todya").contains("Did you mean today?"))
        #expect(message("kind:zebra").contains("image, video, audio"))
    }

    private func message(_ text: String) -> String {
        do {
            _ = try read(text)
            return ""
        } catch {
            return error.message
        }
    }

    @Test func `carets stand under the fault`() throws {
        let error = try #require(throws: QueryError.self) { try read("日本 size:big\u{1B}[2J") }
        #expect(error.shown(in: "日本 size:big\u{1B}[2J") == "日本 size:big [2J\n          ^^^^^^^")
        let long = String(repeating: "x ", count: 100) + "kind:imgae" + String(repeating: " y", count: 60)
        let far = try #require(throws: QueryError.self) { try read(long) }
        let lines = far.shown(in: long).split(separator: "\n").map { Array($0) }
        #expect(lines.count == 2 && lines[0].count <= 76 && lines[0].first == "…" && lines[0].last == "…")
        let marked = lines[1].indices.filter { lines[1][$0] == "^" }
        #expect(String(marked.map { lines[0][$0] }) == "imgae")
        // An error about another text points nowhere, and does not fail.
        #expect(far.shown(in: "a") == "a\n ^")
        #expect(far.shown(in: "").hasSuffix("^"))
    }

    // MARK: - Limits

    @Test func `large and deep queries are refused`() throws {
        #expect(code(String(repeating: "(", count: 1 << 20)) == .tooLong)
        #expect(code(String(repeating: "a", count: 4_097)) == .tooLong)
        #expect(try read(String(repeating: "(", count: 4_096)).condition == named(String(repeating: "(", count: 4_096)))
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + "a" + String(repeating: ")", count: depth)
        }
        #expect(try read(nested(64)).condition == named("a"))
        #expect(code(nested(65)) == .tooDeep)
        #expect(code(nested(2_000)) == .tooDeep)
        #expect(code(String(repeating: "NOT ", count: 1_000) + "a") == .tooDeep)
        #expect(code(String(repeating: "-(", count: 1_000) + "a" + String(repeating: ")", count: 1_000)) == .tooDeep)
        #expect(try read(String(repeating: "a ", count: 256)).condition.termCount == 256)
        #expect(code(String(repeating: "a ", count: 257)) == .tooManyTerms)
        #expect(code(String(repeating: "OR ", count: 1_000)) == .tooManyTerms)
    }

    private func code(_ text: String) -> QueryError.Code? {
        do {
            _ = try read(text)
            return nil
        } catch {
            return error.code
        }
    }

    @Test(arguments: ["NOT ~", "NOT ~\u{65C}", "NOT /usr", "NOT (/usr OR ~)", "NOT name:/usr"])
    func `a text that a hyphen does not negate is described in quotation marks`(_ text: String) throws {
        let query = try read(text)
        #expect(try read(query.description) == query, "\(query.description)")
    }

    @Test func `any text is read or refused, and its description reads the same`() {
        var random = SeededRandom.fromEnvironment(or: 16)
        let parts = [
            "(", ")", "\"", "-", "!", " ", " ", " ", "OR", "AND", "NOT", "|", "*", "?", "a", "B", "é", "e\u{301}",
            "\u{331}", "H",
            "kind:", "image", "size:", ">", "<", "=", "..", "5M", "modified:", "2024", "7d", "today", "@", "tag:",
            "regex:",
            "[a-c]", "name:", ",", "in:", "~/", "sort:", "name", "is:", "empty", "ext:", "\\", "\u{3000}", "\0",
            "content:",
            "rating:", "3", "foo:", "🙂", "\u{FFFD}", "/",
        ]
        var count = 0
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...14, using: &random)).compactMap { _ in
                parts.randomElement(using: &random)
            }
            .joined()
            do {
                let query = try read(text)
                let again = try? read(query.description)
                #expect(again == query, "\(random) \(text) → \(query.description)")
                count += 1
            } catch {
                #expect(error.range.upperBound <= text.utf8.count && !error.message.isEmpty)
                #expect(error.shown(in: text).hasSuffix("^"))
            }
        }
        #expect(count > 5_000)
    }

    @Test(arguments: [
        ("type:pdf", [SearchQuery.UnknownFilter(name: "type", nearest: "kind")]),
        ("stars:5 foo:bar foo:baz", [.init(name: "stars", nearest: "rating"), .init(name: "foo", nearest: nil)]),
        ("\"type:pdf\" https://x std::y Re: kind:image report", []), ("kind:nonsense", []),
    ])
    func `what looks like a filter and is text is told`(text: String, expected: [SearchQuery.UnknownFilter]) {
        #expect(SearchQuery.unknownFilters(in: text) == expected)
    }

    @Test func `the help keeps to its width, and its examples are read`() throws {
        let lines = SearchQuery.help.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.allSatisfy { $0.count <= 79 })
        let start = try #require(lines.firstIndex(of: "Examples:"))
        for line in lines[(start + 1)...] { #expect(throws: Never.self) { try read(String(line)) } }
        for field in Field.allCases { #expect(SearchQuery.help.contains("\(field.rawValue):"), "\(field)") }
        for kind in FileCategory.allCases { #expect(SearchQuery.help.contains(kind.rawValue), "\(kind)") }
        for key in SortKey.Field.allCases { #expect(SearchQuery.help.contains(key.rawValue), "\(key)") }
        for flag in EntryFlag.allCases { #expect(SearchQuery.help.contains(flag.rawValue), "\(flag)") }
    }

    /// The queries in the table of the help: at the beginning of a line, and those that what is beside them names.
    private static let documented: [String] = {
        let table = SearchQuery.help.split(separator: "\n").prefix { $0 != "Examples:" }
        let rows = table.filter { $0.hasPrefix("  ") }.map { $0.dropFirst(2) }
        var queries: [String] = []
        for row in rows {
            // The keys of an order are so long that one space has to do.
            let end = row.firstRange(of: row.hasPrefix("sort:") ? " " : "  ")?.lowerBound ?? row.endIndex
            // A list of values has no space in it.
            queries += row[..<end].split(separator: ", ").map(String.init)
            queries += row[end...].split { " ;,()".contains($0) }.map(String.init).filter { word in
                Field.allCases.contains { word.hasPrefix("\($0.rawValue):") && !word.hasSuffix(":") }
            }
        }
        return queries.filter { !$0.isEmpty }
    }()

    @Test func `every query of the help is read as what it is`() throws {
        #expect(Self.documented.count > 30 && Self.documented.contains("device:laptop"), "\(Self.documented)")
        for text in Self.documented {
            let query = try read(text)
            #expect(SearchQuery.unknownFilters(in: text).isEmpty, "\(text)")
            #expect(try read(query.description) == query, "\(text): \(query.description)")
            // What begins as a filter is one, and not a text with a colon.
            if Field.allCases.contains(where: { text.hasPrefix("\($0.rawValue):") }), !text.hasPrefix("sort:") {
                #expect(query.condition != named(NameFolding.folded(text)), "\(text)")
            }
        }
    }
}
