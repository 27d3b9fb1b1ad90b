import Foundation

/// How well the name of an entry fits the words of a query; the least fits best.
///
/// The whole name first, then its beginning, the beginning of a word, and anywhere; shorter names first, then those
/// nearer to the top.
struct Rank: Comparable, Hashable, Codable, Sendable {
    /// How well it fits, in the upper half, then the lengths of the name and of its folder's path.
    private(set) var key: UInt64
    private(set) var id: Int64

    /// How well it fits, whatever its length; the least is best.
    var fit: UInt64 { key >> 32 }

    init(_ name: UnsafeRawBufferPointer, _ measure: NameBlock.Measure, _ id: Int64, _ words: RankWords.Texts) {
        let place = unsafe words.ranges.reduce(UInt64(0)) { place, word in
            unsafe place + Self.place(of: UnsafeRawBufferPointer(rebasing: words.bytes[word]), in: name)
        }
        key = place << 32 | UInt64(measure.name) << 16 | UInt64(measure.folder)
        self.id = id
    }

    private static func place(of wanted: UnsafeRawBufferPointer, in text: UnsafeRawBufferPointer) -> UInt64 {
        let count = wanted.count
        guard count > 0, text.count >= count, let bytes = text.baseAddress, let word = wanted.baseAddress else {
            return 4
        }
        if unsafe memcmp(bytes, word, count) == 0 {
            if text.count == count { return 0 }
            return unsafe text[count] == UInt8(ascii: ".") ? 1 : 2
        }
        let first = unsafe Int32(wanted[0])
        // At the beginning of a word: after what is neither a letter nor a digit.
        var start = unsafe bytes + 1
        let end = unsafe bytes + (text.count - count + 1)
        while unsafe start < end, let found = unsafe memchr(start, first, end - start) {
            let place = unsafe UnsafeRawPointer(found) - bytes
            if unsafe !isWordByte(text[place - 1]), unsafe memcmp(found, word, count) == 0 { return 3 }
            unsafe start = bytes + (place + 1)
        }
        return 4
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        byte >= 0x80 || byte >= 0x30 && byte <= 0x39 || byte >= 0x61 && byte <= 0x7A
    }

    static func < (left: Rank, right: Rank) -> Bool { (left.key, left.id) < (right.key, right.id) }
}

/// The words by which names are ranked, for many names.
struct RankWords: Sendable {
    /// The words while names are ranked.
    @unsafe struct Texts {
        let bytes: UnsafeRawBufferPointer
        let ranges: UnsafeBufferPointer<Range<Int>>
    }

    private var bytes: [UInt8] = []
    private var ranges: [Range<Int>] = []

    init(_ words: [String]) {
        for word in words {
            let start = bytes.count
            bytes += word.utf8
            ranges.append(start..<bytes.count)
        }
    }

    func withTexts<Result>(_ body: (Texts) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe ranges.withUnsafeBufferPointer { unsafe body(Texts(bytes: bytes, ranges: $0)) }
        }
    }
}

extension [Rank] {
    /// The first `count` in their order, or from the last on when it is reversed, of those behind a place.
    func first(_ count: Int, isReversed: Bool, behind place: Rank?) -> [Rank] {
        let isBefore = { (left: Rank, right: Rank) in isReversed ? right < left : left < right }
        // A heap of the best so far, with the worst of them on top.
        var heap: [Rank] = []
        for rank in self {
            if heap.count == count, !isBefore(rank, heap[0]) { continue }
            if let place, !isBefore(place, rank) { continue }
            if heap.count < count {
                heap.append(rank)
                var child = heap.count - 1
                while child > 0, isBefore(heap[(child - 1) / 2], heap[child]) {
                    heap.swapAt(child, (child - 1) / 2)
                    child = (child - 1) / 2
                }
                continue
            }
            heap[0] = rank
            var parent = 0
            while true {
                var worst = parent
                for child in [2 * parent + 1, 2 * parent + 2] where child < count && isBefore(heap[worst], heap[child])
                {
                    worst = child
                }
                if worst == parent { break }
                heap.swapAt(worst, parent)
                parent = worst
            }
        }
        return heap.sorted(by: isBefore)
    }
}
