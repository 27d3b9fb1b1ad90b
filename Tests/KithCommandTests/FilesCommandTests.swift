import Foundation
import KithTesting
import Testing

@Suite struct FilesCommandTests {
    /// A folder of the laptop's that the phone may write.
    private func shared(_ laptop: Machine, with phone: Machine) async throws -> String {
        let folder = laptop.path("srv")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await laptop.invite(phone, "files:write=\(folder)")
        return folder
    }

    @Test func `cat, head and tail print what the coreutils print`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            try write((1...30).map { "line \($0)\n" }.joined(), to: srv + "/a")
            try write("no end", to: srv + "/b")
            try write("", to: srv + "/empty")
            try write("one\ntwo\nthree", to: srv + "/c")
            let (a, b, c) = (srv + "/a", srv + "/b", srv + "/c")
            let empty = srv + "/empty"
            for words in [
                ["cat", a, b, a], ["head", a], ["head", "-n", "3", a], ["head", "-n", "-3", a],
                ["head", "-n", "-1", c],
                ["head", "-n", "-3", c], ["head", "-n", "-4", c], ["head", "-n", "-0", c], ["head", "-c", "7", a],
                ["head", "-c", "-7", a], ["head", "-c", "1k", a], ["head", "-n", "0", a], ["head", "-q", a, b],
                ["tail", a], ["tail", "-n", "3", a], ["tail", "-n", "+28", a], ["tail", "-n", "-2", c],
                ["tail", "-c", "5", a], ["tail", "-c", "+200", a], ["tail", "-n", "1", b], ["tail", "-q", a, c],
                ["tail", "-n", "0", a], ["head", "-n", "2", empty], ["tail", "-n", "100", c], ["head", "-4", a],
                ["tail", "-4", a],
                ["head", "-2q", a, b], ["head", "-n", "-20", a], ["tail", "-c", "-20", a],
            ] {
                let expected = try Array(local(words))
                let own = words.map { $0.hasPrefix("/") ? "laptop:" + $0 : $0 }
                let outcome = try await phone.kith(own)
                #expect(outcome.status == 0 && Array(outcome.output) == expected, "\(words): \(outcome)")
            }
            // With several files, each has its name above it, which here is that of a device, too.
            for tool in ["head", "tail"] {
                let outcome = try await phone.expect(tool, "-n", "1", "laptop:\(a)", "laptop:\(empty)", "laptop:\(b)")
                let expected = try local([tool, "-n", "1", a, empty, b])
                #expect(outcome.replacingOccurrences(of: "==> laptop:", with: "==> ") == expected)
            }
            let range = try await phone.expect("cat", "--offset", "7", "--length", "6", "laptop:\(a)")
            #expect(range == "line 2")

            // One that fails does not keep the others back, and is told by the status.
            let partly = try await phone.kith(["cat", "laptop:\(srv)/none", "laptop:\(b)"])
            #expect(partly.output == "no end" && partly.status == 3 && partly.error.contains("none"), "\(partly)")
            #expect(mkfifo(srv + "/pipe", 0o600) == 0)
            for words in [["cat"], ["head"], ["tail", "-f"]] {
                let outcome = try await phone.kith(words + ["laptop:\(srv)/pipe"], seconds: 10)
                #expect(outcome.status == 10 && outcome.error.contains("not a regular file"), "\(words): \(outcome)")
            }
        }
    }

    @Test func `find joins tests and runs commands as the one of this machine does`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            for name in ["a.jpg", "b.png", "sub/c.jpg", "sub/cache/d.png", "sub/notes.txt", "e f.txt", "-g.jpg"] {
                try write(String(repeating: "x", count: name.utf8.count * 100), to: srv + "/" + name)
            }
            for words in [
                ["-name", "*.jpg", "-or", "-name", "*.png"], ["-name", "*.jpg", "-o", "-type", "d"],
                ["-not", "-name", "*.jpg"], ["!", "-name", "*.jpg", "-type", "f"], ["-not", "-not", "-type", "d"],
                ["(", "-name", "*.jpg", "-or", "-name", "*.png", ")", "-not", "-path", "*/cache/*"],
                ["-type", "f", "-not", "(", "-name", "*.txt", "-o", "-size", "-2", ")"],
                ["-name", "a*", "-or", "-name", "b*", "-type", "d", "-or", "-name", "c.jpg", "-maxdepth", "2"],
                ["-type", "f", "-and", "(", "(", "-name", "a*", ")", "-or", "(", "-name", "b*", ")", ")"],
            ] {
                let expected = try local(["find", srv] + words).split(separator: "\n").sorted()
                let outcome = try await phone.kith(["find", "laptop:\(srv)"] + words)
                #expect(outcome.status == 0, "\(words): \(outcome)")
                #expect(outcome.output.split(separator: "\n").sorted() == expected, "\(words)")
            }
            for words in [
                ["-or", "-name", "x"], ["-name", "x", "-or"], ["(", "-name", "x"], ["-name", "x", ")"], ["-not"],
                ["(", ")"], ["-name", "x", "-exec", "true"], ["-exec", ";"], ["-type", "q", "-or", "-name", "x"],
            ] {
                let outcome = try await phone.kith(["find", "laptop:\(srv)"] + words)
                #expect(outcome.status == 64 && !outcome.error.isEmpty, "\(words): \(outcome)")
            }
            // {} is what other commands take; without -print nothing else is printed.
            let mask = try await phone.expect(
                "find", "laptop:\(srv)", "-name", "a.jpg", "-exec", "grep", "SigBlk", "/proc/self/status", ";")
            #expect(mask == "SigBlk:\t0000000000000000\n")
            let each = try await phone.expect("find", "laptop:\(srv)", "-name", "*.txt", "-exec", "echo", "<{}>", ";")
            #expect(
                each.split(separator: "\n").sorted()
                    == ["<laptop:\(srv)/e f.txt>", "<laptop:\(srv)/sub/notes.txt>"])
            let together = try await phone.expect(
                "find", "laptop:\(srv)", "-type", "f", "-exec", "sh", "-c", "echo $#", "sh", "{}", "+")
            #expect(together == "7\n")
            let both = try await phone.expect(
                "find", "laptop:\(srv)", "-name", "a.jpg", "-print", "-exec", "echo", "{}", ";")
            #expect(both == "\(srv)/a.jpg\nlaptop:\(srv)/a.jpg\n")
            let failed = try await phone.kith(["find", "laptop:\(srv)", "-name", "*.jpg", "-exec", "false", ";"])
            #expect(failed.status == 1 && failed.output.isEmpty, "\(failed)")
            // What was found is deleted by kith itself, by the same names.
            let program = Machine.program.path
            try await phone.expect(
                "find", "laptop:\(srv)", "(", "-name", "*.jpg", "-or", "-name", "e*", ")", "-type", "f", "-exec",
                program,
                "rm", "--data", phone.data, "--", "{}", "+")
            #expect(
                try FileManager.default.subpathsOfDirectory(atPath: srv).sorted()
                    == ["b.png", "sub", "sub/cache", "sub/cache/d.png", "sub/notes.txt"])
        }
    }

    @Test func `find and du find and count what those of this machine do`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            for (index, name) in ["a/x.txt", "a/b/y.TXT", "a/b/c/z.md", "d/e.txt", "d/big"].enumerated() {
                try write(String(repeating: "0123456789", count: index * 5_000), to: "\(srv)/\(name)")
            }
            try FileManager.default.linkItem(atPath: srv + "/d/big", toPath: srv + "/a/b/again")
            try FileManager.default.createSymbolicLink(atPath: srv + "/a/link", withDestinationPath: srv)
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -9.5 * 86_400)], ofItemAtPath: srv + "/d/e.txt")
            #expect(truncate(srv + "/d/sparse", 0) != 0)
            try write("", to: srv + "/d/sparse")
            #expect(truncate(srv + "/d/sparse", 30_000_000) == 0)
            for words in [
                [], ["-name", "*.txt"], ["-iname", "*.txt"], ["-path", "*/b/*"], ["-type", "d"], ["-type", "f,l"],
                ["-size", "+40k"], ["-size", "-40k", "-type", "f"], ["-size", "98", "-type", "f"], ["-size", "+1M"],
                ["-mtime", "+8"], ["-mtime", "9"], ["-mtime", "-1", "-type", "f"], ["-maxdepth", "1"],
                ["-mindepth", "2"], ["-mmin", "-10", "-name", "?.*"], ["-size", "0", "-type", "f"],
                ["-maxdepth", "0"], ["-size", "50000c"], ["-mmin", "+60"],
            ] {
                let expected = try local(["find", srv] + words).split(separator: "\n").sorted()
                let outcome = try await phone.kith(["find", "laptop:\(srv)"] + words)
                #expect(outcome.status == 0, "\(outcome)")
                #expect(outcome.output.split(separator: "\n").sorted() == expected, "\(words)")
            }
            for words in [["-s"], [], ["-a"], ["-d", "1"], ["-h"], ["-sh"], ["-a", "-d", "1"], ["-sc"]] {
                let expected = try local(["du"] + words + [srv]).split(separator: "\n").sorted()
                let outcome = try await phone.kith(["du"] + words + ["laptop:\(srv)"])
                #expect(outcome.status == 0, "\(outcome)")
                #expect(outcome.output.split(separator: "\n").sorted() == expected, "\(words)")
            }
            // Of folders, coreutils before 9.2 counted what is no size of contents; later ones do not.
            let sizes = try local(["find", srv, "-type", "f,l", "-printf", "%i %s\\n"])
            let sum = Set(sizes.split(separator: "\n")).reduce(0) { $0 + (Int($1.split(separator: " ")[1]) ?? 0) }
            #expect(try await phone.expect("du", "-sb", "laptop:\(srv)") == "\(sum)\t\(srv)\n")
        }
    }

    @Test func `a name that would write to the terminal or end a line does neither`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            let evil = "a\u{1B}]0;owned\u{7}\nb\u{202E}c"
            try write("x", to: srv + "/" + evil)
            for words in [["find"], ["du", "-a"], ["ls"]] {
                let outcome = try await phone.kith(words + ["laptop:\(srv)"])
                #expect(outcome.status == 0, "\(outcome)")
                #expect(!outcome.output.unicodeScalars.contains("\u{1B}") && !outcome.output.contains("\nb"))
                #expect(outcome.output.contains("\\u{1b}"), "\(outcome)")
            }
            let exact = try await phone.expect("find", "laptop:\(srv)", "-type", "f", "-print0", "--with-device")
            #expect(exact == "laptop:\(srv)/\(evil)\0")
            let stat = try await phone.expect("stat", "--json", "laptop:\(srv)/\(evil)")
            let entry = try JSONSerialization.jsonObject(with: Data(stat.utf8)) as? [String: Any]
            #expect(entry?["size"] as? Int == 1 && entry?["links"] as? Int == 1 && entry?["inode"] != nil)
            #expect(try await phone.expect("stat", "-c", "%s %F %a%%", "laptop:\(srv)").hasSuffix(" directory 755%\n"))
        }
    }

    @Test func `a hundred thousand files are searched in bounded memory`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            for index in 0..<100_000 {
                let file = open("\(srv)/\(index)", O_CREAT | O_WRONLY, 0o600)
                try #require(file >= 0)
                close(file)
            }
            func peak(_ machine: Machine) async throws -> Int {
                let status = try String(
                    contentsOfFile: "/proc/\(try await machine.daemonPID())/status", encoding: .utf8)
                let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
                return try #require(Int(line.filter(\.isNumber)))
            }
            try await phone.expect("find", "laptop:\(srv)", "-maxdepth", "0")
            let before = try await [peak(laptop), peak(phone)]
            #expect(try await phone.expect("find", "laptop:\(srv)").split(separator: "\n").count == 100_001)
            #expect(try await phone.expect("du", "-s", "laptop:\(srv)").hasSuffix("\t\(srv)\n"))
            let after = try await [peak(laptop), peak(phone)]
            print("peak of the laptop, the phone: \(before) kB before, \(after) kB after")
            for (before, after) in zip(before, after) { #expect(after - before < 40_000) }
        }
    }

    @Test func `tail -f prints what is added to several files, through rotation`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            try write("first\n", to: srv + "/one")
            try write("second\n", to: srv + "/two")
            let tail = try phone.start(["tail", "-f", "laptop:\(srv)/one", "laptop:\(srv)/two"])
            let output = LineWatch(tail)
            try await output.wait(for: "second\n")
            try append("more\n", to: srv + "/two")
            try await output.wait(for: "more\n")
            try append("other\n", to: srv + "/one")
            try await output.wait(for: "==> laptop:\(srv)/one <==\nother\n")
            #expect(rename(srv + "/one", srv + "/one.1") == 0)
            try write("rotated\n", to: srv + "/one")
            try await output.wait(for: "rotated\n")
            #expect(truncate(srv + "/two", 0) == 0)
            try append("anew\n", to: srv + "/two")
            try await output.wait(for: "anew\n")
            kill(tail.process.processIdentifier, SIGINT)
            _ = try await tail.outcome(seconds: 10)
            #expect(output.text.hasPrefix("==> laptop:\(srv)/one <==\nfirst\n\n==> laptop:\(srv)/two <==\nsecond\n"))
        }
    }

    private func append(_ text: String, to path: String) throws {
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(text.utf8))
        try handle.close()
    }

    @Test func `moving and deleting ask before they destroy, and refuse the top`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            try write("a", to: srv + "/a")
            try write("b", to: srv + "/b")
            try write("c", to: srv + "/folder/c")
            func expect(_ status: Int32, _ words: String, _ arguments: String...) async throws {
                let outcome = try await phone.kith(arguments)
                #expect(outcome.status == status && outcome.error.contains(words), "\(arguments): \(outcome)")
            }
            try await expect(4, "-f", "mv", "laptop:\(srv)/a", "laptop:\(srv)/b")
            try await phone.expect("mv", "-n", "laptop:\(srv)/a", "laptop:\(srv)/b")
            #expect(try String(contentsOfFile: srv + "/b", encoding: .utf8) == "b")
            try await phone.expect("mv", "-f", "laptop:\(srv)/a", "laptop:\(srv)/b")
            #expect(try String(contentsOfFile: srv + "/b", encoding: .utf8) == "a")
            try await expect(10, "kith cp", "mv", "laptop:\(srv)/b", "phone:/tmp/b")
            try write("d", to: srv + "/d")
            try await phone.expect("mv", "laptop:\(srv)/b", "laptop:\(srv)/d", "laptop:\(srv)/folder")
            #expect(try FileManager.default.contentsOfDirectory(atPath: srv + "/folder").sorted() == ["b", "c", "d"])

            try await expect(4, "-r", "rm", "laptop:\(srv)/folder")
            try await expect(64, "-f or -y", "rm", "-r", "laptop:\(srv)/folder")
            for top in ["laptop:/", "laptop:", "laptop:~/", "laptop:\(srv)", "laptop:\(srv)/", "laptop:///."] {
                let outcome = try await phone.kith(["rm", "-rf", top])
                #expect(outcome.status == 64 || outcome.status == 5, "\(top): \(outcome)")
            }
            #expect(FileManager.default.fileExists(atPath: srv + "/folder/c"))
            try FileManager.default.createSymbolicLink(atPath: srv + "/link", withDestinationPath: srv + "/folder")
            try await phone.expect("rm", "-rf", "laptop:\(srv)/link")
            #expect(FileManager.default.fileExists(atPath: srv + "/folder/c"))
            try await phone.expect("rm", "-ry", "laptop:\(srv)/folder")
            try await phone.expect("rm", "-f", "laptop:\(srv)/folder", "laptop:\(srv)/none")
            try await expect(3, "none", "rm", "laptop:\(srv)/none")
            #expect(try FileManager.default.contentsOfDirectory(atPath: srv).isEmpty)

            try await phone.expect("mkdir", "-p", "-m", "700", "laptop:\(srv)/x/y", "laptop:\(srv)/z")
            let attributes = try FileManager.default.attributesOfItem(atPath: srv + "/x/y")
            #expect(attributes[.posixPermissions] as? Int == 0o700)
        }
    }

    @Test func `an edited file is written back whole, unless somebody else was faster`() async throws {
        try await withTwoMachines { laptop, phone in
            let srv = try await shared(laptop, with: phone)
            let file = srv + "/notes.txt"
            try write("old\n", to: file)
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: file)
            try FileManager.default.createSymbolicLink(atPath: srv + "/link", withDestinationPath: "notes.txt")
            let trace = phone.path("trace")
            let temporary = phone.path("temporary")
            try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
            func edit(_ name: String, _ script: String) async throws -> Machine.Outcome {
                try await phone.start(
                    ["edit", "laptop:\(srv)/\(name)"],
                    environment: [
                        "VISUAL": "", "XDG_RUNTIME_DIR": temporary,
                        "EDITOR": "f() { stat -c '%a' \"$1\" \"$(dirname \"$1\")\" >'\(trace)'; \(script); }; f",
                    ]
                ).outcome(seconds: 30)
            }
            func left() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: temporary) }

            let changed = try await edit("link", "echo new >>\"$1\"")
            #expect(changed.status == 0, "\(changed)")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "old\nnew\n")
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int == 0o640)
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: srv + "/link") == "notes.txt")
            #expect(try String(contentsOfFile: trace, encoding: .utf8) == "600\n700\n")
            #expect(try left().isEmpty)

            let before = try FileManager.default.attributesOfItem(atPath: file)[.systemFileNumber] as? Int
            let same = try await edit("notes.txt", "touch \"$1\"")
            #expect(same.status == 0 && same.error.contains("nothing was written"), "\(same)")
            #expect(try FileManager.default.attributesOfItem(atPath: file)[.systemFileNumber] as? Int == before)

            let lost = try await edit("notes.txt", "echo mine >\"$1\"; echo theirs >'\(file)'")
            #expect(lost.status == 4, "\(lost)")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "theirs\n")
            let kept = try #require(try left().first)
            #expect(lost.error.contains("\(temporary)/\(kept)/notes.txt"), "\(lost)")
            #expect(try String(contentsOfFile: "\(temporary)/\(kept)/notes.txt", encoding: .utf8) == "mine\n")
            try FileManager.default.removeItem(atPath: "\(temporary)/\(kept)")

            let failed = try await edit("notes.txt", "echo mine >\"$1\"; return 3")
            #expect(failed.status == 9 && failed.error.contains("status 3"), "\(failed)")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "theirs\n")
            let rescued = try #require(try left().first)
            #expect(failed.error.contains("\(temporary)/\(rescued)/notes.txt"), "\(failed)")
            #expect(try String(contentsOfFile: "\(temporary)/\(rescued)/notes.txt", encoding: .utf8) == "mine\n")
            try FileManager.default.removeItem(atPath: "\(temporary)/\(rescued)")
            let aborted = try await edit("notes.txt", "return 1")
            #expect(aborted.status == 9 && !aborted.error.contains("kept"), "\(aborted)")
            let made = try await edit("new.txt", "echo made >\"$1\"")
            #expect(made.status == 0, "\(made)")
            #expect(try String(contentsOfFile: srv + "/new.txt", encoding: .utf8) == "made\n")
            let folder = try await edit("", "true")
            #expect(folder.status == 4 && folder.error.contains("folder"), "\(folder)")
            #expect(try left().isEmpty)
        }
    }
}

/// The output so far of a running command.
final class LineWatch: Sendable {
    private let running: Running

    init(_ running: Running) { self.running = running }

    /// All so far.
    var text: String { running.soFar }

    /// Waits until the text ends with `end`.
    func wait(for end: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        do {
            try await eventually { text.hasSuffix(end) }
        } catch {
            Issue.record(error, "\(text)", sourceLocation: sourceLocation)
            throw error
        }
    }
}
