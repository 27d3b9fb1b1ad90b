import Foundation
import KithTesting
import Testing

@Suite struct ShellTests {
    @Test func `a command's output, errors and exit status come back apart`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let outcome = try await phone.kith(["shell", "laptop", "--", "echo out; echo err >&2; exit 7"])
            #expect(outcome.status == 7)
            #expect(outcome.output == "out\n")
            #expect(outcome.error == "err\n")
        }
    }

    @Test func `a caller sets the variables that this end accepts`() async throws {
        let (laptop, phone) = (try Machine("laptop"), try Machine("phone"))
        try await laptop.up("--accept-env", "EDITOR", "--accept-env", "GIT_*")
        try await phone.up()
        try await laptop.invite(phone, "shell")
        let outcome = try await phone.kith([
            "shell", "laptop", "--env", "EDITOR=ed", "--env", "GIT_DIR=/x", "--env", "EDITORS=2", "--env", "LC_TIME=C",
            "--", "env",
        ])
        let lines = Set(outcome.output.split(separator: "\n").map(String.init))
        #expect(lines.isSuperset(of: ["EDITOR=ed", "GIT_DIR=/x", "LC_TIME=C"]), "\(outcome)")
        #expect(!lines.contains("EDITORS=2"), "\(outcome)")
        for wrong in ["", "A=B", "A*B", "A B", "1A", "**"] {
            #expect(try await laptop.kith(["up", "--accept-env=\(wrong)"]).status == 64, "\(wrong)")
        }
        await laptop.remove()
        await phone.remove()
    }

    @Test func `standard input is a pipe with an end`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let bytes = CopyTests.bytes(3_000_000, seed: 9)
            let outcome = try await phone.kith(["shell", "laptop", "--", "sha256sum"], input: bytes)
            let here = try await phone.kith(["shell", "laptop", "--", "cat | wc -c"], input: bytes)
            #expect(outcome.status == 0)
            #expect(here.output.trimmingCharacters(in: .whitespacesAndNewlines) == "3000000")
        }
    }

    @Test func `nothing is left behind when the caller vanishes`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let marker = laptop.path("alive")
            let holders = try Holders(laptop.path("held"))
            let command = "exec 3>\(holders.path); (touch \(marker); while :; do sleep 0.05; done) & sleep 1000"
            let shell = try phone.start(["shell", "laptop", "--", command])
            try await laptop.waitForFile(marker)
            kill(shell.process.processIdentifier, SIGKILL)
            _ = try await shell.outcome(seconds: 5)
            // Neither the shell nor the loop it left in the background.
            try await eventually { holders.areGone }
        }
    }

    @Test func `a terminal gives a terminal there`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let plain = try await phone.kith(["shell", "laptop", "--", "test -t 0 && echo terminal || echo pipe"])
            #expect(plain.output == "pipe\n")
            let forced = try await phone.kith([
                "shell", "-t", "laptop", "--", "test -t 0 && echo terminal || echo pipe",
            ])
            #expect(forced.output.trimmingCharacters(in: .whitespacesAndNewlines) == "terminal")
        }
    }

    @Test func `a shell whose terminal was killed goes on in another, with its screen`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let first = try Tmux(phone, ["shell", "laptop"])
            defer { first.end() }
            try await first.show(getuid() == 0 ? "#" : "$")
            // What comes while the shell still edits the line is not shown.
            try first.type("printf 'be%s' gin; cat > \(laptop.path("note"))")
            try await first.show("begin")
            try first.type("typed in the first")
            try await first.show("typed in the first")
            first.end()
            let list = try await phone.kith(["shell", "laptop", "--list", "--json"])
            #expect(list.output.contains("\"sharing\""), "\(list)")

            let second = try Tmux(phone, ["shell", "laptop", "--attach"])
            defer { second.end() }
            try await second.show("typed in the first")
            try second.type("typed in the second")
            try second.press("C-d")
            try await laptop.waitForFile(laptop.path("note"))
            var note = ""
            try await eventually {
                note = try String(contentsOfFile: laptop.path("note"), encoding: .utf8)
                return note.hasSuffix("second\n")
            }
            #expect(note == "typed in the first\ntyped in the second\n")
            try second.press("Enter")
            try second.press("~")
            try second.press("d")
            try await second.show("detached")
            let sessions = try await phone.kith(["shell", "laptop", "--list"])
            let name = try #require(sessions.output.split(separator: "\n").last?.split(separator: " ").first)
            #expect(try await phone.kith(["shell", "laptop", String(name), "--end"]).status == 0)
            #expect(try await phone.kith(["shell", "laptop", "--list"]).error.contains("No shells of yours"))
        }
    }

    @Test func `the list of escapes leaves what is typed next where it belongs, foreseen or not`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let terminal = try Tmux(phone, ["shell", "laptop", "--predict", "always"])
            defer { terminal.end() }
            try await terminal.show(getuid() == 0 ? "#" : "$")
            try terminal.send("~?")
            try await terminal.show("~?   this text")
            for part in ["ec", "ho", " one", " two"] { try terminal.send(part) }
            try await terminal.show("echo one two")
            try terminal.press("Enter")
            try await terminal.show("echo one two one two")
            let lines = try terminal.screen().split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            #expect(lines.contains("echo one two") && lines.contains("one two"), "\(lines)")
        }
    }

    @Test func `what a program wants on the clipboard is mentioned once, and taken by a key`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let terminal = try Tmux(phone, ["shell", "laptop"])
            defer { terminal.end() }
            try await terminal.show(getuid() == 0 ? "#" : "$")
            try terminal.type("clear; printf '\\033]52;c;aGVsbG8=\\007'")
            try await terminal.show("offers text for the clipboard; ~c takes it")
            try terminal.type("clear; printf '\\033]52;c;aGVsbG8=\\007'; echo a''gain")
            try await terminal.show("again")
            try terminal.send("~c")
            try await terminal.show("kith: copied")
            #expect(!(try terminal.screen().contains("offers text")))
        }
    }

    @Test func `whoever hangs up is told whether the shell goes on in another window, and sees no ended one`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let first = try Tmux(phone, ["shell", "laptop"])
            defer { first.end() }
            try first.type("echo $((40 + 2))")
            try await first.show("\n42\n")
            let second = try Tmux(phone, ["shell", "laptop", "--attach"])
            defer { second.end() }
            try await second.show("\n42\n")
            try first.send("~.")
            try await first.show("hung up; the shell on laptop goes on in another window.")
            try second.type("echo $((40 + 3))")
            try await second.show("\n43\n")
            try second.send("~.")
            try await second.show("hung up; the shell on laptop has ended.")
            // Another has an end of its own, for which its window is not there any more.
            let gone = try Tmux(phone, ["shell", "laptop"])
            let (ready, end) = (laptop.path("ready"), laptop.path("end"))
            try gone.type("touch \(ready); until [ -e \(end) ]; do sleep 0.1; done; exit 3")
            try await laptop.waitForFile(ready)
            gone.end()
            var json = ""
            func lists(_ text: String) async throws -> Bool {
                json = try await phone.kith(["shell", "laptop", "--list", "--json"]).output
                return json.contains(text)
            }
            do {
                try await eventually(within: .seconds(60)) { try await lists("\"viewers\" : 0") }
                try Data().write(to: URL(fileURLWithPath: end))
                try await eventually(within: .seconds(60)) { try await lists("\"status\" : 3") }
            } catch {
                Issue.record("\(json)")
                throw error
            }
            #expect(try await phone.kith(["shell", "laptop", "--list"]).error.contains("No shells of yours"))
        }
    }

    @Test func `a window that needs a terminal asks for one, and a command with -n leaves what is typed`() async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let attach = try await phone.kith(["shell", "laptop", "--attach"])
            #expect(attach.status == 64 && attach.error.contains("needs a terminal"), "\(attach)")
            #expect(attach.output.isEmpty && attach.error.contains("kith shell laptop -- COMMAND"), "\(attach)")
            let letter = try Tmux(phone, ["shell", "laptop", "ls", "-a"])
            defer { letter.end() }
            try await letter.show("put -- before it: kith shell laptop -- ls")
            let alone = try await phone.kith(["shell", "-n", "laptop"])
            #expect(alone.status == 64, "\(alone)")
            // A tour that is pasted: what comes behind a command is not the command's.
            let kith = "KITH_DATA='\(phone.data)' '\(Machine.program.path)'"
            let lines =
                "\(kith) shell -n laptop -- cat\necho fir''st\n\(kith) shell -n laptop -- 'sleep 0.1'\necho sec''ond\n"
            let bash = try Tmux(line: "PS1='here: ' bash --norc -i")
            defer { bash.end() }
            try await bash.show("here:")
            try bash.send(lines)
            try await bash.show("\nfirst\n")
            try await bash.show("\nsecond\n")
        }
    }

    @Test func `an offer for the clipboard is told of however busy the screen, and a denied one on asking`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            // Output goes on for a while where the words stand, and takes them away before anybody has read them.
            let busy =
                "printf '\\033]52;c;aGVsbG8=\\007'; for i in 1 2 3 4; do printf x; sleep 0.7; done; echo fin''ished"
            for (options, words) in [
                ([], "offers text for the clipboard; ~c takes it"), (["--escape", "none"], "--clipboard allow"),
            ] {
                let terminal = try Tmux(phone, ["shell", "laptop"] + options)
                defer { terminal.end() }
                try await terminal.show(getuid() == 0 ? "#" : "$")
                try terminal.type(busy)
                try await terminal.show("finished")
                try await terminal.show(words)
            }
            let denying = try Tmux(phone, ["shell", "laptop", "--clipboard", "deny"])
            defer { denying.end() }
            try await denying.show(getuid() == 0 ? "#" : "$")
            try denying.type("clear; printf '\\033]52;c;aGVsbG8=\\007'; echo o''ver")
            try await denying.show("over")
            try denying.send("~c")
            try await denying.show("--clipboard deny has kept what a program there offered")
            #expect(!(try denying.screen().contains("offers text")))
        }
    }

    @Test func `a shell that is ended from elsewhere says so, and leaves the terminal as it was`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let terminal = try Tmux(
                phone, ["shell", "-t", "laptop", "--", "printf \"\\033[?1049h\\033[?25lfull screen\"; sleep 100"])
            defer { terminal.end() }
            try await terminal.show("full screen")
            let list = try await phone.kith(["shell", "laptop", "--list"])
            let name = try #require(list.output.split(separator: "\n").last?.split(separator: " ").first)
            try await phone.expect("shell", "laptop", String(name), "--end")
            try await terminal.show("kith: The shell was ended from elsewhere.")
            #expect(try terminal.value("#{alternate_on} #{cursor_flag}") == "0 1")
        }
    }

    @Test
    func
        `a shell that is started in the background waits to be brought to the front, and leaves the terminal as it was`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let bash = try Tmux(line: "env KITH_DATA='\(phone.data)' PS1='here: ' bash --norc -i")
            defer { bash.end() }
            try await bash.show("here:")
            // What has stopped is said at once, not with the next prompt.
            try bash.type("set -b")
            let shell = "'\(Machine.program.path)' shell laptop -t -- sh -c 'echo there; read x; echo got $x'"
            for round in 1...3 {
                try bash.type("clear; \(shell) &")
                try await bash.show("Stopped")
                // It has not touched the terminal of whoever is in front.
                try bash.type("clear; echo still ali''ve")
                try await bash.show("still alive")
                try bash.type("fg")
                try await bash.show("there")
                try bash.type("word\(round)")
                // Only at its prompt does the shell read again what is typed.
                try await bash.show("got word\(round) here:")
                try bash.type("clear; stty -a | grep -o ' -*icanon\\| -*echo '")
                try await bash.show("icanon echo")
            }
        }
    }

    @Test func `a device in the background asks nothing, and goes on`() async throws {
        let machine = try Machine("behind")
        let phone = try Machine("phone")
        let bash = try Tmux(line: "env KITH_DATA='\(machine.data)' PS1='here: ' bash --norc -i")
        try await bash.show("here:")
        try bash.type("'\(Machine.program.path)' up --no-invite &")
        try await bash.show("is up")
        let invitation = try await machine.kith(["invite", "--text"])
        let pairing = try phone.start(
            ["pair", invitation.output.trimmingCharacters(in: .whitespacesAndNewlines), "--yes"])
        try await bash.show("kith accept")
        try bash.type("jobs")
        try await bash.show("Running")
        kill(pairing.process.processIdentifier, SIGTERM)
        _ = try await pairing.outcome(seconds: 30)
        #expect(try await machine.kith(["down"]).status == 0)
        bash.end()
        await machine.remove()
        await phone.remove()
    }

    @Test func `what is typed in one go with the key that hangs up is not sent`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let terminal = try Tmux(phone, ["shell", "laptop"])
            defer { terminal.end() }
            try await terminal.show(getuid() == 0 ? "#" : "$")
            try terminal.send("~.touch \(laptop.path("typed"))\n")
            try await terminal.show("hung up")
            #expect(try await phone.kith(["shell", "laptop", "--list"]).error.contains("No shells of yours"))
            #expect(!FileManager.default.fileExists(atPath: laptop.path("typed")))
        }
    }

    @Test func `nothing runs there when its recording cannot be made`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let (marker, there) = (laptop.path("ran"), phone.path("there.cast"))
            try Data().write(to: URL(fileURLWithPath: there))
            for file in [there, phone.path("no/such/folder.cast")] {
                let outcome = try await phone.kith(["shell", "laptop", "--record", file, "--", "touch \(marker)"])
                #expect(outcome.status == 64 && outcome.error.contains("Cannot record"), "\(outcome)")
            }
            #expect(!FileManager.default.fileExists(atPath: marker))
            let unused = phone.path("unused.cast")
            #expect(try await phone.kith(["shell", "nobody", "--record", unused, "--", "true"]).status == 3)
            #expect(!FileManager.default.fileExists(atPath: unused))
        }
    }

    @Test func `whoever leaves a full-screen program has the terminal as it was before`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let program = "printf '\\033[?1049h\\033[?25l\\033[?1h\\033=\\033[?1002h\\033[31mfull screen'; sleep 100"
            let terminal = try Tmux(phone, ["shell", "-t", "laptop", "--", program.replacing("'", with: "'\\''")])
            defer { terminal.end() }
            let modes = "#{alternate_on}#{cursor_flag}#{keypad_cursor_flag}#{keypad_flag}#{mouse_any_flag}"
            try await terminal.show("full screen")
            #expect(try terminal.value(modes) == "10111")
            try terminal.send("~d")
            try await terminal.show("detached")
            #expect(try terminal.value(modes) == "01000")
            let screen = try terminal.screen()
            #expect(!screen.contains("lost") && !screen.contains("full screen"), "\(screen)")
        }
    }

    @Test func `the keys of one who only looks are ignored, but for the escapes`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let shell = try Tmux(phone, ["shell", "laptop", "--share", "view"])
            defer { shell.end() }
            try shell.type("echo $((40 + 2))")
            try await shell.show("\n42\n")
            let looking = try Tmux(phone, ["shell", "laptop", "--attach", "--view"])
            defer { looking.end() }
            try await looking.show("\n42\n")
            try looking.press("x", "C-c")
            try await looking.show("viewing only; ~d leaves")
            try shell.type("echo $((40 + 3))")
            try await looking.show("\n43\n")
            try looking.send("~d")
            try await looking.show("--view")
            #expect(try !looking.screen().contains("abandoned"))
        }
    }

    @Test func `output that cannot be written is told of by what became of it`() async throws {
        try await withTwoMachines { laptop, phone in
            let file = laptop.path("big")
            try CopyTests.bytes(3_000_000, seed: 4).write(to: URL(fileURLWithPath: file))
            try await laptop.invite(phone, "files:read=\(laptop.folder.path)")
            let cat = "KITH_DATA='\(phone.data)' '\(Machine.program.path)' cat laptop:'\(file)'"
            let terminal = try Tmux(
                line: "bash -c \"\(cat) | head -c 5 > /dev/null; echo pipe \\${PIPESTATUS[0]}; "
                    + "\(cat) > /dev/full; echo full \\$?; sleep 100\"")
            defer { terminal.end() }
            try await terminal.show("full 11")
            let screen = try terminal.screen()
            #expect(screen.hasPrefix("pipe 141\n"), "\(screen)")
            #expect(screen.contains("the disk is full"), "\(screen)")
        }
    }

    @Test func `a shell goes on when its device's daemon has been silent for a while`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let shell = try Tmux(phone, ["shell", "laptop"])
            defer { shell.end() }
            try shell.type("echo $((40 + 2))")
            try await shell.show("\n42\n")
            let daemon = try await laptop.daemonPID()
            kill(daemon, SIGSTOP)
            try shell.type("echo $((40 + 3))")
            try await shell.show("no answer from laptop")
            kill(daemon, SIGCONT)
            try await shell.show("\n43\n")
        }
    }
}
