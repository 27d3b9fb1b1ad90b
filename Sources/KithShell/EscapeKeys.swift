/// Finds the escapes in what a person types: a tilde at the beginning of a line, then a key.
///
/// | typed | means                                      |
/// | ----- | ------------------------------------------ |
/// | `~.`  | hang up, which ends the shell              |
/// | `~d`  | detach, which leaves the shell running     |
/// | `~c`  | copy what a program wants on the clipboard |
/// | `~?`  | show the escapes                           |
/// | `~^Z` | suspend this end                           |
/// | `~~`  | a tilde                                    |
///
/// Anything else passes through, tilde included. A pure value.
package struct EscapeKeys: Sendable {
    /// The next thing to do.
    package enum Action: Hashable, Sendable {
        case send([UInt8])
        case disconnect
        case detach
        case suspend
        case help
        case takeClipboard
    }

    private let escape: UInt8?
    /// True when an escape is one wherever it is typed: nothing of what is typed goes anywhere, so there are no lines.
    private let isAnywhere: Bool
    private var isAtLineStart = true
    private var sawEscape = false

    /// Watches for `escape` (an ASCII character), at the beginning of a line or `anywhere`; `nil` lets everything
    /// through.
    package init(escape: UInt8? = 0x7E, anywhere isAnywhere: Bool = false) {
        self.escape = escape
        self.isAnywhere = isAnywhere
    }

    /// Takes in what was typed.
    package mutating func typed(_ bytes: [UInt8]) -> [Action] {
        guard let escape else { return [.send(bytes)] }
        var actions: [Action] = []
        var plain: [UInt8] = []
        func flush() {
            if !plain.isEmpty { actions.append(.send(plain)) }
            plain = []
        }
        for byte in bytes {
            if sawEscape {
                sawEscape = false
                switch byte {
                case 0x2E:
                    flush()
                    actions.append(.disconnect)
                    return actions
                case 0x64:
                    flush()
                    actions.append(.detach)
                    return actions
                case 0x63:
                    flush()
                    actions.append(.takeClipboard)
                    isAtLineStart = true
                    continue
                case 0x3F:
                    flush()
                    actions.append(.help)
                    isAtLineStart = true
                    continue
                case 0x1A:
                    flush()
                    actions.append(.suspend)
                    isAtLineStart = true
                    continue
                case escape: break
                default: plain.append(escape)
                }
            } else if byte == escape, isAtLineStart || isAnywhere {
                sawEscape = true
                continue
            }
            plain.append(byte)
            isAtLineStart = byte == 0x0D || byte == 0x0A
        }
        flush()
        return actions
    }
}
