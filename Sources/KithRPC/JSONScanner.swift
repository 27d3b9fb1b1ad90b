import KithWire

/// Walks over JSON text (RFC 8259) without building values, refusing whatever the grammar refuses.
///
/// Stricter than the RFC in two ways: nothing nests deeper than ``depthLimit``, and no object it lists the
/// members of may repeat a name. UTF-8 is checked by the caller, once for the whole text.
package struct JSONScanner {
    /// The deepest that arrays and objects may nest.
    package static let depthLimit = 64

    /// The place where a text stops being JSON, and the reason.
    package struct Failure: Error, Hashable, Sendable {
        /// The offset of the first byte that does not fit.
        package var offset: Int
        /// The description of what was expected there.
        package var expected: String
    }

    private let bytes: [UInt8]
    private let end: Int
    /// The offset of the next byte.
    package private(set) var position: Int

    /// Starts at the beginning of `range` of `bytes`.
    package init(_ bytes: [UInt8], in range: Range<Int>? = nil) {
        self.bytes = bytes
        position = range?.lowerBound ?? 0
        end = range?.upperBound ?? bytes.count
    }

    /// The next byte that is not white space, which stays unread.
    package mutating func peek() -> UInt8? {
        while position < end {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            case let byte: return byte
            }
        }
        return nil
    }

    /// Reads past one value and says where it stands.
    package mutating func value(depth: Int = 0) throws(Failure) -> Range<Int> {
        guard let first = peek() else { throw expected("a value") }
        let start = position
        switch first {
        case UInt8(ascii: "{"):
            try object(depth: depth) { (scanner, _) throws(Failure) in _ = try scanner.value(depth: depth + 1) }
        case UInt8(ascii: "["):
            try array(depth: depth) { (scanner) throws(Failure) in _ = try scanner.value(depth: depth + 1) }
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "t"): try word("true")
        case UInt8(ascii: "f"): try word("false")
        case UInt8(ascii: "n"): try word("null")
        default: try number()
        }
        return start..<position
    }

    /// Reads past white space to the end of the text.
    package mutating func finish() throws(Failure) {
        guard peek() == nil else { throw expected("the end") }
    }

    /// Lists the members of an object: each name's range with its quotes, decoded, and the range of its value.
    package mutating func members() throws(Failure) -> [(name: String, value: Range<Int>)] {
        var members: [(name: String, value: Range<Int>)] = []
        var names: Set<String> = []
        try object(depth: 0) { (scanner, name) throws(Failure) in
            let text = JSONScanner.unescaped(scanner.bytes[name])
            guard names.insert(text).inserted else {
                throw Failure(offset: name.lowerBound, expected: "each name once")
            }
            members.append((text, try scanner.value(depth: 1)))
        }
        return members
    }

    /// Lists the elements of an array.
    package mutating func elements() throws(Failure) -> [Range<Int>] {
        var elements: [Range<Int>] = []
        try array(depth: 0) { (scanner) throws(Failure) in elements.append(try scanner.value(depth: 1)) }
        return elements
    }

    // MARK: - The grammar

    private func expected(_ what: String) -> Failure { Failure(offset: position, expected: what) }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        position += 1
        return true
    }

    private mutating func object(
        depth: Int, member: (inout JSONScanner, Range<Int>) throws(Failure) -> Void
    ) throws(Failure) {
        guard depth < Self.depthLimit else { throw expected("less nesting") }
        guard take(UInt8(ascii: "{")) else { throw expected("an object") }
        if take(UInt8(ascii: "}")) { return }
        repeat {
            guard peek() == UInt8(ascii: "\"") else { throw expected("a name") }
            let start = position
            try string()
            let name = start..<position
            guard take(UInt8(ascii: ":")) else { throw expected("`:`") }
            try member(&self, name)
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { throw expected("`,` or `}`") }
    }

    private mutating func array(depth: Int, element: (inout JSONScanner) throws(Failure) -> Void) throws(Failure) {
        guard depth < Self.depthLimit else { throw expected("less nesting") }
        guard take(UInt8(ascii: "[")) else { throw expected("an array") }
        if take(UInt8(ascii: "]")) { return }
        repeat { try element(&self) } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { throw expected("`,` or `]`") }
    }

    private mutating func word(_ word: StaticString) throws(Failure) {
        for byte in word.description.utf8 {
            guard position < end, bytes[position] == byte else { throw expected("`\(word)`") }
            position += 1
        }
    }

    private mutating func digits() throws(Failure) {
        let start = position
        while position < end, Self.isDigit(bytes[position]) { position += 1 }
        guard position > start else { throw expected("a digit") }
    }

    private mutating func number() throws(Failure) {
        if position < end, bytes[position] == UInt8(ascii: "-") { position += 1 }
        if position < end, bytes[position] == UInt8(ascii: "0") {
            position += 1
        } else {
            guard position < end, Self.isDigit(bytes[position]) else { throw expected("a value") }
            try digits()
        }
        if position < end, bytes[position] == UInt8(ascii: ".") {
            position += 1
            try digits()
        }
        if position < end, bytes[position] | 0x20 == UInt8(ascii: "e") {
            position += 1
            if position < end, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position += 1
            }
            try digits()
        }
    }

    private mutating func string() throws(Failure) {
        position += 1  // the opening quote, seen by the caller
        while position < end {
            let byte = bytes[position]
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                return
            case UInt8(ascii: "\\"):
                position += 1
                try escape()
            case 0..<0x20:
                throw expected("an escaped control character")
            default:
                position += 1
            }
        }
        throw expected("the end of a string")
    }

    private mutating func escape() throws(Failure) {
        guard position < end else { throw expected("an escape") }
        switch bytes[position] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            position += 1
        case UInt8(ascii: "u"):
            position += 1
            let unit = try hexUnit()
            // A surrogate has meaning only in a pair (RFC 8259 §7).
            if (0xD800..<0xDC00).contains(unit) {
                guard position + 1 < end, bytes[position] == UInt8(ascii: "\\"),
                    bytes[position + 1] == UInt8(ascii: "u")
                else { throw expected("the second half of a surrogate pair") }
                position += 2
                guard (0xDC00..<0xE000).contains(try hexUnit()) else {
                    throw expected("the second half of a surrogate pair")
                }
            } else if (0xDC00..<0xE000).contains(unit) {
                throw expected("the first half of a surrogate pair")
            }
        default:
            throw expected("an escape")
        }
    }

    private mutating func hexUnit() throws(Failure) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard position < end, let digit = Hex.value(bytes[position]) else { throw expected("a hex digit") }
            unit = unit << 4 | UInt32(digit)
            position += 1
        }
        return unit
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

    /// The text of a scanned string, given with its quotes.
    package static func unescaped(_ quoted: ArraySlice<UInt8>) -> String {
        let inner = quoted.dropFirst().dropLast()
        guard inner.contains(UInt8(ascii: "\\")) else { return String(decoding: inner, as: UTF8.self) }
        var text: [UInt8] = []
        text.reserveCapacity(inner.count)
        var index = inner.startIndex
        var units: [UInt16] = []
        func unit(at index: Int) -> UInt16 {
            inner[index..<index + 4].reduce(0) { $0 << 4 | UInt16(Hex.value($1) ?? 0) }
        }
        while index < inner.endIndex {
            guard inner[index] == UInt8(ascii: "\\") else {
                text.append(inner[index])
                index += 1
                continue
            }
            index += 2
            switch inner[index - 1] {
            case UInt8(ascii: "b"): text.append(0x08)
            case UInt8(ascii: "f"): text.append(0x0C)
            case UInt8(ascii: "n"): text.append(0x0A)
            case UInt8(ascii: "r"): text.append(0x0D)
            case UInt8(ascii: "t"): text.append(0x09)
            case UInt8(ascii: "u"):
                units = [unit(at: index)]
                index += 4
                if (0xD800..<0xDC00).contains(units[0]) {
                    units.append(unit(at: index + 2))
                    index += 6
                }
                text += String(decoding: units, as: UTF16.self).utf8
            case let byte: text.append(byte)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
