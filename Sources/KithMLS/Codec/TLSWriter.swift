/// Collects the TLS presentation language with the vector lengths of RFC 9420 §2.1.
public struct TLSWriter: Sendable {
    /// The bytes written so far.
    public private(set) var bytes: [UInt8] = []

    /// Starts empty, with room for `capacity` bytes.
    public init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    /// Overwrites and forgets what was written, for those who wrote secrets.
    package mutating func wipe() {
        clear(&bytes)
        bytes = []
    }

    /// Writes an unsigned integer, most significant byte first.
    public mutating func integer(_ value: some FixedWidthInteger & UnsignedInteger) {
        var shift = value.bitWidth - 8
        while shift >= 0 {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
            shift -= 8
        }
    }

    /// Writes bytes as they are.
    public mutating func fixed(_ more: [UInt8]) { bytes += more }

    /// Writes bytes as they are.
    mutating func fixed(_ more: ArraySlice<UInt8>) { bytes += more }

    /// Writes the length in front of a vector, in its shortest form; `count` is at most 2³⁰−1 (§2.1.2).
    public mutating func length(_ count: Int) {
        precondition(count < 1 << 30, "a vector holds at most 2^30-1 bytes (RFC 9420 §2.1.2)")
        if count < 1 << 6 {
            integer(UInt8(count))
        } else if count < 1 << 14 {
            integer(UInt16(count) | 0x4000)
        } else {
            integer(UInt32(count) | 0x8000_0000)
        }
    }

    /// Writes `opaque value<V>`.
    public mutating func opaque(_ more: [UInt8]) {
        length(more.count)
        bytes += more
    }

    /// Writes `opaque value<V>`.
    mutating func opaque(_ more: ArraySlice<UInt8>) {
        length(more.count)
        bytes += more
    }

    /// Writes a vector whose content `body` writes.
    mutating func vector(_ body: (inout TLSWriter) -> Void) {
        let start = bytes.count
        bytes.append(0)
        body(&self)
        let count = bytes.count - start - 1
        if count < 1 << 6 {
            bytes[start] = UInt8(count)
        } else {
            var header = TLSWriter()
            header.length(count)
            bytes.replaceSubrange(start...start, with: header.bytes)
        }
    }

    /// Writes `Element list<V>`.
    package mutating func list(_ elements: some Collection<some TLSCodable>) {
        vector { writer in
            for element in elements { element.encode(into: &writer) }
        }
    }

    /// Writes `optional<Element>` (§2.1.1).
    package mutating func optional(_ element: (some TLSCodable)?) {
        integer(UInt8(element == nil ? 0 : 1))
        element?.encode(into: &self)
    }
}
