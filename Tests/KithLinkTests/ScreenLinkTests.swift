#if Viewer && Screen
import Foundation
import Glibc
import KithTesting
import Testing

/// Whether there is all that a person types with over a bad line; says what is missing.
private let isPossible: Bool = {
    guard Link.isPossible, XServer.isInstalled else { return false }
    guard FileManager.default.isExecutableFile(atPath: "/usr/bin/vim.tiny") else {
        print("Skipped without vim.tiny: apt-get install vim-tiny")
        return false
    }
    return true
}()

/// A person who writes in an editor on another device's screen, over a line that is bad and then worse.
@Suite(.enabled(if: isPossible), .timeLimit(.minutes(8))) struct ScreenLinkTests {
    /// How long is typed in all: 20 s, or `KITH_TYPING`.
    private static let seconds = ProcessInfo.processInfo.environment["KITH_TYPING"].flatMap { Int($0) } ?? 20
    private static let words = ["the quick brown fox", "jumps over", "lazy dogs, 42 of them;", "and writes on"]

    @Test func `what is typed into an editor arrives once, through loss, silence and another address`() async throws {
        try await Link.with(["delay": "40ms", "rate": "10mbit", "loss": "2%", "seed": "7"]) { link in
            let (laptop, phone) = (try Machine(link, .left, "laptop"), try Machine(link, .right, "phone"))
            let (host, desk) = (try XServer("640x480x24"), try XServer("800x600x24", isManaged: true))
            defer {
                laptop.remove()
                phone.remove()
                host.kill()
                desk.kill()
            }
            for machine in [laptop, phone] { try machine.run(["ip", "-6", "address", "flush", "dev", "link0"]) }
            try laptop.up("--screen-source", "x11:\(host.display)")
            try phone.up()
            let invitation = try laptop.kith(
                "invite", "--yes", "--text", "--grant", "screen:control", "--grant", "screen:unattended")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
            let folder = try TemporaryFolder()
            let editor = try host.start(
                "xterm", ["-geometry", "80x24+0+0", "-e", "vim.tiny", "-u", "NONE", "-n", folder.path + "/text"])
            defer { editor.kill() }
            try await desk.isManaged()
            let viewing = try ChildProcess(
                "/usr/bin/env", phone.command("screen", "laptop"),
                environment: ["DISPLAY": desk.display, "LC_ALL": "C.UTF-8", "HOME": phone.folder.path])
            defer { viewing.kill() }
            let window = try await self.window("laptop", on: desk)
            // Until the picture is there: before, nothing is typed.
            try await eventually(within: .seconds(60)) {
                // The editor's white paper, on the desk.
                try await shows([0xFF, 0xFF, 0xFF], on: desk)
            }
            try await desk.run("xdotool", ["windowfocus", "--sync", window, "key", "i"])

            var expected = try await type(Self.seconds * 5 / 10, on: desk)
            // Silence, while a key is down: it is up there at its end.
            try await desk.run("xdotool", ["keydown", "shift"])
            try await link.set("blackhole=on")
            // Real time: a network that is away for ten seconds.
            try await Task.sleep(for: .seconds(10))
            try await link.set("blackhole=off")
            try await desk.run("xdotool", ["keyup", "shift"])
            try await goesOn(window, desk, host)
            expected += try await type(Self.seconds * 3 / 10, on: desk)
            try laptop.move(from: "10.7.0.1/16", to: "10.7.0.11/24")
            try await goesOn(window, desk, host)
            expected += try await type(Self.seconds * 2 / 10, on: desk)

            try await desk.run("xdotool", ["key", "Escape"])
            try await desk.run("xdotool", ["type", "--delay", "60", ":wq"])
            try await desk.run("xdotool", ["key", "Return"])
            let file = folder.path + "/text"
            try await eventually(within: .seconds(60)) { FileManager.default.fileExists(atPath: file) }
            #expect(try String(contentsOfFile: file, encoding: .utf8) == expected + "\n")
            #expect(viewing.isRunning)
        }
    }

    /// Types lines for so many seconds; returns them.
    private func type(_ seconds: Int, on desk: XServer) async throws -> String {
        var text = ""
        let end = ContinuousClock.now + .seconds(seconds)
        repeat {
            let line = Self.words[text.count % Self.words.count]
            try await desk.run("xdotool", ["type", "--delay", "40", line])
            try await desk.run("xdotool", ["key", "comma"])
            text += line + ","
        } while ContinuousClock.now < end
        return text
    }

    /// Waits until the window's session is there, and what changes on the host is seen in it.
    private func goesOn(_ window: String, _ desk: XServer, _ host: XServer) async throws {
        for (colour, wanted) in [("#2c6e49", [0x2C, 0x6E, 0x49] as [UInt8]), ("#8a2b06", [0x8A, 0x2B, 6])] {
            try await host.run("xsetroot", ["-solid", colour])
            try await eventually(within: .seconds(60)) { try await shows(wanted, on: desk) }
        }
        #expect(try await title(of: window, on: desk) == "laptop")
    }

    /// Whether a thousandth of the desk has a colour: red, green, blue.
    private func shows(_ colour: [UInt8], on desk: XServer) async throws -> Bool {
        let pixels = try await desk.run("import", ["-silent", "-window", "root", "-depth", "8", "rgb:-"])
        let count = stride(from: 0, to: pixels.count - 2, by: 3).count { Array(pixels[$0..<$0 + 3]) == colour }
        return count > 480
    }

    private func title(of window: String, on desk: XServer) async throws -> String {
        String(decoding: try await desk.run("xdotool", ["getwindowname", window]), as: UTF8.self)
            .trimmingCharacters(in: .newlines)
    }

    private func window(_ title: String, on desk: XServer) async throws -> String {
        var found = ""
        try await eventually(within: .seconds(60)) {
            let windows = try? await desk.run("xdotool", ["search", "--onlyvisible", "--class", "kith-viewer"])
            for window in String(decoding: windows ?? [], as: UTF8.self).split(separator: "\n") {
                // It may be gone again.
                let name = try? await self.title(of: String(window), on: desk)
                found = name == title ? String(window) : found
            }
            return !found.isEmpty
        }
        return found
    }
}
#endif
