import Crypto
import KithWire

/// Cuts bytes into chunks where their content says so, so that an insertion moves the cuts near it and no others.
///
/// A gear hash rolls over the bytes (Xia et al., FastCDC, USENIX ATC 2016): a cut is made where its high bits are zero,
/// with more of them asked for before the average length and fewer behind it. Both ends must cut alike, so the table and
/// the numbers here are part of the protocol.
struct ContentChunker: Hashable, Sendable {
    /// The shortest, the usual and the longest chunk, in bytes; only the last of a file may be shorter.
    let minimum: Int
    let average: Int
    let maximum: Int
    private let strictMask: UInt64
    private let looseMask: UInt64

    /// The averages that may be asked for, as exponents of two: 8 KiB…128 KiB.
    static let exponents = 13...17
    /// Files larger than this are not cut: their chunks would be too many to tell of.
    static let maximumSize: UInt64 = 64 << 30

    /// Makes a chunker whose chunks usually have `1 << exponent` bytes.
    init(exponent: Int) {
        precondition(Self.exponents.contains(exponent), "the average is one of the five")
        average = 1 << exponent
        minimum = average / 4
        maximum = average * 8
        strictMask = ~0 << UInt64(64 - exponent - 2)
        looseMask = ~0 << UInt64(64 - exponent + 2)
    }

    /// The exponent for a file of `size` bytes: about its square root.
    static func exponent(for size: UInt64) -> Int {
        let root = (63 - size.leadingZeroBitCount) / 2
        return min(max(root, exponents.lowerBound), exponents.upperBound)
    }

    /// The length of the chunk at the beginning of `bytes`, which hold ``maximum`` bytes or all that are left.
    func cut(_ bytes: UnsafeRawBufferPointer) -> Int {
        let end = min(bytes.count, maximum)
        guard end > minimum else { return end }
        let middle = min(average, end)
        var hash: UInt64 = 0
        return unsafe Self.gear.withUnsafeBufferPointer { gear in
            var index = minimum
            while index < middle {
                unsafe hash = (hash << 1) &+ gear[Int(bytes[index])]
                index += 1
                if hash & strictMask == 0 { return index }
            }
            while index < end {
                unsafe hash = (hash << 1) &+ gear[Int(bytes[index])]
                index += 1
                if hash & looseMask == 0 { return index }
            }
            return end
        }
    }

    /// A number for each byte, drawn by SplitMix64 from a fixed seed.
    static let gear: [UInt64] = {
        var state: UInt64 = 0x6B69_7468_6765_6172
        return (0..<256).map { _ in
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return value ^ (value >> 31)
        }
    }()
}

/// The hash of one chunk's contents: the first half of their SHA-256.
struct ChunkHash: Hashable, Sendable {
    var high: UInt64
    var low: UInt64

    /// The bytes of it on the wire.
    static let count = 16

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Hashes a chunk.
    init(of bytes: UnsafeRawBufferPointer) {
        var hash = SHA256()
        unsafe hash.update(bufferPointer: bytes)
        var (high, low) = (UInt64(0), UInt64(0))
        for (index, byte) in hash.finalize().enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else if index < 16 { low = low << 8 | UInt64(byte) }
        }
        self.init(high: high, low: low)
    }
}

/// The chunks of the version the other end has, to be found by what they hold.
struct ChunkTable: Sendable {
    private(set) var exponent = 0
    private var lengths: [UInt32] = []
    private var hashes: [ChunkHash] = []
    private(set) var size: UInt64 = 0

    /// The bytes a chunk takes on the wire: a length and a hash.
    static let entryCount = 4 + ChunkHash.count

    var isEmpty: Bool { lengths.isEmpty }
    var count: Int { lengths.count }

    /// Begins a table; all of it is of one average.
    init(exponent: Int = 0) { self.exponent = exponent }

    mutating func append(length: UInt32, hash: ChunkHash) {
        lengths.append(length)
        hashes.append(hash)
        size += UInt64(length)
    }

    /// Finds chunks by content; built when all are known.
    func index() -> Index {
        var found: [ChunkHash: Extent] = [:]
        found.reserveCapacity(lengths.count)
        var offset: UInt64 = 0
        for (hash, length) in zip(hashes, lengths) {
            // The first of several equal ones: runs of them then lie together.
            if found[hash] == nil { found[hash] = Extent(offset: offset, length: length) }
            offset += UInt64(length)
        }
        return Index(extents: found)
    }

    /// The position of a chunk in the old version.
    struct Extent: Hashable, Sendable {
        var offset: UInt64
        var length: UInt32
    }

    struct Index {
        fileprivate let extents: [ChunkHash: Extent]

        /// Finds a chunk of this content and length; `nil` when there is none.
        func extent(of hash: ChunkHash, length: Int) -> Extent? {
            guard let extent = extents[hash], Int(extent.length) == length else { return nil }
            return extent
        }
    }
}

extension ChunkTable {
    /// Reads chunks from a message; all of one table have one average.
    ///
    /// - Throws: `.invalid` for lengths that no such chunk has.
    mutating func append(_ entries: ArraySlice<UInt8>, exponent: Int) throws(KithError) {
        if isEmpty { self = ChunkTable(exponent: exponent) }
        let limit = UInt32(ContentChunker(exponent: exponent).maximum)
        var index = entries.startIndex
        func integer(_ count: Int) -> UInt64 {
            var value: UInt64 = 0
            for byte in entries[index..<(index + count)] { value = value << 8 | UInt64(byte) }
            index += count
            return value
        }
        while index < entries.endIndex {
            let length = UInt32(integer(4))
            let hash = ChunkHash(high: integer(8), low: integer(8))
            guard self.exponent == exponent, length > 0, length <= limit else {
                throw KithError(.invalid, "The other end sent data that cannot be right.")
            }
            append(length: length, hash: hash)
        }
    }
}
