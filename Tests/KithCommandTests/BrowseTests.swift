import Foundation
import KithTesting
import Testing

@Suite struct BrowseTests {
    /// Runs `body` with a browser on the phone, whose left pane shows a folder of the phone's and whose right one a
    /// folder of the laptop's that it may write.
    private func browsing(
        _ prepare: (_ here: String, _ there: String) throws -> Void,
        _ body: (_ browser: Tmux, _ here: String, _ there: String) async throws -> Void
    ) async throws {
        try await withTwoMachines { laptop, phone in
            let (here, there) = (phone.path("here"), laptop.path("srv"))
            for folder in [here, there] {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            }
            try prepare(here, there)
            try await laptop.invite(phone, "files:write=\(there)")
            let browser = try Tmux(phone, ["browse", here, "laptop:\(there)"])
            defer { browser.end() }
            try await browser.show("laptop:")
            try await body(browser, here, there)
        }
    }

    /// Everything in a folder: paths, with what is in files and where links lead.
    private func tree(_ folder: String) throws -> [String: String] {
        var tree: [String: String] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder) {
            let full = folder + "/" + path
            let kind = try FileManager.default.attributesOfItem(atPath: full)[.type] as? FileAttributeType
            switch kind {
            case .typeSymbolicLink?:
                tree[path] = "-> " + (try FileManager.default.destinationOfSymbolicLink(atPath: full))
            case .typeDirectory?: tree[path] = "folder"
            default: tree[path] = try Data(contentsOf: URL(fileURLWithPath: full)).base64EncodedString()
            }
        }
        return tree
    }

    @Test func `a tree is copied to a device, and another one from it`() async throws {
        try await browsing({ here, there in
            for index in 0..<40 { try write("file \(index)\n", to: "\(here)/going/sub \(index % 4)/f\(index)") }
            try FileManager.default.createDirectory(
                atPath: here + "/going/empty", withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(atPath: here + "/going/link", withDestinationPath: "sub 1/f1")
            try CopyTests.bytes(3_000_000, seed: 4).write(to: URL(fileURLWithPath: here + "/going/large"))
            try write("came back\n", to: there + "/coming/a/b/c/deep.txt")
        }) { browser, here, there in
            try await browser.show("going/")
            try await browser.show("coming/")
            try browser.press("Down", "F5")
            try await browser.show("Copy going to")
            try browser.press("Enter")
            try await browser.show("Copied 41 files")
            #expect(try tree(here + "/going") == tree(there + "/going"))
            try browser.press("Tab", "Down", "c")
            try await browser.show("Copy coming to")
            try browser.press("Enter")
            try await browser.show("Copied 1 file")
            #expect(try tree(here + "/coming") == tree(there + "/coming"))
            // Again: what is there is asked about, and the same is not sent again.
            try browser.press("c")
            try await browser.show("Copy coming to")
            try browser.press("Enter")
            try await browser.show("Already there")
            try browser.press("r")
            try await browser.show("unchanged")
        }
    }

    @Test func `a tree is copied here, on a device, and from one device to another`() async throws {
        try await withTwoMachines { laptop, phone in
            let nas = try Machine("nas")
            do {
                try await nas.up()
                let folders = [phone.path("here"), laptop.path("srv"), nas.path("disk")]
                for folder in folders {
                    try write("one\n", to: folder + "/from/tree/sub/one.txt")
                    try FileManager.default.createDirectory(atPath: folder + "/to", withIntermediateDirectories: true)
                }
                try await laptop.invite(phone, "files:write=\(folders[1])")
                try await nas.invite(phone, "files:write=\(folders[2])")
                let ends = [folders[0], "laptop:" + folders[1], "nas:" + folders[2]]
                for (from, to) in [(0, 0), (1, 1), (1, 2)] {
                    let browser = try Tmux(phone, ["browse", ends[from] + "/from", ends[to] + "/to"])
                    defer { browser.end() }
                    try await browser.show("tree/")
                    try browser.press("Home", "Down", "c")
                    try await browser.show("Copy tree to")
                    try browser.press("Enter")
                    try await browser.show("Copied 1 file")
                    #expect(try tree(folders[from] + "/from") == tree(folders[to] + "/to"))
                    // Onto itself nothing is copied.
                    if from == to {
                        try browser.press("Tab", "Home", "Down", "Enter")
                        try await browser.show("sub/")
                        try browser.press("Tab", "c")
                        try await browser.show("Copy tree to")
                        try browser.press("C-a", "C-k")
                        try browser.type(ends[from] + "/from/tree/sub")
                        try await browser.show("into itself")
                    }
                }
            } catch {
                await nas.remove()
                throw error
            }
            await nas.remove()
        }
    }

    @Test func `files are renamed, folders made, and nothing deleted without a yes`() async throws {
        try await browsing({ _, there in
            try write("1", to: there + "/note.txt")
            try write("2", to: there + "/old/inner.txt")
        }) { browser, _, there in
            try await browser.show("note.txt")
            try browser.press("Tab", "End", "F6")
            try await browser.show("Rename note.txt to")
            try browser.send("-2")
            try browser.press("Enter")
            try await browser.show("Renamed to note-2.txt")
            try browser.press("F7")
            try await browser.show("Make a folder")
            try browser.type("neu")
            try await browser.show("Made neu")
            #expect(try Set(FileManager.default.contentsOfDirectory(atPath: there)) == ["note-2.txt", "neu", "old"])
            try browser.press("Home", "Down", "Down", "F8")
            try await browser.show("old/  with everything in it")
            try browser.press("Enter", "Escape")
            try browser.press("F8")
            try await browser.show("Delete this folder?")
            #expect(FileManager.default.fileExists(atPath: there + "/old/inner.txt"))
            try browser.press("y")
            try await browser.show("Deleted old")
            #expect(try Set(FileManager.default.contentsOfDirectory(atPath: there)) == ["note-2.txt", "neu"])
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func `a device that does not answer holds nothing up, and a copy to it can be stopped`() async throws {
        try await withTwoMachines { laptop, phone in
            let (here, there) = (phone.path("here"), laptop.path("srv"))
            try write("1", to: there + "/sub/one.txt")
            try write("2", to: here + "/two.txt")
            let large = here + "/large"
            try Data().write(to: URL(fileURLWithPath: large))
            let file = try FileHandle(forWritingTo: URL(fileURLWithPath: large))
            let block = CopyTests.bytes(8 << 20, seed: 5)
            for _ in 0..<40 { try file.write(contentsOf: block) }
            try file.close()
            try await laptop.invite(phone, "files:write=\(there)")
            let daemon = try await laptop.daemonPID()
            defer { kill(daemon, SIGCONT) }
            let browser = try Tmux(phone, ["browse", here, "laptop:\(there)"])
            defer { browser.end() }
            try await browser.show("sub/")
            kill(daemon, SIGSTOP)
            try browser.press("Tab", "Down", "Enter")
            try await browser.show("listing, Esc stops")
            // What was shown is still there, and the other pane works.
            #expect(try browser.screen().contains("sub/"))
            try browser.press("Tab", "End")
            try await browser.show("two.txt  -rw")
            try browser.press("Tab", "Escape")
            try await browser.show("Stopped listing")
            kill(daemon, SIGCONT)
            try browser.press("Enter")
            try await browser.show("one.txt")

            try browser.press("Tab", "Home", "Down", "c")
            try await browser.show("Copy large to")
            try browser.press("Enter")
            try await browser.show("of 336 MB")
            kill(daemon, SIGSTOP)
            try browser.press("C-x")
            try await browser.show("The copy was cancelled.")
            kill(daemon, SIGCONT)
            #expect(!FileManager.default.fileExists(atPath: there + "/sub/large"))
            try browser.press("c", "Enter")
            try await browser.show("Copied 1 file")
            #expect(FileManager.default.contentsEqual(atPath: here + "/large", andPath: there + "/sub/large"))
            // Leaving waits for nobody.
            kill(daemon, SIGSTOP)
            try browser.press("Tab", "R")
            try await browser.show("listing, Esc stops")
            try browser.press("F10")
            try await eventually { try browser.value("#{alternate_on}") != "1" }
        }
    }

    @Test(.timeLimit(.minutes(4))) func `the mouse selects, opens and scrolls`() async throws {
        try await browsing({ here, _ in
            for index in 10..<60 { try write("\(index)", to: "\(here)/f\(index)") }
            try write("deep", to: here + "/sub/deep.txt")
        }) { browser, _, _ in
            try await browser.show("f10")
            try browser.send("\u{1B}[<0;5;5M\u{1B}[<0;5;5m")
            try await browser.show("f10  -rw")
            try browser.send("\u{1B}[<65;5;5M\u{1B}[<65;5;5M\u{1B}[<65;5;5M")
            try await browser.show("f35")
            try browser.send("\u{1B}[<64;5;5M\u{1B}[<64;5;5M\u{1B}[<64;5;5M\u{1B}[<64;5;5M")
            try await browser.show("sub/")
            try browser.send("\u{1B}[<0;5;4M\u{1B}[<0;5;4m\u{1B}[<0;5;4M\u{1B}[<0;5;4m")
            try await browser.show("deep.txt")
            try browser.send("\u{1B}[<0;76;24M\u{1B}[<0;76;24m")
            try await eventually { try browser.value("#{alternate_on}") != "1" }
        }
    }

    @Test func `names that would command the terminal are shown, not obeyed, and copied as they are`() async throws {
        let names = ["a\u{1B}[2Jb", "c\nd", "\u{202E}txt.exe", "e\u{1B}]0;owned\u{7}f", "名前", "-rf"]
        try await browsing({ here, _ in
            for name in names { try write(name, to: here + "/" + name) }
        }) { browser, here, there in
            try await browser.show("\\u{1b}[2Jb")
            let screen = try browser.screen()
            #expect(
                screen.contains("c\\u{a}d") && screen.contains("\\u{202e}txt") && screen.contains("名前"), "\(screen)")
            #expect(try browser.value("#{pane_title}") != "owned")
            try browser.press("*", "F5")
            try await browser.show("Copy 6 items to")
            try browser.press("Enter")
            try await browser.show("Copied 6 files")
            #expect(try tree(here) == tree(there))
        }
    }

    @Test func `a device alone opens what is granted there, and there is no way above that`() async throws {
        try await withTwoMachines { laptop, phone in
            let there = laptop.path("srv")
            try write("x", to: there + "/inside.txt")
            try await laptop.invite(phone, "files:read=\(there)")
            let stat = try await phone.expect("stat", "--json", "laptop:.")
            #expect(stat.contains("\"absolute\" : \"\(there)\""), "\(stat)")
            let browser = try Tmux(phone, ["browse", "laptop"])
            defer { browser.end() }
            try await browser.show("inside.txt")
            try browser.press("Left")
            try await browser.show("needs the grant files:read")
            #expect(try browser.screen().contains("inside.txt"))
            // What is only granted to be read is not changed.
            try browser.press("End", "F8")
            try await browser.show("Delete this file?")
            try browser.press("y")
            try await browser.show("needs the grant files:write")
            #expect(FileManager.default.fileExists(atPath: there + "/inside.txt"))
            try browser.press("F2")
            try await browser.show("this device")
            try await browser.show("laptop  online")
        }
    }

    @Test func `it fits 80 by 24, goes on in 40 by 10, and comes back`() async throws {
        try await browsing({ here, _ in
            for index in 0..<200 { try write("\(index)", to: "\(here)/file \(index).txt") }
        }) { browser, _, _ in
            try await browser.show("file 0.txt")
            try await browser.show("10Quit")
            try browser.press("End")
            try await browser.show("file 199.txt")
            try browser.resize(columns: 40, rows: 10)
            try await browser.show("200 items")
            var screen = try browser.screen()
            #expect(screen.contains("file 199.txt") && !screen.contains("laptop:"), "\(screen)")
            try browser.press("Home")
            try await browser.show("file 3.txt")
            try browser.resize(columns: 132, rows: 40)
            try await browser.show("laptop:")
            screen = try browser.screen()
            #expect(screen.contains("file 33.txt") && screen.contains("10Quit"), "\(screen)")
        }
    }

    @Test func `files are looked at, searched for and filtered`() async throws {
        try await browsing({ _, there in
            try write((1...5_000).map { "line \($0)\n" }.joined() + "\u{1B}[31mred\n", to: there + "/a/b/long.log")
            try write("x", to: there + "/other.txt")
        }) { browser, _, _ in
            try await browser.show("other.txt")
            try browser.press("Tab", "f")
            try await browser.show("Find names")
            try browser.type("*.log")
            try await browser.show("a/b/long.log")
            try browser.press("Down", "Enter")
            try await browser.show("1 item")
            try await browser.show("srv/a/b")
            try browser.press("F3")
            try await browser.show("line 20\n")
            try browser.press("G")
            try await browser.show("^[[31mred")
            try browser.press("/")
            try browser.type("line 4321")
            try await browser.show("line 4330\n")
            try browser.press("q", "BSpace", "BSpace")
            try await browser.show("other.txt")
            try browser.press("/")
            try browser.send("OTH")
            try await browser.show("0 items")
            try browser.press("Escape")
            try await browser.show("other.txt")
        }
    }

    @Test func `a file there is edited with the editor of this device`() async throws {
        try await withTwoMachines { laptop, phone in
            let (here, there) = (phone.path("here"), laptop.path("srv"))
            for folder in [here, there] {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            }
            try write("before\n", to: there + "/note.txt")
            try await laptop.invite(phone, "files:write=\(there)")
            let browser = try Tmux(
                line: """
                    env KITH_DATA='\(phone.data)' EDITOR='sh -c "read line; echo \\$line >> \\$0"' \
                    '\(Machine.program.path)' browse '\(here)' 'laptop:\(there)'; sleep 100
                    """)
            defer { browser.end() }
            try await browser.show("note.txt")
            try browser.press("Tab", "End", "F4")
            try await browser.show("fetching")
            try browser.type("typed into the editor")
            try await browser.show("note.txt was written")
            #expect(
                try String(contentsOfFile: there + "/note.txt", encoding: .utf8) == "before\ntyped into the editor\n")
            try browser.press("F10")
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func `the terminal is what it was after leaving, after a signal, and while suspended`() async throws {
        try await withTwoMachines { _, phone in try await suspendAndEnd(on: phone) }
    }

    /// Leaves, kills, suspends and stops a browser, and looks at its terminal after each.
    private func suspendAndEnd(on phone: Machine) async throws {
        // Not blocked here, as it may be where tests are run.
        let start =
            "python3 -c 'import os,signal,sys; signal.pthread_sigmask(signal.SIG_SETMASK, []); os.execv(sys.argv[1], sys.argv[1:])'"
        let terminal = try Tmux(line: "\(start) /bin/bash --norc --noprofile -i")
        defer { terminal.end() }
        func modes() throws -> String { try terminal.value("#{alternate_on} #{mouse_any_flag} #{cursor_flag}") }
        let paths = "'\(Machine.program.path)' browse '\(phone.folder.path)' '\(phone.folder.path)'"
        let browse =
            "(echo $BASHPID > '\(phone.path("pid"))'; KITH_DATA='\(phone.data)' SWIFT_BACKTRACE=enable=no exec \(paths))"
        try terminal.type("PS1='ready> '; stty -a > \(phone.path("before"))")
        try await terminal.show("\nready>")
        for (key, signal) in [("F10", 0), ("", SIGTERM), ("", SIGSEGV), ("", SIGHUP)] {
            try terminal.type("clear; \(browse); echo left with $?; stty -a > \(phone.path("after"))")
            try await terminal.show("10Quit")
            #expect(try modes() == "1 1 0")
            if key.isEmpty {
                let pid = try String(contentsOfFile: phone.path("pid"), encoding: .utf8)
                kill(try #require(pid_t(pid.trimmingCharacters(in: .whitespacesAndNewlines))), signal)
            } else {
                try terminal.press(key)
            }
            try await terminal.show("left with")
            #expect(try modes() == "0 0 1", "after \(key)\(signal)")
            try await phone.waitForFile(phone.path("after"))
            #expect(
                try String(contentsOfFile: phone.path("before"), encoding: .utf8)
                    == String(contentsOfFile: phone.path("after"), encoding: .utf8), "after \(key)\(signal)")
            try FileManager.default.removeItem(atPath: phone.path("after"))
        }
        try terminal.type("clear; \(browse)")
        try await terminal.show("10Quit")
        try terminal.press("C-z")
        try await terminal.show("Stopped")
        #expect(try modes() == "0 0 1")
        try terminal.type("clear; fg")
        try await terminal.show("10Quit")
        #expect(try modes() == "1 1 0")
        // Stopped by others, with and without having been asked.
        for signal in [SIGTSTP, SIGSTOP] {
            let pid = try String(contentsOfFile: phone.path("pid"), encoding: .utf8)
            kill(try #require(pid_t(pid.trimmingCharacters(in: .whitespacesAndNewlines))), signal)
            try await terminal.show("Stopped")
            if signal == SIGTSTP { #expect(try modes() == "0 0 1") }
            try terminal.type("fg")
            try await terminal.show("10Quit")
            try await eventually { try modes() == "1 1 0" }
        }
        try terminal.press("q")
        try await terminal.show("ready>")
    }

    @Test func `without a terminal, or with one that is to stay plain, it says what to use instead`() async throws {
        let phone = try Machine("phone")
        // No daemon runs on it; the next boot empties /tmp at the latest.
        defer { try? FileManager.default.removeItem(at: phone.folder) }
        let outcome = try await phone.kith(["browse"])
        #expect(outcome.status == 64 && outcome.error.contains("needs a terminal"), "\(outcome)")
        #expect(outcome.error.contains("kith ls") && outcome.error.contains("kith cp"))
        let plain = try Tmux(phone, ["browse", "--plain"])
        defer { plain.end() }
        try await plain.show("kith ls")
        let help = try await phone.kith(["browse", "--help"])
        #expect(help.output.contains("copy to the other pane") && help.output.contains("F8, d, Delete"))
    }
}
