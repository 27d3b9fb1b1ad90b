import KithCommandLine
import Testing

@Suite struct HelpTextTests {
    @Test func `a paragraph is one line, for the terminal to break`() {
        #expect(helpText("one\ntwo\n\nthree") == "one two\n\nthree")
    }

    @Test func `examples stay lines, and end a paragraph`() {
        #expect(
            helpText("above:\n  kith up\n  kith down   stop\nbelow\nit")
                == "above:\n  kith up\n  kith down   stop\nbelow it")
    }

    @Test func `a long comment goes on below itself`() {
        let text = helpText("  kith cp a b     one two three four", columns: 30)
        #expect(text == "  kith cp a b     one two\n                  three four")
    }

    @Test func `a comment at the far right gets lines of its own`() {
        let text = helpText("  kith forward laptop -L 8080:x:80  what it is for", columns: 40)
        #expect(text == "  kith forward laptop -L 8080:x:80\n      what it is for")
    }

    @Test func `words that are too long are left whole`() {
        let text = helpText("  abc  \(String(repeating: "x", count: 50)) y", columns: 20)
        #expect(text == "  abc  \(String(repeating: "x", count: 50))\n       y")
    }
}
