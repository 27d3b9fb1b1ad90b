import ArgumentParser
import Foundation

/// One line about something slow, on standard error: drawn anew on a terminal, said now and then elsewhere.
struct StatusLine {
    private let isShown: Bool
    private let isPlain: Bool
    private var isDrawn = false
    private var spoken: ContinuousClock.Instant?

    /// Makes a line; a plain one, as for a screen reader, never moves the cursor.
    init(isShown: Bool, isPlain: Bool) {
        self.isShown = isShown
        self.isPlain = isPlain || isatty(STDERR_FILENO) != 1
    }

    /// Shows `text` in place of what was shown; plain, as a line of its own, at most every three seconds.
    mutating func show(_ text: String) {
        guard isShown else { return }
        if !isPlain {
            noteInLine("\r\u{1B}[K\(text)")
            isDrawn = true
            return
        }
        let now = ContinuousClock.now
        if let spoken, now - spoken < .seconds(3) { return }
        spoken = now
        note(text)
    }

    /// Takes the line away.
    mutating func clear() {
        if isDrawn { noteInLine("\r\u{1B}[K") }
        isDrawn = false
    }
}
