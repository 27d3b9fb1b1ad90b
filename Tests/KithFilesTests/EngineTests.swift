import Crypto
import Foundation
import KithWire
import Testing

@testable import KithFiles

@Suite struct TreeHashTests {
    /// The definition of RFC 9162 §2.1.1, by recursion.
    private func reference(_ leaves: ArraySlice<[UInt8]>) -> [UInt8] {
        if leaves.count == 1 { return leaves[leaves.startIndex] }
        var split = 1
        while split * 2 < leaves.count { split *= 2 }
        let left = reference(leaves.prefix(split))
        let right = reference(leaves.dropFirst(split))
        return Array(SHA256.hash(data: [1] + left + right))
    }

    @Test(arguments: [0, 1, 9, 10, 11, 20, 35, 70, 80, 81, 163])
    func `the root is that of the definition, however the bytes come`(size: Int) {
        let content = [UInt8](bytes(size, seed: UInt64(size)))
        var leaves: [[UInt8]] = []
        for start in stride(from: 0, to: max(size, 1), by: 10) {
            leaves.append(Array(SHA256.hash(data: [0] + content[start..<min(start + 10, size)])))
        }
        let expected = reference(leaves[...])
        for step in 1...13 {
            var hash = TreeHash(leafSize: 10)
            for start in stride(from: 0, to: size, by: step) { hash.update(content[start..<min(start + step, size)]) }
            #expect(hash.root() == expected && hash.size == UInt64(size))
        }
        var byLeaves = TreeHash(leafSize: 10)
        for (index, leaf) in leaves.enumerated() where size > 0 {
            byLeaves.append(leaf: leaf, length: min(10, size - index * 10))
        }
        #expect(byLeaves.root() == expected)
    }

    @Test func `zeros taken in at once are the zeros taken in one by one`() {
        for before in [0, 3, 10, 30, 47] {
            for zeros in [0, 1, 9, 10, 55, 333, 640] {
                for after in [0, 4] {
                    var (quick, slow) = (TreeHash(leafSize: 10), TreeHash(leafSize: 10))
                    for part in [[UInt8](repeating: 7, count: before)] {
                        quick.update(part[...])
                        slow.update(part[...])
                    }
                    quick.appendZeros(UInt64(zeros))
                    slow.update([UInt8](repeating: 0, count: zeros)[...])
                    quick.update([UInt8](repeating: 8, count: after)[...])
                    slow.update([UInt8](repeating: 8, count: after)[...])
                    #expect(quick.root() == slow.root() && quick.size == slow.size)
                }
            }
        }
    }

    @Test func `a hole of exabytes costs nothing`() {
        var hash = TreeHash(leafSize: 4 << 20)
        hash.appendZeros(UInt64(Int64.max))
        #expect(hash.size == UInt64(Int64.max) && hash.root().count == 32)
    }
}

@Suite struct ContentChunkTests {
    private func chunks(_ data: [UInt8], _ chunker: ContentChunker) -> [Range<Int>] {
        var found: [Range<Int>] = []
        var start = 0
        while start < data.count {
            let length = data[start...].withUnsafeBytes { chunker.cut($0) }
            found.append(start..<(start + length))
            start += length
        }
        return found
    }

    @Test func `chunks keep to their bounds and near their average`() {
        let data = [UInt8](bytes(3_000_000, seed: 11))
        let chunker = ContentChunker(exponent: 13)
        let found = chunks(data, chunker)
        for chunk in found.dropLast() {
            #expect(chunk.count >= chunker.minimum && chunk.count <= chunker.maximum)
        }
        #expect(found.last?.upperBound == data.count)
        let average = data.count / found.count
        #expect(average > chunker.average / 2 && average < chunker.average * 2, "\(average)")
    }

    @Test func `an insertion moves the cuts near it and no others`() {
        let data = [UInt8](bytes(1_000_000, seed: 12))
        let chunker = ContentChunker(exponent: 13)
        let before = Set(chunks(data, chunker).map { Array(data[$0]) })
        for place in [0, 17, 500_000, 999_999] {
            let changed = data[..<place] + [1, 2, 3] + data[place...]
            let after = chunks(Array(changed), chunker).map { Array(Array(changed)[$0]) }
            let new = after.filter { !before.contains($0) }
            #expect(new.count <= 4, "at \(place): \(new.count) of \(after.count)")
        }
    }

    @Test func `a table says where its chunks are, and takes none that cannot be`() throws {
        var entries = ByteWriter()
        for length in [UInt32(5_000), 7, 9_000] {
            entries.integer(length)
            entries.integer(UInt64(length))
            entries.integer(UInt64(1))
        }
        var table = ChunkTable()
        try table.append(entries.bytes[...], exponent: 13)
        #expect(table.count == 3 && table.size == 14_007)
        let index = table.index()
        #expect(index.extent(of: ChunkHash(high: 9_000, low: 1), length: 9_000)?.offset == 5_007)
        #expect(index.extent(of: ChunkHash(high: 9_000, low: 1), length: 8_999) == nil)
        #expect(index.extent(of: ChunkHash(high: 9_000, low: 2), length: 9_000) == nil)
        #expect(throws: KithError(.invalid, "")) { try table.append(entries.bytes[...], exponent: 14) }
        for length in [UInt32(0), 65_537] {
            var bad = ByteWriter()
            bad.integer(length)
            bad.integer(UInt64(0))
            bad.integer(UInt64(0))
            #expect(throws: KithError(.invalid, "")) {
                var table = ChunkTable()
                try table.append(bad.bytes[...], exponent: 13)
            }
        }
    }
}
