#if Screen && os(Linux) && canImport(CXCB)
/// The keys that no keyboard has, lent to characters that the layout lacks: one or two each, with and without Shift.
///
/// A program reads the meaning of a key when it comes to the stroke, perhaps late. A key gets another meaning only after
/// nothing lent was typed for a ``rest``, in which programs catch up, or when it was not used itself for a ``pause``, as
/// when a person types.
struct X11SpareKeys {
    /// The time without strokes after which all keys are free again.
    static let rest = Duration.milliseconds(600)
    /// The time without strokes of one key after which that is free again.
    static let pause = Duration.milliseconds(2_500)
    /// The most keys that are lent.
    static let limit = 32

    /// Answers to the question for a key.
    enum Answer: Hashable {
        /// One has that meaning already.
        case ready(UInt8)
        /// It is to be given these meanings first.
        case assign(UInt8, [UInt32])
        /// None is free before this time.
        case wait(until: ContinuousClock.Instant)
        /// There are none at all, or all are held down.
        case none
    }

    private struct Key {
        let keycode: UInt8
        /// Without Shift and with it; empty: it is not lent.
        var meanings: [UInt32] = []
        var lastUse: ContinuousClock.Instant?
        var isDown = false
    }

    private var keys: [Key] = []

    /// The keys that have been lent a meaning.
    var lent: [UInt8] { keys.filter { !$0.meanings.isEmpty }.map(\.keycode) }

    /// The time of the last stroke of any; `nil` when there has been none.
    var lastUse: ContinuousClock.Instant? { keys.compactMap(\.lastUse).max() }

    /// Compares with the layout as it is now: somebody may have loaded another one, or taken a key.
    mutating func reconcile(with map: X11KeyMap) {
        let unused = map.unusedKeycodes
        keys.removeAll { key in
            if key.meanings.isEmpty { return !unused.contains(key.keycode) }
            // What has one meaning has it with Shift, too.
            let now = map.meanings(of: key.keycode)
            return zip(key.meanings, now).contains { $0 != 0 && X11KeySymbol($0).number != $1 }
        }
        for keycode in unused where keys.count < Self.limit && !keys.contains(where: { $0.keycode == keycode }) {
            keys.append(Key(keycode: keycode))
        }
    }

    /// Finds a key for a character, and takes it as used now when there is one.
    mutating func take(for symbol: X11KeySymbol, at now: ContinuousClock.Instant) -> Answer {
        let (small, capital) = (symbol.lowercased.number, symbol.uppercased.number)
        let isLetter = small != capital
        if let index = keys.firstIndex(where: { $0.meanings.contains(symbol.number) }) {
            keys[index].lastUse = now
            return .ready(keys[index].keycode)
        }
        // Room beside another character, which stays where it is.
        if !isLetter, let index = keys.firstIndex(where: { $0.meanings.last == 0 && !$0.isDown }) {
            return assign([keys[index].meanings[0], symbol.number], to: index, at: now)
        }
        let meanings = isLetter ? [small, capital] : [symbol.number, 0]
        if let index = keys.firstIndex(where: { $0.meanings.isEmpty && Self.isFree($0, at: now, lastUse) }) {
            return assign(meanings, to: index, at: now)
        }
        let up = keys.indices.filter { !keys[$0].isDown }
        guard let oldest = up.min(by: { Self.order(keys[$0].lastUse, keys[$1].lastUse) }) else { return .none }
        if Self.isFree(keys[oldest], at: now, lastUse) { return assign(meanings, to: oldest, at: now) }
        let times = [lastUse.map { $0 + Self.rest }, keys[oldest].lastUse.map { $0 + Self.pause }]
        return .wait(until: times.compactMap(\.self).min() ?? now)
    }

    /// Notes that a key is down, or up again.
    mutating func mark(_ keycode: UInt8, isDown: Bool, at now: ContinuousClock.Instant) {
        guard let index = keys.firstIndex(where: { $0.keycode == keycode }) else { return }
        keys[index].isDown = isDown
        keys[index].lastUse = now
    }

    /// Forgets the meanings of the keys that are up; returns those keys, which are to mean nothing again.
    mutating func takeBack() -> [UInt8] {
        var taken: [UInt8] = []
        for index in keys.indices where !keys[index].meanings.isEmpty && !keys[index].isDown {
            keys[index].meanings = []
            taken.append(keys[index].keycode)
        }
        return taken
    }

    private mutating func assign(_ meanings: [UInt32], to index: Int, at now: ContinuousClock.Instant) -> Answer {
        // After a rest nobody is to come late for any of them.
        if let last = lastUse, last + Self.rest <= now {
            for other in keys.indices where !keys[other].isDown { keys[other].lastUse = nil }
        }
        keys[index].lastUse = now
        keys[index].meanings = meanings
        return .assign(keys[index].keycode, meanings)
    }

    private static func isFree(
        _ key: Key, at now: ContinuousClock.Instant, _ last: ContinuousClock.Instant?
    ) -> Bool {
        guard let used = key.lastUse, let last else { return true }
        return used + pause <= now || last + rest <= now
    }

    /// Whether `left` was used before `right`, or never.
    private static func order(_ left: ContinuousClock.Instant?, _ right: ContinuousClock.Instant?) -> Bool {
        switch (left, right) {
        case (_, nil): false
        case (nil, _): true
        case (let left?, let right?): left < right
        }
    }
}
#endif
