import Testing

@testable import KithCommandLine

@Suite struct CompletionTests {
    private func complete(_ words: String..., current: String = "") -> Completion {
        Completion(words: words, current: current, root: Sample.root)
    }

    @Test func `commands are offered where a command stands, hidden ones not`() {
        #expect(complete().candidates.map(\.word) == ["up", "shell", "cp", "call", "service"])
        #expect(complete(current: "s").candidates.map(\.word) == ["shell", "service"])
        #expect(complete("service").candidates.map(\.word) == ["install"])
        #expect(complete("help", current: "c").candidates.map(\.word) == ["cp", "call"])
        #expect(complete("nothing").candidates.isEmpty)
    }

    @Test func `options are offered by their long names, each once unless it repeats`() {
        let words = complete("shell", "--directory", "/", "--env", "A", "-q", current: "--").candidates.map(\.word)
        #expect(words == ["--data", "--json", "--help", "--terminal", "--env", "--escape"])
        #expect(complete("shell", "x", "--", current: "-").candidates.isEmpty)
    }

    @Test func `the value of an option is completed as what it is`() {
        #expect(complete("cp", "--when").candidates.map(\.word) == ["now", "later", "never ever"])
        #expect(complete("cp", current: "--when=n").candidates.map(\.word) == ["--when=now", "--when=never ever"])
        #expect(complete("cp", "--data").sources == [.folders])
        #expect(complete("call", "m", current: "--on=la").sources == [.devices])
        #expect(complete("call", "m", "--on").sources == [.devices])
        #expect(complete("call", "m", "-qr", "--on", "x").sources == [.members(method: "m", device: "x")])
        #expect(complete("call", "m", "{}", "-qr", "--on", "x").sources.isEmpty)
    }

    @Test func `a method's input is completed by the names of its members, each once`() {
        func words(_ current: String, _ more: String...) -> [String] {
            var completion = Completion(words: ["call"] + more + ["files.list"], current: current, root: Sample.root)
            guard completion.sources == [.members(method: "files.list", device: more.last)] else { return [] }
            completion.add(members: [("path", "text, required"), ("after", "base64"), ("pa\"th", "")])
            #expect(completion.candidates.allSatisfy { $0.isPartial && !$0.help.isEmpty })
            return completion.candidates.map(\.word)
        }
        #expect(words("") == [#"{"path":"#, #"{"after":"#])
        #expect(words("", "--on", "laptop") == [#"{"path":"#, #"{"after":"#])
        #expect(words("{") == [#"{"path":"#, #"{"after":"#])
        #expect(words(#"{ "p"#) == [#"{ "path":"#])
        #expect(words(#"{"path": "/a,b\"{", "#) == [#"{"path": "/a,b\"{", "after":"#])
        #expect(words(#"{"x": {"path": [1, {"after": 2}]},"#).count == 2)
        for elsewhere in [#"{"path": "#, #"{"path": "af"#, #"{"x": {"#, #"{"x": ["#, "{}", #"{"path""#, "[", "p", "{p"]
        {
            #expect(words(elsewhere) == [], "\(elsewhere)")
        }
    }

    @Test func `devices stand where a device stands, and not behind the terminator`() {
        #expect(complete("shell", current: "l").sources == [.devices])
        #expect(complete("shell", "laptop").sources.isEmpty)
        #expect(complete("shell", "laptop", "--", current: "l").sources.isEmpty)
        #expect(complete("shell", "-t", "-C", "/tmp", current: "l").sources == [.devices])
    }

    @Test func `a path is of this device until a colon makes it another's`() {
        #expect(complete("cp", current: "la").sources == [.devicesForPaths, .files])
        #expect(complete("cp", current: "./la").sources == [.files])
        #expect(complete("cp", current: "laptop:").sources == [.remote(device: "laptop", folder: "", prefix: "")])
        #expect(
            complete("cp", "a", current: "laptop:/srv/ph").sources == [
                .remote(device: "laptop", folder: "/srv/", prefix: "ph")
            ])
        #expect(complete("cp", current: "./a:b/c").sources == [.files])
    }

    @Test func `names are put behind what stands before them, folders going on`() {
        var completion = complete("cp", current: "laptop:/srv/p")
        completion.add(names: [
            ("photos", true), ("pi:ch", false), (".private", true), ("notes", false), ("p\nq", false),
        ])
        #expect(completion.candidates.map(\.word) == ["laptop:/srv/photos/", "laptop:/srv/pi:ch"])
        #expect(completion.candidates.map(\.isPartial) == [true, false])
        completion = complete("cp", current: "laptop:/srv/.")
        completion.add(names: [(".private", true)])
        #expect(completion.candidates.map(\.word) == ["laptop:/srv/.private/"])
        completion = complete("cp", current: "lap")
        completion.add(devices: [("laptop", "online"), ("phone", "")], withColon: true)
        #expect(completion.candidates == [Completion.Candidate("laptop:", help: "online", isPartial: true)])
    }

    // MARK: - Bash

    @Test(arguments: [
        ("kith cp my\\ fi", ["kith", "cp"], "my fi"), ("kith cp 'a b", ["kith", "cp"], "a b"),
        ("kith  cp \"a \\\"b\" c", ["kith", "cp", "a \"b"], "c"), ("kith cp \"a\\b", ["kith", "cp"], "a\\b"),
        ("kith cp '' ", ["kith", "cp", ""], ""), ("kith cp lap\"top:/a b\"c", ["kith", "cp"], "laptop:/a bc"),
        ("kith cp a\\", ["kith", "cp"], "a"),
    ])
    func `a line is taken apart as bash does`(line: String, words: [String], current: String) {
        let line = ShellLine(line)
        #expect(line.words == words)
        #expect(line.current == current)
    }

    @Test(arguments: [
        // What readline replaces is what stands behind the last colon, equals sign or open quote.
        ("kith cp laptop:/a", "/a", "laptop:/a b", "/a\\ b "),
        ("kith cp laptop:/a:", "", "laptop:/a:b", "b "),
        ("kith cp 'laptop:/a", "laptop:/a", "laptop:/a b's", "laptop:/a b'\\''s"),
        ("kith cp \"laptop:/a", "laptop:/a", "laptop:/a $b", "laptop:/a \\$b"),
        ("kith cp \"laptop:/a \"b", "b", "laptop:/a bc", "bc "),
        ("kith call --on=l", "l", "--on=laptop", "laptop "),
        ("kith cp ~/a", "~/a", "~/a b", "~/a\\ b "),
        ("kith cp a", "a", "a;b&c|d", "a\\;b\\&c\\|d "),
    ])
    func `the rest of a word is quoted as the place needs it`(
        line: String, replaced: String, word: String, expected: String
    ) {
        #expect(ShellLine(line).replacement(for: Completion.Candidate(word), replacing: replaced) == expected)
    }

    @Test func `a word that goes on gets no blank`() {
        let candidate = Completion.Candidate("laptop:", isPartial: true)
        #expect(ShellLine("kith cp la").replacement(for: candidate, replacing: "la") == "laptop:")
    }
}
