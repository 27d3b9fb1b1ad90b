extension Terminal {
    /// Bytes that restore a terminal in this state for whoever had it before.
    ///
    /// They break off a sequence that is half received, switch off what programs have switched on (the alternate
    /// screen, the mouse, bracketed paste, keys of other meanings, colours, margins), and show the cursor. Empty when
    /// there is nothing to do. At most ``longestLeaving`` bytes.
    package func leaving() -> [UInt8] {
        var text = Self.popping(keyboard)
        if topMargin > 0 || bottomMargin < rowCount - 1 {
            // Setting margins moves the cursor.
            text += "\u{1B}7\u{1B}[r\u{1B}8"
        }
        if isAlternate { text += "\u{1B}[?1049l" + Self.popping(mainKeyboard) }
        text += modes.changes(to: TerminalModes())
        if cursor.charset != 0 || cursor.charsets[0] != Charset.ascii.rawValue { text += "\u{1B}(B\u{0F}" }
        if isAlternate || !cursor.style.hasStyle(of: Cell()) { text += "\u{1B}[0m" }
        if !palette.isEmpty { text += "\u{1B}]104\u{1B}\\\u{1B}]110\u{1B}\\\u{1B}]111\u{1B}\\\u{1B}]112\u{1B}\\" }
        guard !text.isEmpty || !parser.isAtRest else { return [] }
        // CAN ends any sequence, and ST any string of a terminal that does not heed CAN.
        return [0x18, 0x1B, 0x5C] + Array(text.utf8)
    }

    /// The limit on ``leaving()``: every mode switched on has one sequence of at most 8 bytes.
    package static let longestLeaving = 256

    /// Bytes that bring a terminal that was left with ``leaving()`` back to this state.
    ///
    /// On the main screen only what is switched on comes back; what stands there stays.
    package func returning() -> [UInt8] {
        isAlternate ? snapshot(scrollbackLines: 0) : Array(TerminalModes().changes(to: modes).utf8)
    }

    /// Takes back what a program has laid on the stack of keyboard modes.
    private static func popping(_ keyboard: [UInt16]) -> String {
        var text = keyboard.count > 1 ? "\u{1B}[<\(keyboard.count - 1)u" : ""
        if let first = keyboard.first, first != 0 { text += "\u{1B}[=0;1u" }
        return text
    }
}

extension TerminalModes {
    /// The control sequences that bring a terminal with these modes to `other`.
    func changes(to other: TerminalModes) -> String {
        var text = ""
        func set(_ sequence: String, _ mode: KeyPath<TerminalModes, Bool>) {
            guard self[keyPath: mode] != other[keyPath: mode] else { return }
            text += "\u{1B}[" + sequence + (other[keyPath: mode] ? "h" : "l")
        }
        set("?1", \.applicationCursor)
        set("?5", \.reverseScreen)
        set("?7", \.autowrap)
        set("?12", \.cursorBlink)
        set("?25", \.cursorVisible)
        set("?1004", \.focusEvents)
        set("?1007", \.alternateScroll)
        set("?2004", \.bracketedPaste)
        set("?2026", \.synchronizedUpdate)
        set("4", \.insert)
        set("20", \.newline)
        // Every terminal knows DECKPAM and DECKPNM, few mode 66.
        if applicationKeypad != other.applicationKeypad { text += other.applicationKeypad ? "\u{1B}=" : "\u{1B}>" }
        if mouse != other.mouse {
            if mouse != .off { text += "\u{1B}[?\(mouse.rawValue)l" }
            if other.mouse != .off { text += "\u{1B}[?\(other.mouse.rawValue)h" }
        }
        if mouseEncoding != other.mouseEncoding {
            if mouseEncoding != .bytes { text += "\u{1B}[?\(mouseEncoding.rawValue)l" }
            if other.mouseEncoding != .bytes { text += "\u{1B}[?\(other.mouseEncoding.rawValue)h" }
        }
        if modifyOtherKeys != other.modifyOtherKeys { text += "\u{1B}[>4;\(other.modifyOtherKeys)m" }
        if cursorStyle != other.cursorStyle { text += "\u{1B}[\(other.cursorStyle) q" }
        return text
    }
}
