import KithAPI

/// The lines that two people write to each other over a picture, and the one that is being written.
struct WindowChat: Hashable {
    /// A line, and until when it is shown while nothing is written.
    struct Line: Hashable {
        var text: String
        var ends: ContinuousClock.Instant
    }

    /// The most lines that are shown.
    static let limit = 6

    /// Whether the keyboard writes a line.
    private(set) var isOpen = false
    private(set) var draft = ""
    private(set) var lines: [Line] = []
    /// No key went down since it was opened: text is that of the shortcut.
    private var isFresh = false

    /// Begins to write, or leaves that.
    mutating func toggle() {
        isOpen.toggle()
        isFresh = isOpen
        draft = ""
    }

    /// Takes in a line of either person.
    mutating func add(_ text: String, from name: String, at now: ContinuousClock.Instant) {
        lines.append(Line(text: "\(name): \(text)", ends: now + Screen.ChatLine.shownFor))
        lines = lines.suffix(Self.limit)
    }

    /// Takes in a key that went down; returns the line that is to be sent.
    mutating func pressed(_ key: WindowKey) -> String? {
        isFresh = false
        switch key.meaning {
        // Enter, that of the number pad too.
        case 40, 88:
            defer { draft = "" }
            return (try? Screen.ChatLine(draft))?.text  // nothing in it: nothing to send
        case 41: toggle()
        case 42: _ = draft.popLast()
        default: break
        }
        return nil
    }

    /// Takes in text that was typed or composed; of what is too long nothing.
    mutating func typed(_ text: String) {
        guard !isFresh else { return }
        let longer = draft + text
        if longer.unicodeScalars.count <= Screen.ChatLine.lengthLimit { draft = longer }
    }

    /// The time when the next line goes; `nil` while one is written, and when there is none.
    var nextDeadline: ContinuousClock.Instant? { isOpen ? nil : lines.first?.ends }

    /// Takes the lines away whose time is over; whether there were any.
    mutating func timedOut(at now: ContinuousClock.Instant) -> Bool {
        let before = lines.count
        if !isOpen { lines.removeAll { $0.ends <= now } }
        return lines.count != before
    }
}
