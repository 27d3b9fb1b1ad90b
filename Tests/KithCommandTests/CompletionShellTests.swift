import Foundation
import KithTesting
import Testing

/// The scripts in the shells they are for, in a terminal: what is typed and completed must reach a program as it is.
@Suite(.serialized) struct CompletionShellTests {
    /// An action of the person.
    enum Step {
        /// Types.
        case type(String)
        /// Presses Tab, and sees this appear.
        case tab(String)
    }

    /// An interactive shell in tmux whose `kith` completes as the real one does, and else writes down its arguments.
    private struct Terminal {
        let socket = "kith-\(UUID().uuidString.prefix(8))"
        let machine: Machine

        func tmux(_ arguments: String...) throws -> String { try Tmux.run(socket, arguments) }

        struct Missing: Error, CustomStringConvertible {
            var text: String
            var screen: String
            var description: String { "\(text) did not appear:\n\(screen)" }
        }

        func waitFor(_ text: String, seconds: Double = 20) async throws {
            var screen = ""
            do {
                try await eventually(within: .seconds(seconds)) {
                    // A line may be broken at the edge of the screen.
                    screen = try tmux("capture-pane", "-p", "-J")
                    return screen.contains(text)
                }
            } catch is NotInTime {
                throw Missing(text: text, screen: screen)
            }
        }
    }

    private static func isInstalled(_ program: String) -> Bool {
        ["/usr/bin/", "/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"].contains {
            FileManager.default.isExecutableFile(atPath: $0 + program)
        }
    }

    static let shells = [
        ("bash", "bash --norc --noprofile -i", "source <(kith completions bash)"),
        ("zsh", "zsh -f -i", "autoload -U compinit; compinit -u -D; source <(kith completions zsh)"),
        ("fish", "fish --no-config -i", "kith completions fish | source"),
    ]

    @Test(arguments: shells)
    func `devices, remote paths and odd names complete in a real shell`(
        shell: String, start: String, source: String
    ) async throws {
        guard Self.isInstalled(shell), Self.isInstalled("tmux") else {
            print("skipped: \(shell) or tmux is not installed")
            return
        }
        try await withTwoMachines { laptop, phone in
            let served = try Self.oddFolder(laptop)
            try await laptop.invite(phone, "files:read=\(served)")
            try await phone.expect("ls", "laptop:\(served)")
            try Self.installWitness(on: phone)
            let terminal = Terminal(machine: phone)
            // Not kill-server: that is a SIGTERM, which a test's process and all it starts may have blocked.
            defer { _ = try? terminal.tmux("kill-session") }  // one that ended already is fine
            _ = try terminal.tmux(
                "new-session", "-d", "-x", "200", "-y", "50",
                "cd '\(phone.folder.path)'; export HOME='\(phone.folder.path)' KITH_DATA='\(phone.data)' "
                    + "PATH='\(phone.folder.path)/bin':$PATH PS1='ready> '; exec \(start)")
            _ = try terminal.tmux("send-keys", "-l", source + "; echo loaded\" now\"")
            _ = try terminal.tmux("send-keys", "Enter")
            try await terminal.waitFor("loaded now")

            try await expect(
                ["invite", "--json"], terminal, [.type("kith inv"), .tab("invite"), .type("--js"), .tab("--json")])
            try await expect(
                ["cp", "laptop:\(served)/my dir/file one.txt", "."], terminal,
                [
                    .type("kith cp lap"), .tab("laptop:"), .type("\(served)/my"), .tab("dir/"), .type("fi"),
                    .tab("one.txt"), .type("."),
                ])
            try await expect(
                ["cp", "laptop:\(served)/quo\"te", "laptop:\(served)/a:b"], terminal,
                [
                    .type("kith cp laptop:\(served)/quo"), .tab("te"), .type("laptop:\(served)/a:"), .tab("a:b"),
                ])
            try await expect(
                ["cp", "laptop:\(served)/my dir/it's"], terminal,
                [
                    .type("kith cp 'laptop:\(served)/my d"), .tab("my dir/"),
                    .type("it"), .tab(shell == "fish" ? "it\\'s" : "it'\\''s"),
                ])
            try await expect(
                ["call", "x", "--on=laptop"], terminal, [.type("kith call x --on=lap"), .tab("--on=laptop")])
            try await expect(
                ["call", "device.echo", #"{"bytes":1}"#], terminal,
                [.type("kith call device.ech"), .tab("echo"), .type("'{\"by"), .tab("bytes\":"), .type("1}'")])
        }
    }

    private func expect(_ arguments: [String], _ terminal: Terminal, _ steps: [Step]) async throws {
        let path = terminal.machine.path("arguments")
        try? FileManager.default.removeItem(atPath: path)  // there is none before the first
        _ = try terminal.tmux("send-keys", "C-l")
        for step in steps {
            switch step {
            case .type(let text): _ = try terminal.tmux("send-keys", "-l", "--", text)
            case .tab(let text):
                // Shells complete nothing while more keys wait: each Tab has to be done before the next key.
                // A machine under load may need longer than completion waits for a device: a person presses it again.
                for attempt in 1...8 {
                    _ = try terminal.tmux("send-keys", "Tab")
                    do {
                        try await terminal.waitFor(text, seconds: attempt < 8 ? 4 : 20)
                        break
                    } catch  where attempt < 8 {}
                }
            }
        }
        _ = try terminal.tmux("send-keys", "Enter")
        try await terminal.machine.waitForFile(path)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.split(separator: "\n").map(String.init) == arguments)
    }

    private static func oddFolder(_ machine: Machine) throws -> String {
        let folder = machine.path("srv")
        try FileManager.default.createDirectory(atPath: folder + "/my dir", withIntermediateDirectories: true)
        for name in ["my dir/file one.txt", "my dir/it's", "a:b", "quo\"te", "$HOME"] {
            try Data().write(to: URL(fileURLWithPath: folder + "/" + name))
        }
        return folder
    }

    private static func installWitness(on machine: Machine) throws {
        let folder = machine.path("bin")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let script = """
            #!/bin/sh
            case $1 in complete|completions) exec '\(Machine.program.path)' "$@" ;; esac
            printf '%s\\n' "$@" > '\(machine.path("arguments.new"))'
            mv '\(machine.path("arguments.new"))' '\(machine.path("arguments"))'
            """
        try Data(script.utf8).write(to: URL(fileURLWithPath: folder + "/kith"))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder + "/kith")
    }

    @Test func `nothing is started, and nothing waits, where no daemon runs`() async throws {
        let machine = try Machine("down")
        let outcome = try await machine.start(
            ["complete", "bash", "--", "kith shell lap", "lap"], byEnvironment: true
        ).outcome(seconds: 20)
        #expect(outcome.status == 0)
        #expect(outcome.output.isEmpty)
        #expect(!FileManager.default.fileExists(atPath: machine.data))
        await machine.remove()
    }
}
