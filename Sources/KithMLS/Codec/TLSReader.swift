/// Reads the TLS presentation language with the vector lengths of RFC 9420 §2.1, never past its end.
///
/// Every length is held against the bytes that are left before anything is reserved for it.
public struct TLSReader: Sendable {
    private let bytes: ArraySlice<UInt8>
    private let end: Int
    /// The number of bytes read so far.
    public private(set) var offset: Int

    /// Starts at the beginning of `bytes`.
    public init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    /// Starts at the beginning of `bytes`, which are shared and not copied.
    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        self.offset = 0
        self.end = bytes.count
    }

    private init(_ bytes: ArraySlice<UInt8>, from start: Int, count: Int) {
        self.bytes = bytes
        self.offset = start
        self.end = start + count
    }

    /// The number of bytes left.
    public var remaining: Int { end - offset }

    /// True when nothing is left.
    public var isAtEnd: Bool { offset == end }

    /// Takes the next `count` bytes and returns their range.
    private mutating func take(_ count: Int) throws(MLSError) -> Range<Int> {
        guard count >= 0, count <= remaining else { throw .truncated }
        let start = bytes.startIndex + offset
        offset += count
        return start..<start + count
    }

    /// Reads an unsigned integer, most significant byte first.
    public mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(
        as type: Value.Type = Value.self
    ) throws(MLSError) -> Value {
        var value: Value = 0
        for index in try take(Value.bitWidth / 8) { value = value << 8 | Value(truncatingIfNeeded: bytes[index]) }
        return value
    }

    /// Reads the next `count` bytes.
    public mutating func fixed(_ count: Int) throws(MLSError) -> [UInt8] { Array(bytes[try take(count)]) }

    /// Reads the length in front of a vector, in its shortest form and no longer than what is left (§2.1.2).
    public mutating func length() throws(MLSError) -> Int {
        let first = try integer(as: UInt8.self)
        let prefix = first >> 6
        guard prefix < 3 else { throw .invalidVectorLength }
        var value = Int(first & 0x3F)
        for _ in 1..<(1 << Int(prefix)) { value = value << 8 | Int(try integer(as: UInt8.self)) }
        guard prefix == 0 || value >= 1 << (8 * (1 << Int(prefix)) / 2 - 2) else { throw .nonMinimalVectorLength }
        return value
    }

    /// Reads `opaque value<V>`.
    public mutating func opaque() throws(MLSError) -> [UInt8] {
        let count = try length()
        return Array(bytes[try take(count)])
    }

    /// Passes over `opaque value<V>`; gives how many bytes its length takes.
    @discardableResult
    mutating func skipOpaque() throws(MLSError) -> Int {
        let start = offset
        let count = try length()
        let header = offset - start
        _ = try take(count)
        return header
    }

    /// Reads a vector's length and gives a reader of exactly its bytes.
    mutating func vector() throws(MLSError) -> TLSReader {
        let count = try length()
        let start = offset
        _ = try take(count)
        return TLSReader(bytes, from: start, count: count)
    }

    /// Reads `Element list<V>`.
    package mutating func list<Element: TLSCodable>(of type: Element.Type = Element.self) throws(MLSError) -> [Element]
    {
        var inner = try vector()
        var elements: [Element] = []
        while !inner.isAtEnd { elements.append(try Element(from: &inner)) }
        return elements
    }

    /// Reads `optional<Element>` (§2.1.1).
    package mutating func optional<Element: TLSCodable>(
        of type: Element.Type = Element.self
    ) throws(MLSError) -> Element? {
        try isPresent() ? try Element(from: &self) : nil
    }

    /// Reads the presence octet of an optional value: zero or one (§2.1.1).
    mutating func isPresent() throws(MLSError) -> Bool {
        switch try integer(as: UInt8.self) {
        case 0: false
        case 1: true
        default: throw .invalidOptional
        }
    }

    /// The bytes read since the offset was `start`, shared and not copied.
    func read(since start: Int) -> ArraySlice<UInt8> { bytes[bytes.startIndex + start..<bytes.startIndex + offset] }

    /// Everything that is left.
    mutating func rest() -> ArraySlice<UInt8> {
        defer { offset = end }
        return bytes[bytes.startIndex + offset..<bytes.startIndex + end]
    }

    /// Checks that nothing is left.
    public func finish() throws(MLSError) {
        guard isAtEnd else { throw .trailingBytes }
    }
}
