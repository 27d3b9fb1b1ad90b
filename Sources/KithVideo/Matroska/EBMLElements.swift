/// Elements of EBML one after the other, as bytes (RFC 8794).
///
/// An element is its identifier, the length of what it holds, and that.
struct EBMLElements {
    /// The length of an element that ends where one begins that cannot lie within it (RFC 8794 §6.2), in eight bytes.
    static let unknownLength: [UInt8] = [0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]

    private(set) var bytes: [UInt8] = []

    /// A number of at most eight bytes, in as few as it needs.
    mutating func unsigned(_ identifier: MatroskaElement, _ value: UInt64) {
        binary(identifier, Self.shortest(value))
    }

    /// A number of eight bytes: a date is such a one, in nanoseconds since the beginning of 2001.
    mutating func date(_ identifier: MatroskaElement, _ value: Int64) {
        binary(identifier, Self.bytes(of: UInt64(bitPattern: value), count: 8))
    }

    /// A floating point number of eight bytes.
    mutating func float(_ identifier: MatroskaElement, _ value: Double) {
        binary(identifier, Self.bytes(of: value.bitPattern, count: 8))
    }

    /// Text.
    mutating func text(_ identifier: MatroskaElement, _ value: String) { binary(identifier, Array(value.utf8)) }

    /// Bytes.
    mutating func binary(_ identifier: MatroskaElement, _ value: [UInt8]) {
        begin(identifier, length: value.count)
        bytes += value
    }

    /// Other elements.
    mutating func master(_ identifier: MatroskaElement, _ body: (inout EBMLElements) -> Void) {
        var inner = EBMLElements()
        body(&inner)
        binary(identifier, inner.bytes)
    }

    /// The head of an element whose content follows.
    mutating func begin(_ identifier: MatroskaElement, length: Int) {
        bytes += Self.identifier(identifier)
        bytes += Self.length(length)
    }

    /// The head of an element whose length is not known yet; it has eight bytes, to be written over later.
    ///
    /// - Returns: where those bytes are, counted from the beginning of these.
    mutating func beginUnknown(_ identifier: MatroskaElement) -> Int {
        bytes += Self.identifier(identifier)
        bytes += Self.unknownLength
        return bytes.count - Self.unknownLength.count
    }

    /// Room for other elements: a Void of `count` bytes, its head included, 2…128 of them.
    mutating func room(_ count: Int) {
        precondition((2...128).contains(count), "a head of two bytes")
        bytes += Self.identifier(.void) + [0x80 | UInt8(count - 2)] + [UInt8](repeating: 0, count: count - 2)
    }

    /// An identifier with its own mark of length, which is its upper bits.
    static func identifier(_ identifier: MatroskaElement) -> [UInt8] { shortest(UInt64(identifier.rawValue)) }

    /// A length in as few bytes as it needs; one of only ones would mean that it is unknown.
    private static func length(_ length: Int) -> [UInt8] {
        var width = 1
        while length >= 1 << (7 * width) - 1 { width += 1 }
        return self.length(length, width: width)
    }

    /// A length in `width` bytes, 1…8: that many less one zeros, a one, and the number.
    static func length(_ length: Int, width: Int) -> [UInt8] {
        bytes(of: UInt64(length) | 1 << UInt64(7 * width), count: width)
    }

    private static func shortest(_ value: UInt64) -> [UInt8] {
        bytes(of: value, count: max(1, (64 - value.leadingZeroBitCount + 7) / 8))
    }

    /// The last `count` bytes of a number, the highest first.
    private static func bytes(of value: UInt64, count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }
}
