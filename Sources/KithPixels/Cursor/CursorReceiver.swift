import KithWire

/// The viewer's end of the cursor's channel.
///
/// It takes messages of anybody and holds at most sixteen shapes of 256 KiB.
package struct CursorReceiver: Sendable {
    /// The shape to be drawn; `nil` when the pointer is hidden or none has come.
    package var shape: CursorShape? { isHidden ? nil : current.flatMap { slots[$0] } }
    /// The place of the hot spot in the picture; it may be outside.
    package private(set) var position: (x: Int, y: Int)?

    private var slots: [CursorShape?] = Array(repeating: nil, count: CursorFormat.slots)
    private var current: Int?
    private var isHidden = false
    private var sequence: UInt32?

    /// Begins without a shape.
    package init() {}

    /// Takes in a message; true when the pointer is to be drawn again.
    package mutating func received(_ message: [UInt8]) throws(TileError) -> Bool {
        var reader = ByteReader(message)
        guard let byte: UInt8 = try? reader.integer() else { throw .truncated }
        guard let kind = CursorFormat.Kind(rawValue: byte) else { throw .malformed("an unknown message") }
        switch kind {
        case .position:
            guard let number: UInt32 = try? reader.integer(), let x: UInt16 = try? reader.integer(),
                let y: UInt16 = try? reader.integer(), reader.isAtEnd
            else { throw .malformed("a position has nine bytes") }
            // Datagrams overtake each other.
            if let sequence, Int32(bitPattern: number &- sequence) <= 0 { return false }
            sequence = number
            position = (Int(x), Int(y))
        case .shape:
            let (slot, shape) = try Self.shape(&reader)
            slots[slot] = shape
            return current == slot && !isHidden
        case .use:
            guard let slot: UInt8 = try? reader.integer(), reader.isAtEnd else {
                throw .malformed("a use has two bytes")
            }
            guard slot < CursorFormat.slots, slots[Int(slot)] != nil else { throw .outside }
            current = Int(slot)
            isHidden = false
        case .hidden:
            guard reader.isAtEnd else { throw .malformed("bytes behind the end") }
            isHidden = true
        }
        return true
    }

    private static func shape(_ reader: inout ByteReader) throws(TileError) -> (slot: Int, shape: CursorShape) {
        guard let head = try? reader.bytes(6) else { throw .truncated }
        guard head[0] < CursorFormat.slots, head[5] <= 1 else { throw .outside }
        let size = PixelSize(width: Int(head[1]) + 1, height: Int(head[2]) + 1)
        guard let rest = try? reader.bytes(reader.remaining) else { throw .truncated }
        let bytes = head[5] == 1 ? OneShotCompression.expand(rest, count: size.area * 4) : rest
        guard let bytes, bytes.count == size.area * 4 else { throw .malformed("a shape has four bytes a pixel") }
        let pixels = (0..<size.area).map { pixel -> UInt32 in
            var value: UInt32 = 0
            for byte in bytes[pixel * 4..<pixel * 4 + 4].reversed() { value = value << 8 | UInt32(byte) }
            return value
        }
        guard let shape = CursorShape(size: size, hotspot: (Int(head[3]), Int(head[4])), pixels: pixels) else {
            throw .outside
        }
        return (Int(head[0]), shape)
    }
}
