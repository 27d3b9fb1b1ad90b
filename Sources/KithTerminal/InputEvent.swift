/// Something a person did at a terminal.
package enum InputEvent: Hashable, Sendable {
    /// A key, with what was held.
    case key(Key, KeyModifiers = [])
    /// The mouse.
    case mouse(MouseEvent)
    /// Text that was pasted, as bytes; at most ``InputDecoder/pasteLimit`` of them.
    case paste([UInt8])
    /// The terminal's window was given the keyboard, or lost it.
    case focus(Bool)
}

/// A key of a terminal.
package enum Key: Hashable, Sendable {
    /// A character; with control held it is the small letter.
    case scalar(Unicode.Scalar)
    case enter, tab, backspace, escape
    case up, down, left, right
    case home, end, pageUp, pageDown, insert, delete
    /// F1…F20.
    case function(Int)
}

/// The modifiers held while a key is pressed.
package struct KeyModifiers: OptionSet, Hashable, Sendable {
    package var rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let shift = KeyModifiers(rawValue: 1)
    package static let alt = KeyModifiers(rawValue: 1 << 1)
    package static let control = KeyModifiers(rawValue: 1 << 2)
}

/// An action of the mouse.
package struct MouseEvent: Hashable, Sendable {
    package enum Action: Hashable, Sendable {
        case press, release, drag
        case wheelUp, wheelDown
    }

    package enum Button: Hashable, Sendable {
        case left, middle, right
        /// No button, or one of those beyond three.
        case other
    }

    package var action: Action
    package var button: Button
    /// The column, from 0.
    package var column: Int
    /// The row, from 0.
    package var row: Int
    package var modifiers: KeyModifiers

    package init(_ action: Action, _ button: Button = .left, column: Int, row: Int, modifiers: KeyModifiers = []) {
        self.action = action
        self.button = button
        self.column = column
        self.row = row
        self.modifiers = modifiers
    }
}
