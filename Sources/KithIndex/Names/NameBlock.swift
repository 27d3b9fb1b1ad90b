/// A few thousand names of an index, one after the other in memory, in the order of the numbers of their entries.
///
/// A name is its folded text and at least one zero behind it; a slot of zeros alone has no name any more.
struct NameBlock: Sendable {
    /// The most names that are put into one block one after the other.
    static let capacity = 4_096

    /// The number of the first entry; the others are told as distances from it.
    private(set) var first: Int64
    private var distances: [UInt32] = []
    /// Where each slot begins in ``text``, and where the last one ends.
    private(set) var starts: [UInt32] = [0]
    private var measures: [Measure] = []
    private(set) var text: [UInt8] = []
    /// The slots that have a name.
    private(set) var liveCount = 0

    /// What a search wants of a name beside its text.
    struct Measure: Hashable, Sendable {
        /// The length of the name, and above it a bit for what is no file.
        private var bits: UInt16
        /// The length of its folder's path in bytes.
        var folder: UInt16

        private static let notFile: UInt16 = 1 << 15

        init(name: Int, folder: Int, isFile: Bool) {
            bits = UInt16(clamping: min(name, Int(Self.notFile) - 1)) | (isFile ? 0 : Self.notFile)
            self.folder = UInt16(clamping: folder)
        }

        /// The length of the name on the disk in bytes.
        var name: Int { Int(bits & ~Self.notFile) }

        var isFile: Bool { bits & Self.notFile == 0 }
    }

    init(first: Int64) { self.first = first }

    var count: Int { distances.count }

    /// The number of the entry in a slot.
    func id(_ slot: Int) -> Int64 { first + Int64(distances[slot]) }

    func measure(_ slot: Int) -> Measure { measures[slot] }

    func isLive(_ slot: Int) -> Bool { text[Int(starts[slot])] != 0 }

    /// The bytes of a slot, with the zeros at its end.
    func range(_ slot: Int) -> Range<Int> { Int(starts[slot])..<Int(starts[slot + 1]) }

    /// True when an entry with a number behind all others can be put at the end.
    func hasRoom(for id: Int64) -> Bool {
        count < Self.capacity && id - first <= Int64(UInt32.max)
    }

    /// Puts a name at the end, whose number is larger than all others.
    mutating func append(_ id: Int64, _ name: some Collection<UInt8>, _ measure: Measure) {
        distances.append(UInt32(id - first))
        measures.append(measure)
        text += name
        text.append(0)
        starts.append(UInt32(text.count))
        if !name.isEmpty { liveCount += 1 }
    }

    /// Gives back the memory that is kept for more names.
    mutating func trim() {
        (distances, starts, measures, text) = (
            distances.map(\.self), starts.map(\.self), measures.map(\.self), text.map(\.self)
        )
    }

    /// Gives an entry a name, or none when it is empty; one that the block does not have is put in its place.
    mutating func set(_ id: Int64, _ name: [UInt8], _ measure: Measure) {
        let slot = self.slot(of: id)
        let hasSlot = slot < count && self.id(slot) == id
        if !hasSlot, name.isEmpty { return }
        if hasSlot, name.count < range(slot).count {
            liveCount += (name.isEmpty ? 0 : 1) - (isLive(slot) ? 1 : 0)
            measures[slot] = measure
            let range = range(slot)
            for (place, index) in range.enumerated() { text[index] = place < name.count ? name[place] : 0 }
            return
        }
        // What is longer moves all behind it.
        var changed = NameBlock(first: min(first, id))
        for other in 0..<count where !(hasSlot && other == slot) && isLive(other) {
            if other >= slot, id < self.id(other), changed.lastID ?? .min < id { changed.append(id, name, measure) }
            changed.append(self.id(other), text[range(other)].prefix { $0 != 0 }, measures[other])
        }
        if changed.lastID ?? .min < id { changed.append(id, name, measure) }
        self = changed
    }

    /// Notes how long the path of an entry's folder is now.
    mutating func set(_ id: Int64, folder length: Int) {
        let slot = slot(of: id)
        if slot < count, self.id(slot) == id {
            measures[slot].folder = UInt16(clamping: length)
        }
    }

    private var lastID: Int64? { count > 0 ? id(count - 1) : nil }

    /// The first slot whose number is not smaller.
    private func slot(of id: Int64) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self.id(middle) < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
