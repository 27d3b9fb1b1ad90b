/// The bytes ended in the middle of a field.
struct Truncated: Error {}

/// Reads fields off the front of a run of bytes, in place and bounds-checked.
///
/// The bytes stay the caller's; nothing is copied unless it says so.
@safe struct PacketReader {
    private(set) var position: UnsafeRawPointer
    let end: UnsafeRawPointer

    /// Reads `bytes` from the start.
    @inline(__always)
    init(_ bytes: UnsafeRawBufferPointer) {
        // An empty buffer may have no address; any address does as long as start equals end.
        unsafe position = unsafe bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1).unsafelyUnwrapped
        unsafe end = unsafe position + bytes.count
    }

    /// The number of bytes left.
    @inline(__always)
    var remaining: Int { unsafe end - position }

    /// Indicates whether nothing is left.
    @inline(__always)
    var isAtEnd: Bool { unsafe position == end }

    /// The rest of the bytes, without consuming them.
    @inline(__always)
    var rest: UnsafeRawBufferPointer { unsafe UnsafeRawBufferPointer(start: position, count: remaining) }

    /// Reads one byte.
    @inline(__always)
    mutating func byte() throws(Truncated) -> UInt8 {
        guard unsafe position < end else { throw Truncated() }
        let value = unsafe position.load(as: UInt8.self)
        unsafe position += 1
        return value
    }

    /// Reads a 32-bit number, big endian.
    mutating func uint32() throws(Truncated) -> UInt32 {
        guard remaining >= 4 else { throw Truncated() }
        let value = unsafe UInt32(bigEndian: position.loadUnaligned(as: UInt32.self))
        unsafe position += 4
        return value
    }

    /// Reads a 64-bit number, big endian.
    mutating func uint64() throws(Truncated) -> UInt64 {
        guard remaining >= 8 else { throw Truncated() }
        let value = unsafe UInt64(bigEndian: position.loadUnaligned(as: UInt64.self))
        unsafe position += 8
        return value
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    @inline(__always)
    mutating func varint() throws(Truncated) -> UInt64 {
        guard unsafe position < end else { throw Truncated() }
        let first = unsafe position.load(as: UInt8.self)
        switch first >> 6 {
        case 0:
            unsafe position += 1
            return UInt64(first)
        case 1:
            guard remaining >= 2 else { throw Truncated() }
            let value = unsafe UInt16(bigEndian: position.loadUnaligned(as: UInt16.self))
            unsafe position += 2
            return UInt64(value & 0x3FFF)
        case 2:
            guard remaining >= 4 else { throw Truncated() }
            let value = unsafe UInt32(bigEndian: position.loadUnaligned(as: UInt32.self))
            unsafe position += 4
            return UInt64(value & 0x3FFF_FFFF)
        default:
            guard remaining >= 8 else { throw Truncated() }
            let value = unsafe UInt64(bigEndian: position.loadUnaligned(as: UInt64.self))
            unsafe position += 8
            return value & 0x3FFF_FFFF_FFFF_FFFF
        }
    }

    /// Takes the next `count` bytes as a view into the packet.
    @inline(__always)
    mutating func bytes(_ count: Int) throws(Truncated) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= remaining else { throw Truncated() }
        let view = unsafe UnsafeRawBufferPointer(start: position, count: count)
        unsafe position += count
        return unsafe view
    }

    /// Takes a run of bytes that stands behind its length.
    @inline(__always)
    mutating func prefixedBytes() throws(Truncated) -> UnsafeRawBufferPointer {
        let count = try varint()
        guard count <= UInt64(remaining) else { throw Truncated() }
        return unsafe try bytes(Int(count))
    }

    /// Passes over zero bytes; answers how many there were.
    mutating func skipZeros() -> Int {
        let start = unsafe position
        while unsafe position < end, unsafe position.load(as: UInt8.self) == 0 { unsafe position += 1 }
        return unsafe position - start
    }
}
