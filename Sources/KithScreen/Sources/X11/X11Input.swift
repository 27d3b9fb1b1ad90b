#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithWire

/// Has the pointer and the keys of a screen move, by XTEST, and knows which of them it holds down.
@safe final class X11Input {
    /// A lent key is given back when none has been used for this long.
    private static let lendingTime = Duration.seconds(1)

    /// An input on its way.
    struct Work {
        fileprivate let input: ScreenInput
        /// The characters that have been typed.
        fileprivate var typed = 0
        /// Modifiers that are up while text is typed, to be pressed again.
        fileprivate var lifted: [UInt8] = []
        /// Text ends when everything was let go meanwhile.
        fileprivate let release: UInt64
    }

    /// A key of the viewer's keyboard: its place, or what it meant when the viewer does not know that.
    private enum Origin: Hashable {
        case place(UInt16)
        case symbol(UInt32)
    }

    /// All displays together.
    var bounds = Screen.Rectangle(width: 1, height: 1)
    /// Called before the pointer is moved or clicked.
    var pointerIsUsed: () -> Void = {}
    /// Takes in the events there are.
    var catchUp: () -> Void = {}

    private let connection: X11Connection
    private var map: X11KeyMap?
    private var spares = X11SpareKeys()
    private var isLending = false
    private var held: [Origin: UInt8] = [:]
    private var buttons: Set<UInt8> = []
    private var wheel: (x: Int32, y: Int32) = (0, 0)
    private var releases: UInt64 = 0
    /// Whether the server repeats what is held.
    private let isRepeating: Bool

    /// Holds nothing yet.
    init(_ connection: X11Connection) {
        self.connection = connection
        isRepeating = !connection.setTestKeysRepeat(false)
    }

    /// Gives back what programs on the screen would notice.
    func end() {
        releaseAll()
        giveBackKeys()
        if !isRepeating { _ = connection.setTestKeysRepeat(true) }
    }

    /// Takes an input, to be performed by ``proceed(_:)``.
    func begin(_ input: ScreenInput) -> Work { Work(input: input, release: releases) }

    /// Performs an input as far as it can be.
    ///
    /// - Returns: when to go on; `nil` when it has been done.
    /// - Throws: `KithError` `.unreachable` when the screen is gone.
    func proceed(_ work: inout Work) throws(KithError) -> ContinuousClock.Instant? {
        defer { connection.flush() }
        switch work.input {
        case .move(let x, let y): move(x, y)
        case .button(let button, let isDown): press(button, isDown)
        case .scroll(let x, let y): scroll(x, y)
        case .key(let key, true): return try press(key)
        case .key(let key, false): release(key)
        case .text(let text): return try type(text, &work)
        case .release: releaseAll()
        }
        return nil
    }

    /// Puts back what an input has changed for its own time, done or not.
    func finish(_ work: Work) {
        guard work.release == releases else { return }
        for keycode in work.lifted { fake(XCB_KEY_PRESS, keycode) }
        connection.flush()
    }

    /// Lets go of every key and button.
    func releaseAll() {
        releases += 1
        for keycode in Set(held.values) { key(keycode, isDown: false) }
        held = [:]
        for button in buttons { fake(XCB_BUTTON_RELEASE, button) }
        buttons = []
        wheel = (0, 0)
        connection.flush()
    }

    private func fake(_ kind: Int32, _ detail: UInt8, x: Int16 = 0, y: Int16 = 0) {
        unsafe xcb_test_fake_input(connection.raw, UInt8(kind), detail, 0, connection.root, x, y, 0)
    }

    // MARK: - The pointer

    private func move(_ x: Int32, _ y: Int32) {
        pointerIsUsed()
        let x = min(max(x, 0), Int32(clamping: bounds.width) - 1)
        let y = min(max(y, 0), Int32(clamping: bounds.height) - 1)
        fake(XCB_MOTION_NOTIFY, 0, x: Int16(clamping: x), y: Int16(clamping: y))
    }

    private func press(_ button: ScreenInput.Button, _ isDown: Bool) {
        let number: UInt8 =
            switch button {
            case .left: 1
            case .middle: 2
            case .right: 3
            // 4 to 7 are the wheel.
            case .back: 8
            case .forward: 9
            }
        pointerIsUsed()
        guard isDown != buttons.contains(number) else { return }
        if isDown { buttons.insert(number) } else { buttons.remove(number) }
        fake(isDown ? XCB_BUTTON_PRESS : XCB_BUTTON_RELEASE, number)
    }

    /// Turns by whole notches, and keeps the rest for the next time.
    private func scroll(_ x: Int32, _ y: Int32) {
        pointerIsUsed()
        wheel = (
            Int32(clamping: Int64(wheel.x) + Int64(x)), Int32(clamping: Int64(wheel.y) + Int64(y))
        )
        let notches = (x: max(-100, min(wheel.x / 120, 100)), y: max(-100, min(wheel.y / 120, 100)))
        wheel = (wheel.x % 120, wheel.y % 120)
        for (count, backward, forward) in [(notches.y, UInt8(4), UInt8(5)), (notches.x, 6, 7)] {
            for _ in 0..<abs(count) {
                fake(XCB_BUTTON_PRESS, count < 0 ? backward : forward)
                fake(XCB_BUTTON_RELEASE, count < 0 ? backward : forward)
            }
        }
    }

    // MARK: - Keys

    private func press(_ key: ScreenInput.Key) throws(KithError) -> ContinuousClock.Instant? {
        let origin = key.code.map(Origin.place) ?? .symbol(key.symbol)
        if let keycode = held[origin] {
            guard !isRepeating else { return nil }
            self.key(keycode, isDown: false)
            self.key(keycode, isDown: true)
            return nil
        }
        let preferred = key.code.flatMap { UInt8(exactly: Int($0) + 8) }
        switch try find(X11KeySymbol(key.symbol), preferred: preferred) {
        case .wait(let time): return time
        case .none: return nil  // this keyboard has no such key
        case .found(let stroke, let state):
            if held.values.contains(stroke.keycode) { self.key(stroke.keycode, isDown: false) }
            try strike(stroke, state, releases: false)
            held[origin] = stroke.keycode
            return nil
        }
    }

    private func release(_ key: ScreenInput.Key) {
        var origins = [Origin.symbol(key.symbol)]
        if let code = key.code { origins.insert(.place(code), at: 0) }
        // Shift may have come up first: the same key has its other meaning then.
        let symbol = X11KeySymbol(key.symbol)
        origins += [.symbol(symbol.lowercased.number), .symbol(symbol.uppercased.number)]
        guard let origin = origins.first(where: { held[$0] != nil }), let keycode = held.removeValue(forKey: origin),
            !held.values.contains(keycode)
        else { return }
        self.key(keycode, isDown: false)
    }

    private func type(_ text: String, _ work: inout Work) throws(KithError) -> ContinuousClock.Instant? {
        var scalars = text.unicodeScalars.dropFirst(work.typed)
        if work.typed == 0 { try liftModifiers(&work) }
        while let scalar = scalars.first, work.release == releases {
            scalars = scalars.dropFirst()
            if let symbol = X11KeySymbol(typing: scalar) {
                switch try find(symbol, preferred: nil) {
                case .wait(let time): return time
                case .none: break  // a keyboard without any free key: the character cannot be typed
                case .found(let stroke, let state): try strike(stroke, state, releases: true)
                }
            }
            work.typed += 1
        }
        return nil
    }

    /// Text is not to become shortcuts: what is held for those comes up while it is typed.
    private func liftModifiers(_ work: inout Work) throws(KithError) {
        let modifiers = Set(try layout().modifiers.joined())
        work.lifted = Set(held.values).filter { modifiers.contains($0) }
        for keycode in work.lifted { fake(XCB_KEY_RELEASE, keycode) }
    }

    private enum Found {
        case found(X11KeyMap.Stroke, X11KeyMap.State)
        case wait(until: ContinuousClock.Instant)
        case none
    }

    private func find(_ symbol: X11KeySymbol, preferred: UInt8?) throws(KithError) -> Found {
        let state = X11KeyMap.State(bits: try connection.pointer().modifiers)
        // News of another layout came before that answer, if there is any.
        catchUp()
        let map = try layout()
        if let stroke = map.stroke(for: symbol, preferred: preferred, state) { return .found(stroke, state) }
        // Some other meanings have the server break grabs, or end, where no key of the layout does.
        guard symbol.isCharacter else { return .none }
        switch spares.take(for: symbol, at: .now) {
        case .none: return .none
        case .wait(let time): return .wait(until: time)
        case .ready: break
        case .assign(let keycode, let meanings): lend(keycode, meanings)
        }
        let lent = try layout()
        return lent.stroke(for: symbol, state).map { .found($0, state) } ?? .none
    }

    /// Presses a key at its level, and puts the modifiers back.
    private func strike(_ stroke: X11KeyMap.Stroke, _ state: X11KeyMap.State, releases: Bool) throws(KithError) {
        let map = try layout()
        var undo: [(UInt8, Bool)] = []
        func set(_ isWanted: Bool, _ isOn: Bool, _ keycodes: [UInt8]) {
            guard isWanted != isOn, let first = keycodes.first else { return }
            if isWanted {
                fake(XCB_KEY_PRESS, first)
                undo.append((first, false))
            } else {
                for keycode in Set(held.values) where keycodes.contains(keycode) {
                    fake(XCB_KEY_RELEASE, keycode)
                    undo.append((keycode, true))
                }
            }
        }
        if let level = stroke.level {
            let now = map.level(state)
            set(level.isShifted, now.isShifted, map.modifiers[0])
            let third = map.modifiers.indices.filter { map.thirdMask & 1 << UInt32($0) != 0 }
            set(level.isThird, now.isThird, third.flatMap { map.modifiers[$0] })
        }
        key(stroke.keycode, isDown: true)
        if releases { key(stroke.keycode, isDown: false) }
        for (keycode, isDown) in undo.reversed() { fake(isDown ? XCB_KEY_PRESS : XCB_KEY_RELEASE, keycode) }
    }

    private func key(_ keycode: UInt8, isDown: Bool) {
        fake(isDown ? XCB_KEY_PRESS : XCB_KEY_RELEASE, keycode)
        spares.mark(keycode, isDown: isDown, at: .now)
    }

    // MARK: - The layout

    /// Forgets the layout: another one was loaded, or a key got another meaning.
    func layoutChanged() { map = nil }

    private func layout() throws(KithError) -> X11KeyMap {
        if let map { return map }
        let read = try connection.keyMap()
        map = read
        spares.reconcile(with: read)
        return read
    }

    private func lend(_ keycode: UInt8, _ meanings: [UInt32]) {
        unsafe xcb_change_keyboard_mapping(connection.raw, 1, keycode, UInt8(meanings.count), meanings)
        map = nil
    }

    /// Whether keys have been lent, and nobody sees yet that they come back.
    func beginsLending() -> Bool {
        guard !isLending, !spares.lent.isEmpty else { return false }
        isLending = true
        return true
    }

    /// Takes lent keys back when they have rested long enough.
    ///
    /// - Returns: the time after which to ask again; `nil` when none are lent any more.
    func giveBackKeysIfUnused() -> Duration? {
        let rest = spares.lastUse.map { .now - $0 } ?? Self.lendingTime
        if rest < Self.lendingTime { return Self.lendingTime - rest }
        giveBackKeys()
        isLending = !spares.lent.isEmpty
        return isLending ? Self.lendingTime : nil
    }

    /// Takes all lent keys back that are up.
    func giveBackKeys() {
        for keycode in spares.takeBack() { lend(keycode, [0, 0]) }
        connection.flush()
    }
}
#endif
