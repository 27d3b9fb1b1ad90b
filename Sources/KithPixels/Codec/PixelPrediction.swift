/// Pixels of many colours as bytes that compress: three planes, each byte the difference from the one on its left.
///
/// Red and blue are said as their difference from green, which they follow in photographs.
enum PixelPrediction {
    /// Appends three bytes for each pixel of a rectangle.
    static func append(_ rectangle: PixelRectangle, of rows: PixelRows, to output: inout [UInt8]) {
        let area = rectangle.area
        let start = output.count
        output.append(contentsOf: repeatElement(0, count: 3 * area))
        unsafe output.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            var green = unsafe base + start
            var (red, blue) = unsafe (green + area, green + 2 * area)
            for y in rectangle.rows {
                let row = unsafe rows.row(y, rectangle.x)
                var left: (UInt8, UInt8, UInt8) = (0, 0, 0)
                for x in 0..<rectangle.width {
                    let pixel = unsafe row[x]
                    let g = UInt8(truncatingIfNeeded: pixel >> 8)
                    let r = UInt8(truncatingIfNeeded: pixel >> 16) &- g
                    let b = UInt8(truncatingIfNeeded: pixel) &- g
                    unsafe green[x] = g &- left.0
                    unsafe red[x] = r &- left.1
                    unsafe blue[x] = b &- left.2
                    left = (g, r, b)
                }
                unsafe green += rectangle.width
                unsafe red += rectangle.width
                unsafe blue += rectangle.width
            }
        }
    }

    /// Writes a rectangle's pixels from three bytes for each, which `bytes` has.
    static func restore(_ bytes: UnsafeMutableRawBufferPointer, to rectangle: PixelRectangle, of rows: PixelRows) {
        let area = rectangle.area
        precondition(bytes.count >= 3 * area, "three bytes for each pixel")
        var position = 0
        for y in rectangle.rows {
            let row = unsafe rows.row(y, rectangle.x)
            var (g, r, b): (UInt8, UInt8, UInt8) = (0, 0, 0)
            for x in 0..<rectangle.width {
                unsafe g &+= bytes[position]
                unsafe r &+= bytes[position + area]
                unsafe b &+= bytes[position + 2 * area]
                unsafe row[x] =
                    PixelBuffer.opaque | UInt32(r &+ g) << 16 | UInt32(g) << 8 | UInt32(b &+ g)
                position += 1
            }
        }
    }
}
