package import KithAPI

/// Makes what a keyboard does in a window into keys and text for the other device.
///
/// A key that types a character is sent by the character it types here, whatever the layout there: the window system says
/// first that a key went down, then which text came of it. Text that comes without a key, of an input method, is sent as
/// text. A key that is repeated here goes down there again, as a host does not repeat what is held.
///
/// The right Alt chooses characters on many keyboards, and is an Alt on others; no window system says which. It goes there
/// once the next key tells: not with one that types another character for it, whose meaning there it would change.
package struct WindowKeyboard: Sendable {
    private enum Pending: Hashable {
        /// The text of this key comes next, if it types any: a dead key does not.
        case key(WindowKey)
        /// The text of a key that has been sent already, or is not to be.
        case unwanted
    }

    /// The most bytes of one text.
    private static let textLimit = 1_000
    private static let rightAltUsage: UInt16 = 230

    private var held: [UInt16: ScreenInput.Key] = [:]
    private var pending: Pending?
    /// The right Alt, while it is down and has not been sent.
    private var rightAlt: (key: WindowKey, hasChosen: Bool)?

    /// Begins with nothing held.
    package init() {}

    /// True when a key is down for the other device.
    package var holdsKeys: Bool { !held.isEmpty }

    /// Takes in that a key went down.
    package mutating func pressed(_ key: WindowKey, isRepeat: Bool = false) -> [ScreenInput] {
        pending = nil
        if isRepeat || held[key.usage] != nil {
            pending = key.isCharacter ? .unwanted : nil
            guard isRepeat, !key.isModifier, let down = held[key.usage] else { return [] }
            return [.key(down, isDown: true)]
        }
        if key.meaning == Self.rightAltUsage {
            rightAlt = rightAlt ?? (key, false)
            return []
        }
        if key.typesText {
            pending = .key(key)
            return []
        }
        // Some systems report the text of Alt and a letter as well.
        if key.isCharacter { pending = .unwanted }
        guard let symbol = key.symbol else { return [] }
        let before = key.isModifier ? [] : holdRightAlt()
        return before + hold(ScreenInput.Key(symbol: symbol, code: key.code), at: key.usage)
    }

    /// Takes in text that was typed or composed.
    package mutating func typed(_ text: String) -> [ScreenInput] {
        defer { pending = nil }
        switch pending {
        case .unwanted: return []
        case .key(let key):
            let scalars = text.unicodeScalars
            guard let scalar = scalars.first, scalars.count == 1 else { return Self.messages(text) }
            let own = key.scalar.map { String($0).lowercased() }
            let before = own == text.lowercased() ? holdRightAlt() : []
            rightAlt?.hasChosen = true
            return before + hold(ScreenInput.Key(symbol: KeyNames.symbol(of: scalar), code: key.code), at: key.usage)
        case nil: return Self.messages(text)
        }
    }

    /// Takes in that a key came up.
    package mutating func released(_ usage: UInt16) -> [ScreenInput] {
        if case .key(let key) = pending, key.usage == usage { pending = nil }
        if let (key, hasChosen) = rightAlt, key.usage == usage {
            // Alone it is a key as any other.
            let down = hasChosen ? [] : holdRightAlt()
            rightAlt = nil
            return down + (held.removeValue(forKey: usage).map { [.key($0, isDown: false)] } ?? [])
        }
        return held.removeValue(forKey: usage).map { [.key($0, isDown: false)] } ?? []
    }

    /// Forgets what is held, as the other device is told to let go of it; the text of the key that was last is not wanted.
    package mutating func releaseAll() {
        held = [:]
        pending = .unwanted
        rightAlt = nil
    }

    /// Text in messages that are not too long, none of them inside of a character.
    package static func messages(_ text: String) -> [ScreenInput] {
        var (messages, part): ([ScreenInput], String) = ([], "")
        for character in text {
            // A character of many scalars can be longer than a message: then it is cut between them.
            let pieces =
                character.utf8.count > textLimit ? character.unicodeScalars.map { String($0) } : [String(character)]
            for piece in pieces {
                if part.utf8.count + piece.utf8.count > textLimit {
                    messages.append(.text(part))
                    part = ""
                }
                part += piece
            }
        }
        return part.isEmpty ? messages : messages + [.text(part)]
    }

    /// The right Alt after all.
    private mutating func holdRightAlt() -> [ScreenInput] {
        guard let (key, _) = rightAlt, let symbol = key.symbol else { return [] }
        rightAlt = nil
        return hold(ScreenInput.Key(symbol: symbol, code: key.code), at: key.usage)
    }

    private mutating func hold(_ key: ScreenInput.Key, at usage: UInt16) -> [ScreenInput] {
        held[usage] = key
        return [.key(key, isDown: true)]
    }
}
