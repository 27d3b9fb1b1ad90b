// What each control does. Numbers and names are those of DEC's VT510 manual and xterm's ctlseqs.

extension Terminal {
    mutating func execute(_ byte: UInt8) {
        switch byte {
        case 0x07: bellCount &+= 1
        case 0x08: move(row: cursor.row, column: cursor.column - 1)
        case 0x09: tab(1)
        case 0x0A, 0x0B, 0x0C:
            lineFeed()
            if modes.newline { move(row: cursor.row, column: 0) }
        case 0x0D: move(row: cursor.row, column: 0)
        case 0x0E: cursor.charset = 1
        case 0x0F: cursor.charset = 0
        default: break
        }
    }

    mutating func escape(_ final: UInt8) {
        switch parser.intermediates {
        case 0: plainEscape(final)
        case 0x23: if final == 0x38 { fillForAlignment() }  // # 8
        case 0x28...0x2B:  // ( ) * +
            let slot = Int(parser.intermediates - 0x28)
            cursor.charsets[slot] = (Charset(rawValue: final) ?? .ascii).rawValue
        default: break
        }
    }

    private mutating func plainEscape(_ final: UInt8) {
        switch final {
        case UInt8(ascii: "7"): saveCursor()
        case UInt8(ascii: "8"): restoreCursor()
        case UInt8(ascii: "="): modes.applicationKeypad = true
        case UInt8(ascii: ">"): modes.applicationKeypad = false
        case UInt8(ascii: "D"): lineFeed()
        case UInt8(ascii: "E"):
            lineFeed()
            move(row: cursor.row, column: 0)
        case UInt8(ascii: "H"): tabStops.insert(cursor.column)
        case UInt8(ascii: "M"): reverseLineFeed()
        case UInt8(ascii: "N"): singleShift = 2
        case UInt8(ascii: "O"): singleShift = 3
        case UInt8(ascii: "Z"): reply("\u{1B}[?62;22c")
        case UInt8(ascii: "c"): hardReset()
        case UInt8(ascii: "n"): cursor.charset = 2
        case UInt8(ascii: "o"): cursor.charset = 3
        default: break
        }
    }

    // MARK: - CSI

    /// A parameter as a count: absent and 0 are 1.
    private func count(_ index: Int = 0) -> Int { max(1, Int(parameter(index) ?? 1)) }

    /// A parameter, when it was written.
    func parameter(_ index: Int) -> Int32? {
        guard index < parser.parameters.count, parser.parameters[index] >= 0 else { return nil }
        return parser.parameters[index]
    }

    mutating func control(_ final: UInt8) {
        switch (parser.marker, parser.intermediates) {
        case (0, 0): plainControl(final)
        case (0x3F, 0): privateControl(final)
        case (0x3E, 0): secondaryControl(final)
        case (0x3D, 0):
            if final == UInt8(ascii: "c") { reply("\u{1B}P!|00000000\u{1B}\\") }
            if final == UInt8(ascii: "u") { setKeyboard() }
        case (0x3C, 0):
            if final == UInt8(ascii: "u") { keyboard.removeLast(min(count(), keyboard.count - 1)) }
            if final == UInt8(ascii: "u"), keyboard.count == 1, count() > 1 { keyboard = [0] }
        case (0, 0x20):  // space
            if final == UInt8(ascii: "q"), let style = UInt8(exactly: parameter(0) ?? 0), style <= 6 {
                modes.cursorStyle = style
            }
        case (0, 0x21): if final == UInt8(ascii: "p") { softReset() }  // !
        case (0, 0x24): if final == UInt8(ascii: "p") { reportMode(ansi: parameter(0) ?? 0) }  // $
        case (0x3F, 0x24): if final == UInt8(ascii: "p") { reportMode(private: parameter(0) ?? 0) }
        default: break
        }
    }

    private mutating func plainControl(_ final: UInt8) {
        switch final {
        case UInt8(ascii: "@"): insertCharacters(count())
        case UInt8(ascii: "A"): moveUp(count())
        case UInt8(ascii: "B"), UInt8(ascii: "e"): moveDown(count())
        case UInt8(ascii: "C"), UInt8(ascii: "a"): move(row: cursor.row, column: cursor.column + count())
        case UInt8(ascii: "D"): move(row: cursor.row, column: cursor.column - count())
        case UInt8(ascii: "E"):
            moveDown(count())
            move(row: cursor.row, column: 0)
        case UInt8(ascii: "F"):
            moveUp(count())
            move(row: cursor.row, column: 0)
        case UInt8(ascii: "G"), UInt8(ascii: "`"): move(row: cursor.row, column: count() - 1)
        case UInt8(ascii: "H"), UInt8(ascii: "f"): position(row: count(0) - 1, column: count(1) - 1)
        case UInt8(ascii: "I"): tab(count())
        case UInt8(ascii: "J"): eraseInDisplay(parameter(0) ?? 0)
        case UInt8(ascii: "K"): eraseInLine(parameter(0) ?? 0)
        case UInt8(ascii: "L"), UInt8(ascii: "M"):
            guard cursor.row >= topMargin, cursor.row <= bottomMargin else { return }
            if final == UInt8(ascii: "L") {
                scrollDown(count(), from: cursor.row)
            } else {
                deleteLines(count(), from: cursor.row)
            }
            move(row: cursor.row, column: 0)
        case UInt8(ascii: "P"): deleteCharacters(count())
        case UInt8(ascii: "S"): scrollUp(count())
        case UInt8(ascii: "T"):
            // With five parameters it is xterm's highlight tracking.
            if parser.parameters.count <= 1 { scrollDown(count(), from: topMargin) }
        case UInt8(ascii: "^"): scrollDown(count(), from: topMargin)
        case UInt8(ascii: "X"): eraseCharacters(count())
        case UInt8(ascii: "Z"): backTab(count())
        case UInt8(ascii: "b"): repeatCharacter(count())
        case UInt8(ascii: "c"): if (parameter(0) ?? 0) == 0 { reply("\u{1B}[?62;22c") }
        case UInt8(ascii: "d"): position(row: count() - 1, column: cursor.column)
        case UInt8(ascii: "g"):
            if (parameter(0) ?? 0) == 0 { tabStops.remove(cursor.column) }
            if parameter(0) == 3 { tabStops.removeAll() }
        case UInt8(ascii: "h"), UInt8(ascii: "l"):
            for index in parser.parameters.indices {
                if parameter(index) == 4 { modes.insert = final == UInt8(ascii: "h") }
                if parameter(index) == 20 { modes.newline = final == UInt8(ascii: "h") }
            }
        case UInt8(ascii: "m"): selectGraphicRendition()
        case UInt8(ascii: "n"): reportStatus(isPrivate: false)
        case UInt8(ascii: "r"):
            let top = count(0) - 1
            let bottom = min(Int(parameter(1) ?? 0) == 0 ? rowCount : count(1), rowCount) - 1
            guard top < bottom || rowCount == 1 && top == 0 else { return }
            topMargin = top
            bottomMargin = bottom
            position(row: 0, column: 0)
        case UInt8(ascii: "s"): saveCursor()
        case UInt8(ascii: "t"): windowOperation()
        case UInt8(ascii: "u"): restoreCursor()
        default: break
        }
    }

    private mutating func repeatCharacter(_ count: Int) {
        guard let scalar = lastPrinted else { return }
        // A row at the most, as other terminals have it: each takes as long as it types, for a few bytes.
        for _ in 0..<min(count, columns) { print(scalar) }
    }

    private mutating func secondaryControl(_ final: UInt8) {
        switch final {
        case UInt8(ascii: "c"): reply("\u{1B}[>1;10;0c")
        case UInt8(ascii: "m"):
            guard (parameter(0) ?? 4) == 4 else { return }
            modes.modifyOtherKeys = UInt8(min(parameter(1) ?? 0, 2))
        case UInt8(ascii: "n"): if parameter(0) == 4 { modes.modifyOtherKeys = 0 }
        case UInt8(ascii: "q"): reply("\u{1B}P>|Kith\u{1B}\\")
        case UInt8(ascii: "u"):
            if keyboard.count >= 16 { keyboard.remove(at: 1) }
            keyboard.append(UInt16(min(parameter(0) ?? 0, 31)))
        default: break
        }
    }

    /// Kitty's `CSI = flags ; how u`.
    private mutating func setKeyboard() {
        let flags = UInt16(min(parameter(0) ?? 0, 31))
        let last = keyboard.count - 1
        switch parameter(1) ?? 1 {
        case 1: keyboard[last] = flags
        case 2: keyboard[last] |= flags
        case 3: keyboard[last] &= ~flags
        default: break
        }
    }

    // MARK: - Modes

    private mutating func privateControl(_ final: UInt8) {
        switch final {
        case UInt8(ascii: "h"), UInt8(ascii: "l"):
            for index in parser.parameters.indices {
                if let mode = parameter(index) { setMode(mode, to: final == UInt8(ascii: "h")) }
            }
        case UInt8(ascii: "J"): eraseInDisplay(parameter(0) ?? 0)
        case UInt8(ascii: "K"): eraseInLine(parameter(0) ?? 0)
        case UInt8(ascii: "n"): reportStatus(isPrivate: true)
        default: break
        }
    }

    /// The modes of one bit.
    static let flagNumbers: [Int32] = [1, 5, 7, 12, 25, 66, 1004, 1007, 2004, 2026]

    /// The place where a mode of one bit is kept.
    private static func flag(_ number: Int32) -> WritableKeyPath<TerminalModes, Bool>? {
        switch number {
        case 1: \.applicationCursor
        case 5: \.reverseScreen
        case 7: \.autowrap
        case 12: \.cursorBlink
        case 25: \.cursorVisible
        case 66: \.applicationKeypad
        case 1004: \.focusEvents
        case 1007: \.alternateScroll
        case 2004: \.bracketedPaste
        case 2026: \.synchronizedUpdate
        default: nil
        }
    }

    /// The answer of DECRQM about a mode; the values are those of its report.
    enum ModeState: Int {
        /// It does not exist here.
        case unknown = 0
        case on = 1
        case off = 2

        init(isOn: Bool) { self = isOn ? .on : .off }
    }

    /// The state of a mode of DECSET.
    func mode(_ number: Int32) -> ModeState {
        if let flag = Self.flag(number) { return ModeState(isOn: modes[keyPath: flag]) }
        switch number {
        case 6: return ModeState(isOn: cursor.isOriginRelative)
        case 9, 1000, 1002, 1003: return ModeState(isOn: modes.mouse.rawValue == UInt16(number))
        case 1005, 1006, 1015, 1016: return ModeState(isOn: modes.mouseEncoding.rawValue == UInt16(number))
        case 47, 1047, 1049: return ModeState(isOn: isAlternate)
        default: return .unknown
        }
    }

    private mutating func setMode(_ number: Int32, to isOn: Bool) {
        if let flag = Self.flag(number) {
            modes[keyPath: flag] = isOn
            if number == 7, !isOn { cursor.wrapsNext = false }
            return
        }
        switch number {
        case 6:
            cursor.isOriginRelative = isOn
            position(row: 0, column: 0)
        case 9, 1000, 1002, 1003:
            modes.mouse = isOn ? MouseTracking(rawValue: UInt16(number)) ?? .off : .off
        case 1005, 1006, 1015, 1016:
            let encoding = MouseEncoding(rawValue: UInt16(number)) ?? .bytes
            if isOn {
                modes.mouseEncoding = encoding
            } else if modes.mouseEncoding == encoding {
                modes.mouseEncoding = .bytes
            }
        case 47, 1047: if isOn { showAlternateScreen() } else { showMainScreen() }
        case 1048: if isOn { saveCursor() } else { restoreCursor() }
        case 1049:
            if isOn, !isAlternate {
                saveCursor()
                showAlternateScreen()
            } else if !isOn, isAlternate {
                showMainScreen()
                restoreCursor()
            }
        default: break
        }
    }

    // MARK: - Answers

    mutating func reply(_ text: String) {
        guard replies.count + text.utf8.count <= Self.replyLimit else { return }
        replies += Array(text.utf8)
    }

    private mutating func reportStatus(isPrivate: Bool) {
        let row = cursor.row + 1 - (cursor.isOriginRelative ? topMargin : 0)
        let column = cursor.column + 1
        switch (isPrivate, parameter(0)) {
        case (false, 5): reply("\u{1B}[0n")
        case (false, 6): reply("\u{1B}[\(row);\(column)R")
        case (true, 6): reply("\u{1B}[?\(row);\(column);1R")
        default: break
        }
    }

    private mutating func reportMode(ansi number: Int32) {
        let state = number == 4 ? (modes.insert ? 1 : 2) : number == 20 ? (modes.newline ? 1 : 2) : 0
        reply("\u{1B}[\(number);\(state)$y")
    }

    private mutating func reportMode(private number: Int32) {
        reply("\u{1B}[?\(number);\(mode(number).rawValue)$y")
    }

    /// XTWINOPS: only the size in characters and the stack of titles.
    private mutating func windowOperation() {
        switch parameter(0) {
        case 18: reply("\u{1B}[8;\(rowCount);\(columns)t")
        case 22:
            if titleStack.count >= 16 { titleStack.removeFirst() }
            titleStack.append((title, iconName))
        case 23:
            guard let last = titleStack.popLast() else { return }
            if parameter(1) != 1 { title = last.title }
            if parameter(1) != 2 { iconName = last.iconName }
        default: break
        }
    }

    /// DECRQSS, the only device control with an effect.
    mutating func deviceControl(_ final: UInt8) {
        guard final == UInt8(ascii: "q"), parser.marker == 0, parser.intermediates == 0x24 else { return }
        let value: String
        switch String(decoding: parser.string, as: UTF8.self) {
        case "m":
            var bytes: [UInt8] = []
            writeStyle(cursor.style, to: &bytes)
            value = String(decoding: bytes.dropFirst(2), as: UTF8.self)
        case "r": value = "\(topMargin + 1);\(bottomMargin + 1)r"
        case " q": value = "\(modes.cursorStyle) q"
        default: return reply("\u{1B}P0$r\u{1B}\\")
        }
        reply("\u{1B}P1$r\(value)\u{1B}\\")
    }

    // MARK: - OSC

    mutating func operatingSystemCommand() {
        let string = parser.string
        let numberEnd = string.firstIndex(of: UInt8(ascii: ";")) ?? string.count
        guard numberEnd <= 4, let number = Int(String(decoding: string[..<numberEnd], as: UTF8.self)) else { return }
        let value = Array(string[min(numberEnd + 1, string.count)...])
        switch number {
        case 0, 1, 2:
            // A title is for the eye: no controls, and no more than a line's worth.
            let name = Array(
                String(decoding: value, as: UTF8.self).unicodeScalars.lazy
                    .filter { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
                    .prefix(1024).map { Character($0) }.reduce(into: "") { $0.append($1) }.utf8)
            if number != 1 { title = name }
            if number != 2 { iconName = name }
        case 4: setPalette(value)
        case 8: setLink(value)
        case 10...19:
            // Several colours in one command go to the numbers that follow.
            for (offset, color) in value.split(separator: 0x3B, omittingEmptySubsequences: false).enumerated()
            where number + offset <= 19 { setColor(256 + number + offset, Array(color)) }
        case 104:
            if value.isEmpty { palette = palette.filter { $0.key >= 256 } }
            for index in value.split(separator: 0x3B) {
                if let index = UInt8(String(decoding: index, as: UTF8.self)) { palette[Int(index)] = nil }
            }
        case 110...119: palette[256 + number - 100] = nil
        default: break
        }
    }

    private mutating func setPalette(_ value: [UInt8]) {
        let parts = value.split(separator: 0x3B, omittingEmptySubsequences: false)
        for pair in stride(from: 0, to: parts.count - 1, by: 2) {
            guard let index = UInt8(String(decoding: parts[pair], as: UTF8.self)) else { continue }
            setColor(Int(index), Array(parts[pair + 1]))
        }
    }

    private mutating func setColor(_ number: Int, _ value: [UInt8]) {
        guard !value.isEmpty, value.count <= 64, value != [0x3F], value.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) else {
            return
        }
        palette[number] = value
    }

    private mutating func setLink(_ value: [UInt8]) {
        var link: Hyperlink?
        if let split = value.firstIndex(of: 0x3B) {
            let target = Array(value[(split + 1)...])
            let id = value[..<split].split(separator: UInt8(ascii: ":")).first { $0.starts(with: Array("id=".utf8)) }
            let isSafe = value.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
            if !target.isEmpty, target.count <= 2083, isSafe, (id?.count ?? 0) <= 253 {
                link = Hyperlink(id: Array(id?.dropFirst(3) ?? []), target: target)
            }
        }
        cursor.style.extra = extra(CellExtra(underlineColor: underlineColor(of: cursor.style), link: link))
    }
}
