#if Screen && os(Linux) && canImport(CXCB)
import CKithSystem
import Glibc
import KithIO
import KithWire

/// A screen that is dark for whoever is in front of it, for as long as this lives.
///
/// A program of its own does it, `kith-dark`: it lights the screen again when this process is gone, however that ended.
final class X11Darkness: Sendable {
    private let socket: Int32
    private let process: Int32

    /// The time the program has to say that the screen is dark, in milliseconds.
    private static let patience: Int32 = 5_000

    /// Starts the program at `path`, and waits until the screen is dark.
    ///
    /// - Throws: `KithError` `.unsupported` when the screen cannot be darkened.
    init(_ path: String, display: String?) async throws(KithError) {
        var words: [String] = []
        for name in ["DISPLAY", "XAUTHORITY", "HOME"] {
            let value = unsafe getenv(name).map { unsafe String(cString: $0) }
            if let value = name == "DISPLAY" ? display ?? value : value { words.append("\(name)=\(value)") }
        }
        let bytes = words.flatMap { Array($0.utf8) + [0] }.map { CChar(bitPattern: $0) }
        var (socket, process): (Int32, Int32) = (-1, -1)
        let status = unsafe kith_helper_start_with(path, bytes, bytes.count, &socket, &process)
        guard status == 0 else {
            throw KithError(.unsupported, "\(path) cannot be started: \(SystemError(-status)).")
        }
        (self.socket, self.process) = (socket, process)
        let isDark: Bool
        do {
            isDark = try await DiskExecutor().run { [socket] in Self.answer(on: socket) == 1 }
        } catch {
            throw KithError(.cancelled, "The screen was not darkened.", cause: error)
        }
        guard isDark else {
            throw KithError(
                .unsupported,
                "That screen cannot be kept dark: its X server has no monitor whose brightness it changes.")
        }
    }

    deinit {
        // It lights the screen, says so, and ends.
        shutdown(socket, Int32(SHUT_WR))
        _ = Self.answer(on: socket)
        kith_socket_close(socket)
        _ = kith_helper_end(process)
    }

    /// The byte that the program says next; `nil` when it has ended, or says nothing for too long.
    private static func answer(on socket: Int32) -> UInt8? {
        var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        var byte: UInt8 = 0
        guard unsafe poll(&entry, 1, patience) == 1, unsafe read(socket, &byte, 1) == 1 else { return nil }
        return byte
    }
}
#endif
