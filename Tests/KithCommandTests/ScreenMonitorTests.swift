#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// Monitors that come, go and change their size while the window shows one of them.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenMonitorTests {
    @Test func `a monitor that changes is followed, one that is unplugged is told of, and clicks land`() async throws {
        try await onStage("1200x400x24") { stage in
            let host = stage.host
            try await host.run("xrandr", ["--setmonitor", "left", "600/160x400/100+0+0", "screen"])
            try await host.run("xrandr", ["--setmonitor", "right", "600/160x400/100+600+0", "none"])
            let typed = stage.laptop.path("typed")
            let shell = try host.start(
                "xterm",
                ["-geometry", "60x15+640+40", "-e", "sh", "-c", "stty -icanon -echo; cat > '\(typed)'"])
            defer { shell.kill() }
            // The server counts them as it likes.
            let listed = try await stage.phone.expect("screen", "list", "laptop", "--json")
            let number = try #require(try Self.number(of: "right", in: listed))
            let running = try stage.open("--display", number, "--scale", "1:1")
            let window = try await stage.window("laptop – 100 %")
            try await stage.desk.run("xdotool", ["windowfocus", "--sync", window])
            try await stage.shows(window, 600, 0, 600, 400, "the right one")
            try await stage.points(window, at: 599, 399, "x:1199 y:399 ", "its last pixel")
            // It goes, and comes back in another size: it is shown again.
            try await host.run("xrandr", ["--delmonitor", "right"])
            try await stage.points(window, at: 350, 100, "x:650 y:100 ", "all that is left")
            try await host.run("xrandr", ["--setmonitor", "right", "400/100x300/100+600+0", "none"])
            try await stage.shows(window, 600, 0, 400, 300, "the right one in its new size")
            try await stage.points(window, at: 100, 50, "x:600 y:0 ", "its first pixel")
            try await stage.points(window, at: 499, 349, "x:999 y:299 ", "its last pixel")
            // Another one goes, and this one's number with it.
            try await host.run("xrandr", ["--delmonitor", "left"])
            try await eventually(within: .seconds(30)) {
                try Self.number(of: "right", in: try await stage.phone.expect("screen", "list", "laptop", "--json"))
                    == "1"
            }
            try await stage.points(window, at: 101, 51, "x:601 y:1 ", "the same one")
            // What is held meanwhile is let go, and keys and clicks are those of what is shown.
            try await stage.desk.run(
                "xdotool", ["windowfocus", "--sync", window, "keydown", "shift", "mousedown", "1"])
            try await host.run("xrandr", ["--delmonitor", "right"])
            try await stage.points(window, at: 350, 100, "x:650 y:100 ", "all of it")
            try await stage.desk.run("xdotool", ["keyup", "shift", "mouseup", "1"])
            try await stage.desk.run("xdotool", ["type", "--delay", "20", "here"])
            try await eventually(within: .seconds(30)) {
                (try? String(contentsOfFile: typed, encoding: .utf8))?.hasSuffix("here") == true
            }
            #expect(try await !stage.isShifted(typed))
            // The whole screen shrinks.
            try await host.run(
                "xrandr", ["--newmode", "640x300", "25", "640", "650", "660", "700", "300", "310", "320", "340"])
            try await host.run("xrandr", ["--addmode", "screen", "640x300"])
            try await host.run("xrandr", ["--output", "screen", "--mode", "640x300"])
            try await stage.points(window, at: 300, 200, "x:320 y:150 ", "the middle of a smaller screen")
            try await eventually(within: .seconds(30)) {
                let (there, here) = (try await stage.hostPicture(), try await stage.picture(window))
                return there.height == 300 && there.part(20, 0, 600, 200) == here.part(0, 50, 600, 200)
            }
            running.process.interrupt()
            #expect(try await running.outcome(seconds: 30).status == 130)
        }
    }

    static func number(of name: String, in list: String) throws -> String? {
        let object = try JSONSerialization.jsonObject(with: Data(list.utf8)) as? [String: Any]
        let displays = object?["displays"] as? [[String: Any]] ?? []
        return displays.first { $0["name"] as? String == name }?["number"].map { "\($0)" }
    }
}
#endif
