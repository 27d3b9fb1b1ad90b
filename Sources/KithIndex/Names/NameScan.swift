import Foundation
import Synchronization

extension NameTable.Names {
    /// The most blocks that one thread goes through while another could help.
    private static let share = 8

    /// The numbers of the entries whose names pass, ascending; `nil` when they are more than `limit`.
    func numbers(_ filter: NameFilter, atMost limit: Int = .max) -> [Int64]? {
        let (texts, rest) = way(filter)
        return unsafe withTests(of: rest) { tests in
            var numbers: [Int64] = []
            for block in blocks {
                unsafe block.visit(tests, texts) { slot, _ in numbers.append(block.id(slot)) }
                if numbers.count > limit { return nil }
            }
            return numbers
        }
    }

    /// The ranks of the names that pass, in the order of their numbers; of all without a filter, or all of files.
    ///
    /// Goes through many names on several threads, and ends early once it is stopped.
    func ranks(
        _ filter: NameFilter?, _ words: [String], isOfFiles: Bool = false, unless isStopped: @Sendable () -> Bool
    ) -> [Rank] {
        let words = RankWords(words)
        let (texts, rest) = way(filter)
        @Sendable func ranks(_ blocks: ArraySlice<NameBlock>) -> [Rank] {
            unsafe words.withTexts { words in
                unsafe withTests(of: rest) { tests in
                    var ranks: [Rank] = []
                    for block in blocks {
                        if isStopped() { break }
                        unsafe block.visit(tests, texts) { slot, name in
                            let measure = block.measure(slot)
                            guard measure.isFile || !isOfFiles else { return }
                            unsafe ranks.append(Rank(name, measure, block.id(slot), words))
                        }
                    }
                    return ranks
                }
            }
        }
        let shares = min((blocks.count + Self.share - 1) / Self.share, ProcessInfo.processInfo.activeProcessorCount)
        guard shares > 1 else { return ranks(blocks[...]) }
        let parts = Mutex([[Rank]](repeating: [], count: shares))
        DispatchQueue.concurrentPerform(iterations: shares) { share in
            let found = ranks(blocks[(blocks.count * share / shares)..<(blocks.count * (share + 1) / shares)])
            parts.withLock { $0[share] = found }
        }
        return parts.withLock { parts in
            var ranks = parts[0]
            for part in parts.dropFirst() { ranks += part }
            return ranks
        }
    }

    private func withTests<Result>(of filter: NameFilter?, _ body: (NameTests?) -> Result) -> Result {
        guard let filter else { return body(nil) }
        return unsafe filter.withTests(body)
    }

    /// The texts of which every name that passes has one, and what is to be tried of those that have.
    private func way(_ filter: NameFilter?) -> (texts: [[UInt8]]?, rest: NameFilter?) {
        guard let filter, let texts = texts(filter) else { return (nil, filter) }
        return (texts, filter.behind(texts))
    }

    /// The texts of which every name that passes has one, chosen by how rare they are in some blocks.
    private func texts(_ filter: NameFilter) -> [[UInt8]]? {
        guard filter.choices.count > 1, !blocks.isEmpty else { return filter.choices.first }
        let sample = stride(from: 0, to: blocks.count, by: max(blocks.count / 4, 1)).map { blocks[$0] }
        let counts = filter.choices.map { texts in
            sample.reduce(0) { count, block in count + block.count(of: texts) }
        }
        return zip(filter.choices, counts).min { $0.1 < $1.1 }?.0
    }
}

extension NameBlock {
    /// Goes through the names that have one of the texts and pass, in their order.
    func visit(
        _ tests: NameTests?, _ texts: [[UInt8]]?, _ body: (_ slot: Int, _ name: UnsafeRawBufferPointer) -> Void
    ) {
        unsafe text.withUnsafeBytes { text in
            guard let texts else {
                for slot in 0..<count { unsafe offer(slot, text, tests, body) }
                return
            }
            if texts.count == 1 {
                unsafe forEachSlot(with: texts[0], text) { unsafe offer($0, text, tests, body) }
                return
            }
            var isWanted = [Bool](repeating: false, count: count)
            for wanted in texts { unsafe forEachSlot(with: wanted, text) { isWanted[$0] = true } }
            for slot in 0..<count where isWanted[slot] { unsafe offer(slot, text, tests, body) }
        }
    }

    /// The number of slots in which one of the texts stands, or of times when they are several.
    func count(of texts: [[UInt8]]) -> Int {
        unsafe text.withUnsafeBytes { text in
            var found = 0
            for wanted in texts { unsafe forEachSlot(with: wanted, text) { _ in found += 1 } }
            return found
        }
    }

    private func offer(
        _ slot: Int, _ text: UnsafeRawBufferPointer, _ tests: NameTests?,
        _ body: (_ slot: Int, _ name: UnsafeRawBufferPointer) -> Void
    ) {
        let range = range(slot)
        var end = range.upperBound
        while end > range.lowerBound, unsafe text[end - 1] == 0 { end -= 1 }
        guard end > range.lowerBound else { return }
        let name = unsafe UnsafeRawBufferPointer(rebasing: text[range.lowerBound..<end])
        if let tests = unsafe tests, unsafe !tests.passes(name, length: measure(slot).name) { return }
        unsafe body(slot, name)
    }

    /// Goes through the slots in which a text stands, each once.
    private func forEachSlot(with wanted: [UInt8], _ text: UnsafeRawBufferPointer, _ body: (Int) -> Void) {
        var (slot, place) = (0, 0)
        while let found = unsafe text.firstIndex(of: wanted, from: place) {
            // Most are near the one before.
            var step = 1
            while slot + step < count, Int(starts[slot + step]) <= found {
                slot += step
                step *= 2
            }
            while step > 1 {
                step /= 2
                if slot + step < count, Int(starts[slot + step]) <= found { slot += step }
            }
            body(slot)
            place = Int(starts[slot + 1])
            slot += 1
            guard slot < count else { return }
        }
    }
}
