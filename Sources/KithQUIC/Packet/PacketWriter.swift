/// Writes fields into a fixed buffer, in place.
///
/// The caller makes sure of room with ``room`` before it writes; writing past the end is a fault of ours and traps.
@safe struct PacketWriter {
    let base: UnsafeMutableRawPointer
    let capacity: Int
    private(set) var count = 0

    /// Writes from the start of `buffer`, which must not be empty.
    @inline(__always)
    init(_ buffer: UnsafeMutableRawBufferPointer) {
        guard let address = buffer.baseAddress else { preconditionFailure("a packet is written into a real buffer") }
        unsafe base = unsafe address
        capacity = buffer.count
    }

    /// The number of bytes that still fit.
    @inline(__always)
    var room: Int { capacity - count }

    /// The part not written yet.
    @inline(__always)
    var free: UnsafeMutableRawBufferPointer {
        unsafe UnsafeMutableRawBufferPointer(start: base + count, count: capacity - count)
    }

    /// Counts `written` bytes that somebody else put at the front of ``free``.
    @inline(__always)
    mutating func advance(_ written: Int) {
        precondition(written >= 0 && written <= room, "a packet writer stays inside its buffer")
        count += written
    }

    /// Writes one byte.
    @inline(__always)
    mutating func byte(_ value: UInt8) {
        precondition(room >= 1, "a packet writer stays inside its buffer")
        unsafe base.storeBytes(of: value, toByteOffset: count, as: UInt8.self)
        count += 1
    }

    /// Writes a 16-bit number, big endian.
    @inline(__always)
    mutating func uint16(_ value: UInt16) {
        precondition(room >= 2, "a packet writer stays inside its buffer")
        unsafe base.storeBytes(of: value.bigEndian, toByteOffset: count, as: UInt16.self)
        count += 2
    }

    /// Writes a 32-bit number, big endian.
    @inline(__always)
    mutating func uint32(_ value: UInt32) {
        precondition(room >= 4, "a packet writer stays inside its buffer")
        unsafe base.storeBytes(of: value.bigEndian, toByteOffset: count, as: UInt32.self)
        count += 4
    }

    /// Writes a 64-bit number, big endian.
    @inline(__always)
    mutating func uint64(_ value: UInt64) {
        precondition(room >= 8, "a packet writer stays inside its buffer")
        unsafe base.storeBytes(of: value.bigEndian, toByteOffset: count, as: UInt64.self)
        count += 8
    }

    /// Writes a variable-length integer (RFC 9000 §16) in as few bytes as it needs.
    @inline(__always)
    mutating func varint(_ value: UInt64) {
        if value < 1 << 6 {
            byte(UInt8(truncatingIfNeeded: value))
        } else if value < 1 << 14 {
            uint16(UInt16(truncatingIfNeeded: value) | 0x4000)
        } else if value < 1 << 30 {
            uint32(UInt32(truncatingIfNeeded: value) | 0x8000_0000)
        } else {
            precondition(value < 1 << 62, "a variable-length integer has 62 bits")
            uint64(value | 0xC000_0000_0000_0000)
        }
    }

    /// Writes `bytes`.
    @inline(__always)
    mutating func bytes(_ bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count <= room, "a packet writer stays inside its buffer")
        if let address = bytes.baseAddress { unsafe (base + count).copyMemory(from: address, byteCount: bytes.count) }
        count += bytes.count
    }

    /// Writes the bytes of an array.
    mutating func bytes(_ array: [UInt8]) {
        unsafe array.withUnsafeBytes { unsafe bytes($0) }
    }

    /// Writes a connection id without its length.
    @inline(__always)
    mutating func connectionID(_ id: ConnectionID) {
        precondition(id.count <= room, "a packet writer stays inside its buffer")
        unsafe id.copy(to: base + count)
        count += id.count
    }

    /// Writes zero bytes until `total` bytes are written.
    mutating func pad(to total: Int) {
        guard total > count else { return }
        precondition(total <= capacity, "a packet writer stays inside its buffer")
        unsafe (base + count).initializeMemory(as: UInt8.self, repeating: 0, count: total - count)
        count = total
    }

    /// Returns the number of bytes `value` takes as a variable-length integer.
    @inline(__always)
    static func varintLength(_ value: UInt64) -> Int {
        value < 1 << 6 ? 1 : value < 1 << 14 ? 2 : value < 1 << 30 ? 4 : 8
    }
}
