package import KithContent
package import KithTerminal

/// A picture, and the cells it takes on a terminal that shows pictures.
package struct PlacedPicture: Hashable, Sendable {
    package var picture: Picture
    package var column: Int
    package var row: Int
    package var columns: Int
    package var rows: Int

    /// Puts a picture into the middle of some cells, as large as fits them.
    init(_ picture: Picture, in columns: Range<Int>, _ rows: Range<Int>, cellAspect: Double) {
        self.picture = picture
        let scale = min(
            Double(columns.count) / Double(picture.width), Double(rows.count) * cellAspect / Double(picture.height))
        self.columns = min(max(Int(Double(picture.width) * scale), 1), columns.count)
        self.rows = min(max(Int(Double(picture.height) * scale / cellAspect), 1), rows.count)
        column = columns.lowerBound + (columns.count - self.columns) / 2
        row = rows.lowerBound + (rows.count - self.rows) / 2
    }
}

extension Picture {
    /// Draws it: each cell is an upper and a lower pixel.
    package func draw(on canvas: inout Canvas, column: Int, row: Int) {
        func color(_ x: Int, _ y: Int) -> Color {
            guard y < height else { return .standard }
            let index = (y * width + x) * 3
            return .rgb(pixels[index], pixels[index + 1], pixels[index + 2])
        }
        for y in stride(from: 0, to: height, by: 2) {
            for x in 0..<width {
                canvas.write(
                    "▀", column: column + x, row: row + y / 2, TextStyle(color(x, y), on: color(x, y + 1)))
            }
        }
    }
}
