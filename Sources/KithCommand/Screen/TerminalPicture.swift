import KithContent
import KithPixels

/// A screen's picture in the size of a terminal, and the way back for the mouse.
///
/// The picture keeps its proportions and is in the middle of its part of the terminal. A place on the terminal is counted in
/// points: those of the terminal's pixels that are drawn.
struct TerminalPicture {
    /// More points than these are not drawn: a terminal that scales does the rest.
    private static let pointLimit = 600_000

    /// The cells it has.
    let columns: Int
    let rows: Int
    /// The points of a cell.
    let cell: (width: Int, height: Int)
    private var transform: DisplayTransform

    /// A place for a picture of `size`; `cell` is the pixels of a cell, which are fewer where the terminal `scales`.
    init(_ size: PixelSize, columns: Int, rows: Int, cell: (width: Int, height: Int), scales: Bool) {
        var cell = cell
        while scales, columns * cell.width * rows * cell.height > Self.pointLimit, min(cell.width, cell.height) > 2 {
            cell = (cell.width / 2, cell.height / 2)
        }
        (self.columns, self.rows, self.cell) = (columns, rows, cell)
        transform = DisplayTransform(
            picture: size,
            layout: ViewLayout(width: Double(columns * cell.width), height: Double(rows * cell.height)))
    }

    /// The pixel in the middle of a cell; `nil` beside the picture.
    func pixel(column: Int, row: Int) -> (x: Int, y: Int)? { transform.pixel(at: middle(column, row)) }

    /// The pixel nearest to a cell, for a drag that leaves the picture.
    func nearestPixel(column: Int, row: Int) -> (x: Int, y: Int)? { transform.nearestPixel(to: middle(column, row)) }

    private func middle(_ column: Int, _ row: Int) -> ViewPoint {
        ViewPoint(
            x: (Double(column) + 0.5) * Double(cell.width), y: (Double(row) + 0.5) * Double(cell.height))
    }

    /// The picture with black bars beside it: each point the mean of the pixels that it covers.
    func draw(_ picture: borrowing PixelView) -> Picture {
        let (width, height) = (columns * cell.width, rows * cell.height)
        var points = [UInt8](repeating: 0, count: width * height * 3)
        let scale = transform.scale
        if scale > 0, picture.size == transform.picture {
            /// The pixels that the points of one direction cover.
            func ranges(_ count: Int, _ origin: Double, _ length: Int) -> [Range<Int>?] {
                (0..<count).map { point in
                    let start = (Double(point) - origin) / scale
                    guard start > -1 / scale / 2, Int(start.rounded(.down)) < length else { return nil }
                    let first = max(0, Int(start.rounded(.down)))
                    return first..<min(length, max(first + 1, Int((start + 1 / scale).rounded(.down))))
                }
            }
            let columns = ranges(width, transform.origin.x, picture.size.width)
            let rows = ranges(height, transform.origin.y, picture.size.height)
            var sums = [(red: UInt32, green: UInt32, blue: UInt32)](repeating: (0, 0, 0), count: width)
            for (y, range) in rows.enumerated() {
                guard let range, !range.isEmpty else { continue }
                for x in sums.indices { sums[x] = (0, 0, 0) }
                for line in range {
                    unsafe picture.withRow(line, 0..<picture.size.width) { pixels in
                        for (x, columns) in columns.enumerated() {
                            guard let columns else { continue }
                            for column in columns {
                                let pixel = unsafe pixels[column]
                                sums[x].red += pixel >> 16 & 0xFF
                                sums[x].green += pixel >> 8 & 0xFF
                                sums[x].blue += pixel & 0xFF
                            }
                        }
                    }
                }
                for (x, columns) in columns.enumerated() {
                    guard let columns, !columns.isEmpty else { continue }
                    let (count, place) = (UInt32(columns.count * range.count), (y * width + x) * 3)
                    points[place] = UInt8(truncatingIfNeeded: sums[x].red / count)
                    points[place + 1] = UInt8(truncatingIfNeeded: sums[x].green / count)
                    points[place + 2] = UInt8(truncatingIfNeeded: sums[x].blue / count)
                }
            }
        }
        return Picture(width: width, height: height, pixels: points)
    }
}
