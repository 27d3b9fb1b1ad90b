import KithAPI

/// The keys and buttons that the viewer in control holds down.
struct HeldInput {
    private enum Part: Hashable {
        case code(UInt16)
        case symbol(UInt32)
        case button(ScreenInput.Button)
    }

    private var parts: Set<Part> = []

    /// True when nothing is held.
    var isEmpty: Bool { parts.isEmpty }

    /// Takes in an input that has its effect.
    mutating func note(_ input: ScreenInput) {
        switch input {
        case .key(let key, let isDown): note(Self.part(of: key), isDown)
        case .button(let button, let isDown): note(.button(button), isDown)
        case .release: parts = []
        case .move, .scroll, .text: break
        }
    }

    /// The key by its place where that is known; otherwise by its letter, whose Shift may come up before it.
    private static func part(of key: ScreenInput.Key) -> Part {
        if let code = key.code { return .code(code) }
        return .symbol((0x41...0x5A).contains(key.symbol) ? key.symbol + 0x20 : key.symbol)
    }

    private mutating func note(_ part: Part, _ isDown: Bool) {
        guard isDown else {
            parts.remove(part)
            return
        }
        // More than hands hold: that something is held is known, and a peer's numbers cost no memory.
        if parts.count < 64 { parts.insert(part) }
    }
}
