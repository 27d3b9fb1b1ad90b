/// Bytes of a stream by their offset, in one ring that grows with what it has to hold.
///
/// The byte at stream offset *o* lies at *o* modulo the capacity, a power of two. One copy in, one copy out; growing
/// copies what is held once, so a byte is moved less than twice over a stream's life. An empty ring holds no memory.
package struct ByteRing: Sendable {
    /// The smallest storage made.
    private static let smallest = 256
    /// The number of bytes an emptied ring keeps without a second thought.
    private static let kept = 64 * 1024
    private var storage: [UInt8] = []
    /// The most it had to hold since it was last empty.
    private var peak = 0

    package init() {}

    /// The number of bytes it can hold without growing.
    package var capacity: Int { storage.count }

    /// Makes room for the bytes at offsets `lower..<upper`, keeping those of `held`.
    package mutating func reserve(_ range: Range<UInt64>, keeping held: Range<UInt64>) {
        let needed = Int(range.upperBound - range.lowerBound)
        peak = max(peak, needed)
        guard needed > storage.count else { return }
        var capacity = max(storage.count, Self.smallest)
        while capacity < needed { capacity <<= 1 }
        var grown = ByteRing(uninitialized: capacity)
        let old = self
        var offset = held.lowerBound
        while offset < held.upperBound, !old.storage.isEmpty {
            let position = Int(truncatingIfNeeded: offset) & (old.storage.count - 1)
            let run = min(old.storage.count - position, Int(held.upperBound - offset))
            unsafe old.storage.withUnsafeBytes { bytes in
                unsafe grown.write(UnsafeRawBufferPointer(rebasing: bytes[position..<position + run]), at: offset)
            }
            offset += UInt64(run)
        }
        storage = grown.storage
    }

    private init(uninitialized capacity: Int) {
        // Every byte is written before it is read: the ranges of the buffers above see to that.
        storage = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { _, count in count = capacity }
    }

    /// Stores `bytes` at a stream offset; room must have been reserved.
    package mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) {
        guard let source = bytes.baseAddress, unsafe !bytes.isEmpty else { return }
        precondition(bytes.count <= storage.count, "a ring is written within its reservation")
        let position = Int(truncatingIfNeeded: offset) & (storage.count - 1)
        let run = min(bytes.count, storage.count - position)
        unsafe storage.withUnsafeMutableBytes { ring in
            guard let base = ring.baseAddress else { return }
            unsafe (base + position).copyMemory(from: source, byteCount: run)
            if run < bytes.count { unsafe base.copyMemory(from: source + run, byteCount: bytes.count - run) }
        }
    }

    /// Copies the bytes from a stream offset on, as many as `target` holds.
    package func read(into target: UnsafeMutableRawBufferPointer, at offset: UInt64) {
        guard let destination = target.baseAddress, unsafe !target.isEmpty else { return }
        precondition(target.count <= storage.count, "a ring is read within what it holds")
        let position = Int(truncatingIfNeeded: offset) & (storage.count - 1)
        let run = min(target.count, storage.count - position)
        unsafe storage.withUnsafeBytes { ring in
            guard let base = ring.baseAddress else { return }
            unsafe destination.copyMemory(from: base + position, byteCount: run)
            if run < target.count { unsafe (destination + run).copyMemory(from: base, byteCount: target.count - run) }
        }
    }

    /// Notes that nothing is held: memory much larger than what was needed since the last time is given back.
    ///
    /// Giving all of it back each time a fast reader has caught up would cost more, in page faults, than the copying.
    package mutating func emptied() {
        if storage.count > Self.kept, peak < storage.count / 4 { storage = [] }
        peak = 0
    }

    /// Gives all memory back; nothing may be held.
    package mutating func release() {
        storage = []
        peak = 0
    }

    /// Gives the memory of a burst back; nothing may be held.
    package mutating func trim() {
        if storage.count > Self.smallest { release() }
    }
}
