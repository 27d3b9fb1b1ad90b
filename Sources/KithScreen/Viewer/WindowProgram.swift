import CKithSystem
import Foundation
import KithIO
import KithWindow
import KithWire
import Synchronization

/// `kith-viewer` while it runs: it has the window, and neither keys nor a network.
final class WindowProgram: Sendable {
    private let socket: Int32
    private let process: Int32
    private let isEnded = Mutex(false)
    private let disk = DiskExecutor()
    /// One message is written at a time.
    private let writing = AsyncMutex()

    /// The time it may take to read a message.
    private static let patience: Int32 = 20_000
    /// What a window system needs of the environment, and nothing else.
    private static let variables = [
        "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE",
        "XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "DBUS_SESSION_BUS_ADDRESS", "HOME", "LANG", "LC_ALL", "LC_CTYPE",
        "XMODIFIERS", "XCURSOR_THEME", "XCURSOR_SIZE", "GDK_SCALE", "LIBGL_ALWAYS_SOFTWARE",
    ]

    /// Starts the program at `path`.
    ///
    /// - Throws: `KithError` `.unsupported` when it cannot be started.
    init(_ path: String, environment: [String: String]) throws(KithError) {
        var chosen = environment.filter { Self.variables.contains($0.key) || $0.key.hasPrefix("SDL_") }
        // SDL gives a window no title that the locale has no letters for.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { chosen[$0] }.first { !$0.isEmpty } ?? "C"
        if !locale.uppercased().contains("UTF") { chosen["LC_ALL"] = "C.UTF-8" }
        let bytes = chosen.flatMap { Array("\($0.key)=\($0.value)".utf8) + [0] }.map { CChar(bitPattern: $0) }
        var (socket, process): (Int32, Int32) = (-1, -1)
        let status = unsafe kith_helper_start_with(path, bytes, bytes.count, &socket, &process)
        guard status == 0 else {
            throw KithError(.unsupported, "\(path) cannot be started: \(SystemError(-status)).")
        }
        (self.socket, self.process) = (socket, process)
    }

    deinit {
        end()
        kith_socket_close(socket)
    }

    /// Sends a message, with a descriptor beside it.
    func send(_ command: WindowCommand, passing descriptor: Int32 = -1) async throws {
        try await writing.lockUnlessCancelled()
        defer { writing.unlock() }
        try await disk.run { [socket] in
            try WindowSocket.send(command, to: socket, passing: descriptor, milliseconds: Self.patience)
        }
    }

    /// Waits for what it says next; `nil` when it has ended.
    ///
    /// A task that is cancelled ends it.
    func next() async throws -> WindowEvent? {
        try await withTaskCancellationHandler {
            try await disk.run { [socket] in
                guard let (event, descriptor) = try WindowSocket.receive(WindowEvent.self, from: socket) else {
                    return nil
                }
                // It has none to give.
                if let descriptor { kith_socket_close(descriptor) }
                return event
            }
        } onCancel: {
            end()
        }
    }

    /// Ends it, if it still runs, and whoever waits for it.
    func end() {
        let isFirst = isEnded.withLock { isEnded in
            defer { isEnded = true }
            return !isEnded
        }
        guard isFirst else { return }
        _ = kith_helper_end(process)
    }
}
