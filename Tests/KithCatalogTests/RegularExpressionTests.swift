import KithTesting
import Testing

@testable import KithCatalog

@Suite struct RegularExpressionTests {
    @Test(
        arguments: [
            ("abc", "xABCx", true), ("^abc", "xabc", false), ("abc$", "abcx", false), ("^$", "", true),
            ("^$", "a", false),
            ("", "", true), ("", "a", true), ("a|", "b", true), ("a.c", "a\nc", false), ("a.c", "aéc", true),
            ("a\\.c", "abc", false),
            ("[a-c]+$", "xyzab", true), ("^[^a-c]+$", "xyA", false), ("[]", "", false), ("[\\]x]", "]", true),
            ("[a-]", "-", true),
            ("[-a]", "-", true), ("[\\d_]", "٣", true), ("\\d{4}", "IMG_2024", true), ("^\\d{4}$", "20245", false),
            ("^a{2,3}$", "aa", true), ("^a{2,3}$", "aaaa", false), ("^a{,2}$", "aaa", false),
            ("^a{2,}$", "aaaaa", true),
            ("a{x", "a{x", true), ("a{}", "a{}", true), ("^(ab|c)*d$", "ababcd", true), ("^(?:ab)+$", "aba", false),
            ("\\bfoo\\b", "a foo.txt", true), ("\\bfoo\\b", "food", false), ("\\Boo", "foo", true),
            ("\\Bfoo", "foo", false),
            ("\\bé", "é", true), ("\\w\\W\\s\\S", "é- x", true), ("\\D", "12", false), ("straße", "STRASSE", false),
            ("(?-i)abc", "ABC", false), ("(?-i)Abc", "Abc", true), ("a(?-i)B", "AB", true), ("a(?-i)B", "Ab", false),
            ("(?-i:A)b", "AB", true), ("(?-i:A)b", "ab", false), ("(?-i)a(?i)b", "aB", true), ("((?-i)A)b", "AB", true),
            ("[A-Z]x", "qx", true), ("(?-i)[A-Z]x", "qx", false), ("[^a]", "A", false), ("é", "e\u{301}", true),
            ("e\u{301}", "É", true), ("\\u{1F600}", "😀", true), ("\\t", "\t", true), ("s", "ſ", false),
            ("Σ", "σ", true),
            ("a+?b", "aab", true), ("a{2}?b", "aab", true), ("(a*)*b", "aaab", true), ("(a*)+$", "b", true),
            ("(|a)+b", "ab", true),
            ("^(^a|b)*$", "ab", true), ("x*", "", true), ("(\\b)*a", "a", true), ("\\b1\\b", "-1.", true),
            ("a\\b1", "a1", false),
        ] as [(String, String, Bool)])
    func `an expression matches what it says`(_ pattern: String, _ text: String, _ result: Bool) throws {
        guard pattern != "[]" else {
            #expect(throws: RegularExpression.Fault.self) { try RegularExpression(pattern) }
            return
        }
        #expect(try RegularExpression(pattern).matches(text) == result)
    }

    @Test(arguments: [
        ("a(b", 1, 2), ("a)b", 1, 2), ("[ab", 0, 1), ("*a", 0, 1), ("a|+", 2, 3), ("a**", 1, 3), ("a{2}{3}", 1, 7),
        ("a*{3}", 1, 5),
        ("a{3,2}", 1, 6), ("a{1001}", 1, 7), ("\\", 0, 1), ("\\q", 0, 2), ("\\1", 0, 2), ("\\u{110000}", 0, 10),
        ("\\u41", 0, 2),
        ("[z-a]", 1, 4), ("(?=a)", 0, 3), ("(?<n>a)", 0, 3), ("(?i*)", 0, 4), ("a++", 1, 3), ("[a-\\d]", 3, 5),
    ])
    func `what is no expression is refused where it is wrong`(_ pattern: String, _ start: Int, _ end: Int) {
        let fault = #expect(throws: RegularExpression.Fault.self) { try RegularExpression(pattern) }
        #expect(fault?.range == start..<end, "\(fault?.message ?? "")")
    }

    @Test func `expressions that make others hang take no time`() throws {
        let text = String(repeating: "a", count: 10_000)
        for pattern in [
            "(a*)*b", "(a+)+b", "(a|a)*b", "(a|aa)+$b", "((a*)*)*b", "(.*)(.*)(.*)(.*)[^a]b", "(a?){300}a{300}b",
        ] {
            #expect(try !RegularExpression(pattern).matches(text))
        }
        #expect(try RegularExpression("(a?){200}a{200}").matches(text))
        // A large class, in as many states as there may be.
        let members = (0..<2_000).compactMap { Unicode.Scalar(0x4E00 + $0 * 2).map(String.init) }.joined()
        let large = try RegularExpression("[\(members)]{900}z")
        #expect(!large.matches(String(repeating: "\u{4E00}", count: 2_000)))
    }

    @Test func `large expressions are refused before they are built`() throws {
        for pattern in [
            "a{1000}", "(a{100}){100}", "((((a{99}){99}){99}){99}){99}", "(.{0,500}){3}",
            String(repeating: "a", count: 1_000),
            String(repeating: "(", count: 65) + "a" + String(repeating: ")", count: 65),
        ] {
            #expect(throws: RegularExpression.Fault.self) { try RegularExpression(pattern) }
        }
        #expect(try RegularExpression(String(repeating: "a", count: 999)).matches(String(repeating: "A", count: 999)))
        // Nothing, a thousand to the twentieth times.
        let nothing = (0..<20).reduce("()") { text, _ in "(\(text)){1000}" }
        #expect(try RegularExpression(nothing).matches(""))
        let plus = (0..<60).reduce("ab") { text, _ in "(\(text))+" }
        #expect(try RegularExpression(plus).requiredText == "ab")
    }

    @Test(
        arguments: [
            ("report", "repor"), ("日本", "日本"), ("отчёт$", "отчё"), ("reports", "reports"), ("^IMG_\\d+\\.jpg$", "img_"),
            ("a|b", nil), ("x*", nil), ("fo+bar", "obar"), ("(abc)+d", "abcd"),
            ("(?:foo)bar", "foobar"), ("a(b|c)defg", "defg"), ("ab?cde", "cde"), ("[x]yz", "xyz"), ("a.bcd.e", "bcd"),
            ("Foo$|bar", nil), ("(foo|bar)bazzz", "bazzz"), ("", nil), ("flight", "fligh"), ("flight\\.", "flight."),
            ("\\bfoo\\b", "foo"), ("a{3}b", "ab"), ("(?-i)ABC", "abc"), ("naïve", "naïve"), ("né", "n"),
        ] as [(String, String?)])
    func `the text that is required is found`(_ pattern: String, _ text: String?) throws {
        #expect(try RegularExpression(pattern).requiredText == text)
    }

    @Test func `a required text is part of every folded match`() {
        var random = SeededRandom.fromEnvironment(or: 17)
        let letters = ["a", "b", "H", "h", "\u{331}", "é", "e", "\u{301}", "Σ", "ſ", "İ", "ß", "K"]
        var count = 0
        for _ in 0..<20_000 {
            let pattern = Self.pattern(letters, edges: ["^", "$", "\\b", "\\B"], depth: 2, &random)
            guard let expression = try? RegularExpression(pattern), let required = expression.requiredText else {
                continue
            }
            let text = (0..<8).compactMap { _ in letters.randomElement(using: &random) }.joined()
            guard expression.matches(text) else { continue }
            count += 1
            #expect(
                FoldedMatching.contains(required, in: text),
                "\(random) \(pattern.debugDescription) \(text.debugDescription)")
        }
        #expect(count > 300)
    }

    @Test func `random expressions match what Swift's match`() throws {
        var random = SeededRandom.fromEnvironment(or: 18)
        var matches = 0
        for round in 0..<3_000 {
            // To Swift's simple edges of words a digit is no part of a word, so that those are tried without digits.
            let letters = round % 2 == 0 ? ["a", "b", "c", "_"] : ["a", "b", "c", "_", "1"]
            let edges = ["^", "$"] + (round % 2 == 0 ? ["\\b", "\\B"] : [])
            let pattern = Self.pattern(letters, edges: edges, depth: 3, &random)
            let theirs = try Regex(pattern).matchingSemantics(.unicodeScalar).wordBoundaryKind(.simple)
            let ours = try RegularExpression(pattern)
            for _ in 0..<6 {
                let text = (0..<Int.random(in: 0...7, using: &random))
                    .compactMap { _ in (letters + ["-"]).randomElement(using: &random) }.joined()
                let expected = try theirs.firstMatch(in: text) != nil
                #expect(ours.matches(text) == expected, "\(random) \(pattern) \(text)")
                if expected { matches += 1 }
            }
        }
        #expect(matches > 1_000 && matches < 17_000)
    }

    /// A random expression over some letters.
    private static func pattern(_ letters: [String], edges: [String], depth: Int, _ random: inout SeededRandom)
        -> String
    {
        func letter() -> String { letters.randomElement(using: &random) ?? "a" }
        func part() -> String {
            let atom =
                switch Int.random(in: 0..<12, using: &random) {
                case 0: "."
                case 1: "[\(letter())\(letter())]"
                case 2: "[^\(letter())]"
                case 3: "\\w"
                case 4: "\\d"
                case 5 where depth > 0: "(\(pattern(letters, edges: edges, depth: depth - 1, &random)))"
                case 6 where depth > 0: "(?:\(pattern(letters, edges: edges, depth: depth - 1, &random)))"
                default: letter()
                }
            switch Int.random(in: 0..<14, using: &random) {
            case 0: return atom + "*"
            case 1: return atom + "+"
            case 2: return atom + "?"
            case 3: return atom + "{2}"
            case 4: return atom + "{1,3}"
            case 5: return atom + "{0,2}?"
            case 6: return edges.randomElement(using: &random) ?? "^"
            default: return atom
            }
        }
        let branches = (0..<(Int.random(in: 0..<4, using: &random) == 0 ? 2 : 1)).map { _ in
            (0..<Int.random(in: 1...4, using: &random)).map { _ in part() }.joined()
        }
        return branches.joined(separator: "|")
    }
}
