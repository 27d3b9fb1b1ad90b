/// Finds out that a part of the screen moved along one axis: what a viewer has already need not be sent again.
///
/// The part is cut into strips along the axis. Each line of a strip is hashed, in the picture now and in the one shown;
/// lines that stand once in either vote for a distance. For the distance with the most votes each strip says which run
/// of its lines moved, and neighbours that agree are joined: a scroll bar or a line number beside the text, which does
/// not move with it, costs its own strip only. Hashes only propose; every pixel is compared before a copy is returned.
struct ScrollDetector {
    /// A rectangle that has moved to where it is now.
    struct Copy: Hashable {
        /// Its pixels in the picture shown.
        var source: PixelRectangle
        /// The first pixel of its place in the picture now.
        var x: Int
        var y: Int

        /// Its place in the picture now.
        var target: PixelRectangle { source.moved(x: x - source.x, y: y - source.y) }
    }

    enum Axis { case vertical, horizontal }

    /// The fewest lines that have to agree.
    static let fewestLines = 12

    private let now: PixelRows
    private let shown: PixelRows
    private let part: PixelRectangle
    private let axis: Axis
    /// Lines of one strip.
    private let length: Int
    private let strips: Int
    private var newHashes: [UInt32]
    private var oldHashes: [UInt32]

    /// The copies that bring pixels of `part` to their place; no two have a pixel in common.
    ///
    /// All are verified.
    static func copies(_ now: PixelRows, shown: PixelRows, in part: PixelRectangle) -> [Copy] {
        guard part.width >= 16, part.height >= 16 else { return [] }
        let vertical = ScrollDetector(now, shown, part, .vertical).copies()
        return vertical.isEmpty ? ScrollDetector(now, shown, part, .horizontal).copies() : vertical
    }

    private init(_ now: PixelRows, _ shown: PixelRows, _ part: PixelRectangle, _ axis: Axis) {
        self.now = now
        self.shown = shown
        self.part = part
        self.axis = axis
        let across = axis == .vertical ? part.width : part.height
        length = axis == .vertical ? part.height : part.width
        strips = (across + TileDifference.side - 1) / TileDifference.side
        newHashes = Array(repeating: 0, count: strips * length)
        oldHashes = newHashes
        hash(now, into: &newHashes)
        hash(shown, into: &oldHashes)
    }

    /// The extent of strips across the axis, from the part's edge.
    private func extent(_ strips: Range<Int>) -> Range<Int> {
        let across = axis == .vertical ? part.width : part.height
        return strips.lowerBound * TileDifference.side..<min(across, strips.upperBound * TileDifference.side)
    }

    /// Goes row by row through memory, not strip by strip, which would take several times as long.
    private func hash(_ rows: PixelRows, into hashes: inout [UInt32]) {
        let extents = (0..<strips).map { extent($0..<$0 + 1) }
        unsafe hashes.withUnsafeMutableBufferPointer { buffer in
            guard let target = buffer.baseAddress else { return }
            switch axis {
            case .vertical:
                for line in 0..<length {
                    let row = unsafe rows.row(part.y + line, part.x)
                    for strip in 0..<strips {
                        unsafe target[strip * length + line] = PixelKernels.hash(
                            row + extents[strip].lowerBound, count: extents[strip].count)
                    }
                }
            case .horizontal:
                for strip in 0..<strips {
                    for y in extents[strip] {
                        unsafe PixelKernels.hashColumns(
                            rows.row(part.y + y, part.x), count: length, into: target + strip * length)
                    }
                }
            }
        }
    }

    private func copies() -> [Copy] {
        guard let distance = distance() else { return [] }
        var result: [Copy] = []
        var group: (strips: Range<Int>, lines: Range<Int>)?
        for strip in 0..<strips {
            let lines = movedLines(strip, by: distance)
            if let open = group {
                let common = lines.clamped(to: open.lines)
                if common.count >= Self.fewestLines, common.count * 4 >= open.lines.count * 3 {
                    group = (open.strips.lowerBound..<strip + 1, common)
                    continue
                }
                result += copy(open, by: distance)
            }
            group = lines.count >= Self.fewestLines ? (strip..<strip + 1, lines) : nil
        }
        if let group { result += copy(group, by: distance) }
        return widened(result, by: distance)
    }

    /// The distance that the most lines moved by; at least four lines agree about it.
    private func distance() -> Int? {
        var votes = Array(repeating: Int32(0), count: 2 * length)
        var index = LineIndex(lines: length)
        let step = max(1, strips / 8)
        for strip in stride(from: 0, to: strips, by: step) {
            let new = newHashes[strip * length..<(strip + 1) * length]
            let old = oldHashes[strip * length..<(strip + 1) * length]
            index.reset()
            for (line, hash) in old.enumerated() { index.insert(hash, line: line) }
            for (line, hash) in new.enumerated() where hash != old[old.startIndex + line] {
                if let origin = index.line(of: hash) { votes[line - origin + length] += 1 }
            }
        }
        guard let most = votes.indices.max(by: { votes[$0] < votes[$1] }), votes[most] >= 4, most != length else {
            return nil
        }
        return most - length
    }

    /// The longest run of a strip's lines that stood `distance` lines before.
    private func movedLines(_ strip: Int, by distance: Int) -> Range<Int> {
        var best = 0..<0
        var start: Int?
        let lines = max(0, distance)..<length + min(0, distance)
        for line in lines {
            if newHashes[strip * length + line] == oldHashes[strip * length + line - distance] {
                if start == nil { start = line }
                if let start, line + 1 - start > best.count { best = start..<line + 1 }
            } else {
                start = nil
            }
        }
        return best
    }

    private func copy(_ group: (strips: Range<Int>, lines: Range<Int>), by distance: Int) -> [Copy] {
        let across = extent(group.strips)
        let target =
            axis == .vertical
            ? PixelRectangle(columns: across, rows: group.lines) : PixelRectangle(columns: group.lines, rows: across)
        return verified(target.moved(x: part.x, y: part.y), by: distance).map { [$0] } ?? []
    }

    private func verified(_ target: PixelRectangle, by distance: Int) -> Copy? {
        let source = target.moved(x: axis == .horizontal ? -distance : 0, y: axis == .vertical ? -distance : 0)
        guard part.contains(target), part.contains(source) else { return nil }
        for line in 0..<target.height {
            let (new, old) = unsafe (now.row(target.y + line, target.x), shown.row(source.y + line, source.x))
            guard unsafe PixelKernels.isEqual(new, old, count: target.width) else { return nil }
        }
        return Copy(source: source, x: target.x, y: target.y)
    }

    /// Takes in what moved beside a copy in strips that did not move as a whole, eight pixels at a time.
    private func widened(_ copies: [Copy], by distance: Int) -> [Copy] {
        var result = copies
        for index in result.indices {
            for side in [-8, 8] {
                while true {
                    let target = result[index].target
                    let more =
                        switch (axis, side < 0) {
                        case (.vertical, true): PixelRectangle(columns: target.x - 8..<target.x, rows: target.rows)
                        case (.vertical, false):
                            PixelRectangle(columns: target.maxX..<target.maxX + 8, rows: target.rows)
                        case (.horizontal, true): PixelRectangle(columns: target.columns, rows: target.y - 8..<target.y)
                        case (.horizontal, false):
                            PixelRectangle(columns: target.columns, rows: target.maxY..<target.maxY + 8)
                        }
                    guard verified(more, by: distance) != nil,
                        !result.contains(where: {
                            $0.target.intersects(more) || $0.source.intersects(more) && $0 != result[index]
                        })
                    else { break }
                    let whole = target.union(more)
                    let offset = (
                        x: result[index].x - result[index].source.x, y: result[index].y - result[index].source.y
                    )
                    result[index] = Copy(source: whole.moved(x: -offset.x, y: -offset.y), x: whole.x, y: whole.y)
                }
            }
        }
        return result
    }
}

/// Where a hash stands among the lines of a strip, if it stands there once.
private struct LineIndex {
    private static let none = UInt32.max
    private static let several = UInt32.max - 1
    private var hashes: [UInt32]
    private var lines: [UInt32]
    private let mask: Int

    init(lines count: Int) {
        var capacity = 16
        while capacity < count * 2 { capacity *= 2 }
        hashes = Array(repeating: 0, count: capacity)
        lines = Array(repeating: Self.none, count: capacity)
        mask = capacity - 1
    }

    mutating func reset() {
        for index in lines.indices { lines[index] = Self.none }
    }

    mutating func insert(_ hash: UInt32, line: Int) {
        let slot = slot(hash)
        lines[slot] = lines[slot] == Self.none ? UInt32(line) : Self.several
        hashes[slot] = hash
    }

    func line(of hash: UInt32) -> Int? {
        let line = lines[slot(hash)]
        return line < Self.several ? Int(line) : nil
    }

    /// The slot that has the hash, or the one it would get.
    ///
    /// Half of the slots are free, so that there is one.
    private func slot(_ hash: UInt32) -> Int {
        var slot = Int(hash) & mask
        while lines[slot] != Self.none, hashes[slot] != hash { slot = (slot + 1) & mask }
        return slot
    }
}
