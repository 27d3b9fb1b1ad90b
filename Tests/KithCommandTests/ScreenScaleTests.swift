#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// Text in the window of `kith screen` on a display of many pixels, which X11 tells in its settings alone.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenScaleTests {
    @Test func `text is as large as the desktop wants it, and the picture and its pointer stay exact`() async throws {
        try await onStage("600x300x24") { stage in
            let plain = try await rows(stage)
            let settings = "*customization:\t-color\nXft.dpi:\t192\n"
            try await stage.desk.run(
                "xprop", ["-root", "-f", "RESOURCE_MANAGER", "8s", "-set", "RESOURCE_MANAGER", settings])
            let double = try await rows(stage)
            #expect(plain > 15 && double >= 2 * plain - 6, "\(plain), \(double)")
        }
    }

    /// The number of rows that the statistics cover.
    private func rows(_ stage: ScreenWindowStage) async throws -> Int {
        let running = try stage.open()
        let window = try await stage.window()
        try await stage.shows(window, 0, 0, 600, 300, "the screen")
        try await stage.desk.run("xdotool", ["windowfocus", "--sync", window])
        try await stage.points(window, at: 123, 45, "x:123 y:45 ", "the pointer")
        try await stage.desk.run("xdotool", ["key", "ctrl+alt+shift+s"])
        var covered = 0
        // Once they are there, and the same twice. They are below; above is the handle, as the pointer is near it.
        try await eventually(within: .seconds(30)) {
            let (there, here) = (try await stage.hostPicture(), try await stage.picture(window))
            let now = (150..<300).count { there.part(0, $0, 600, 1) != here.part(0, $0, 600, 1) }
            defer { covered = now }
            return now > 0 && now == covered
        }
        running.process.interrupt()
        _ = try await running.outcome(seconds: 30)
        return covered
    }
}
#endif
