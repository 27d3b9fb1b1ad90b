/// Understands what a terminal sends when a person types, pastes or uses the mouse.
///
/// It knows the keys of xterm and of those that speak like it (VT220, rxvt, the Linux console, kitty's `CSI u`), the mouse
/// in the form of mode 1006, bracketed paste (2004) and focus (1004). Bytes come in as they arrive, also in pieces. What
/// is not a key is read to its end and dropped, however long: 64 bytes of a sequence are kept, and 64 KiB of a paste.
///
///     ground ─ESC─▶ escape ─[─▶ control ─final─▶ ground        control ─200~─▶ paste ─ESC[201~─▶ ground
///        │            │ O─▶ shifted (one more byte)
///        │            └ ]P^_X─▶ string ─ST or BEL─▶ ground
///        └ 0xC2…0xF4 ─▶ character (of UTF-8)
///
/// A lone ESC is a key, too, and looks like the beginning of a sequence: when nothing follows, call ``timedOut()``.
package struct InputDecoder: Sendable {
    private enum State {
        case ground
        case escape
        case control
        case shifted
        /// The Linux console's F1…F5 are `ESC [ [` and a letter.
        case linuxFunction
        /// So many bytes of an old mouse report are still to come.
        case oldMouse(Int)
        case string(isAtEscape: Bool)
        case character(needed: Int)
        case paste
    }

    private static let sequenceLimit = 64
    /// So many bytes of one paste are kept.
    package static let pasteLimit = 64 << 10
    private static let pasteEnd = Array("\u{1B}[201~".utf8)

    private var state = State.ground
    private var collected: [UInt8] = []
    /// The key being read was preceded by ESC.
    private var isAlternate = false
    private var events: [InputEvent] = []
    /// The length of the part of ``pasteEnd`` that the last bytes match.
    private var matched = 0

    package init() {}

    /// True when ``timedOut()`` is to be called if nothing comes for a while (50 ms).
    package var isWaiting: Bool {
        switch state {
        case .ground, .paste: false
        default: true
        }
    }

    /// Takes some bytes; returns what they completed.
    package mutating func decode(_ bytes: some Sequence<UInt8>) -> [InputEvent] {
        for byte in bytes { take(byte) }
        defer { events = [] }
        return events
    }

    /// Nothing followed: what looked like a beginning is a key of its own, or nothing.
    package mutating func timedOut() -> [InputEvent] {
        switch state {
        case .ground, .paste: return []
        case .escape: emit(.escape)
        case .control where collected.isEmpty: emit(.scalar("["), .alt)
        case .shifted: emit(.scalar("O"), .alt)
        case .string where collected.count == 1: emit(.scalar(Unicode.Scalar(collected[0])), .alt)
        default: break
        }
        reset()
        defer { events = [] }
        return events
    }

    private mutating func reset() {
        state = .ground
        collected = []
        isAlternate = false
    }

    private mutating func emit(_ key: Key, _ modifiers: KeyModifiers = []) {
        events.append(.key(key, isAlternate ? modifiers.union(.alt) : modifiers))
    }

    // MARK: - Bytes

    private mutating func take(_ byte: UInt8) {
        switch state {
        case .ground: takeKey(byte)
        case .escape: takeAfterEscape(byte)
        case .control: takeControl(byte)
        case .shifted:
            shifted(byte)
            reset()
        case .linuxFunction:
            if (0x41...0x45).contains(byte) { emit(.function(Int(byte) - 0x40)) }
            reset()
        case .oldMouse(let left):
            if left > 1 { state = .oldMouse(left - 1) } else { reset() }
        case .string(let isAtEscape): takeString(byte, isAtEscape: isAtEscape)
        case .character(let needed): takeCharacter(byte, needed: needed)
        case .paste: takePaste(byte)
        }
    }

    /// A byte that begins something, behind an ESC or not.
    private mutating func takeKey(_ byte: UInt8) {
        switch byte {
        case 0x1B:
            state = .escape
            return
        case 0x0D: emit(.enter)
        case 0x09: emit(.tab)
        case 0x7F, 0x08: emit(.backspace)
        case 0x00: emit(.scalar(" "), .control)
        case 0x01...0x1A: emit(.scalar(Unicode.Scalar(byte + 0x60)), .control)
        case 0x1C...0x1F: emit(.scalar(Unicode.Scalar(byte + 0x40)), .control)
        case 0x20..<0x7F: emit(.scalar(Unicode.Scalar(byte)))
        case 0xC2...0xF4:
            state = .character(needed: byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1)
            collected = [byte]
            return
        default: break  // no UTF-8 begins like this
        }
        reset()
    }

    private mutating func takeAfterEscape(_ byte: UInt8) {
        switch byte {
        case 0x1B:
            // One ESC was a key; the other may begin something.
            emit(.escape)
        case 0x5B: state = .control
        case 0x4F: state = .shifted
        case 0x5D, 0x50, 0x58, 0x5E, 0x5F:
            state = .string(isAtEscape: false)
            collected = [byte]
        default:
            isAlternate = true
            state = .ground
            takeKey(byte)
        }
    }

    private mutating func takeCharacter(_ byte: UInt8, needed: Int) {
        guard byte & 0xC0 == 0x80 else {
            reset()
            return take(byte)
        }
        collected.append(byte)
        guard needed == 1 else {
            state = .character(needed: needed - 1)
            return
        }
        // What is not UTF-8 after all (a surrogate, an overlong form) is not a key.
        if let text = String(validating: collected, as: UTF8.self), let scalar = text.unicodeScalars.first {
            emit(.scalar(scalar))
        }
        reset()
    }

    private mutating func takeString(_ byte: UInt8, isAtEscape: Bool) {
        if collected.count < Self.sequenceLimit { collected.append(byte) }
        if byte == 0x07 || (isAtEscape && byte == 0x5C) || byte == 0x18 || byte == 0x1A { return reset() }
        state = .string(isAtEscape: byte == 0x1B)
    }

    private mutating func takePaste(_ byte: UInt8) {
        // Terminals take controls out of what is pasted: a Ctrl-C is typed, for the end that never came.
        if byte == 0x03 {
            events.append(.paste(collected))
            reset()
            return emit(.scalar("c"), .control)
        }
        matched = byte == Self.pasteEnd[matched] ? matched + 1 : byte == Self.pasteEnd[0] ? 1 : 0
        if collected.count < Self.pasteLimit + Self.pasteEnd.count { collected.append(byte) }
        guard matched == Self.pasteEnd.count else { return }
        matched = 0
        if collected.suffix(Self.pasteEnd.count) == Self.pasteEnd[...] { collected.removeLast(Self.pasteEnd.count) }
        events.append(.paste(Array(collected.prefix(Self.pasteLimit))))
        reset()
    }

    // MARK: - Sequences

    private mutating func takeControl(_ byte: UInt8) {
        switch byte {
        case 0x1B:
            // A sequence that was cut off.
            reset()
            state = .escape
        case 0x5B where collected.isEmpty: state = .linuxFunction
        case 0x4D where collected.isEmpty: state = .oldMouse(3)
        case 0x20..<0x40:
            // One byte too many marks it as too long.
            if collected.count <= Self.sequenceLimit { collected.append(byte) }
        case 0x40..<0x7F:
            let parameters = collected
            reset()
            if parameters.count <= Self.sequenceLimit { control(parameters, final: byte) }
        default: reset()
        }
    }

    /// A whole control sequence.
    private mutating func control(_ bytes: [UInt8], final: UInt8) {
        if bytes.first == 0x3C { return mouse(Array(bytes.dropFirst()), isRelease: final == 0x6D, final) }
        guard bytes.allSatisfy({ (0x30...0x3B).contains($0) }) else { return }
        let numbers = Self.numbers(bytes)
        let modifiers = Self.modifiers(numbers.count > 1 ? numbers[1] : 1)
        switch final {
        case 0x49: events.append(.focus(true))
        case 0x4F: events.append(.focus(false))
        case 0x5A: emit(.tab, .shift)
        case 0x7E: tilde(numbers.first ?? 0, modifiers)
        case 0x75:
            // kitty's and xterm's form for all other keys.
            guard let number = numbers.first, let key = Self.key(ofCode: number) else { return }
            emit(key, modifiers)
        default:
            // With another first number it is an answer, as of the cursor's position.
            if numbers[0] <= 1, let key = Self.key(ofLetter: final) { emit(key, modifiers) }
        }
    }

    private mutating func tilde(_ number: Int, _ modifiers: KeyModifiers) {
        switch number {
        case 1, 7: emit(.home, modifiers)
        case 2: emit(.insert, modifiers)
        case 3: emit(.delete, modifiers)
        case 4, 8: emit(.end, modifiers)
        case 5: emit(.pageUp, modifiers)
        case 6: emit(.pageDown, modifiers)
        case 11...15: emit(.function(number - 10), modifiers)
        case 17...21: emit(.function(number - 11), modifiers)
        case 23...26: emit(.function(number - 12), modifiers)
        case 28, 29: emit(.function(number - 13), modifiers)
        case 31...34: emit(.function(number - 14), modifiers)
        case 200:
            state = .paste
            matched = 0
        default: break
        }
    }

    private mutating func shifted(_ byte: UInt8) {
        if byte == 0x4D { emit(.enter) } else if let key = Self.key(ofLetter: byte) { emit(key) }
    }

    private static func key(ofLetter letter: UInt8) -> Key? {
        switch letter {
        case 0x41: .up
        case 0x42: .down
        case 0x43: .right
        case 0x44: .left
        case 0x46: .end
        case 0x48: .home
        case 0x50...0x53: .function(Int(letter) - 0x4F)
        default: nil
        }
    }

    private static func key(ofCode code: Int) -> Key? {
        switch code {
        case 9: .tab
        case 13: .enter
        case 27: .escape
        case 127: .backspace
        case ..<32: nil
        default: UInt32(exactly: code).flatMap { Unicode.Scalar($0) }.map { .scalar($0) }
        }
    }

    private static func modifiers(_ number: Int) -> KeyModifiers {
        number > 1 ? KeyModifiers(rawValue: UInt8((number - 1) & 7)) : []
    }

    /// Numbers between semicolons; what stands behind a colon is left out, an absent number is 0.
    private static func numbers(_ bytes: [UInt8]) -> [Int] {
        bytes.split(separator: 0x3B, omittingEmptySubsequences: false).map { part in
            part.prefix { $0 != 0x3A }.reduce(0) { min($0 * 10 + Int($1 - 0x30), 1 << 24) }
        }
    }

    private mutating func mouse(_ bytes: [UInt8], isRelease: Bool, _ final: UInt8) {
        guard final == 0x4D || final == 0x6D, bytes.allSatisfy({ $0 == 0x3B || (0x30...0x39).contains($0) }) else {
            return
        }
        let numbers = Self.numbers(bytes)
        guard numbers.count == 3, numbers[1] > 0, numbers[2] > 0 else { return }
        let code = numbers[0]
        var modifiers = KeyModifiers()
        if code & 4 != 0 { modifiers.insert(.shift) }
        if code & 8 != 0 { modifiers.insert(.alt) }
        if code & 16 != 0 { modifiers.insert(.control) }
        let (column, row) = (numbers[1] - 1, numbers[2] - 1)
        if code & 64 != 0 {
            // 66 and 67 are a wheel that turns sideways.
            guard code & 2 == 0, !isRelease else { return }
            events.append(
                .mouse(
                    MouseEvent(
                        code & 1 == 0 ? .wheelUp : .wheelDown, .other, column: column, row: row, modifiers: modifiers)))
            return
        }
        let buttons: [MouseEvent.Button] = [.left, .middle, .right, .other]
        let button = code & 128 != 0 ? .other : buttons[code & 3]
        let action: MouseEvent.Action = isRelease ? .release : code & 32 != 0 ? .drag : .press
        events.append(.mouse(MouseEvent(action, button, column: column, row: row, modifiers: modifiers)))
    }
}
