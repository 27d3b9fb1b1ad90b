/// Collects bytes: big-endian integers, varints and runs of bytes.
public struct ByteWriter: Sendable {
    /// The bytes written so far.
    public private(set) var bytes: [UInt8] = []

    /// Starts empty.
    public init() {}

    /// Starts empty, with room for `capacity` bytes.
    public init(capacity: Int) { bytes.reserveCapacity(capacity) }

    /// Writes an unsigned integer, most significant byte first.
    public mutating func integer(_ value: some FixedWidthInteger & UnsignedInteger) {
        // At once: a byte at a time costs a check of uniqueness and of room for each.
        unsafe Swift.withUnsafeBytes(of: value.bigEndian) { unsafe bytes.append(contentsOf: $0) }
    }

    /// Writes a variable-length integer in its shortest form (RFC 9000 §16); `value` is at most 2⁶²−1.
    public mutating func varint(_ value: UInt64) {
        switch Self.varintLength(value) {
        case 1: integer(UInt8(value))
        case 2: integer(UInt16(value) | 0x4000)
        case 4: integer(UInt32(value) | 0x8000_0000)
        default: integer(value | 0xC000_0000_0000_0000)
        }
    }

    /// Writes a run of bytes.
    public mutating func bytes(_ more: [UInt8]) { bytes += more }

    /// Writes a run of bytes.
    public mutating func bytes(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

    /// Writes a varint length, then the bytes.
    public mutating func prefixedBytes(_ more: [UInt8]) {
        varint(UInt64(more.count))
        bytes += more
    }

    /// The number of bytes ``varint(_:)`` takes for `value`: 1, 2, 4 or 8.
    public static func varintLength(_ value: UInt64) -> Int {
        precondition(value < 1 << 62, "a varint holds at most 62 bits (RFC 9000 §16)")
        return value < 1 << 6 ? 1 : value < 1 << 14 ? 2 : value < 1 << 30 ? 4 : 8
    }
}
