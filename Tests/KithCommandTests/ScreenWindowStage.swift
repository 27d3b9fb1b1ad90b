#if Viewer && Screen && os(Linux)
import Foundation
import KithTesting
import Testing

/// A device that looks at another's screen, each on a server of its own.
final class ScreenWindowStage: Sendable {
    let host: XServer
    let desk: XServer
    let laptop: Machine
    let phone: Machine

    init(_ size: String) async throws {
        host = try XServer(size)
        desk = try XServer("1024x768x24", isManaged: true)
        laptop = try Machine("laptop")
        phone = try Machine("phone")
        try await desk.isManaged()
        // A German keyboard here, a US one there.
        try await desk.run("setxkbmap", ["de"])
        try await laptop.up("--screen-source", "x11:\(host.display)")
        try await phone.up()
        try await laptop.invite(
            phone, "screen:control", "screen:clipboard", "screen:unattended", "files:write=\(laptop.folder.path)")
    }

    /// Starts `kith screen` on the desk.
    func open(_ more: String...) throws -> Running {
        try phone.start(["screen"] + ["laptop"] + more, environment: ["DISPLAY": desk.display], byEnvironment: true)
    }

    /// The window of a display, once its title is this.
    func window(
        _ title: String = "laptop", of program: String = "kith-viewer", besides known: String? = nil,
        on server: XServer? = nil
    ) async throws -> String {
        let server = server ?? desk
        var found = ""
        try await eventually(within: .seconds(60)) {
            let windows = try? await server.run("xdotool", ["search", "--onlyvisible", "--class", program])
            for window in String(decoding: windows ?? [], as: UTF8.self).split(separator: "\n") {
                let name = try? await server.run("xdotool", ["getwindowname", String(window)])
                if name == Array("\(title)\n".utf8), String(window) != known { found = String(window) }
            }
            return !found.isEmpty
        }
        return found
    }

    /// What a window of the desk shows.
    func picture(_ window: String) async throws -> XWDPicture {
        try XWDPicture(try await desk.run("xwd", ["-silent", "-id", window]))
    }

    func hostPicture() async throws -> XWDPicture {
        try XWDPicture(try await host.run("xwd", ["-silent", "-root"]))
    }

    /// Waits until `kith screen` has said something beside the window.
    func says(_ text: String, _ running: Running) async throws {
        do {
            try await eventually(within: .seconds(60)) { running.errorSoFar.contains(text) }
        } catch {
            Issue.record("\(running.errorSoFar)")
            throw error
        }
    }

    /// Waits until the window shows a part of the host's screen, and nothing else in the middle of it.
    func shows(
        _ window: String, _ x: Int, _ y: Int, _ width: Int, _ height: Int, _ what: String, on server: XServer? = nil
    ) async throws {
        do {
            try await eventually(within: .seconds(30)) {
                // One that is moved or resized at this moment is no picture.
                guard let shown = try? await (server ?? desk).run("xwd", ["-silent", "-id", window]) else {
                    return false
                }
                let (there, here) = (try await hostPicture(), try XWDPicture(shown))
                let (left, top) = ((here.width - width) / 2, (here.height - height) / 2)
                guard left >= 0, top >= 0 else { return false }
                return there.part(x, y, width, height) == here.part(left, top, width, height)
            }
        } catch {
            Issue.record("the window does not show \(what)")
            throw error
        }
    }

    /// Puts the pointer on a pixel of the window, and waits until it is at the place there.
    func points(_ window: String, at x: Int, _ y: Int, _ place: String, _ what: String) async throws {
        var found = ""
        do {
            try await desk.run("xdotool", ["mousemove", "--window", window, "\(x)", "\(y)"])
            try await eventually(within: .seconds(30)) {
                found = String(decoding: try await host.run("xdotool", ["getmouselocation"]), as: UTF8.self)
                return found.hasPrefix(place)
            }
        } catch {
            Issue.record("\(what): the pointer is at \(found)")
            throw error
        }
    }

    /// Types a letter on the host itself; true when it comes out as a capital, as Shift is down there.
    func isShifted(_ file: String) async throws -> Bool {
        func written() -> String { (try? String(contentsOfFile: file, encoding: .utf8)) ?? "" }
        let before = written()
        try await host.run("xdotool", ["key", "b"])
        try await eventually(within: .seconds(30)) { written().count > before.count }
        return written().last == "B"
    }

    func remove() async {
        await laptop.remove()
        await phone.remove()
        desk.kill()
        host.kill()
    }
}

/// Runs `body` on a stage, and takes it down after it.
///
/// `size` is the host's screen's.
func onStage(_ size: String = "480x360x24", _ body: (ScreenWindowStage) async throws -> Void) async throws {
    let stage = try await ScreenWindowStage(size)
    do { try await body(stage) } catch {
        await stage.remove()
        throw error
    }
    await stage.remove()
}
#endif
