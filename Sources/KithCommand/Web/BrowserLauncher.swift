import Foundation
import KithWire

/// Leads the browser of this machine's person to a link, which no command line shows: every user here can read those.
enum BrowserLauncher {
    /// Tells whether there is a screen to open a browser on.
    static var hasDisplay: Bool {
        #if canImport(Darwin)
        return true
        #else
        let environment = ProcessInfo.processInfo.environment
        return ["DISPLAY", "WAYLAND_DISPLAY"].contains { !(environment[$0] ?? "").isEmpty }
        #endif
    }

    /// Writes a page that leads on to the link, readable by this user alone, in place of the one before.
    static func write(_ url: String, in directory: String) throws -> String {
        let path = directory + "/kith.web.html"
        // A link of ours has nothing in it that would have to be escaped.
        let text = """
            <!doctype html>
            <meta charset="utf-8">
            <meta name="referrer" content="no-referrer">
            <meta http-equiv="refresh" content="0; url=\(url)">
            <title>Kith</title>
            <p><a href="\(url)">Open Kith</a>: once, within five minutes.</p>

            """
        unsafe unlink(path)
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw KithError(.denied, "\(path) cannot be written. `kith web --print` prints the link instead.")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try handle.write(contentsOf: Data(text.utf8))
        return path
    }

    /// Has the system open a file in the browser; false when it cannot.
    static func open(_ path: String) async -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        #if canImport(Darwin)
        process.arguments = ["open", path]
        #else
        process.arguments = ["xdg-open", path]
        #endif
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            return false
        }
        // One that does not come back shows the page itself.
        let deadline = ContinuousClock.now + .seconds(5)
        while process.isRunning, ContinuousClock.now < deadline {
            do {
                try await Task.sleep(for: .milliseconds(20))
            } catch {
                return true
            }
        }
        return process.isRunning || process.terminationStatus == 0
    }

    private static func open(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 { systemOpen(path, flags, mode) }
}

/// The C function whose name a method of ``BrowserLauncher`` hides.
private func systemOpen(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 { unsafe open(path, flags, mode) }
