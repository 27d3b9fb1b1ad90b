/// The 256 colours that encoder and decoder of a stream both know by index, as the encoder keeps them.
///
/// A colour keeps its index for as long as it is in use, so that the same letter becomes the same bytes each time.
struct Palette {
    /// The most colours a rectangle may bring.
    static let newColourLimit = 96

    private static let unknown: UInt16 = 0xFFFF
    private static let slots = 1 << 13
    private var colours: [UInt32] = Array(repeating: 0, count: 256)
    /// By a colour's hash its index; a colour that lost its slot to another counts as unknown.
    private var indexOf: [UInt16] = Array(repeating: unknown, count: slots)
    private var usedBy: [UInt32] = Array(repeating: 0, count: 256)
    private var rectangle: UInt32 = 0
    private var hand = 0
    private var changes: [(index: Int, colour: UInt32, slot: Int, before: UInt16)] = []

    /// What a rectangle becomes.
    struct Indexed {
        /// Indices and colours that the other end has to be told first.
        var added: [(index: UInt8, colour: UInt32)] = []
        /// The number of runs of one colour in the rows.
        var runs = 0
    }

    /// Gives each pixel of a rectangle its index, row by row, into `indices`; `nil` when it has too many colours, and
    /// then nothing changes.
    mutating func index(_ rectangle: PixelRectangle, of rows: PixelRows, into indices: inout [UInt8]) -> Indexed? {
        self.rectangle &+= 1
        changes.removeAll(keepingCapacity: true)
        var result = Indexed()
        let limit = min(Self.newColourLimit, 4 + rectangle.area / 8)
        let runLimit = 64 + rectangle.area / 3 * 2
        if indices.count < rectangle.area { indices = Array(repeating: 0, count: rectangle.area) }
        let isDone = unsafe indices.withUnsafeMutableBufferPointer { target in
            var position = 0
            var (last, lastIndex) = (UInt32.max, UInt8(0))
            for y in rectangle.rows {
                let row = unsafe rows.row(y, rectangle.x)
                for x in 0..<rectangle.width {
                    let colour = unsafe row[x] & ~PixelBuffer.opaque
                    if colour != last {
                        guard let index = index(of: colour, limit: limit) else { return false }
                        (last, lastIndex) = (colour, index)
                        result.runs += 1
                    }
                    unsafe target[position] = lastIndex
                    position += 1
                }
                // Where nearly each pixel has another colour than its neighbour, a palette is the wrong way to say it.
                if result.runs > runLimit { return false }
            }
            return true
        }
        guard isDone else {
            undo()
            return nil
        }
        result.added = changes.map { (UInt8($0.index), colours[$0.index]) }
        return result
    }

    @inline(__always) private mutating func index(of colour: UInt32, limit: Int) -> UInt8? {
        let slot = Int((colour &* 0x9E37_79B1) >> 19)
        let known = indexOf[slot]
        if known != Self.unknown, colours[Int(known)] == colour {
            usedBy[Int(known)] = rectangle
            return UInt8(known)
        }
        return add(colour, slot: slot, limit: limit)
    }

    private mutating func add(_ colour: UInt32, slot: Int, limit: Int) -> UInt8? {
        guard changes.count < limit else { return nil }
        for _ in 0..<256 {
            hand = (hand + 1) & 255
            if usedBy[hand] == rectangle { continue }
            changes.append((hand, colours[hand], slot, indexOf[slot]))
            colours[hand] = colour
            indexOf[slot] = UInt16(hand)
            usedBy[hand] = rectangle
            return UInt8(hand)
        }
        return nil
    }

    private mutating func undo() {
        for change in changes.reversed() {
            colours[change.index] = change.colour
            indexOf[change.slot] = change.before
        }
    }
}
