/// Something that the window does by itself, for a shortcut or a button.
@frozen package enum WindowAction: Hashable, Sendable {
    case fullScreen
    case fit
    case actualSize
    case zoom(up: Bool)
    /// Moves the picture, in steps to the right and down.
    case pan(x: Int, y: Int)
    case viewOnly
    /// All keys are the other device's, the window manager's too.
    case grab
    case statistics
    /// What moves is to be sharper, and takes more bytes; after the best the least.
    case quality
    /// The line in which something is written to the person at the screen.
    case chat
    case toolbar
    /// The menu of keys that cannot be typed here.
    case keys
    /// Types a combination there, as ``KeyNames`` reads it.
    case type(String)
    case display(UInt32)
    case leave

    /// The keys in front of each shortcut, as a person reads them.
    package static let prefix = "Ctrl+Alt+Shift+"

    /// The shortcut a key is, while Control, Alt and Shift are held.
    package init?(shortcut key: WindowKey) {
        guard key.modifiers.isSuperset(of: [.control, .shift]),
            !key.modifiers.isDisjoint(with: [.alt, .rightAlt])
        else { return nil }
        switch key.usage {
        case 30: self = .actualSize
        case 39: self = .fit
        case 45, 86: self = .zoom(up: false)
        case 46, 87: self = .zoom(up: true)
        case 79: self = .pan(x: 1, y: 0)
        case 80: self = .pan(x: -1, y: 0)
        case 81: self = .pan(x: 0, y: 1)
        case 82: self = .pan(x: 0, y: -1)
        default:
            // Letters by what is written on them.
            switch key.scalar {
            case "f": self = .fullScreen
            case "v": self = .viewOnly
            case "g": self = .grab
            case "s": self = .statistics
            case "q": self = .quality
            case "t": self = .toolbar
            case "k": self = .keys
            case "c": self = .chat
            case "x": self = .leave
            default: return nil
            }
        }
    }

    /// The qualities of what moves that the button goes through, and of which the next above another one is taken.
    private static let qualities: [UInt8] = [20, 40, 60, 80, 100]

    /// The quality behind one.
    static func quality(after quality: UInt8) -> UInt8 {
        qualities.first { $0 > quality } ?? qualities[0]
    }

    /// The combinations of the menu of keys: what a window system here keeps for itself.
    package static let combinations =
        ["ctrl+alt+del", "super", "print", "alt+tab", "alt+f4", "ctrl+esc", "ctrl+alt+f1", "ctrl+alt+f2", "menu"]
        + (1...12).map { "f\($0)" }

    /// A combination as it is written on its button: `Ctrl+Alt+Del`.
    package static func title(of combination: String) -> String {
        combination.split(separator: "+").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "+")
    }
}
