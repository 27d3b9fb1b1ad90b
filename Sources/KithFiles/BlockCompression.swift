import KithWire

/// A block of messages in compressed form, as frame 19 carries it: how many bytes it has, then one zstd frame (RFC 8878).
///
/// A block holds whole messages and no other block. What it says of its size is checked before anything is allocated,
/// and it is taken apart in one step into exactly that many bytes: no frame, whatever window it asks for, takes more.
enum BlockCompression {
    /// The most bytes a block has when it is taken apart.
    static let maximumBlock = 1 << 20
    /// The bytes before the compressed ones.
    static let headCount = 4
    /// The logarithm of the window frames are made with, so that all of a block is in it.
    static let windowLog: Int32 = 20

    /// The magic number, the descriptor and four bytes of size (RFC 8878 §3.1.1).
    private static let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]

    /// Takes a block apart.
    ///
    /// - Throws: `.invalid` for one that is not what it says it is, `.unsupported` when this kith was built without zstd.
    static func expand(_ body: ArraySlice<UInt8>) throws(KithError) -> [UInt8] {
        guard isAvailable else {
            throw KithError(.unsupported, "The other end sent compressed data, which this kith was built without.")
        }
        let size = body.prefix(headCount).reduce(0) { $0 << 8 | Int($1) }
        let frame = body.dropFirst(headCount)
        guard body.count > headCount, size > 0, size <= maximumBlock, isOneSegment(frame),
            let bytes = decompress(frame, size: size)
        else { throw KithError(.invalid, "The other end sent compressed data that is damaged.") }
        return bytes
    }

    /// Tells whether a frame declares its contents to be its window: nothing else is held then.
    private static func isOneSegment(_ frame: ArraySlice<UInt8>) -> Bool {
        guard frame.starts(with: magic), let descriptor = frame.dropFirst(magic.count).first else { return false }
        // No dictionary either: there is none.
        return descriptor & 0x20 != 0 && descriptor & 0x03 == 0
    }

    /// Writes the head of a block of `size` bytes whose frame has `count`, as the beginning of a message.
    static func prefix(size: Int, count: Int) -> [UInt8] {
        let size = UInt32(size)
        return TransferFrame.prefix(type: TransferFrame.compressedType, count: headCount + count) + [
            UInt8(truncatingIfNeeded: size >> 24), UInt8(truncatingIfNeeded: size >> 16),
            UInt8(truncatingIfNeeded: size >> 8), UInt8(truncatingIfNeeded: size),
        ]
    }
}
