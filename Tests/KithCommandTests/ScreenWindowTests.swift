#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// `kith screen DEVICE` on two X servers: what is seen in its window, and what arrives from there.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenWindowTests {
    @Test func `the window has the host's pixels, and keys, pointer and clipboard reach the host`() async throws {
        try await onStage { stage in
            let typed = stage.laptop.path("typed")
            let shell = try stage.host.start(
                "xterm", ["-geometry", "60x20+0+0", "-e", "sh", "-c", "stty -icanon -echo; cat > '\(typed)'"])
            defer { shell.kill() }
            let running = try stage.open()
            let window = try await stage.window()
            // In the end both are the same, pixel by pixel.
            try await eventually(within: .seconds(60)) { try await stage.picture(window) == stage.hostPicture() }
            try await stage.desk.run(
                "xdotool", ["windowfocus", "--sync", window, "mousemove", "--window", window, "240", "180"])
            // The pointer is where it is here, exactly.
            try await saying({ "the pointer is elsewhere" }) {
                try await eventually(within: .seconds(30)) {
                    String(decoding: try await stage.host.run("xdotool", ["getmouselocation"]), as: UTF8.self)
                        .hasPrefix("x:240 y:180 ")
                }
            }
            try await stage.desk.run("xdotool", ["type", "--delay", "20", "echo Hello, World_42 äß@€"])
            try await stage.desk.run("xdotool", ["key", "Return"])
            let text = { (try? String(contentsOfFile: typed, encoding: .utf8)) ?? "" }
            try await saying({ text() }) {
                try await eventually(within: .seconds(30)) { text() == "echo Hello, World_42 äß@€\n" }
            }
            // What is held repeats, as here.
            try await stage.desk.run("xdotool", ["keydown", "b"])
            try await saying({ "one that is held does not repeat: \(text())" }) {
                try await eventually(within: .seconds(30)) { text().hasSuffix("bbb") }
            }
            try await stage.desk.run("xdotool", ["keyup", "b"])
            try await clipboards(stage)
            try await saying({ "the pictures differ in the end" }) {
                try await eventually(within: .seconds(30)) { try await stage.picture(window) == stage.hostPicture() }
            }
            // Another window takes the keyboard while a key is down: it does not stay down there.
            try await stage.desk.run("xdotool", ["windowfocus", "--sync", window, "keydown", "shift"])
            try await saying({ "Shift is not down there" }) {
                try await eventually(within: .seconds(30)) { try await stage.isShifted(typed) }
            }
            let other = try stage.desk.start("xterm", ["-T", "other"])
            defer { other.kill() }
            let another = try await stage.window("other", of: "XTerm")
            try await stage.desk.run("xdotool", ["windowfocus", "--sync", another])
            try await saying({ "Shift stays down there" }) {
                try await eventually(within: .seconds(30)) { try await !stage.isShifted(typed) }
            }
            try await stage.desk.run("xdotool", ["keyup", "shift"])
            try await saying({ "no lines are exchanged" }) { try await chat(stage, window) }
            // Its own shortcut closes it.
            try await stage.desk.run("xdotool", ["windowfocus", "--sync", window, "key", "ctrl+alt+shift+x"])
            let outcome = try await running.outcome(seconds: 30)
            #expect(outcome.status == 0 && outcome.error.isEmpty, "\(outcome)")
            try await eventually(within: .seconds(30)) { try await !stage.isShifted(typed) }
        }
    }

    /// Says what there is instead when `body` fails.
    private func saying(_ what: () -> String, _ body: () async throws -> Void) async throws {
        do { try await body() } catch {
            Issue.record("\(what())")
            throw error
        }
    }

    /// Lines go from the window to the command there, and back.
    private func chat(_ stage: ScreenWindowStage, _ window: String) async throws {
        let typed = try String(contentsOfFile: stage.laptop.path("typed"), encoding: .utf8)
        try await stage.desk.run("xdotool", ["windowfocus", "--sync", window, "key", "ctrl+alt+shift+c"])
        try await stage.desk.run("xdotool", ["type", "--delay", "20", "Which one?"])
        try await stage.desk.run("xdotool", ["key", "Return", "Escape"])
        // As bytes: another window above has them in a form of its own.
        func picture() async throws -> [UInt8] { try await stage.desk.run("xwd", ["-silent", "-id", window]) }
        var before = try await picture()
        var said = ""
        try await eventually(within: .seconds(30)) {
            // Of what was written before it tells first.
            before = try await picture()
            said = try await stage.laptop.kith(["screen", "chat"], input: Data("The left one\n".utf8)).output
            return said == "phone: Which one?\nto phone: The left one\n"
        }
        // It is drawn over the picture.
        try await eventually(within: .seconds(30)) { try await picture() != before }
        #expect(try String(contentsOfFile: stage.laptop.path("typed"), encoding: .utf8) == typed)
    }

    private func clipboards(_ stage: ScreenWindowStage) async throws {
        for (from, to, text) in [(stage.desk, stage.host, "from here ä"), (stage.host, stage.desk, "from there 漢")] {
            let file = stage.phone.path("clipboard")
            try write(text, to: file)
            let source = try from.start("xclip", ["-quiet", "-selection", "clipboard", "-i", file])
            defer { source.kill() }
            try await saying({ "the clipboard does not become “\(text)”" }) {
                try await eventually(within: .seconds(30)) {
                    (try? await to.run("xclip", ["-selection", "clipboard", "-o"])) == Array(text.utf8)
                }
            }
        }
    }

    @Test func `a host whose X server is killed is told of, and the command ends with an error`() async throws {
        try await onStage { stage in
            let running = try stage.open("--scale", "200", "--view-only")
            let window = try await stage.window("laptop – view only – 200 %")
            try await eventually(within: .seconds(60)) {
                // Twice the size, each pixel a square: the corner of the host's is four of the window's.
                let (there, here) = (try await stage.hostPicture(), try await stage.picture(window))
                return here.width > there.width && here.pixels.count > there.pixels.count
            }
            stage.host.kill()
            let outcome = try await running.outcome(seconds: 60)
            #expect(outcome.status != 0 && outcome.error.hasPrefix("kith: "), "\(outcome)")
            #expect(outcome.error.split(separator: "\n").count == 1, "\(outcome)")
        }
    }

    @Test func `closing the window ends it well, and Ctrl-C as a shell expects`() async throws {
        try await onStage { stage in
            let closed = try stage.open()
            // As a window manager asks a program to close: openbox does it by this key.
            let window = try await stage.window()
            try await eventually(within: .seconds(30)) {
                // It may not have taken the window over yet; and once that is gone, nobody has it.
                _ = try? await stage.desk.run("xdotool", ["windowfocus", "--sync", window, "key", "alt+F4"])
                return !closed.process.isRunning
            }
            let outcome = try await closed.outcome(seconds: 30)
            #expect(outcome.status == 0 && outcome.error.isEmpty, "\(outcome)")
            let interrupted = try stage.open("--stats")
            _ = try await stage.window()
            interrupted.process.interrupt()
            #expect(try await interrupted.outcome(seconds: 30).status == 130)
        }
    }

    @Test func `without a desktop, a grant or a device it says what to do`() async throws {
        try await onStage { stage in
            let nowhere = try await stage.phone.start(
                ["screen", "laptop"], environment: ["DISPLAY": "", "WAYLAND_DISPLAY": ""], byEnvironment: true
            ).outcome(seconds: 60)
            #expect(nowhere.status != 0 && nowhere.error.contains("DISPLAY"), "\(nowhere)")
            #expect(nowhere.error.contains("kith screen shot laptop"), "\(nowhere)")
            let broken = try await stage.phone.start(
                ["screen", "laptop"], environment: ["DISPLAY": ":9999", "WAYLAND_DISPLAY": ""], byEnvironment: true
            ).outcome(seconds: 60)
            #expect(broken.status != 0 && broken.error.contains("display"), "\(broken)")
            let unknown = try await stage.phone.start(
                ["screen", "desktop"], environment: ["DISPLAY": stage.desk.display], byEnvironment: true
            ).outcome(seconds: 60)
            #expect(unknown.status != 0 && unknown.error.contains("desktop"), "\(unknown)")
            // Paired the other way round without a grant.
            let denied = try await stage.laptop.start(
                ["screen", "phone"], environment: ["DISPLAY": stage.desk.display], byEnvironment: true
            ).outcome(seconds: 60)
            #expect(denied.status != 0 && denied.error.contains("screen:view"), "\(denied)")
        }
    }
}
#endif
