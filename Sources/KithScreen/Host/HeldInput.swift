import KithAPI

/// The keys and buttons that the viewer in control holds down.
struct HeldInput {
    private enum Part: Hashable {
        case key(ScreenInput.Key)
        case button(ScreenInput.Button)
    }

    private var parts: Set<Part> = []

    /// True when nothing is held.
    var isEmpty: Bool { parts.isEmpty }

    /// Takes in an input that has its effect.
    mutating func note(_ input: ScreenInput) {
        switch input {
        case .key(let key, let isDown): note(.key(key), isDown)
        case .button(let button, let isDown): note(.button(button), isDown)
        case .release: parts = []
        case .move, .scroll, .text: break
        }
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
