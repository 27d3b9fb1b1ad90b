/// Bytes that arrived and were not read yet; numbers are big-endian.
struct ByteQueue: Sendable {
    private var storage: [UInt8] = []
    private var head = 0

    /// The number of bytes at hand.
    var count: Int { storage.count - head }

    mutating func append(_ bytes: [UInt8]) {
        if head == storage.count {
            // What one large message needed is not kept for ever.
            storage.removeAll(keepingCapacity: storage.capacity <= 1 << 20)
            head = 0
        } else if head > 1 << 16, head > storage.count / 2 {
            storage.removeFirst(head)
            head = 0
        }
        storage += bytes
    }

    /// The byte that many after the next.
    subscript(offset: Int) -> UInt8 { storage[head + offset] }

    func u16(at offset: Int) -> Int { Int(self[offset]) << 8 | Int(self[offset + 1]) }

    func u32(at offset: Int) -> UInt32 { UInt32(u16(at: offset)) << 16 | UInt32(u16(at: offset + 2)) }

    func rectangle(at offset: Int) -> RFBRectangle {
        RFBRectangle(
            x: u16(at: offset), y: u16(at: offset + 2), width: u16(at: offset + 4), height: u16(at: offset + 6))
    }

    mutating func skip(_ count: Int) {
        precondition(count <= self.count, "more is skipped than there is")
        head += count
    }

    mutating func take(_ count: Int) -> [UInt8] {
        let bytes = [UInt8](storage[head..<head + count])
        head += count
        return bytes
    }

    /// Passes a view of some bytes to `body`.
    func withBytes<Result>(at offset: Int, count: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        precondition(offset >= 0 && count >= 0 && offset + count <= self.count, "more is read than there is")
        return unsafe storage.withUnsafeBufferPointer { buffer in
            unsafe body(UnsafeBufferPointer(rebasing: buffer[head + offset..<head + offset + count]))
        }
    }
}

extension [UInt8] {
    mutating func appendInteger(_ value: some FixedWidthInteger) {
        var shift = value.bitWidth - 8
        while shift >= 0 {
            append(UInt8(truncatingIfNeeded: value >> shift))
            shift -= 8
        }
    }

    /// Appends x, y, width and height in 16 bits each.
    mutating func appendRectangle(_ rectangle: RFBRectangle) {
        for value in [rectangle.x, rectangle.y, rectangle.width, rectangle.height] {
            appendInteger(UInt16(clamping: value))
        }
    }

    mutating func appendScreen(_ screen: RFBScreen) {
        appendInteger(screen.id)
        appendRectangle(screen.frame)
        appendInteger(screen.flags)
    }
}

extension ByteQueue {
    func screen(at offset: Int) -> RFBScreen {
        RFBScreen(id: u32(at: offset), frame: rectangle(at: offset + 4), flags: u32(at: offset + 12))
    }
}
