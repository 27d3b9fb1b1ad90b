/// The parts of a screen that changed, by tiles of 64 × 64 pixels: for each tile the smallest rectangle around its
/// changes.
struct TileDifference {
    /// The length of a tile's sides, in pixels.
    static let side = 64
    static let tileArea = side * side

    let size: PixelSize
    let columns: Int
    let rows: Int
    /// By rows of tiles; ``PixelRectangle/empty`` for a tile without change.
    private(set) var changes: [PixelRectangle]

    init(size: PixelSize) {
        self.size = size
        columns = (size.width + Self.side - 1) / Self.side
        rows = (size.height + Self.side - 1) / Self.side
        changes = Array(repeating: .empty, count: columns * rows)
    }

    /// The pixels of a tile; at the right and lower edge it may be smaller than others.
    func bounds(_ tile: Int) -> PixelRectangle {
        PixelRectangle(
            x: tile % columns * Self.side, y: tile / columns * Self.side, width: Self.side, height: Self.side
        ).intersection(size.bounds)
    }

    /// The tiles that have pixels of a rectangle, which lies in the picture.
    func tiles(in rectangle: PixelRectangle) -> (columns: Range<Int>, rows: Range<Int>) {
        guard !rectangle.isEmpty else { return (0..<0, 0..<0) }
        return (
            rectangle.x / Self.side..<(rectangle.maxX - 1) / Self.side + 1,
            rectangle.y / Self.side..<(rectangle.maxY - 1) / Self.side + 1
        )
    }

    /// Replaces what is known about a tile.
    mutating func set(_ tile: Int, to rectangle: PixelRectangle) { changes[tile] = rectangle }

    /// Compares the pixels of a region, which lies in both pictures, and adds what differs.
    mutating func compare(_ now: PixelRows, with shown: PixelRows, in region: PixelRegion) {
        for rectangle in region.rectangles {
            let touched = tiles(in: rectangle)
            for row in touched.rows {
                let band = PixelRectangle(
                    x: rectangle.x, y: row * Self.side, width: rectangle.width, height: Self.side
                ).intersection(rectangle)
                for column in changedColumns(now, shown, in: band, touched.columns) {
                    let tile = row * columns + column
                    let change = Self.change(now, shown, in: bounds(tile).intersection(rectangle))
                    changes[tile] = changes[tile].union(change)
                }
            }
        }
    }

    /// The columns of tiles that differ in a band of at most one tile's height.
    ///
    /// Row by row through memory, not tile by tile: that is six times as fast.
    private func changedColumns(
        _ now: PixelRows, _ shown: PixelRows, in band: PixelRectangle, _ touched: Range<Int>
    ) -> [Int] {
        var changed: [Int] = []
        var open = Array(touched)
        for y in band.rows where !open.isEmpty {
            let (new, old) = unsafe (now.row(y), shown.row(y))
            var isAnyChanged = false
            for index in open.indices {
                let start = max(band.x, open[index] * Self.side)
                let end = min(band.maxX, (open[index] + 1) * Self.side)
                if unsafe !PixelKernels.isEqual(new + start, old + start, count: end - start) {
                    changed.append(open[index])
                    open[index] = -1
                    isAnyChanged = true
                }
            }
            if isAnyChanged { open.removeAll { $0 < 0 } }
        }
        return changed
    }

    /// Compares again all of the tiles that have pixels of a rectangle, which a copy may have made right or spoilt.
    mutating func compareAgain(_ now: PixelRows, with shown: PixelRows, in rectangle: PixelRectangle) {
        let touched = tiles(in: rectangle)
        var around = PixelRectangle.empty
        for row in touched.rows {
            for column in touched.columns {
                changes[row * columns + column] = .empty
                around = around.union(bounds(row * columns + column))
            }
        }
        compare(now, with: shown, in: PixelRegion(around))
    }

    /// The smallest rectangle around what differs in `part`.
    static func change(_ now: PixelRows, _ shown: PixelRows, in part: PixelRectangle) -> PixelRectangle {
        let (x, width) = (part.x, part.width)
        guard
            let top = part.rows.first(where: {
                unsafe !PixelKernels.isEqual(now.row($0, x), shown.row($0, x), count: width)
            }),
            let bottom = part.rows.last(where: {
                unsafe !PixelKernels.isEqual(now.row($0, x), shown.row($0, x), count: width)
            })
        else { return .empty }
        var (left, right) = (width, 0)
        for y in top...bottom {
            let (new, old) = unsafe (now.row(y, x), shown.row(y, x))
            unsafe left = min(left, PixelKernels.firstDifference(new, old, count: left))
            unsafe right = PixelKernels.lastDifference(new, old, from: right, count: width)
        }
        return PixelRectangle(columns: x + left..<x + right, rows: top..<bottom + 1)
    }

    /// The changed tiles as groups of neighbours, each with the smallest rectangle around its changes.
    func groups() -> [(tiles: Int, around: PixelRectangle)] {
        var isSeen = changes.map(\.isEmpty)
        var groups: [(tiles: Int, around: PixelRectangle)] = []
        for start in changes.indices where !isSeen[start] {
            isSeen[start] = true
            var (open, count, around) = ([start], 0, PixelRectangle.empty)
            while let tile = open.popLast() {
                count += 1
                around = around.union(changes[tile])
                let column = tile % columns
                for next in [
                    column > 0 ? tile - 1 : -1, column + 1 < columns ? tile + 1 : -1, tile - columns, tile + columns,
                ]
                where changes.indices.contains(next) && !isSeen[next] {
                    isSeen[next] = true
                    open.append(next)
                }
            }
            groups.append((count, around))
        }
        return groups
    }

    /// The changes as few rectangles of at most `limit` pixels and one tile's height: neighbours in a row are joined.
    func rectangles(limit: Int) -> [PixelRectangle] {
        var result: [PixelRectangle] = []
        for row in 0..<rows {
            var run = PixelRectangle.empty
            var last = -2
            for column in 0..<columns where !changes[row * columns + column].isEmpty {
                let change = changes[row * columns + column]
                let joined = run.union(change)
                if last == column - 1, joined.area <= limit {
                    run = joined
                } else {
                    if !run.isEmpty { result.append(run) }
                    run = change
                }
                last = column
            }
            if !run.isEmpty { result.append(run) }
        }
        return Self.joinedDownwards(result, limit: limit)
    }

    /// Joins rectangles that continue one above them, as long as no more than a tile's height comes of it.
    private static func joinedDownwards(_ rectangles: [PixelRectangle], limit: Int) -> [PixelRectangle] {
        var result: [PixelRectangle] = []
        for rectangle in rectangles {
            if let above = result.lastIndex(where: {
                $0.maxY == rectangle.y && abs($0.x - rectangle.x) <= 8 && abs($0.maxX - rectangle.maxX) <= 8
            }) {
                let joined = result[above].union(rectangle)
                if joined.height <= side, joined.area <= limit {
                    result[above] = joined
                    continue
                }
            }
            result.append(rectangle)
        }
        return result
    }
}
