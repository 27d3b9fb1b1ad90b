/// Reads big-endian integers, varints and runs of bytes from a span, never past its end.
///
/// After an error the position is where it was before the failing read.
public struct ByteReader: ~Escapable {
    @usableFromInline let span: Span<UInt8>
    /// The number of bytes read so far.
    public var position: Int { offset }
    @usableFromInline var offset: Int

    /// Starts at the beginning of `span`.
    @inlinable @_lifetime(copy span)
    public init(_ span: Span<UInt8>) {
        self.span = span
        self.offset = 0
    }

    /// Starts at the beginning of `bytes`, which it borrows.
    ///
    /// Does what `Array.span` would, which macOS 15 and iOS 18 do not have: an array's elements stay where they are for
    /// as long as it is borrowed.
    @inlinable @_lifetime(borrow bytes)
    public init(_ bytes: borrowing [UInt8]) {
        let buffer = unsafe bytes.withUnsafeBufferPointer { unsafe $0 }
        self.init(unsafe _overrideLifetime(buffer.span, borrowing: bytes))
    }

    /// The number of bytes left.
    @inlinable public var remaining: Int { span.count - offset }

    /// True once nothing is left.
    @inlinable public var isAtEnd: Bool { offset == span.count }

    @inlinable func need(_ count: Int) throws(WireError) {
        guard count >= 0, count <= remaining else { throw .truncated(needed: count, left: remaining) }
    }

    /// Reads an unsigned integer, most significant byte first.
    @inlinable @_lifetime(self: copy self)
    public mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(
        as type: Value.Type = Value.self
    ) throws(WireError) -> Value {
        let size = Value.bitWidth / 8
        try need(size)
        var value: Value = 0
        for index in offset..<offset + size { value = value << 8 | Value(truncatingIfNeeded: span[index]) }
        offset += size
        return value
    }

    /// Reads a variable-length integer, 0…2⁶²−1 (RFC 9000 §16).
    @inlinable @_lifetime(self: copy self)
    public mutating func varint() throws(WireError) -> UInt64 {
        try need(1)
        let first = span[offset]
        let size = 1 << Int(first >> 6)
        try need(size)
        var value = UInt64(first & 0x3F)
        for index in offset + 1..<offset + size { value = value << 8 | UInt64(span[index]) }
        offset += size
        return value
    }

    /// Reads the next `count` bytes as a copy.
    @inlinable @_lifetime(self: copy self)
    public mutating func bytes(_ count: Int) throws(WireError) -> [UInt8] {
        try need(count)
        let start = offset
        offset += count
        return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            for index in 0..<count { unsafe buffer.initializeElement(at: index, to: span[start + index]) }
            initialized = count
        }
    }

    /// Reads the next `count` bytes as a view into the original storage.
    @inlinable @_lifetime(copy self) @_lifetime(self: copy self)
    public mutating func span(_ count: Int) throws(WireError) -> Span<UInt8> {
        try need(count)
        let start = offset
        offset += count
        return span.extracting(start..<start + count)
    }

    /// Passes over the next `count` bytes.
    @inlinable @_lifetime(self: copy self)
    public mutating func skip(_ count: Int) throws(WireError) {
        try need(count)
        offset += count
    }

    /// Reads a varint length of at most `limit`, then that many bytes.
    @inlinable @_lifetime(self: copy self)
    public mutating func prefixedBytes(limit: Int) throws(WireError) -> [UInt8] {
        let start = offset
        let length = try varint()
        guard length <= UInt64(limit) else {
            offset = start
            throw .tooLong(limit: limit, actual: Int(clamping: length))
        }
        do {
            return try bytes(Int(length))
        } catch {
            offset = start
            throw error
        }
    }

    /// Checks that nothing is left.
    @inlinable public func finish() throws(WireError) {
        guard isAtEnd else { throw .trailing(remaining) }
    }
}
