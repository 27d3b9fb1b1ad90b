/// A modifier key, by its usage on page 7 of the USB HID usage tables (left-hand ones).
@frozen package enum ModifierKey: UInt16, Hashable, Sendable, CaseIterable {
    case control = 0xE0
    case shift = 0xE1
    case alt = 0xE2
    case meta = 0xE3
}

/// What goes to the host's keyboard.
@frozen package enum KeyEvent: Hashable, Sendable {
    /// A key by its HID usage goes down or comes up.
    case key(usage: UInt16, isDown: Bool)
    /// Text that no key needs to be known for, as an input method makes it.
    case text(String)
}

/// The modifiers of a soft keyboard's toolbar, which stay down for the next key, or until taken back.
///
///     off ──tap──▶ once ──tap within 0.4 s──▶ locked ──tap──▶ off
///                   │ └──tap later──▶ off
///                   └──the next key──▶ off
///
/// A modifier is pressed for the host around the key that it is for and not before: nothing is held while a person
/// thinks, and nothing stays down when the session ends between two keys. Only a locked one stays down.
package struct ModifierBar: Sendable {
    /// What a modifier does with the keys that follow.
    @frozen package enum Hold: Hashable, Sendable { case off, once, locked }

    /// The longest time between the two taps that lock.
    package static let doubleTap = Duration.milliseconds(400)

    private var holds: [ModifierKey: Hold] = [:]
    private var tapped: [ModifierKey: ContinuousClock.Instant] = [:]

    /// Begins with all off.
    package init() {}

    /// What a modifier does now, for drawing its button.
    package func hold(_ key: ModifierKey) -> Hold { holds[key] ?? .off }

    /// Takes in a tap on a modifier's button.
    package mutating func tap(_ key: ModifierKey, at now: ContinuousClock.Instant) -> [KeyEvent] {
        let isQuick = tapped[key].map { now - $0 <= Self.doubleTap } ?? false
        tapped[key] = now
        switch hold(key) {
        case .off:
            holds[key] = .once
            return []
        case .once where isQuick:
            holds[key] = .locked
            return [.key(usage: key.rawValue, isDown: true)]
        case .once:
            holds[key] = .off
            return []
        case .locked:
            holds[key] = .off
            tapped[key] = nil
            return [.key(usage: key.rawValue, isDown: false)]
        }
    }

    /// The events for a key that is struck, by its HID usage, with the modifiers that are held for it.
    package mutating func strike(_ usage: UInt16) -> [KeyEvent] {
        around([.key(usage: usage, isDown: true), .key(usage: usage, isDown: false)])
    }

    /// The events for text.
    ///
    /// With control, alt or meta held it is the keys of ASCII letters and digits instead, as a
    /// shortcut needs them; other characters stay text.
    package mutating func type(_ text: String) -> [KeyEvent] {
        let isShortcut = ModifierKey.allCases.contains { $0 != .shift && hold($0) != .off }
        guard isShortcut, text.unicodeScalars.count == 1, let scalar = text.unicodeScalars.first,
            let usage = Self.usage(of: scalar)
        else {
            for key in ModifierKey.allCases where hold(key) == .once { holds[key] = .off }
            return text.isEmpty ? [] : [.text(text)]
        }
        return strike(usage)
    }

    /// Takes all back, for a session that ends or a keyboard that is put away.
    package mutating func reset() -> [KeyEvent] {
        let locked = ModifierKey.allCases.filter { hold($0) == .locked }
        holds = [:]
        tapped = [:]
        return locked.reversed().map { .key(usage: $0.rawValue, isDown: false) }
    }

    /// The events of control, alt and delete struck together, which no soft keyboard has.
    package static let controlAltDelete: [KeyEvent] = {
        let keys: [UInt16] = [ModifierKey.control.rawValue, ModifierKey.alt.rawValue, 0x4C]
        return keys.map { .key(usage: $0, isDown: true) } + keys.reversed().map { .key(usage: $0, isDown: false) }
    }()

    private mutating func around(_ events: [KeyEvent]) -> [KeyEvent] {
        let once = ModifierKey.allCases.filter { hold($0) == .once }
        for key in once { holds[key] = .off }
        return once.map { .key(usage: $0.rawValue, isDown: true) } + events
            + once.reversed().map { .key(usage: $0.rawValue, isDown: false) }
    }

    /// The HID usage of a letter's or digit's key.
    private static func usage(of scalar: Unicode.Scalar) -> UInt16? {
        switch scalar {
        case "a"..."z": UInt16(scalar.value) - 97 + 0x04
        case "A"..."Z": UInt16(scalar.value) - 65 + 0x04
        case "1"..."9": UInt16(scalar.value) - 49 + 0x1E
        case "0": 0x27
        case " ": 0x2C
        default: nil
        }
    }
}
