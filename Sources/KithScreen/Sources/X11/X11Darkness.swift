#if Screen && os(Linux) && canImport(CXCB)
import CKithSystem
import Dispatch
import Glibc
import KithAPI
import KithIO
import KithWire

/// A screen that is dark for whoever is in front of it, until ``end()``.
///
/// A program of its own does it, `kith-dark`: it lights the screen again when this process is gone, however that ended.
final class X11Darkness: Sendable {
    private let socket: Int32
    private let process: Int32
    /// What the program said last: 2, that it is lit; `nil` when it ended without a word.
    private let last = Promise<UInt8?>()

    /// The time the program has to answer.
    private static let patience = Duration.seconds(5)

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
        let first = Promise<UInt8?>()
        // A thread of its own reads: it waits as long as it is dark.
        DispatchQueue(label: "kith dark").async { [last, socket] in
            let answer = Self.next(on: socket)
            first.fulfil(answer)
            last.fulfil(answer == 1 ? Self.next(on: socket) : nil)
        }
        let answer = try? await withDeadline(Self.patience) { try await first.valueUnlessCancelled() }
        guard answer == .some(1) else {
            throw KithError(
                .unsupported,
                "That screen cannot be kept dark: its X server has no monitor whose brightness it changes.")
        }
    }

    deinit {
        // The thread that read it may be there yet: the socket is closed by nobody before.
        let (last, socket, process) = (last, socket, process)
        Task(name: "kith dark end") { await Self.end(last, socket, process) }
    }

    /// Waits until the program ends, by ``end()`` or by itself.
    func hasEnded() async { _ = await last.value() }

    /// Has the screen lit; false when nobody said that it is.
    func end() async -> Bool {
        shutdown(socket, Int32(SHUT_WR))
        let answer = try? await withDeadline(Self.patience) { [last] in try await last.valueUnlessCancelled() }
        return answer == .some(2)
    }

    private static func end(_ last: Promise<UInt8?>, _ socket: Int32, _ process: Int32) async {
        shutdown(socket, Int32(SHUT_WR))
        // It ends by itself once it has said so; one that does not is of no use.
        _ = try? await withDeadline(patience) { try await last.valueUnlessCancelled() }
        shutdown(socket, Int32(SHUT_RDWR))
        _ = await last.value()
        kith_socket_close(socket)
        _ = try? await DiskExecutor().run { kith_helper_end(process) }
    }

    /// The byte that the program says next; `nil` when it has ended.
    private static func next(on socket: Int32) -> UInt8? {
        var byte: UInt8 = 0
        while true {
            let count = unsafe read(socket, &byte, 1)
            if count == 1 { return byte }
            if count == 0 || errno != EINTR { return nil }
        }
    }
}
#endif
