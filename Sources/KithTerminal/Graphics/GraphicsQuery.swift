/// Finds out how a terminal shows pictures, by its answers to a question.
///
/// What is asked last (its primary attributes) every terminal answers; whatever it has not answered by then it does not
/// know. The answers come among the keys, of which this takes nothing away: ``InputDecoder`` drops them. One that does not
/// answer in time is not believed later: call ``timedOut()``.
package struct GraphicsQuery: Sendable {
    /// The bytes to write: whether it takes a picture of one pixel without showing it, the size of a cell (xterm's
    /// `CSI 16 t`), its primary attributes (DA1).
    package static let question = Array("\u{1B}_Gi=\(number),s=1,v=1,a=q,t=d,f=24;AAAA\u{1B}\\\u{1B}[16t\u{1B}[c".utf8)
    /// The name of the picture that is asked about.
    private static let number = 4_211
    /// The most bytes of one answer.
    private static let limit = 64
    /// Pixels of a cell that are believed.
    private static let cellSizes = 2...256

    private enum State {
        case ground, escape
        case control([UInt8])
        case string([UInt8], isAtEscape: Bool)
    }

    private var state = State.ground
    private var takesKitty = false
    /// True once all is known that will be.
    package private(set) var isDone = false
    /// How it shows pictures; `nil`: not at all, or it is not known yet.
    package private(set) var answer: GraphicsProtocol?
    /// The pixels of a cell; `nil` where the terminal does not say.
    package private(set) var cell: (width: Int, height: Int)?

    package init() {}

    /// Takes what the terminal has sent; keys in it are nothing to this.
    package mutating func take(_ bytes: some Sequence<UInt8>) {
        for byte in bytes where !isDone { take(byte) }
    }

    /// Gives up waiting.
    package mutating func timedOut() { isDone = true }

    private mutating func take(_ byte: UInt8) {
        switch state {
        case .ground: if byte == 0x1B { state = .escape }
        case .escape:
            switch byte {
            case UInt8(ascii: "["): state = .control([])
            case UInt8(ascii: "_"): state = .string([], isAtEscape: false)
            default: state = byte == 0x1B ? .escape : .ground
            }
        case .control(let bytes):
            if (0x40..<0x7F).contains(byte) {
                state = .ground
                control(bytes, final: byte)
            } else if byte == 0x1B {
                state = .escape
            } else {
                state = bytes.count < Self.limit ? .control(bytes + [byte]) : .ground
            }
        case .string(let bytes, let isAtEscape):
            if isAtEscape {
                state = .ground
                if byte == UInt8(ascii: "\\") { string(bytes) }
            } else if byte == 0x1B {
                state = .string(bytes, isAtEscape: true)
            } else {
                state = bytes.count < Self.limit ? .string(bytes + [byte], isAtEscape: false) : .ground
            }
        }
    }

    private mutating func string(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        if text.hasPrefix("Gi=\(Self.number)"), text.hasSuffix(";OK") { takesKitty = true }
    }

    private mutating func control(_ bytes: [UInt8], final: UInt8) {
        func numbers(_ bytes: some Collection<UInt8>) -> [Int] {
            bytes.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map {
                Int(String(decoding: $0.prefix(6), as: UTF8.self)) ?? 0
            }
        }
        if final == UInt8(ascii: "t") {
            let parts = numbers(bytes)
            guard parts.count == 3, parts[0] == 6, Self.cellSizes.contains(parts[1]),
                Self.cellSizes.contains(parts[2])
            else { return }
            cell = (parts[2], parts[1])
        } else if final == UInt8(ascii: "c"), bytes.first == UInt8(ascii: "?") {
            isDone = true
            // A terminal that has both shows kitty's better.
            answer = takesKitty ? .kitty : numbers(bytes.dropFirst()).dropFirst().contains(4) ? .sixel : nil
        }
    }
}
