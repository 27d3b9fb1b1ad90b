import CKithSystem
import Foundation
import KithIO
import KithShell
import KithTerminal
import KithWire

/// The terminal `kith browse` and `kith screen --terminal` run on: in raw mode, on its other screen, with the mouse.
///
/// KithTerminal.h says how it becomes again what it was in every case, also when a signal ends the process.
final class BrowserTerminal: Sendable {
    /// An event of the terminal and of whoever controls it.
    enum Event: Sendable {
        case typed([UInt8])
        /// The terminal is gone.
        case ended
        case resized
        /// Somebody else asked this process to stop (`kill -TSTP`).
        case stopped
        /// It goes on, after it was stopped without having been asked.
        case continued
    }

    /// The other screen, the mouse (presses, in decimal), bracketed paste; no wrapping at the last column.
    private static let greeting = Array(
        "\u{1B}[?1049h\u{1B}[?7l\u{1B}[?1000h\u{1B}[?1006h\u{1B}[?2004h\u{1B}[?25l".utf8)
    /// The opposite, and colours as they were.
    private static let farewell = Array(
        ("\u{1B}[0m\u{1B}[?2026l\u{1B}[?2004l\u{1B}[?1006l\u{1B}[?1003l\u{1B}[?1000l"
            + "\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l").utf8)

    /// All movement of the mouse, where the terminal can tell.
    private static let movement = Array("\u{1B}[?1003h".utf8)

    private let reactor: Reactor
    private let signals: Int32
    private let followsMouse: Bool

    /// Makes it ready to be taken; `followsMouse` asks for the mouse's movements besides its buttons.
    init(followsMouse: Bool = false) throws {
        self.followsMouse = followsMouse
        reactor = try .forShells()
        signals = kith_terminal_signals(0)
        guard signals >= 0 else { throw KithError(.internal, "Cannot follow the size of the terminal.") }
    }

    /// Takes the terminal.
    func enter() async throws {
        unsafe Self.farewell.withUnsafeBytes {
            unsafe kith_terminal_farewell(STDOUT_FILENO, $0.baseAddress, $0.count)
        }
        let result = kith_terminal_raw(STDIN_FILENO)
        guard result == 0 else {
            throw KithError(.internal, unsafe "Cannot set the terminal's mode: \(String(cString: strerror(-result))).")
        }
        kith_terminal_job_signals(1)
        try await write(Self.greeting + (followsMouse ? Self.movement : []))
    }

    /// Gives it back as it was.
    func leave() {
        kith_terminal_job_signals(0)
        kith_terminal_restore()
    }

    /// Gives it back, and stops this process until somebody continues it.
    func suspend() async throws {
        leave()
        kith_terminal_suspend()
        try await enter()
    }

    /// The columns and rows it has.
    var size: (columns: Int, rows: Int) {
        var (columns, rows, width, height): (UInt16, UInt16, UInt16, UInt16) = (0, 0, 0, 0)
        guard unsafe kith_terminal_size(STDOUT_FILENO, &columns, &rows, &width, &height) == 0, columns > 0, rows > 0
        else { return (80, 24) }
        return (Int(columns), Int(rows))
    }

    /// The pixels of a cell, where the system knows them.
    var cell: (width: Int, height: Int)? {
        var (columns, rows, width, height): (UInt16, UInt16, UInt16, UInt16) = (0, 0, 0, 0)
        guard unsafe kith_terminal_size(STDOUT_FILENO, &columns, &rows, &width, &height) == 0, columns > 0, rows > 0,
            Int(width) >= Int(columns) * 2, Int(height) >= Int(rows) * 2
        else { return nil }
        return (Int(width / columns), Int(height / rows))
    }

    /// False where colours are not wanted, and on the console of Linux, which shows what it does not know.
    static var mayShowPictures: Bool {
        wantsColour(STDOUT_FILENO) && ProcessInfo.processInfo.environment["TERM"] != "linux"
    }

    /// The colours it claims to have.
    static var colors: CanvasRenderer.Colors {
        let environment = ProcessInfo.processInfo.environment
        if !wantsColour(STDOUT_FILENO) { return .none }
        return ["truecolor", "24bit"].contains(environment["COLORTERM"] ?? "") ? .full : .indexed
    }

    /// True when the terminal declares that it shows ASCII only; one that declares nothing is taken for a modern one.
    static var isASCII: Bool {
        let environment = ProcessInfo.processInfo.environment
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        guard let locale = locale?.lowercased() else { return false }
        return !locale.contains("utf-8") && !locale.contains("utf8")
    }

    /// Reads what is typed until the task is cancelled; what has not been read then is left for another program.
    func readInput(_ report: (Event) -> Void) async {
        guard let watch = try? reactor.watch(terminal: STDIN_FILENO) else { return report(.ended) }
        defer { watch.close() }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while !Task.isCancelled {
            guard Self.canRead(STDIN_FILENO) else {
                await watch.wait(for: .reading)
                continue
            }
            let count = unsafe read(STDIN_FILENO, &buffer, buffer.count)
            if count > 0 {
                report(.typed(Array(buffer[..<count])))
            } else if count == 0 || (errno != EINTR && errno != EAGAIN) {
                return report(.ended)
            }
        }
    }

    /// Tells of new sizes, and of being stopped and continued, until the task is cancelled.
    func readSignals(_ report: (Event) -> Void) async {
        // Only cancellation ends it: the descriptor is the process's own.
        guard let watch = try? reactor.watch(terminal: signals) else { return }
        defer { watch.close() }
        while !Task.isCancelled {
            var number: UInt8 = 0
            guard Self.canRead(signals) else {
                await watch.wait(for: .reading)
                continue
            }
            guard unsafe read(signals, &number, 1) == 1 else { continue }
            switch Int32(number) {
            case SIGWINCH: report(.resized)
            case SIGTSTP: report(.stopped)
            case SIGCONT: report(.continued)
            default: break
            }
        }
    }

    /// Whether a read would not wait.
    private static func canRead(_ descriptor: Int32) -> Bool {
        var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&ready, 1, 0) > 0
    }

    /// Writes all of it, without ever blocking a thread other tasks need.
    ///
    /// - Throws: `.closed` when there is no terminal any more.
    func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            var ready = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
            if unsafe poll(&ready, 1, 0) == 0 {
                let watch = try reactor.watch(terminal: STDOUT_FILENO, reads: false)
                defer { watch.close() }
                await watch.wait(for: .writing)
                try Task.checkCancellation()
                continue
            }
            // What poll promises is room for this much.
            let count = unsafe rest.prefix(4_096).withUnsafeBytes {
                unsafe Foundation.write(STDOUT_FILENO, $0.baseAddress, $0.count)
            }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR, errno != EAGAIN {
                throw KithError(.closed, "The terminal is gone.")
            }
        }
    }
}
