#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// Several windows with one screen at once.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenWindowsTests {
    /// A shell on the host that writes what it is typed into a file.
    private func shell(_ stage: ScreenWindowStage, _ geometry: String, _ file: String) throws -> ChildProcess {
        try stage.host.start(
            "xterm",
            ["-geometry", geometry, "-e", "sh", "-c", "stty -icanon -echo; cat > '\(stage.laptop.path(file))'"])
    }

    private func text(_ stage: ScreenWindowStage, _ file: String) -> String {
        (try? String(contentsOfFile: stage.laptop.path(file), encoding: .utf8)) ?? ""
    }

    /// Waits until a file of the host ends so.
    private func arrives(_ stage: ScreenWindowStage, _ end: String, in file: String) async throws {
        do {
            try await eventually(within: .seconds(30)) { text(stage, file).hasSuffix(end) }
        } catch {
            Issue.record("“\(text(stage, file))” does not end with “\(end)”")
            throw error
        }
    }

    @Test func `two windows of one device are two displays, and one that ends leaves the other`() async throws {
        try await onStage("800x300x24") { stage in
            try await stage.host.run("xrandr", ["--setmonitor", "left", "400/100x300/100+0+0", "screen"])
            try await stage.host.run("xrandr", ["--setmonitor", "right", "400/100x300/100+400+0", "none"])
            let shells = [try shell(stage, "50x10+10+100", "left"), try shell(stage, "50x10+420+100", "right")]
            defer { for shell in shells { shell.kill() } }
            // Under no window that opens: it would point there.
            try await stage.desk.run("xdotool", ["mousemove", "1020", "760"])
            let first = try stage.open("--display", "1")
            let left = try await stage.window()
            // With its first picture it has found its place.
            try await stage.shows(left, 0, 0, 400, 300, "the left one")
            try await stage.desk.run("xdotool", ["windowmove", "--sync", left, "20", "40"])
            let second = try stage.open("--display", "2")
            let right = try await stage.window(besides: left)
            try await stage.shows(right, 400, 0, 400, 300, "the right one")
            try await stage.desk.run("xdotool", ["windowmove", "--sync", right, "520", "40"])
            try await stage.shows(left, 0, 0, 400, 300, "the left one beside the other")
            // Each is where it is pointed at, and what is typed goes there.
            for (window, place, file) in [(left, "x:60 y:150 ", "left"), (right, "x:460 y:150 ", "right")] {
                try await stage.desk.run("xdotool", ["windowfocus", "--sync", window])
                try await stage.points(window, at: 60, 150, place, "the \(file) one")
                try await stage.desk.run("xdotool", ["type", "--delay", "20", "to \(file)"])
                try await arrives(stage, "to \(file)", in: file)
            }
            // Ended with a key down, which the other window may take with the focus: both leave it up there.
            try await stage.points(right, at: 61, 150, "x:461 y:150 ", "the right one again")
            try await stage.desk.run("xdotool", ["keydown", "shift"])
            try await eventually(within: .seconds(30)) { try await stage.isShifted(stage.laptop.path("right")) }
            second.process.interrupt()
            #expect(try await second.outcome(seconds: 30).status == 130)
            try await stage.desk.run("xdotool", ["windowfocus", "--sync", left, "keyup", "shift"])
            try await eventually(within: .seconds(30)) { try await !stage.isShifted(stage.laptop.path("right")) }
            try await stage.points(left, at: 62, 150, "x:62 y:150 ", "the left one after all")
            try await stage.desk.run("xdotool", ["type", "--delay", "20", "End"])
            try await arrives(stage, "End", in: "left")
            first.process.interrupt()
            #expect(try await first.outcome(seconds: 30).status == 130)
        }
    }

    @Test func `two devices take turns, nothing of either is held, and each clipboard arrives`() async throws {
        try await onStage("400x300x24") { stage in
            let shell = try shell(stage, "60x20+0+0", "typed")
            defer { shell.kill() }
            let tablet = try Machine("tablet")
            let desk = try XServer("640x480x24", isManaged: true)
            do {
                try await desk.isManaged()
                try await tablet.up()
                try await stage.laptop.invite(tablet, "screen:control", "screen:clipboard", "screen:unattended")
                try await takeTurns(stage, tablet, desk)
            } catch {
                await tablet.remove()
                desk.kill()
                throw error
            }
            await tablet.remove()
            desk.kill()
        }
    }

    /// Types until it arrives: while the other one has not rested yet it is left out.
    private func types(_ stage: ScreenWindowStage, _ word: String, on server: XServer) async throws {
        for _ in 0..<10 {
            try await server.run("xdotool", ["type", "--delay", "20", word])
            let arrival: Void? = try? await eventually(within: .seconds(4)) { text(stage, "typed").hasSuffix(word) }
            if arrival != nil { return }
        }
        try await arrives(stage, word, in: "typed")
    }

    private func takeTurns(_ stage: ScreenWindowStage, _ tablet: Machine, _ desk: XServer) async throws {
        for server in [stage.desk, desk] { try await server.run("xdotool", ["mousemove", "0", "0"]) }
        let phones = try stage.open()
        let phone = try await stage.window()
        let tablets = try tablet.start(
            ["screen", "laptop"], environment: ["DISPLAY": desk.display], byEnvironment: true)
        let other = try await stage.window(on: desk)
        for (server, window) in [(stage.desk, phone), (desk, other)] {
            try await stage.shows(window, 0, 0, 400, 300, "the screen", on: server)
            try await server.run("xdotool", ["windowfocus", "--sync", window])
            try await server.run("xdotool", ["mousemove", "--window", window, "150", "200"])
        }
        // Both type at once: of each comes nothing twice, and when they rest all that follows.
        async let one: [UInt8] = stage.desk.run("xdotool", ["type", "--delay", "30", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"])
        async let two: [UInt8] = desk.run("xdotool", ["type", "--delay", "30", "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"])
        _ = try await (one, two)
        for (server, end) in [(stage.desk, "Phone"), (desk, "Tablet")] {
            try await types(stage, end, on: server)
        }
        let typed = text(stage, "typed")
        #expect(typed.filter { $0 == "a" }.count <= 30 + 20 && typed.filter { $0 == "u" }.count <= 30, "\(typed)")
        // The clipboard of whoever copies is the host's, and the host's is everybody's.
        for (from, to, content) in [
            (stage.desk, [stage.host], "of the phone ä"), (desk, [stage.host], "of the tablet 漢"),
            (stage.host, [stage.desk, desk], "of the laptop"),
        ] {
            let file = tablet.path("clipboard")
            try write(content, to: file)
            let source = try from.start("xclip", ["-quiet", "-selection", "clipboard", "-i", file])
            defer { source.kill() }
            for server in to {
                try await eventually(within: .seconds(30)) {
                    (try? await server.run("xclip", ["-selection", "clipboard", "-o"])) == Array(content.utf8)
                }
            }
        }
        // One is killed with a key down, and the other goes on.
        try await eventually(within: .seconds(60)) {
            try await stage.desk.run("xdotool", ["keyup", "shift", "keydown", "shift"])
            return try await stage.isShifted(stage.laptop.path("typed"))
        }
        kill(phones.process.processIdentifier, SIGKILL)
        _ = try await phones.outcome(seconds: 30)
        try await eventually(within: .seconds(30)) { try await !stage.isShifted(stage.laptop.path("typed")) }
        try await types(stage, "alone", on: desk)
        tablets.process.interrupt()
        #expect(try await tablets.outcome(seconds: 30).status == 130)
    }
}
#endif
