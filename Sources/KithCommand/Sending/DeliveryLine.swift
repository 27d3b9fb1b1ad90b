import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine

/// The line on a terminal that shows how far something is.
struct DeliveryLine {
    private let isShown: Bool
    private var isDrawn = false

    init(isShown: Bool) { self.isShown = isShown && !isPlainTerminal && isatty(STDERR_FILENO) == 1 }

    /// Draws it anew.
    mutating func show(_ text: String) {
        guard isShown else { return }
        noteInLine("\r\u{1B}[K\(text.prefix(79))")
        isDrawn = true
    }

    /// Takes it away.
    mutating func clear() {
        if isDrawn { noteInLine("\r\u{1B}[K") }
        isDrawn = false
    }

    /// `42 %  1.2 MB of 3.0 MB`.
    static func progress(_ bytes: UInt64, of total: UInt64) -> String {
        "\(Wording.percent(bytes, of: total)) %  \(ProgressLine.size(bytes)) of \(ProgressLine.size(total))"
    }
}
