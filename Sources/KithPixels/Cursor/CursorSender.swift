import KithWire

/// The host's end of the cursor's channel: a shape is sent once and named from then on, a position is nine bytes.
///
/// The pointer never waits for the picture, and the picture has no pointer in it.
package struct CursorSender: Sendable {
    private var slots: [(shape: CursorShape, used: UInt64)] = []
    private var uses: UInt64 = 0
    private var shown: CursorShape?
    private var isHidden = false
    private var position: (x: Int, y: Int)?
    private var sequence: UInt32 = 0
    private let compresses: Bool

    /// Begins a channel; `compresses` says that the viewer can undo zstd.
    package init(compresses: Bool = true) { self.compresses = compresses }

    /// The messages that make the viewer show a shape; none when it does.
    package mutating func show(_ shape: CursorShape) -> [[UInt8]] {
        guard isHidden || shown != shape else { return [] }
        isHidden = false
        shown = shape
        uses += 1
        if let slot = slots.firstIndex(where: { $0.shape == shape }) {
            slots[slot].used = uses
            return [[CursorFormat.Kind.use.rawValue, UInt8(slot)]]
        }
        var slot = slots.count
        if slot < CursorFormat.slots {
            slots.append((shape, uses))
        } else {
            slot = slots.indices.min { slots[$0].used < slots[$1].used } ?? 0
            slots[slot] = (shape, uses)
        }
        return [message(shape, slot: slot), [CursorFormat.Kind.use.rawValue, UInt8(slot)]]
    }

    /// The message that hides the pointer; `nil` when it is hidden.
    package mutating func hide() -> [UInt8]? {
        guard !isHidden else { return nil }
        isHidden = true
        return [CursorFormat.Kind.hidden.rawValue]
    }

    /// The message that says where the hot spot is, kept within 0…65,535; `nil` when the viewer knows.
    package mutating func moved(x: Int, y: Int) -> [UInt8]? {
        let place = (x: min(max(x, 0), 65_535), y: min(max(y, 0), 65_535))
        if let position, position == place { return nil }
        position = place
        sequence &+= 1
        var writer = ByteWriter(capacity: 9)
        writer.integer(CursorFormat.Kind.position.rawValue)
        writer.integer(sequence)
        writer.integer(UInt16(place.x))
        writer.integer(UInt16(place.y))
        return writer.bytes
    }

    private func message(_ shape: CursorShape, slot: Int) -> [UInt8] {
        let plain = shape.pixels.flatMap { pixel in
            (0..<4).map { UInt8(truncatingIfNeeded: pixel >> UInt32($0 * 8)) }
        }
        let compressed = compresses ? OneShotCompression.compress(plain) : nil
        let head = [
            CursorFormat.Kind.shape.rawValue, UInt8(slot), UInt8(shape.size.width - 1), UInt8(shape.size.height - 1),
            UInt8(shape.hotspot.x), UInt8(shape.hotspot.y), compressed == nil ? 0 : 1,
        ]
        return head + (compressed ?? plain)
    }
}
