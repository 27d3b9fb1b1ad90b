/// Writes frame fields into a packet under construction; the caller has checked that they fit.
///
/// Not KithWire's `ByteWriter`: this one fills memory it is lent, on the packet path.
@safe struct FrameWriter {
    private let target: UnsafeMutableRawBufferPointer
    /// The number of bytes written.
    private(set) var count = 0

    init(_ target: UnsafeMutableRawBufferPointer) {
        unsafe self.target = unsafe target
    }

    /// The number of bytes that still fit.
    var room: Int { unsafe target.count - count }

    mutating func byte(_ value: UInt8) {
        unsafe target[count] = value
        count += 1
    }

    /// Writes a variable-length integer in its shortest form (RFC 9000 §16).
    mutating func varint(_ value: UInt64) {
        let length = varintLength(value)
        let prefix = UInt64(length.trailingZeroBitCount) << UInt64(length * 8 - 2)
        var shift = (length - 1) * 8
        let encoded = value | prefix
        while shift >= 0 {
            unsafe target[count] = UInt8(truncatingIfNeeded: encoded >> UInt64(shift))
            count += 1
            shift -= 8
        }
    }

    /// Gives out the next `length` bytes to be filled.
    mutating func space(_ length: Int) -> UnsafeMutableRawBufferPointer {
        defer { count += length }
        return unsafe UnsafeMutableRawBufferPointer(rebasing: target[count..<count + length])
    }
}

/// Returns the number of bytes the shortest form of a variable-length integer takes (RFC 9000 §16).
@inline(__always)
func varintLength(_ value: UInt64) -> Int {
    value < 1 << 6 ? 1 : value < 1 << 14 ? 2 : value < 1 << 30 ? 4 : 8
}
