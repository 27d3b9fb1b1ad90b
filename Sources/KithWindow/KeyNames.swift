package import KithAPI

/// The keys that people name: `ctrl+alt+t`, `Return`, `F5`, `é`.
package enum KeyNames {
    /// The keys of a combination, in the order in which they go down; `nil` for a name that is none.
    ///
    /// Names are separated by `+`; the last may be `+` itself. Upper and lower case are the same, but for one letter alone,
    /// which is typed as it is.
    package static func keys(of combination: String) -> [ScreenInput.Key]? {
        var names: [Substring] = []
        var rest = combination[...]
        while let end = rest.dropFirst().firstIndex(of: "+") {
            names.append(rest[..<end])
            rest = rest[rest.index(after: end)...]
        }
        names.append(rest)
        guard names.count <= 8 else { return nil }
        var keys: [ScreenInput.Key] = []
        for name in names {
            guard let symbol = symbol(of: String(name), isAlone: names.count == 1) else { return nil }
            keys.append(ScreenInput.Key(symbol: symbol))
        }
        return keys
    }

    /// The number X11 has for a character.
    package static func symbol(of scalar: Unicode.Scalar) -> UInt32 {
        switch scalar.value {
        case 0x20...0x7E, 0xA0...0xFF: scalar.value
        case 0x0A, 0x0D: 0xFF0D
        case 0x09: 0xFF09
        case 0x08: 0xFF08
        case 0x1B: 0xFF1B
        default: 0x100_0000 + scalar.value
        }
    }

    private static func symbol(of name: String, isAlone: Bool) -> UInt32? {
        if let scalar = name.unicodeScalars.first, name.unicodeScalars.count == 1 {
            // `ctrl+T` is the key T, not the capital letter.
            let letter = isAlone ? scalar : String(scalar).lowercased().unicodeScalars.first ?? scalar
            return letter.value < 0x20 ? nil : symbol(of: letter)
        }
        let lower = name.lowercased()
        if let known = named[lower] { return known }
        if lower.hasPrefix("f"), let number = UInt32(lower.dropFirst()), (1...35).contains(number) {
            return 0xFFBD + number
        }
        return nil
    }

    /// Names, and the numbers of X11's `keysymdef.h`.
    private static let named: [String: UInt32] = [
        "ctrl": 0xFFE3, "control": 0xFFE3, "shift": 0xFFE1, "alt": 0xFFE9, "option": 0xFFE9, "altgr": 0xFE03,
        "meta": 0xFFE7, "super": 0xFFEB, "win": 0xFFEB, "cmd": 0xFFEB, "menu": 0xFF67,
        "return": 0xFF0D, "enter": 0xFF0D, "tab": 0xFF09, "esc": 0xFF1B, "escape": 0xFF1B, "space": 0x20,
        "backspace": 0xFF08, "delete": 0xFFFF, "del": 0xFFFF, "insert": 0xFF63, "home": 0xFF50, "end": 0xFF57,
        "left": 0xFF51, "up": 0xFF52, "right": 0xFF53, "down": 0xFF54, "pageup": 0xFF55, "pagedown": 0xFF56,
        "print": 0xFF61, "pause": 0xFF13, "scrolllock": 0xFF14, "capslock": 0xFFE5, "numlock": 0xFF7F, "plus": 0x2B,
        "volumeup": 0x1008_FF13, "volumedown": 0x1008_FF11, "mute": 0x1008_FF12,
    ]
}
