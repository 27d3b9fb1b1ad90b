import KithWire

extension Shell.Screen {
    /// What has changed on a screen: only the members that did, to be done in their order here.
    ///
    /// An update with a ``number`` is a picture. The caller acknowledges it (``Action/shown(_:)``) once it has been drawn;
    /// at most two are on their way, and everything that changes meanwhile is in the next. The first has all that a
    /// picture can have. Lines of the scrollback, the state, and the exit come without a number.
    public struct Update: Hashable, Sendable, StreamMessage {
        /// Styles by their numbers, for the runs of this and later updates.
        ///
        /// A number may get another style; what was drawn with it before keeps that.
        public var styles: [Style]?
        /// The grid has this size now, and all its rows are blank.
        public var size: Size?
        /// Rows move.
        public var scroll: Scroll?
        /// Rows as they are now, whole.
        public var rows: [Row]?
        /// The cursor.
        public var cursor: Cursor?
        /// The title that the program has set: text from there, which may say anything.
        public var title: String?
        /// The modes that the program has set.
        public var modes: Modes?
        /// The lines before the screen.
        public var scrollback: Scrollback?
        /// The program rings the bell.
        public var bell: Bool?
        /// The program wants this text on the clipboard: a person is to be asked.
        public var clipboard: String?
        /// The number of messages of input from this viewer that were passed on.
        public var taken: UInt64?
        /// The answer to a question for lines of the scrollback.
        public var lines: Lines?
        /// The state of the way to the device.
        public var state: State?
        /// The end of the shell, always the last update.
        public var exit: Exit?
        /// The number of the picture.
        public var number: UInt64?

        /// Makes an update that says nothing.
        public init() {}

        /// 2 MiB.
        public static var sizeLimit: Int { 2 << 20 }
    }

    /// A style of text; `nil` members are as usual.
    public struct Style: Codable, Hashable, Sendable {
        /// The number by which runs name it.
        public var id: Int
        /// The colour of the text.
        public var foreground: Color?
        /// The colour behind it.
        public var background: Color?
        /// The colour of the line under it.
        public var underlineColor: Color?
        /// True when it is bold.
        public var bold: Bool?
        /// True when it is paler than usual.
        public var faint: Bool?
        /// True when it is italic.
        public var italic: Bool?
        /// The line under it.
        public var underline: Underline?
        /// True when it blinks.
        public var blink: Bool?
        /// True when both colours are exchanged.
        public var inverse: Bool?
        /// True when it is not to be seen.
        public var invisible: Bool?
        /// True when a line goes through it.
        public var strikethrough: Bool?
        /// True when there is a line above it.
        public var overline: Bool?
        /// The address it leads to: http, https or mailto; a person is to be asked.
        public var link: String?
        /// True when it was typed and is not echoed yet.
        public var predicted: Bool?

        /// Makes the usual style.
        public init(id: Int) { self.id = id }
    }

    /// A line under text.
    @nonexhaustive
    public enum Underline: String, Codable, Hashable, Sendable, CaseIterable {
        case single, double, curly, dotted, dashed
    }

    /// A colour: `"#rrggbb"`, or a number of the palette, 0…255; the first 16 are the theme's.
    @nonexhaustive
    public enum Color: Hashable, Sendable {
        /// One of the 256 colours of xterm.
        case indexed(UInt8)
        /// A colour by its parts.
        case rgb(UInt8, UInt8, UInt8)
    }

    /// Rows that move: from `top` to `bottom` up by `by`, down when it is negative; blank ones come in.
    public struct Scroll: Codable, Hashable, Sendable {
        /// The first row of those concerned.
        public var top: Int
        /// The last one.
        public var bottom: Int
        /// The number of rows by which they move up.
        public var by: Int

        /// Makes a movement.
        public init(top: Int, bottom: Int, by: Int) {
            self.top = top
            self.bottom = bottom
            self.by = by
        }
    }

    /// A row of the screen, or a line of the scrollback.
    public struct Row: Codable, Hashable, Sendable {
        /// The row, from 0, or the line's number.
        public var y: Int
        /// The text; what is not there to the right of it is blank; `nil`: all is.
        public var runs: [Run]?
        /// True when the text goes on in the next row; `nil` is false.
        public var wraps: Bool?

        /// Makes a row.
        public init(y: Int, runs: [Run]? = nil, wraps: Bool? = nil) {
            self.y = y
            self.runs = runs
            self.wraps = wraps
        }
    }

    /// Characters of one style.
    public struct Run: Codable, Hashable, Sendable {
        /// The characters, without controls.
        public var text: String
        /// The number of the style; `nil`: the usual one.
        public var style: Int?
        /// The columns it takes; `nil`: one for each UTF-16 unit.
        public var width: Int?

        /// Makes a run.
        public init(text: String, style: Int? = nil, width: Int? = nil) {
            self.text = text
            self.style = style
            self.width = width
        }
    }

    /// The cursor.
    public struct Cursor: Codable, Hashable, Sendable {
        /// The shapes of a cursor.
        @nonexhaustive
        public enum Shape: String, Codable, Hashable, Sendable, CaseIterable {
            case block, underline, bar
        }

        /// The column, from 0.
        public var x: Int
        /// The row, from 0.
        public var y: Int
        /// Its shape.
        public var shape: Shape
        /// False when it is hidden.
        public var visible: Bool
        /// True when it blinks.
        public var blinks: Bool

        /// Makes a cursor.
        public init(x: Int, y: Int, shape: Shape = .block, visible: Bool = true, blinks: Bool = false) {
            self.x = x
            self.y = y
            self.shape = shape
            self.visible = visible
            self.blinks = blinks
        }
    }

    /// What the program has asked for.
    public struct Modes: Codable, Hashable, Sendable {
        /// What a program wants to know of the mouse.
        @nonexhaustive
        public enum Mouse: String, Codable, Hashable, Sendable, CaseIterable {
            case none
            /// Buttons.
            case click
            /// Movement as well while a button is held.
            case drag
            /// All movement.
            case motion
        }

        /// What it wants to know of the mouse.
        public var mouse: Mouse
        /// True when it can tell pasted text from what is typed.
        public var bracketedPaste: Bool
        /// True when cursor keys are sent in its own form.
        public var applicationCursor: Bool
        /// True while the alternate screen is shown, which has no scrollback.
        public var alternateScreen: Bool
        /// True while light and dark are exchanged on the whole screen.
        public var reverse: Bool
        /// True when it wants to know of the focus.
        public var focus: Bool
        /// True when the wheel is sent as cursor keys.
        public var wheelKeys: Bool

        /// Makes the modes.
        public init(
            mouse: Mouse = .none, bracketedPaste: Bool = false, applicationCursor: Bool = false,
            alternateScreen: Bool = false, reverse: Bool = false, focus: Bool = false, wheelKeys: Bool = false
        ) {
            self.mouse = mouse
            self.bracketedPaste = bracketedPaste
            self.applicationCursor = applicationCursor
            self.alternateScreen = alternateScreen
            self.reverse = reverse
            self.focus = focus
            self.wheelKeys = wheelKeys
        }
    }

    /// The lines before the screen: a number is never that of another line, so old copies are right or gone.
    public struct Scrollback: Codable, Hashable, Sendable {
        /// The number of the oldest line.
        public var first: Int
        /// The number of lines.
        public var lines: Int

        /// Makes a description.
        public init(first: Int, lines: Int) {
            self.first = first
            self.lines = lines
        }
    }

    /// Lines of the scrollback.
    public struct Lines: Codable, Hashable, Sendable {
        /// The number of the first that was asked for.
        public var from: Int
        /// Those that there are, in their order; fewer than asked for when they are long.
        public var rows: [Row]

        /// Makes an answer.
        public init(from: Int, rows: [Row]) {
            self.from = from
            self.rows = rows
        }
    }

    /// The state of the way to the device.
    public struct State: Codable, Hashable, Sendable {
        /// False while the connection is lost; what is typed is kept.
        public var connected: Bool
        /// The time to the device and back, in milliseconds; `nil` when it is not known.
        public var roundTrip: Double?

        /// Makes a state.
        public init(connected: Bool, roundTrip: Double? = nil) {
            self.connected = connected
            self.roundTrip = roundTrip
        }
    }

    /// The end of a shell.
    public struct Exit: Codable, Hashable, Sendable {
        /// The status it returned, 0…255.
        public var code: Int32?
        /// The signal that ended it, without SIG: `KILL`.
        public var signal: String?

        /// Makes an end.
        public init(code: Int32? = nil, signal: String? = nil) {
            self.code = code
            self.signal = signal
        }
    }
}

extension Shell.Screen.Color: Codable {
    /// Reads a number, or six hexadecimal digits behind `#`.
    ///
    /// - Throws: `KithError` `.invalid` for anything else.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let index = try? container.decode(UInt8.self) {
            self = .indexed(index)
            return
        }
        let text = try container.decode(String.self)
        guard text.hasPrefix("#"), text.utf8.count == 7, let value = UInt32(text.dropFirst(), radix: 16) else {
            throw KithError(.invalid, "A colour is a number from 0 to 255, or # and six digits.")
        }
        self = .rgb(UInt8(value >> 16), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF))
    }

    /// Writes what is read.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .indexed(let index): try container.encode(index)
        case .rgb(let red, let green, let blue):
            let value = UInt32(red) << 16 | UInt32(green) << 8 | UInt32(blue)
            let digits = String(value, radix: 16)
            try container.encode("#" + String(repeating: "0", count: 6 - digits.utf8.count) + digits)
        }
    }
}
