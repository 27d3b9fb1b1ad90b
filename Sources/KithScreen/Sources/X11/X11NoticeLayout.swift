import KithAPI

/// The lines and buttons of the notices on a screen, in pixels of their window.
struct X11NoticeLayout {
    /// A button, and what it answers.
    struct Button: Hashable {
        let label: String
        let area: Screen.Rectangle
        let answer: ScreenNotice.Answer
    }

    /// A text, from its left end on the base line.
    struct Line: Hashable {
        let text: String
        let x: Int32
        let y: Int32
    }

    /// The most notices that are shown; what waits comes first.
    static let limit = 8
    /// The most characters of a device's name.
    static let nameLimit = 32
    /// The most rows of a line that somebody wrote.
    static let rowLimit = 5

    private(set) var lines: [Line] = []
    private(set) var buttons: [Button] = []
    let width: UInt32
    let height: UInt32

    /// Lays out notices with characters of one width.
    init(_ notices: [ScreenNotice], characterWidth: Int32, ascent: Int32, descent: Int32, hint: String) {
        let (margin, gap) = (Int32(10), Int32(8))
        let rowHeight = ascent + descent + 12
        let waiting = notices.filter { if case .waiting = $0 { true } else { false } }
        let active = notices.filter { if case .active = $0 { true } else { false } }
        let shown = (waiting + active).prefix(Self.limit)
        let texts = shown.map(Self.text)
        let textWidth = Int32(texts.map(\.count).max() ?? 0) * characterWidth
        var (y, right) = (margin, margin + Int32(hint.count) * characterWidth)
        for (notice, text) in zip(shown, texts) {
            lines.append(Line(text: text, x: margin, y: y + 6 + ascent))
            var x = margin + textWidth + gap
            for (label, answer) in Self.answers(to: notice) {
                let width = Int32(label.count) * characterWidth + 16
                let area = Screen.Rectangle(x: x, y: y, width: UInt32(width), height: UInt32(rowHeight - 4))
                buttons.append(Button(label: label, area: area, answer: answer))
                x += width + gap
            }
            right = max(right, x - gap)
            y += rowHeight
        }
        // No wider than the rest, so that no button moves: whoever writes is not to lead a person's hand.
        let columns = max(Int((right - margin) / characterWidth), 24)
        var said = notices.flatMap { Self.rows(of: $0, columns: columns) }
        if !said.isEmpty { said.append("To answer: kith screen chat") }
        for text in said {
            lines.append(Line(text: text, x: margin, y: y + 6 + ascent))
            right = max(right, margin + Int32(text.unicodeScalars.count) * characterWidth)
            y += rowHeight
        }
        let rest = waiting.count + active.count - shown.count
        let last = rest > 0 ? "and \(rest) more. \(hint)" : hint
        lines.append(Line(text: last, x: margin, y: y + 6 + ascent))
        width = UInt32(max(right, margin + Int32(last.count) * characterWidth) + margin)
        height = UInt32(y + rowHeight + margin / 2)
    }

    /// The number of the button at a place.
    func button(atX x: Int32, y: Int32) -> Int? {
        buttons.firstIndex { button in
            let area = button.area
            return x >= area.x && y >= area.y && x < area.x + Int32(area.width) && y < area.y + Int32(area.height)
        }
    }

    /// What somebody wrote, in rows; none for other notices.
    ///
    /// It stands in quotation marks, and each row but the first further in: none looks like a notice, or like a line of
    /// somebody else.
    private static func rows(of notice: ScreenNotice, columns: Int) -> [String] {
        guard case .said(let name, let line) = notice else { return [] }
        // A cell for each scalar: the font has the first plane alone, and knows nothing of marks over letters.
        let scalars = line.unicodeScalars.compactMap { scalar -> Unicode.Scalar? in
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark, .format: nil
            default: scalar.value <= 0xFFFF ? scalar : "\u{25A1}"
            }
        }
        var rows: [String] = []
        var start = "\(plain(name)): “"
        var rest = (scalars + ["”"])[...]
        while !rest.isEmpty, rows.count < rowLimit {
            let room = max(columns - start.count, 8)
            var row = rest.prefix(room)
            if row.count < rest.count, let space = row.lastIndex(of: " ") { row = rest[...space] }
            rest = rest[row.endIndex...]
            rows.append(start + String(String.UnicodeScalarView(row)))
            start = "    "
        }
        if !rest.isEmpty, let last = rows.popLast() { rows.append(last.dropLast(2) + "…”") }
        return rows
    }

    private static func text(of notice: ScreenNotice) -> String {
        switch notice {
        case .said: ""
        case .active(_, let name, let permissions):
            "\(plain(name)) \(permissions.control ? "controls" : "sees") this screen"
                + (permissions.clipboard ? " and its clipboard" : "")
                + (permissions.record == true ? ", and records it" : "")
                + (permissions.privacy == true ? ", and keeps it dark here" : "")
        case .waiting(_, let name, let permissions):
            "\(plain(name)) asks to see\(permissions.control ? " and control" : "") this screen"
                + (permissions.clipboard ? ", and its clipboard" : "")
                + (permissions.record == true ? ", and to record it" : "")
                + (permissions.privacy == true ? ", and to keep it dark here" : "")
        }
    }

    private static func answers(to notice: ScreenNotice) -> [(String, ScreenNotice.Answer)] {
        switch notice {
        case .said: []
        case .active(let session, _, _): [("End", .decided(session: session, isLetIn: false))]
        case .waiting(let session, _, _):
            [
                ("Allow", .decided(session: session, isLetIn: true)),
                ("Refuse", .decided(session: session, isLetIn: false)),
            ]
        }
    }

    /// A name on one line, without characters that would turn or hide what stands beside it.
    private static func plain(_ name: String) -> String {
        let scalars = name.unicodeScalars.filter { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
            default: scalar.value <= 0xFFFF
            }
        }
        let plain = String(String.UnicodeScalarView(scalars)).prefix(nameLimit)
        return plain.isEmpty ? "A device" : String(plain)
    }
}
