#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The program `kith-dark`: keeps the monitors of an X server dark, until the socket at descriptor 0 ends.
///
/// `kith` starts it, with the server in `DISPLAY`, and nobody else. It writes a byte: 1 when it is dark, 0 when that cannot
/// be done. When the other end is closed, or its process is gone, it lights the screen again, writes 2 and ends.
@main
struct KithDark {
    static func main() {
        var kind: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard CommandLine.arguments.count == 1, unsafe getsockopt(0, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 else {
            let words = "kith-dark keeps a screen dark for kith, which starts it; there is nothing to be typed.\n"
            _ = unsafe write(2, words, words.utf8.count)
            exit(64)
        }
        // Whoever started it may be gone by the time it answers; a signal that is meant for the terminal is not for it.
        for number in [SIGPIPE, SIGINT, SIGHUP, SIGTERM] { _ = signal(number, SIG_IGN) }
        #if Screen && os(Linux) && canImport(CXCB)
        guard let monitors = Monitors() else { return say(0) }
        guard monitors.darken() else {
            // Not one of them stays dark when another cannot be.
            monitors.light()
            return say(0)
        }
        say(1)
        // Again each second: monitors come, and other programs set their colours for the night.
        while !isOver(within: 1_000), monitors.darken() {}
        monitors.light()
        say(2)
        #else
        say(0)
        #endif
    }

    private static func say(_ byte: UInt8) {
        var byte = byte
        _ = unsafe write(0, &byte, 1)
    }

    /// Waits so many milliseconds, or until the other end is closed; whether it is.
    private static func isOver(within milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        var byte: UInt8 = 0
        return unsafe poll(&entry, 1, milliseconds) == 1 && read(0, &byte, 1) <= 0
    }
}
