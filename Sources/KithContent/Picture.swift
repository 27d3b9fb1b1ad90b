/// An image in memory: rows of red, green and blue.
package struct Picture: Hashable, Sendable {
    package let width: Int
    package let height: Int
    /// Three bytes a pixel.
    package let pixels: [UInt8]

    /// - Precondition: three bytes for each pixel.
    package init(width: Int, height: Int, pixels: [UInt8]) {
        precondition(width > 0 && height > 0 && pixels.count == width * height * 3, "three bytes for each pixel")
        (self.width, self.height, self.pixels) = (width, height, pixels)
    }

    /// The picture in a smaller size: each pixel the mean of those it stands for.
    package func scaled(width newWidth: Int, height newHeight: Int) -> Picture {
        let newWidth = min(max(newWidth, 1), width)
        let newHeight = min(max(newHeight, 1), height)
        var result: [UInt8] = []
        result.reserveCapacity(newWidth * newHeight * 3)
        for row in 0..<newHeight {
            let rows = row * height / newHeight..<max((row + 1) * height / newHeight, row * height / newHeight + 1)
            for column in 0..<newWidth {
                let first = column * width / newWidth
                let columns = first..<max((column + 1) * width / newWidth, first + 1)
                var sums = (0, 0, 0)
                for y in rows {
                    for x in columns {
                        let index = (y * width + x) * 3
                        sums.0 += Int(pixels[index])
                        sums.1 += Int(pixels[index + 1])
                        sums.2 += Int(pixels[index + 2])
                    }
                }
                let count = rows.count * columns.count
                result += [UInt8(sums.0 / count), UInt8(sums.1 / count), UInt8(sums.2 / count)]
            }
        }
        return Picture(width: newWidth, height: newHeight, pixels: result)
    }

    /// The picture as large as fits a part of a terminal where a cell is twice as high as wide; never enlarged.
    package func fitted(columns: Int, rows: Int) -> Picture {
        let scale = min(1, Double(columns) / Double(width), Double(rows * 2) / Double(height))
        return scaled(width: Int(Double(width) * scale), height: Int(Double(height) * scale))
    }
}
