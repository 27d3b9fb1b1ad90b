#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

/// The meanings of the keys in the present layout, and the way to each of them.
struct X11KeyMap {
    /// The modifiers that decide which of a key's meanings it has.
    struct Level: Hashable {
        /// Shift is down.
        var isShifted = false
        /// AltGr, as many keyboards call it, is down.
        var isThird = false
    }

    /// A key, and the level it is pressed at; `nil`: at any.
    struct Stroke: Hashable {
        /// The key's code.
        var keycode: UInt8
        /// The level.
        var level: Level?
    }

    /// The modifiers that are on, as X11 has them in its events.
    struct State: Hashable {
        /// One bit each, and the group in bits 13 and 14.
        var bits: UInt32 = 0

        /// Shift.
        static let shift: UInt32 = 1
        /// Caps Lock.
        static let lock: UInt32 = 2
        /// Control.
        static let control: UInt32 = 4
        /// The group: the first or the second of two layouts.
        var group: Int { Int(bits >> 13 & 3) }
    }

    private let first: UInt8
    private let width: Int
    private let symbols: [X11KeySymbol]
    /// The codes of the keys of each modifier: Shift, Lock, Control, and the five others.
    let modifiers: [[UInt8]]
    /// The modifier of the third level, of Num Lock, and those that make a shortcut of a key.
    let thirdMask: UInt32
    private let numLockMask: UInt32
    private let shortcutMask: UInt32

    /// Takes a table of `width` symbols a key, from the key `first` on.
    init(first: UInt8, width: Int, symbols: [UInt32], modifiers: [[UInt8]]) {
        self.first = first
        self.width = max(width, 1)
        self.symbols = symbols.map(X11KeySymbol.init)
        self.modifiers = modifiers
        var (third, numLock, shortcut) = (UInt32(0), UInt32(0), State.control)
        for (row, keycodes) in modifiers.enumerated() where row >= 3 {
            for keycode in keycodes {
                let start = (Int(keycode) - Int(first)) * max(width, 1)
                guard keycode >= first, start < symbols.count else { continue }
                switch symbols[start] {
                case X11KeySymbol.thirdLevel: third |= 1 << UInt32(row)
                case X11KeySymbol.numLock: numLock |= 1 << UInt32(row)
                // Meta, Alt, Super and Hyper.
                case 0xFFE7...0xFFEE: shortcut |= 1 << UInt32(row)
                default: break
                }
            }
        }
        thirdMask = third
        numLockMask = numLock
        shortcutMask = shortcut & ~third
    }

    /// The codes of keys that mean nothing, the highest first: those that no keyboard has.
    var unusedKeycodes: [UInt8] {
        let isModifier = Set(modifiers.joined())
        return keycodes.reversed().filter { keycode in
            row(keycode).allSatisfy { $0.number == 0 } && !isModifier.contains(keycode)
        }
    }

    /// The first two meanings of a key.
    func meanings(of keycode: UInt8) -> [UInt32] { row(keycode).prefix(2).map(\.number) }

    /// The modifiers, one bit each, that one of these meanings is for.
    func mask(of meanings: Set<UInt32>) -> UInt32 {
        modifiers.indices.reduce(0) { mask, row in
            let isFound = modifiers[row].contains { !meanings.isDisjoint(with: self.meanings(of: $0)) }
            return isFound ? mask | 1 << UInt32(row) : mask
        }
    }

    /// The level that modifiers make.
    func level(_ state: State) -> Level {
        Level(isShifted: state.bits & State.shift != 0, isThird: thirdMask != 0 && state.bits & thirdMask != 0)
    }

    /// The stroke that means `symbol`, with the fewest changes of what is down; `nil` when the layout lacks it.
    ///
    /// Of several keys it is the one the viewer's keyboard has it on, `preferred`, if that is one of them.
    func stroke(for symbol: X11KeySymbol, preferred: UInt8? = nil, _ state: State) -> Stroke? {
        let symbol = symbol.number == X11KeySymbol.leftTab ? X11KeySymbol(X11KeySymbol.tab) : symbol
        guard symbol.number != 0 else { return nil }
        let candidates = (preferred.map { [$0] } ?? []) + Array(keycodes)
        guard symbol.hasLevel else {
            // Meta is on Alt, and Break on Pause; what is beside a character is not to type that.
            let keycode =
                candidates.first { row($0).first == symbol }
                ?? candidates.first { row($0).contains(symbol) && row($0).first?.hasLevel == false }
            return keycode.map { Stroke(keycode: $0, level: nil) }
        }
        let now = level(state)
        let isShortcut = state.bits & shortcutMask != 0
        var levels = [now]
        for level in [
            Level(), Level(isShifted: true), Level(isThird: true), Level(isShifted: true, isThird: true),
        ] where level != now {
            // Nothing is let go of in a shortcut, which is made of what is down.
            if isShortcut, now.isShifted && !level.isShifted || now.isThird && !level.isThird { continue }
            if level.isThird, thirdMask == 0 { continue }
            levels.append(level)
        }
        for level in levels {
            if let keycode = candidates.first(where: { meaning(of: $0, at: level, state) == symbol }) {
                return Stroke(keycode: keycode, level: level == now ? nil : level)
            }
        }
        guard isShortcut else { return nil }
        let small = symbol.lowercased
        return candidates.first { row($0).first == small }.map { Stroke(keycode: $0, level: nil) }
    }

    /// The meaning of a key at a level, with what else is on.
    private func meaning(of keycode: UInt8, at level: Level, _ state: State) -> X11KeySymbol {
        let row = row(keycode)
        func pair(_ start: Int) -> (X11KeySymbol, X11KeySymbol)? {
            guard row.count > start else { return nil }
            let base = row[row.startIndex + start]
            let shifted = row.count > start + 1 ? row[row.startIndex + start + 1] : X11KeySymbol(0)
            if base.number == 0, shifted.number == 0 { return nil }
            // A letter alone stands for both its forms, anything else alone for itself.
            return shifted.number != 0 ? (base, shifted) : (base.lowercased, base.uppercased)
        }
        let group = min(state.group, 1) * 2
        let plain = pair(group) ?? pair(0) ?? (X11KeySymbol(0), X11KeySymbol(0))
        let (base, shifted) = level.isThird ? pair(4 + group) ?? pair(4) ?? plain : plain
        var isShifted = level.isShifted
        let isLetter = base != shifted && base.uppercased == shifted
        if isLetter, state.bits & State.lock != 0 { isShifted.toggle() }
        if shifted.isKeypad, numLockMask != 0, state.bits & numLockMask != 0 { isShifted.toggle() }
        return isShifted ? shifted : base
    }

    private var keycodes: ClosedRange<UInt8> {
        first...UInt8(clamping: Int(first) + max(symbols.count / width, 1) - 1)
    }

    private func row(_ keycode: UInt8) -> ArraySlice<X11KeySymbol> {
        let start = (Int(keycode) - Int(first)) * width
        return keycode >= first && start + width <= symbols.count ? symbols[start..<start + width] : []
    }
}

extension X11Connection {
    /// The present layout.
    ///
    /// - Throws: ``gone``.
    func keyMap() throws(KithError) -> X11KeyMap {
        let first = keycodes.lowerBound
        let count = UInt8(clamping: keycodes.count)
        let table = try unsafe reply(
            to: xcb_get_keyboard_mapping(raw, first, count), xcb_get_keyboard_mapping_reply
        ) { reply in
            let count = unsafe Int(xcb_get_keyboard_mapping_keysyms_length(reply))
            let symbols = unsafe UnsafeBufferPointer(start: xcb_get_keyboard_mapping_keysyms(reply), count: count)
            return unsafe (width: Int(reply.pointee.keysyms_per_keycode), symbols: Array(symbols))
        }
        let modifiers = try unsafe reply(to: xcb_get_modifier_mapping(raw), xcb_get_modifier_mapping_reply) { reply in
            let width = unsafe Int(reply.pointee.keycodes_per_modifier)
            let count = unsafe Int(xcb_get_modifier_mapping_keycodes_length(reply))
            let keycodes = unsafe UnsafeBufferPointer(start: xcb_get_modifier_mapping_keycodes(reply), count: count)
            return (0..<8).map { row in
                (0..<width).compactMap { column in
                    let index = row * width + column
                    return unsafe index < count && keycodes[index] != 0 ? keycodes[index] : nil
                }
            }
        }
        return X11KeyMap(first: first, width: table.width, symbols: table.symbols, modifiers: modifiers)
    }
}
#endif
