/// The keys and buttons that a viewer holds down, so that none is left pressed when it goes.
struct HeldInput: Sendable {
    /// The most keys at once; a press beyond is ignored.
    static let keyLimit = 64
    private(set) var keys: [(keysym: UInt32, code: UInt32?)] = []
    var buttons: RFBButtons = []
    var x = 0
    var y = 0

    /// Notes a key; false when it is to be ignored.
    mutating func note(_ keysym: UInt32, _ code: UInt32?, isDown: Bool) -> Bool {
        // A key is the same as long as its place is; what it stands for changes with the modifiers.
        let index = keys.firstIndex { code != nil && $0.code == code || $0.keysym == keysym && $0.code == code }
        if isDown {
            guard index == nil else { return true }
            guard keys.count < Self.keyLimit else { return false }
            keys.append((keysym, code))
        } else if let index {
            keys.remove(at: index)
        }
        return true
    }

    /// Forgets all keys, and returns them, the last pressed first.
    mutating func releaseKeys() -> [(keysym: UInt32, code: UInt32?)] {
        defer { keys = [] }
        return keys.reversed()
    }
}
