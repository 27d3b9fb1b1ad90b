package import KithAPI
package import KithTerminal

extension InputEncoder {
    /// The bytes for what a person does; none for what the program did not ask for, and for keys that are not known.
    package func bytes(for action: Shell.Screen.Action, on terminal: Terminal) -> [UInt8] {
        switch action {
        case .text(let text): typed(text)
        case .key(let key): bytes(for: key)
        case .paste(let text): paste(text)
        case .mouse(let mouse): bytes(for: mouse, columns: terminal.columns, rows: terminal.rowCount)
        case .focus(let isOn): bytes(for: .focus(isOn))
        case .size, .shown, .lines: []
        }
    }

    private func bytes(for key: Shell.Screen.Key) -> [UInt8] {
        let modifiers = KeyModifiers(shift: key.shift, alt: key.alt, control: key.control)
        if key.name.hasPrefix("Keypad"), let keypad = KeypadKey(named: key.name.dropFirst("Keypad".count)) {
            return bytes(for: keypad, modifiers)
        }
        guard let known = Key(named: key.name) else {
            // Some characters are more than one scalar: they are typed as they are.
            guard key.name.count == 1 else { return [] }
            return modifiers.subtracting(.shift).isEmpty ? typed(key.name) : []
        }
        return bytes(for: .key(known, modifiers))
    }

    private func bytes(for mouse: Shell.Screen.Mouse, columns: Int, rows: Int) -> [UInt8] {
        let button: MouseEvent.Button =
            switch mouse.button {
            case .left: .left
            case .middle: .middle
            case .right: .right
            case .some(.none), nil: .other
            }
        let (column, row) = (min(max(mouse.x, 0), columns - 1), min(max(mouse.y, 0), rows - 1))
        let modifiers = KeyModifiers(shift: mouse.shift, alt: mouse.alt, control: mouse.control)
        let action: MouseEvent.Action =
            switch mouse.kind {
            case .down: .press
            case .up: .release
            case .move: .drag
            case .wheel: (mouse.delta ?? 0) < 0 ? .wheelUp : .wheelDown
            }
        let once = bytes(
            for: .mouse(MouseEvent(action, button, column: column, row: row, modifiers: modifiers)))
        guard mouse.kind == .wheel else { return once }
        return Array(repeatElement(once, count: abs(mouse.delta ?? 0)).joined())
    }
}

extension KeyModifiers {
    fileprivate init(shift: Bool?, alt: Bool?, control: Bool?) {
        self = []
        if shift == true { insert(.shift) }
        if alt == true { insert(.alt) }
        if control == true { insert(.control) }
    }
}

extension Key {
    private static let names: [String: Key] = [
        "Enter": .enter, "Tab": .tab, "Backspace": .backspace, "Escape": .escape, "Space": .scalar(" "), "Up": .up,
        "Down": .down, "Left": .left, "Right": .right, "ArrowUp": .up, "ArrowDown": .down, "ArrowLeft": .left,
        "ArrowRight": .right, "Home": .home, "End": .end, "PageUp": .pageUp, "PageDown": .pageDown,
        "Insert": .insert, "Delete": .delete,
    ]

    /// The key of a name; nil for one that is not known.
    fileprivate init?(named name: String) {
        if let key = Self.names[name] {
            self = key
        } else if name.unicodeScalars.count == 1, let scalar = name.unicodeScalars.first {
            self = .scalar(scalar)
        } else if name.hasPrefix("F"), let number = Int(name.dropFirst()), (1...20).contains(number) {
            self = .function(number)
        } else {
            return nil
        }
    }
}

extension InputEncoder.KeypadKey {
    /// The key of a name as it stands behind `Keypad`.
    fileprivate init?(named name: Substring) {
        switch name {
        case "Decimal": self = .decimal
        case "Divide": self = .divide
        case "Multiply": self = .multiply
        case "Subtract": self = .subtract
        case "Add": self = .add
        case "Enter": self = .enter
        default:
            guard name.utf8.count == 1, name.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            self.init(rawValue: String(name))
        }
    }
}
