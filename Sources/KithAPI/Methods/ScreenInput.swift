import KithWire

/// One movement, button, key or text for a screen.
@nonexhaustive
public enum ScreenInput: Hashable, Sendable {
    /// The pointer is at this pixel of the display; outside of it, at its nearest one.
    case move(x: Int32, y: Int32)
    /// A button of the pointer goes down or up.
    case button(Button, isDown: Bool)
    /// The wheel turns: to the right and down, in 120ths of a notch, −12,000…12,000.
    case scroll(x: Int32, y: Int32)
    /// A key goes down or up.
    case key(Key, isDown: Bool)
    /// Text that was composed or pasted is typed, at most 1,024 bytes of UTF-8.
    case text(String)
    /// Every key and button that is held is let go.
    case release

    /// A button of the pointer.
    @frozen
    public enum Button: String, Codable, Hashable, Sendable, CaseIterable {
        case left, middle, right, back, forward
    }

    /// A key: what it means, and where it is.
    public struct Key: Codable, Hashable, Sendable {
        /// The meaning, as X11 numbers it: a `keysym` (`a` is 0x61, Return 0xFF0D, 0x1000000 + other Unicode scalars).
        public var symbol: UInt32
        /// The place on the keyboard, as Linux numbers it (`KEY_A` is 30); absent when the viewer does not know.
        public var code: UInt16?

        /// Makes a key.
        public init(symbol: UInt32, code: UInt16? = nil) {
            self.symbol = symbol
            self.code = code
        }
    }
}

extension ScreenInput: StreamMessage {
    /// 2 KiB.
    public static var sizeLimit: Int { 2_048 }

    private struct Form: Codable {
        struct Point: Codable {
            var x: Int32
            var y: Int32
        }
        struct ButtonChange: Codable {
            var name: Button
            var isDown: Bool
        }
        struct KeyChange: Codable {
            var symbol: UInt32
            var code: UInt16?
            var isDown: Bool
        }
        var move: Point?
        var button: ButtonChange?
        var scroll: Point?
        var key: KeyChange?
        var text: String?
        var release: Nothing?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none, or a number is out of range.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        if let value = form.move {
            self = .move(x: value.x, y: value.y)
        } else if let value = form.button {
            self = .button(value.name, isDown: value.isDown)
        } else if let value = form.scroll {
            guard (-12_000...12_000).contains(value.x), (-12_000...12_000).contains(value.y) else {
                throw KithError(.invalid, "The wheel turns by at most 12000 at once.")
            }
            self = .scroll(x: value.x, y: value.y)
        } else if let value = form.key {
            self = .key(Key(symbol: value.symbol, code: value.code), isDown: value.isDown)
        } else if let value = form.text {
            guard value.utf8.count <= 1_024 else { throw KithError(.invalid, "At most 1024 bytes are typed at once.") }
            self = .text(value)
        } else if form.release != nil {
            self = .release
        } else {
            throw KithError(.invalid, "A message to a screen has one member, named for what it carries.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .move(let x, let y): form.move = Form.Point(x: x, y: y)
        case .button(let button, let isDown): form.button = Form.ButtonChange(name: button, isDown: isDown)
        case .scroll(let x, let y): form.scroll = Form.Point(x: x, y: y)
        case .key(let key, let isDown):
            form.key = Form.KeyChange(symbol: key.symbol, code: key.code, isDown: isDown)
        case .text(let text): form.text = text
        case .release: form.release = Nothing()
        }
        try form.encode(to: encoder)
    }
}
