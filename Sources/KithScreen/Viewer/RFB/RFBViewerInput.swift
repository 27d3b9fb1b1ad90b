import KithAPI
import KithRFB

/// Turns what a viewer of the remote framebuffer protocol sends into inputs.
struct RFBViewerInput: Sendable {
    private static let wheel: [(button: RFBButtons, x: Int32, y: Int32)] = [
        (.scrollUp, 0, -120), (.scrollDown, 0, 120), (.scrollLeft, -120, 0), (.scrollRight, 120, 0),
    ]
    private static let buttons: [(button: RFBButtons, name: ScreenInput.Button)] = [
        (.left, .left), (.middle, .middle), (.right, .right), (.back, .back), (.forward, .forward),
    ]

    private var held: RFBButtons = []
    private var place: (x: Int, y: Int)?

    /// The inputs for an event, in order; none for one that is not an input.
    mutating func inputs(for event: RFBServer.Event) -> [ScreenInput] {
        switch event {
        case .key(let symbol, let code, let isDown):
            return [.key(ScreenInput.Key(symbol: symbol, code: code.flatMap(RFBKeyCodes.linuxCode)), isDown: isDown)]
        case .pointer(let x, let y, let now):
            var inputs: [ScreenInput] = []
            if place?.x != x || place?.y != y { inputs.append(.move(x: Int32(x), y: Int32(y))) }
            place = (x, y)
            for (button, name) in Self.buttons where now.contains(button) != held.contains(button) {
                inputs.append(.button(name, isDown: now.contains(button)))
            }
            // A notch is a press and a release; the press is what counts.
            for (button, x, y) in Self.wheel where now.contains(button) && !held.contains(button) {
                inputs.append(.scroll(x: x, y: y))
            }
            held = now
            return inputs
        case .connected, .clipboard, .resizeRequested: return []
        }
    }
}
