/// The bytes that a terminal sends for what a person does, in the modes that the program there has chosen.
///
/// Keys are written as xterm does, with modifyOtherKeys, and in kitty's form where a program asked for that; the mouse in
/// every form but pixels, which are not known here.
package struct InputEncoder: Sendable {
    /// A key of the number block.
    package enum KeypadKey: String, Hashable, Sendable, CaseIterable {
        case zero = "0"
        case one = "1"
        case two = "2"
        case three = "3"
        case four = "4"
        case five = "5"
        case six = "6"
        case seven = "7"
        case eight = "8"
        case nine = "9"
        case decimal = "."
        case divide = "/"
        case multiply = "*"
        case subtract = "-"
        case add = "+"
        case enter = "\r"
    }

    /// How far a notch of the wheel moves where it is sent as keys.
    static let wheelLines = 3

    private let modes: TerminalModes
    /// Kitty's flags: 1 tells keys apart, 8 writes all keys as sequences.
    private let keyboard: UInt16
    private let isAlternate: Bool

    /// For a terminal as it is now.
    package init(_ terminal: Terminal) {
        modes = terminal.modes
        keyboard = terminal.keyboard.last ?? 0
        isAlternate = terminal.isAlternate
    }

    /// The bytes for an event; none for what the program did not ask for.
    package func bytes(for event: InputEvent) -> [UInt8] {
        switch event {
        case .key(let key, let modifiers): Array(text(for: key, modifiers).utf8)
        case .mouse(let mouse): bytes(for: mouse)
        case .paste(let text): paste(String(decoding: text, as: UTF8.self))
        case .focus(let isOn): modes.focusEvents ? Array((isOn ? "\u{1B}[I" : "\u{1B}[O").utf8) : []
        }
    }

    // MARK: - Keys

    /// The bytes for text that was typed or composed; a line feed is the Enter key.
    package func typed(_ text: String) -> [UInt8] {
        guard keyboard & 8 == 0 else {
            return text.unicodeScalars.flatMap { scalar in
                bytes(for: .key(scalar == "\n" || scalar == "\r" ? .enter : .scalar(scalar)))
            }
        }
        return text.unicodeScalars.flatMap { scalar in
            scalar == "\n" ? bytes(for: .key(.enter)) : Array(String(scalar).utf8)
        }
    }

    /// The bytes for a key of the number block.
    package func bytes(for key: KeypadKey, _ modifiers: KeyModifiers = []) -> [UInt8] {
        guard modes.applicationKeypad, modifiers.isEmpty else {
            let plain = key == .enter ? Key.enter : Key.scalar(key.rawValue.unicodeScalars.first ?? " ")
            return bytes(for: .key(plain, modifiers))
        }
        let letter =
            switch key {
            case .decimal: "n"
            case .divide: "o"
            case .multiply: "j"
            case .subtract: "m"
            case .add: "k"
            case .enter: "M"
            default: String(UnicodeScalar(UInt8(ascii: "p") + (UInt8(key.rawValue) ?? 0)))
            }
        return Array("\u{1B}O\(letter)".utf8)
    }

    private func text(for key: Key, _ modifiers: KeyModifiers) -> String {
        let number = Int(modifiers.rawValue) + 1
        switch key {
        case .scalar(let scalar): return text(for: scalar, modifiers)
        case .enter: return special(13, "\r" + (modes.newline ? "\n" : ""), modifiers)
        case .tab: return special(9, modifiers.contains(.shift) ? "\u{1B}[Z" : "\t", modifiers)
        case .backspace: return special(127, modifiers.contains(.control) ? "\u{8}" : "\u{7F}", modifiers)
        case .escape:
            if keyboard & 9 != 0 { return "\u{1B}[27\(number > 1 ? ";\(number)" : "")u" }
            return special(27, "\u{1B}", modifiers)
        case .up: return cursor("A", number)
        case .down: return cursor("B", number)
        case .right: return cursor("C", number)
        case .left: return cursor("D", number)
        case .end: return cursor("F", number)
        case .home: return cursor("H", number)
        case .insert: return tilde(2, number)
        case .delete: return tilde(3, number)
        case .pageUp: return tilde(5, number)
        case .pageDown: return tilde(6, number)
        case .function(let index): return function(index, number)
        }
    }

    private func cursor(_ letter: String, _ number: Int) -> String {
        if number > 1 { return "\u{1B}[1;\(number)\(letter)" }
        return modes.applicationCursor ? "\u{1B}O\(letter)" : "\u{1B}[\(letter)"
    }

    private func tilde(_ code: Int, _ number: Int) -> String { "\u{1B}[\(code)\(number > 1 ? ";\(number)" : "")~" }

    private func function(_ index: Int, _ number: Int) -> String {
        let codes = [15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34]
        switch index {
        // With modifiers xterm's F3 looks like a report of the cursor's position; kitty's does not.
        case 3 where keyboard & 9 != 0: return tilde(13, number)
        case 1...4:
            let letter = ["P", "Q", "R", "S"][index - 1]
            return number > 1 ? "\u{1B}[1;\(number)\(letter)" : "\u{1B}O\(letter)"
        case 5...20: return tilde(codes[index - 5], number)
        default: return ""
        }
    }

    /// Enter, Tab, Backspace and Escape, which have a byte of their own.
    private func special(_ code: Int, _ usual: String, _ modifiers: KeyModifiers) -> String {
        if keyboard & 8 != 0 || keyboard & 1 != 0 && !modifiers.isEmpty { return sequence(code, modifiers) }
        let others = modifiers.subtracting(code == 9 ? .shift : code == 127 ? .control : [])
        if modes.modifyOtherKeys == 2, !others.isEmpty, code != 27 {
            return "\u{1B}[27;\(modifiers.rawValue + 1);\(code)~"
        }
        return modifiers.contains(.alt) ? "\u{1B}" + usual : usual
    }

    /// The form of kitty.
    private func sequence(_ code: Int, _ modifiers: KeyModifiers) -> String {
        "\u{1B}[\(code)\(modifiers.isEmpty ? "" : ";\(modifiers.rawValue + 1)")u"
    }

    private func text(for scalar: Unicode.Scalar, _ modifiers: KeyModifiers) -> String {
        let hasOthers = !modifiers.isDisjoint(with: [.alt, .control])
        if keyboard & 8 != 0 || keyboard & 1 != 0 && hasOthers {
            // The key without shift is meant, and shift is a modifier.
            return sequence(
                Int(scalar.properties.lowercaseMapping.unicodeScalars.first?.value ?? scalar.value), modifiers)
        }
        guard hasOthers else { return String(scalar) }
        let controlled = modifiers.contains(.control) ? Self.control(scalar) : nil
        let isUnknown = modifiers.contains(.control) && controlled == nil
        if modes.modifyOtherKeys == 2 || modes.modifyOtherKeys == 1 && isUnknown {
            return "\u{1B}[27;\(modifiers.rawValue + 1);\(scalar.value)~"
        }
        return (modifiers.contains(.alt) ? "\u{1B}" : "") + String(controlled ?? scalar)
    }

    /// The control character of a key, as on a VT220.
    private static func control(_ scalar: Unicode.Scalar) -> Unicode.Scalar? {
        switch scalar.value {
        case 0x40...0x5F, 0x61...0x7A: Unicode.Scalar(UInt8(scalar.value & 0x1F))
        case 0x20, 0x32: "\u{0}"
        case 0x33...0x37: Unicode.Scalar(UInt8(scalar.value - 0x33 + 0x1B))
        case 0x38, 0x3F: "\u{7F}"
        case 0x2F: "\u{1F}"
        default: nil
        }
    }

    // MARK: - Paste

    /// The bytes for pasted text: lines end as by the Enter key, and controls are left out, so that nothing in it can end
    /// the brackets or act as a key.
    package func paste(_ text: String) -> [UInt8] {
        let text = Array(text.utf8)
        var bytes: [UInt8] = modes.bracketedPaste ? Array("\u{1B}[200~".utf8) : []
        bytes.reserveCapacity(text.count + 12)
        for (index, byte) in text.enumerated() {
            switch byte {
            case 0x0A: if index == 0 || text[index - 1] != 0x0D { bytes.append(0x0D) }
            case 0x09, 0x0D, 0x20..<0x7F: bytes.append(byte)
            case 0..<0x80: break
            // 8-bit controls: two bytes each in UTF-8.
            case 0xC2 where index + 1 < text.count && text[index + 1] < 0xA0: break
            case 0x80..<0xA0 where text[index - 1] == 0xC2: break
            default: bytes.append(byte)
            }
        }
        if modes.bracketedPaste { bytes += Array("\u{1B}[201~".utf8) }
        return bytes
    }

    // MARK: - Mouse

    /// True when the wheel is sent as cursor keys: on the alternate screen, to programs without the mouse.
    package var sendsWheelAsKeys: Bool { isAlternate && modes.mouse == .off }

    private func bytes(for mouse: MouseEvent) -> [UInt8] {
        let isWheel = mouse.action == .wheelUp || mouse.action == .wheelDown
        if sendsWheelAsKeys {
            guard isWheel else { return [] }
            let key = bytes(for: .key(mouse.action == .wheelUp ? .up : .down))
            return Array(repeatElement(key, count: Self.wheelLines).joined())
        }
        switch (modes.mouse, mouse.action) {
        case (.presses, .press), (.buttons, .press), (.buttons, .release), (.movement, _): break
        case (.drags, let action) where action != .drag || mouse.button != .other: break
        case (.buttons, _) where isWheel: break
        default: return []
        }
        var code =
            switch mouse.button {
            case .left: 0
            case .middle: 1
            case .right: 2
            case .other: 3
            }
        if isWheel { code = mouse.action == .wheelUp ? 64 : 65 }
        if mouse.action == .drag { code += 32 }
        if modes.mouse != .presses {
            if mouse.modifiers.contains(.shift) { code += 4 }
            if mouse.modifiers.contains(.alt) { code += 8 }
            if mouse.modifiers.contains(.control) { code += 16 }
        }
        return write(code, isRelease: mouse.action == .release, max(0, mouse.column) + 1, max(0, mouse.row) + 1)
    }

    private func write(_ code: Int, isRelease: Bool, _ column: Int, _ row: Int) -> [UInt8] {
        switch modes.mouseEncoding {
        case .sgr, .pixels: return Array("\u{1B}[<\(code);\(column);\(row)\(isRelease ? "m" : "M")".utf8)
        case .bytes, .utf8, .decimal: break
        }
        // Those forms do not say which button was released.
        let code = (isRelease ? code | 3 : code) + 32
        if modes.mouseEncoding == .decimal { return Array("\u{1B}[\(code);\(column);\(row)M".utf8) }
        let limit = modes.mouseEncoding == .utf8 ? 2_015 : 223
        guard column <= limit, row <= limit else { return [] }
        var bytes: [UInt8] = [0x1B, 0x5B, 0x4D]
        for number in [code, column + 32, row + 32] {
            if modes.mouseEncoding == .bytes {
                bytes.append(UInt8(number))
            } else {
                bytes += Unicode.Scalar(UInt32(number)).map { Array(String($0).utf8) } ?? []
            }
        }
        return bytes
    }
}
