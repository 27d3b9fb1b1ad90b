import CKithSystem
import Foundation
import KithIO
import KithTerminal
import KithWire

/// Plays a recording of a shell (`kith shell --replay FILE`).
///
/// On a terminal it keeps the recording's time: space pauses and goes on, `q` and Ctrl-C end it. What the recording
/// would do to the terminal beyond showing itself is taken out, and the terminal's modes are put back at the end.
/// Elsewhere the recorded output is written at once, as it is.
struct Replay {
    private let file: String
    private var pace: Asciicast.Pace
    private let hasIdleLimit: Bool

    /// A recording in asciicast v2, played `speed` times as fast, with no pause longer than `idleLimit` seconds.
    ///
    /// Without a limit the recording's own holds.
    ///
    /// - Throws: ``KithError/Code/invalid`` when speed or limit make no sense.
    init(file: String, speed: Double = 1, idleLimit: Double? = nil) throws {
        guard speed.isFinite, (0.01...1000).contains(speed) else {
            throw KithError(.invalid, "--speed takes a number from 0.01 to 1000.")
        }
        guard idleLimit.map({ $0.isFinite && $0 >= 0 }) ?? true else {
            throw KithError(.invalid, "--idle-limit takes a number of seconds.")
        }
        self.file = file
        pace = Asciicast.Pace(speed: speed, idleLimit: idleLimit)
        hasIdleLimit = idleLimit != nil
    }

    /// Plays it, to its end or until the person has enough.
    ///
    /// - Throws: ``KithError/Code/notFound`` when there is no such file, ``KithError/Code/corrupt`` when it is no
    ///   recording.
    func run() async throws {
        // It waits in poll(2): not on a thread that tasks need.
        let end = Promise<Result<Void, any Error>>()
        let thread = Thread { end.fulfil(Result { try play() }) }
        thread.name = "kith-replay"
        thread.start()
        try await end.value().get()
    }

    private func play() throws {
        let descriptor = unsafe open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw unsafe KithError(
                errno == ENOENT ? .notFound : .denied,
                "Cannot open the recording \(printable(file)): \(String(cString: strerror(errno))).")
        }
        defer { close(descriptor) }
        let isShown = isatty(STDOUT_FILENO) == 1
        let hasKeys = isShown && isatty(STDIN_FILENO) == 1
        if hasKeys { _ = kith_terminal_raw(STDIN_FILENO) }
        defer { if hasKeys { kith_terminal_restore() } }
        // Nobody asked the terminal anything, whatever the recording holds.
        var filter = OutputFilter(clipboardWrites: .deny, clipboardReads: .deny, allowsQueries: false)
        var wasShown = false
        defer { if isShown, wasShown { _ = write(Array(Self.reset.utf8)) } }

        var reader = Asciicast.Reader()
        var pace = pace
        var clock = PausingClock()
        var isAtEnd = false
        while !isAtEnd {
            let bytes = try read(descriptor)
            isAtEnd = bytes.isEmpty
            let events = try isAtEnd ? reader.finish() : reader.read(bytes)
            if !hasIdleLimit, let limit = reader.header?.idleTimeLimit { pace.idleLimit = limit }
            for event in events {
                guard case .output(let output) = event.kind else { continue }
                let due = pace.due(event.time)
                if isShown, !clock.wait(until: due, hasKeys: hasKeys) { return }
                wasShown = true
                guard write(isShown ? filter.filter(output) : output) else { return }
            }
        }
    }

    /// Ends what a recording that was cut off may have left on: the alternate screen, mouse, paste and key modes, colours.
    private static let reset =
        "\u{18}\u{1B}\\\u{1B}[?2026l\u{1B}[?1049l\u{1B}[!p\u{1B}[?9l\u{1B}[?1000l\u{1B}[?1002l\u{1B}[?1003l\u{1B}[?1004l"
        + "\u{1B}[?1005l\u{1B}[?1006l\u{1B}[?1015l\u{1B}[?1016l\u{1B}[?2004l\u{1B}[?5l\u{1B}[?1l\u{1B}[>4;0m\u{1B}[<99u\u{1B}>"
        + "\u{1B}]8;;\u{1B}\\\u{1B}[0m\u{1B}[?25h\u{1B}(B\u{F}\r\n"

    private func read(_ descriptor: Int32) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe bytes.withUnsafeMutableBytes {
                unsafe Foundation.read(descriptor, $0.baseAddress, $0.count)
            }
            if count >= 0 { return Array(bytes[..<count]) }
            guard errno == EINTR else {
                throw unsafe KithError(
                    .invalid, "Cannot read the recording \(printable(file)): \(String(cString: strerror(errno))).")
            }
        }
    }

    /// Writes all of it; false when nobody reads any more.
    private func write(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Foundation.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                var ready = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
                _ = unsafe poll(&ready, 1, -1)
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    /// Time since the beginning, without the pauses the person made.
    private struct PausingClock {
        private let clock = ContinuousClock()
        private var begin = ContinuousClock.now
        private var pausedAt: ContinuousClock.Instant?

        /// Waits, heeding keys; false when the person has enough.
        mutating func wait(until due: Duration, hasKeys: Bool) -> Bool {
            while true {
                let left = pausedAt == nil ? begin + due - clock.now : .seconds(3600)
                guard left > .zero else { return true }
                let (seconds, attoseconds) = left.components
                let milliseconds = Int32(min(seconds, 3600) * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
                var ready = pollfd(fd: hasKeys ? STDIN_FILENO : -1, events: Int16(POLLIN), revents: 0)
                guard unsafe poll(&ready, 1, milliseconds) > 0 else { continue }
                var key: UInt8 = 0
                guard unsafe Foundation.read(STDIN_FILENO, &key, 1) == 1 else { return false }
                switch key {
                case UInt8(ascii: "q"), 0x03: return false
                case UInt8(ascii: " "):
                    if let since = pausedAt {
                        begin += clock.now - since
                        pausedAt = nil
                    } else {
                        pausedAt = clock.now
                    }
                default: break
                }
            }
        }
    }
}
