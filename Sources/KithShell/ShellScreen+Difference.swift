package import KithAPI
package import KithTerminal

extension Shell.Screen.Update {
    /// The picture that a difference is, without its number.
    package init(_ difference: ScreenDifference) {
        self.init()
        styles = Self.styles(of: difference)
        size = difference.size.map { Shell.Screen.Size(columns: $0.columns, rows: $0.rows) }
        scroll = difference.scroll.map { Shell.Screen.Scroll(top: $0.top, bottom: $0.bottom, by: $0.count) }
        rows = difference.rows.isEmpty ? nil : difference.rows.map { Shell.Screen.Row($0) }
        cursor = difference.cursor.map { Shell.Screen.Cursor($0) }
        title = difference.title
        modes = difference.modes.map { Shell.Screen.Modes($0) }
        scrollback = difference.scrollback.map { Shell.Screen.Scrollback(first: $0.first, lines: $0.count) }
        bell = difference.rings ? true : nil
    }

    /// The answer to a question for lines from `first` on.
    init(lines difference: ScreenDifference, from first: Int) {
        self.init()
        styles = Self.styles(of: difference)
        lines = Shell.Screen.Lines(from: first, rows: difference.rows.map { Shell.Screen.Row($0) })
    }

    private static func styles(of difference: ScreenDifference) -> [Shell.Screen.Style]? {
        difference.styles.isEmpty ? nil : difference.styles.map { Shell.Screen.Style($0) }
    }
}

extension Shell.Screen.Row {
    fileprivate init(_ line: ScreenDifference.NumberedLine) {
        self.init(
            y: line.number,
            runs: line.runs.isEmpty
                ? nil
                : line.runs.map { run, style in
                    Shell.Screen.Run(text: run.text, style: style == 0 ? nil : style, width: run.width)
                },
            wraps: line.isWrapped ? true : nil)
    }
}

extension Shell.Screen.Style {
    fileprivate init(_ numbered: ScreenDifference.NumberedStyle) {
        self.init(id: numbered.number)
        let style = numbered.style
        let attributes = style.attributes
        func has(_ attribute: CellAttributes) -> Bool? { attributes.contains(attribute) ? true : nil }
        foreground = Shell.Screen.Color(style.foreground)
        background = Shell.Screen.Color(style.background)
        underlineColor = Shell.Screen.Color(style.underlineColor)
        bold = has(.bold)
        faint = has(.faint)
        italic = has(.italic)
        underline =
            switch attributes.underline {
            case .none: nil
            case .single: .single
            case .double: .double
            case .curly: .curly
            case .dotted: .dotted
            case .dashed: .dashed
            }
        blink = has(.blink)
        inverse = has(.inverse)
        invisible = has(.invisible)
        strikethrough = has(.strikethrough)
        overline = has(.overline)
        link = style.link.map { String(decoding: $0, as: UTF8.self) }
        predicted = style.isPredicted ? true : nil
    }
}

extension Shell.Screen.Color {
    /// A colour; nil for the terminal's own.
    fileprivate init?(_ color: KithTerminal.Color) {
        if let index = color.index {
            self = .indexed(index)
        } else if let (red, green, blue) = color.parts {
            self = .rgb(red, green, blue)
        } else {
            return nil
        }
    }
}

extension Shell.Screen.Cursor {
    fileprivate init(_ cursor: ScreenDifference.Cursor) {
        self.init(
            x: cursor.column, y: cursor.row, shape: Shape(rawValue: cursor.shape.rawValue) ?? .block,
            visible: cursor.isVisible, blinks: cursor.blinks)
    }
}

extension Shell.Screen.Modes {
    fileprivate init(_ modes: ScreenDifference.Modes) {
        let mouse: Mouse =
            switch modes.mouse {
            case .off: .none
            case .presses, .buttons: .click
            case .drags: .drag
            case .movement: .motion
            }
        self.init(
            mouse: mouse, bracketedPaste: modes.bracketedPaste, applicationCursor: modes.applicationCursor,
            alternateScreen: modes.isAlternate, reverse: modes.isReversed, focus: modes.focusEvents,
            wheelKeys: modes.sendsWheelAsKeys)
    }
}
