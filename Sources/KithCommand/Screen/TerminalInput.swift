import KithAPI
import KithScreen
import KithTerminal
import KithWindow

/// Turns what a person does at a terminal into inputs for a screen.
///
/// A terminal reports keys when they go down, and never when they go up: each is pressed and let go at once, with its
/// modifiers around it.
struct TerminalInput {
    private static let notch: Int32 = 120
    /// The most bytes of one message with text.

    private var held: Set<ScreenInput.Button> = []

    /// The inputs for an event, in order; `picture` says where the mouse is on the screen.
    mutating func inputs(for event: InputEvent, on picture: TerminalPicture?) -> [ScreenInput] {
        switch event {
        case .key(let key, let modifiers): Self.press(key, modifiers)
        case .paste(let bytes): WindowKeyboard.messages(String(decoding: bytes, as: UTF8.self))
        case .mouse(let event): mouse(event, on: picture)
        case .focus: []
        }
    }

    /// True for the key that leaves.
    static func leaves(_ event: InputEvent) -> Bool { event == .key(.scalar("]"), .control) }

    private static func press(_ key: Key, _ modifiers: KeyModifiers) -> [ScreenInput] {
        guard let symbol = symbol(of: key) else { return [] }
        var keys: [UInt32] = []
        if modifiers.contains(.control) { keys.append(0xFFE3) }
        if modifiers.contains(.alt) { keys.append(0xFFE9) }
        // A character has its shift in it already.
        if modifiers.contains(.shift), case .scalar = key {} else if modifiers.contains(.shift) { keys.append(0xFFE1) }
        keys.append(symbol)
        return keys.map { .key(ScreenInput.Key(symbol: $0), isDown: true) }
            + keys.reversed().map { .key(ScreenInput.Key(symbol: $0), isDown: false) }
    }

    /// X11's number of a key, from its `keysymdef.h`.
    private static func symbol(of key: Key) -> UInt32? {
        switch key {
        case .scalar(let scalar): KeyNames.symbol(of: scalar)
        case .enter: 0xFF0D
        case .tab: 0xFF09
        case .backspace: 0xFF08
        case .escape: 0xFF1B
        case .up: 0xFF52
        case .down: 0xFF54
        case .left: 0xFF51
        case .right: 0xFF53
        case .home: 0xFF50
        case .end: 0xFF57
        case .pageUp: 0xFF55
        case .pageDown: 0xFF56
        case .insert: 0xFF63
        case .delete: 0xFFFF
        case .function(let number): (1...35).contains(number) ? 0xFFBD + UInt32(number) : nil
        }
    }

    private mutating func mouse(_ event: MouseEvent, on picture: TerminalPicture?) -> [ScreenInput] {
        guard let picture else { return [] }
        // What began on the picture goes on beside it.
        let place =
            held.isEmpty
            ? picture.pixel(column: event.column, row: event.row)
            : picture.nearestPixel(column: event.column, row: event.row)
        guard let place else { return [] }
        let move = ScreenInput.move(x: Int32(place.x), y: Int32(place.y))
        switch event.action {
        case .drag: return [move]
        case .wheelUp: return [move, .scroll(x: 0, y: -Self.notch)]
        case .wheelDown: return [move, .scroll(x: 0, y: Self.notch)]
        case .press:
            guard let button = Self.button(event.button) else { return [move] }
            held.insert(button)
            return [move, .button(button, isDown: true)]
        case .release:
            // Some terminals do not say which.
            let buttons = Self.button(event.button).map { [$0] } ?? Array(held)
            defer { held.subtract(buttons) }
            return [move] + buttons.filter(held.contains).map { .button($0, isDown: false) }
        }
    }

    private static func button(_ button: MouseEvent.Button) -> ScreenInput.Button? {
        switch button {
        case .left: .left
        case .middle: .middle
        case .right: .right
        case .other: nil
        }
    }
}
