import KithAPI
import KithTerminal

/// A dialog in front of the panes, which gets the keys.
enum Dialog: Sendable {
    case prompt(Prompt)
    case choice(Choice)
    case help(top: Int)

    /// A question answered with a line of text.
    struct Prompt: Sendable {
        enum Purpose: Sendable {
            case rename(device: String?, from: Files.Path, folder: Folder, old: [UInt8])
            case makeFolder(Folder)
            case search(Folder)
            case goTo
            case mark(isOn: Bool)
            /// `unchanged`: the destination when the text is left as it is.
            case copy([Files.Location], unchanged: Files.Location, text: String)
        }

        var title: String
        var field: TextField
        let purpose: Purpose
    }

    /// A question answered with one key.
    struct Choice: Sendable {
        enum Purpose: Sendable {
            case delete(device: String?, [Files.Path])
            case copy(Browser.CopyOrder)
            case replace(device: String?, Browser.Move)
            case sort
            case quit
        }

        struct Answer: Sendable {
            var key: Unicode.Scalar
            var label: String
        }

        var title: String
        var lines: [String]
        var answers: [Answer]
        let purpose: Purpose
        /// True when it cannot be undone.
        var isGrave = false
    }
}

/// A copy, running or waiting for its turn.
struct CopyTask: Sendable {
    let ticket: Ticket
    let order: Browser.CopyOrder
    let title: String
    var began: ContinuousClock.Instant?
    var progress = Files.Progress()
    var skipped: UInt64 = 0
    var isCancelled = false
}
