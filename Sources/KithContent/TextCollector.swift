/// Collects text for an index of words: runs of white space become one, control characters go, and there is a limit.
struct TextCollector {
    /// The most bytes.
    let limit: Int
    private(set) var text = String.UnicodeScalarView()
    private var bytes = 0
    private var pending: Unicode.Scalar?

    init(limit: Int) { self.limit = limit }

    /// True when nothing more goes in.
    var isFull: Bool { bytes >= limit }

    /// What was collected.
    var result: String { String(text) }

    mutating func append(_ scalar: Unicode.Scalar) {
        guard !isFull else { return }
        if Self.isSpace(scalar) {
            // A line that ends says more than a blank.
            if !text.isEmpty { pending = pending == "\n" || Self.isLineEnd(scalar) ? "\n" : " " }
            return
        }
        guard !Self.isControl(scalar) else { return }
        let width = UTF8.width(scalar) + (pending == nil ? 0 : 1)
        guard bytes + width <= limit else {
            bytes = limit
            return
        }
        if let space = pending { text.append(space) }
        pending = nil
        text.append(scalar)
        bytes += width
    }

    mutating func append(_ string: some StringProtocol) {
        for scalar in string.unicodeScalars { append(scalar) }
    }

    static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09...0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000...0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000: true
        default: false
        }
    }

    private static func isLineEnd(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x0A...0x0D, 0x85, 0x2028, 0x2029: true
        default: false
        }
    }

    /// Controls, and what turns the direction of text or hides in it.
    static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0xAD, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB,
            0xE0000...0xE0FFF:
            true
        default: false
        }
    }
}

extension String {
    /// The text as an index of words keeps it: at most `limit` bytes, white space in runs of one, no control characters.
    package func collected(limit: Int) -> String {
        var collector = TextCollector(limit: limit)
        collector.append(self)
        return collector.result
    }
}
