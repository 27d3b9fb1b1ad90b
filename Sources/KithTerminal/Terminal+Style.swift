extension Terminal {
    /// SGR: each parameter changes the style of what is written next.
    mutating func selectGraphicRendition() {
        guard !parser.parameters.isEmpty else { return resetStyle() }
        var index = 0
        while index < parser.parameters.count {
            var end = index + 1
            while end < parser.parameters.count, parser.colons & 1 << UInt32(end) != 0 { end += 1 }
            let number = parameter(index) ?? 0
            switch number {
            case 38, 48, 58: index = setColor(number, at: index, end: end)
            case 4 where end > index + 1:
                if let style = UnderlineStyle(rawValue: UInt16(parameter(index + 1) ?? 1)) {
                    cursor.style.attributes.underline = style
                }
                index = end
            default:
                if end == index + 1 { setAttribute(number) }
                index = end
            }
        }
    }

    private mutating func resetStyle() {
        let link = link(of: cursor.style)
        cursor.style = Cell()
        cursor.style.extra = extra(CellExtra(link: link))
    }

    private mutating func setAttribute(_ number: Int32) {
        switch number {
        case 0: resetStyle()
        case 1: cursor.style.attributes.insert(.bold)
        case 2: cursor.style.attributes.insert(.faint)
        case 3: cursor.style.attributes.insert(.italic)
        case 4: cursor.style.attributes.underline = .single
        case 5, 6: cursor.style.attributes.insert(.blink)
        case 7: cursor.style.attributes.insert(.inverse)
        case 8: cursor.style.attributes.insert(.invisible)
        case 9: cursor.style.attributes.insert(.strikethrough)
        case 21: cursor.style.attributes.underline = .double
        case 22: cursor.style.attributes.subtract([.bold, .faint])
        case 23: cursor.style.attributes.remove(.italic)
        case 24: cursor.style.attributes.underline = .none
        case 25: cursor.style.attributes.remove(.blink)
        case 27: cursor.style.attributes.remove(.inverse)
        case 28: cursor.style.attributes.remove(.invisible)
        case 29: cursor.style.attributes.remove(.strikethrough)
        case 30...37: cursor.style.foreground = .indexed(UInt8(number - 30))
        case 39: cursor.style.foreground = .standard
        case 40...47: cursor.style.background = .indexed(UInt8(number - 40))
        case 49: cursor.style.background = .standard
        case 53: cursor.style.attributes.insert(.overline)
        case 55: cursor.style.attributes.remove(.overline)
        case 59: setUnderlineColor(.standard)
        case 90...97: cursor.style.foreground = .indexed(UInt8(number - 82))
        case 100...107: cursor.style.background = .indexed(UInt8(number - 92))
        default: break
        }
    }

    private mutating func setUnderlineColor(_ color: Color) {
        cursor.style.extra = extra(CellExtra(underlineColor: color, link: link(of: cursor.style)))
    }

    /// 38, 48 and 58 with colons (ITU-T T.416) or, as most programs write them, with semicolons; answers what is next.
    private mutating func setColor(_ number: Int32, at index: Int, end: Int) -> Int {
        let hasColons = end > index + 1
        let next: Int
        let color: Color?
        switch parameter(index + 1) {
        case 5:
            color = UInt8(exactly: parameter(index + 2) ?? 0).map { .indexed($0) }
            next = hasColons ? end : index + 3
        case 2:
            // With colons a colour space stands first, unless the writer forgot it.
            let first = hasColons && end - index >= 6 ? index + 3 : index + 2
            let parts = (0..<3).map { UInt8(exactly: parameter(first + $0) ?? 0) }
            if let red = parts[0], let green = parts[1], let blue = parts[2] {
                color = .rgb(red, green, blue)
            } else {
                color = nil
            }
            next = hasColons ? end : index + 5
        default:
            color = nil
            next = hasColons ? end : index + 2
        }
        if let color {
            switch number {
            case 38: cursor.style.foreground = color
            case 48: cursor.style.background = color
            default: setUnderlineColor(color)
            }
        }
        return next
    }

    // MARK: - Writing styles

    /// Writes the SGR that brings any style to that of `cell`, without its hyperlink.
    func writeStyle(_ cell: Cell, to bytes: inout [UInt8]) {
        cell.writeStyle(underlineColor: underlineColor(of: cell), to: &bytes)
    }

    /// Writes what begins or ends a hyperlink so that the link of `cell` holds.
    func writeLink(of cell: Cell, to bytes: inout [UInt8]) {
        bytes += Array("\u{1B}]8;".utf8)
        if let link = link(of: cell) {
            if !link.id.isEmpty { bytes += Array("id=".utf8) + link.id }
            bytes.append(0x3B)
            bytes += link.target
        } else {
            bytes.append(0x3B)
        }
        bytes += [0x1B, 0x5C]
    }
}

extension Cell {
    /// Writes the SGR that brings any style to this cell's, without its hyperlink.
    func writeStyle(underlineColor line: Color = .standard, to bytes: inout [UInt8]) {
        bytes += Array("\u{1B}[0".utf8)
        let simple: [(CellAttributes, String)] = [
            (.bold, ";1"), (.faint, ";2"), (.italic, ";3"), (.blink, ";5"), (.inverse, ";7"), (.invisible, ";8"),
            (.strikethrough, ";9"), (.overline, ";53"),
        ]
        for (attribute, code) in simple where attributes.contains(attribute) { bytes += Array(code.utf8) }
        switch attributes.underline {
        case .none: break
        case .single: bytes += Array(";4".utf8)
        case .double: bytes += Array(";21".utf8)
        default: bytes += Array(";4:\(attributes.underline.rawValue)".utf8)
        }
        writeColor(foreground, base: 30, to: &bytes)
        writeColor(background, base: 40, to: &bytes)
        if let index = line.index { bytes += Array(";58:5:\(index)".utf8) }
        if let (red, green, blue) = line.parts { bytes += Array(";58:2::\(red):\(green):\(blue)".utf8) }
        bytes.append(UInt8(ascii: "m"))
    }

    private func writeColor(_ color: Color, base: Int, to bytes: inout [UInt8]) {
        if let index = color.index {
            switch Int(index) {
            case 0..<8: bytes += Array(";\(base + Int(index))".utf8)
            case 8..<16: bytes += Array(";\(base + 52 + Int(index))".utf8)
            default: bytes += Array(";\(base + 8);5;\(index)".utf8)
            }
        } else if let (red, green, blue) = color.parts {
            bytes += Array(";\(base + 8);2;\(red);\(green);\(blue)".utf8)
        }
    }
}
