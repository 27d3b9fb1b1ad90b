#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// `kith screen input`: what a script types and points at.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenInputTests {
    @Test func `a script's keys, text and clicks land on the display that it names`() async throws {
        try await onStage("1200x400x24") { stage in
            let typed = stage.laptop.path("typed")
            try await stage.host.run("xrandr", ["--setmonitor", "left", "600/160x400/100+0+0", "screen"])
            try await stage.host.run("xrandr", ["--setmonitor", "right", "600/160x400/100+600+0", "none"])
            let shell = try stage.host.start(
                "xterm", ["-geometry", "60x15+640+40", "-e", "sh", "-c", "stty -icanon -echo; cat > '\(typed)'"])
            defer { shell.kill() }
            func text() -> String { (try? String(contentsOfFile: typed, encoding: .utf8)) ?? "" }
            let listed = try await stage.phone.expect("screen", "list", "laptop", "--json")
            let number = try #require(try ScreenMonitorTests.number(of: "right", in: listed))
            // The terminal may be there a moment later.
            try await eventually(within: .seconds(30)) {
                _ = try await stage.phone.expect(
                    "screen", "input", "laptop", "--display", number, "move", "80,90", "click", "left", "text", "è漢",
                    "key", "Return")
                return text().hasSuffix("è漢\n")
            }
            let place = String(decoding: try await stage.host.run("xdotool", ["getmouselocation"]), as: UTF8.self)
            #expect(place.hasPrefix("x:680 y:90 "), "\(place)")
            let refused = try await stage.phone.kith(["screen", "input", "laptop", "--display", "9", "move", "1,1"])
            #expect(refused.status != 0 && refused.error.contains("There is no display 9"), "\(refused)")
        }
    }
}
#endif
