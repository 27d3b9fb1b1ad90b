package import KithWire

extension Shell.Screen {
    /// Something a person does at a screen that is drawn elsewhere, or that it was drawn.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// Text that was typed or composed, at most 64 KiB of UTF-8; a line feed is the Enter key.
        case text(String)
        /// A key.
        case key(Key)
        /// Text that was pasted, at most 1 MiB of UTF-8.
        case paste(String)
        /// The mouse.
        case mouse(Mouse)
        /// The window was given the keyboard, or lost it.
        case focus(Bool)
        /// The screen has this size now.
        case size(Size)
        /// The picture of this number is shown.
        case shown(UInt64)
        /// Lines of the scrollback are wanted.
        case lines(LineRange)
    }

    /// A key by its name.
    public struct Key: Codable, Hashable, Sendable {
        /// One character; or `Enter`, `Tab`, `Backspace`, `Escape`, `Space`, `Up`, `Down`, `Left`, `Right`, `Home`, `End`,
        /// `PageUp`, `PageDown`, `Insert`, `Delete`, `F1`…`F20`; or `Keypad0`…`Keypad9`, `KeypadDecimal`,
        /// `KeypadDivide`, `KeypadMultiply`, `KeypadSubtract`, `KeypadAdd`, `KeypadEnter`.
        ///
        /// `ArrowUp` and the like are the same as `Up`. A key of another name does nothing.
        public var name: String
        /// True while shift is held; `nil` is false.
        public var shift: Bool?
        /// True while alt is held; `nil` is false.
        public var alt: Bool?
        /// True while control is held; `nil` is false.
        public var control: Bool?

        /// Makes a key.
        public init(name: String, shift: Bool? = nil, alt: Bool? = nil, control: Bool? = nil) {
            self.name = name
            self.shift = shift
            self.alt = alt
            self.control = control
        }
    }

    /// An action of the mouse.
    public struct Mouse: Codable, Hashable, Sendable {
        /// The kinds of actions.
        @nonexhaustive
        public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
            case down, up, move, wheel
        }

        /// The buttons.
        @nonexhaustive
        public enum Button: String, Codable, Hashable, Sendable, CaseIterable {
            case left, middle, right
            /// None is held.
            case none
        }

        /// The kind.
        public var kind: Kind
        /// The button; `nil`: none.
        public var button: Button?
        /// The column, from 0; beyond the screen it is the nearest.
        public var x: Int
        /// The row, from 0; beyond the screen it is the nearest.
        public var y: Int
        /// The notches that the wheel turned, towards the person, −100…100.
        public var delta: Int?
        /// True while shift is held; `nil` is false.
        public var shift: Bool?
        /// True while alt is held; `nil` is false.
        public var alt: Bool?
        /// True while control is held; `nil` is false.
        public var control: Bool?

        /// Makes an action.
        public init(
            _ kind: Kind, _ button: Button? = nil, x: Int, y: Int, delta: Int? = nil, shift: Bool? = nil,
            alt: Bool? = nil, control: Bool? = nil
        ) {
            self.kind = kind
            self.button = button
            self.x = x
            self.y = y
            self.delta = delta
            self.shift = shift
            self.alt = alt
            self.control = control
        }
    }

    /// The size of a screen, in characters.
    public struct Size: Codable, Hashable, Sendable {
        /// Characters in a row, 2…1,000.
        public var columns: Int
        /// Rows, 1…1,000.
        public var rows: Int

        /// Makes a size.
        public init(columns: Int, rows: Int) {
            self.columns = columns
            self.rows = rows
        }
    }

    /// Lines of the scrollback by their numbers.
    public struct LineRange: Codable, Hashable, Sendable {
        /// The number of the first.
        public var from: Int
        /// The number of lines, 1…500.
        public var count: Int

        /// Makes a range.
        public init(from: Int, count: Int) {
            self.from = from
            self.count = count
        }
    }
}

extension Shell.Screen.Action: StreamMessage {
    /// 2 MiB.
    public static var sizeLimit: Int { 2 << 20 }
    /// The most bytes of text that are typed at once.
    package static let textLimit = 64 << 10
    /// The most bytes that are pasted at once.
    package static let pasteLimit = 1 << 20
    /// The most lines of the scrollback in one question.
    package static let lineLimit = 500
    /// The columns that a screen may have.
    package static let columnLimits = 2...1_000
    /// The rows that a screen may have.
    package static let rowLimits = 1...1_000

    private struct Form: Codable {
        var text: String?
        var key: Shell.Screen.Key?
        var paste: String?
        var mouse: Shell.Screen.Mouse?
        var focus: Bool?
        var size: Shell.Screen.Size?
        var shown: UInt64?
        var lines: Shell.Screen.LineRange?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none, or it is out of range.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        if let value = form.text {
            self = .text(value)
        } else if let value = form.key {
            self = .key(value)
        } else if let value = form.paste {
            self = .paste(value)
        } else if let value = form.mouse {
            self = .mouse(value)
        } else if let value = form.focus {
            self = .focus(value)
        } else if let value = form.size {
            self = .size(value)
        } else if let value = form.shown {
            self = .shown(value)
        } else if let value = form.lines {
            self = .lines(value)
        } else {
            throw KithError(.invalid, "A message to a shell's screen has one member, named for what it carries.")
        }
        try check()
    }

    private func check() throws(KithError) {
        switch self {
        case .text(let text):
            guard text.utf8.count <= Self.textLimit else {
                throw KithError(.invalid, "At most \(Self.textLimit) bytes are typed at once.")
            }
        case .paste(let text):
            guard text.utf8.count <= Self.pasteLimit else {
                throw KithError(.invalid, "At most \(Self.pasteLimit) bytes are pasted at once.")
            }
        case .mouse(let mouse):
            guard (-100...100).contains(mouse.delta ?? 0) else {
                throw KithError(.invalid, "The wheel turns by at most 100 notches at once.")
            }
        case .size(let size): try Self.check(columns: size.columns, rows: size.rows)
        case .lines(let range):
            guard range.from >= 0, (1...Self.lineLimit).contains(range.count) else {
                throw KithError(.invalid, "1 to \(Self.lineLimit) lines can be asked for at once.")
            }
        case .key, .focus, .shown: break
        }
    }

    /// Refuses a size that no terminal here has.
    package static func check(columns: Int, rows: Int) throws(KithError) {
        guard columnLimits.contains(columns), rowLimits.contains(rows) else {
            throw KithError(.invalid, "A screen has 2 to 1000 columns and 1 to 1000 rows.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .text(let value): form.text = value
        case .key(let value): form.key = value
        case .paste(let value): form.paste = value
        case .mouse(let value): form.mouse = value
        case .focus(let value): form.focus = value
        case .size(let value): form.size = value
        case .shown(let value): form.shown = value
        case .lines(let value): form.lines = value
        }
        try form.encode(to: encoder)
    }
}
