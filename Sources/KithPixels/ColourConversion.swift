/// Conversion between a screen's pixels and the planes that video codecs take (BT.709, limited range; ITU-R BT.709-6 §3).
///
/// Factors are in 1/256; each chroma value is that of the mean of its four pixels. There and back, a picture whose colour is
/// the same in each such square differs by at most 4 in any channel.
package enum ColourConversion {
    /// Writes a picture's pixels into planes of the same size.
    package static func convert(_ picture: borrowing PixelView, into planes: inout PlanarBuffer) {
        precondition(picture.size == planes.size, "planes of the picture's size")
        convert(picture, picture.size.bounds, into: &planes, at: (0, 0))
    }

    /// Writes the pixels of a part of a picture into planes, at a place with even coordinates; both have all of it.
    package static func convert(
        _ picture: borrowing PixelView, _ part: PixelRectangle, into planes: inout PlanarBuffer,
        at place: (x: Int, y: Int)
    ) {
        let target = part.moved(x: place.x - part.x, y: place.y - part.y)
        precondition(picture.size.bounds.contains(part) && planes.size.bounds.contains(target), "pixels of both")
        precondition(place.x % 2 == 0 && place.y % 2 == 0, "a place that has chroma of its own")
        let rows = picture.rows
        let (width, chromaWidth) = (planes.size.width, planes.chromaSize.width)
        for y in 0..<part.height {
            unsafe luma(
                rows.row(part.y + y, part.x), into: planes.luma + (place.y + y) * width + place.x, count: part.width)
        }
        for y in 0..<(part.height + 1) / 2 {
            let second = min(part.y + 2 * y + 1, part.maxY - 1)
            let start = (place.y / 2 + y) * chromaWidth + place.x / 2
            unsafe chroma(
                rows.row(part.y + 2 * y, part.x), rows.row(second, part.x), count: part.width,
                blue: planes.blue + start, red: planes.red + start)
        }
    }

    /// Sixteen-bit lanes of eight pixels: green and blue in the even ones, alpha and red in the odd ones.
    private static let redAndBlue = SIMD16<UInt16>(16, 47, 16, 47, 16, 47, 16, 47, 16, 47, 16, 47, 16, 47, 16, 47)
    private static let green = SIMD16<UInt16>(157, 0, 157, 0, 157, 0, 157, 0, 157, 0, 157, 0, 157, 0, 157, 0)

    private static func luma(_ row: UnsafePointer<UInt32>, into target: UnsafeMutablePointer<UInt8>, count: Int) {
        let low = SIMD16<UInt16>(repeating: 0xFF)
        let half = SIMD8<UInt32>(repeating: 0xFFFF)
        let offset = SIMD8<UInt32>(repeating: 16 * 256 + 128)
        let (redAndBlue, green) = (redAndBlue, green)
        var x = 0
        while x + 8 <= count {
            let pixels = unsafe UnsafeRawPointer(row + x).loadUnaligned(as: SIMD16<UInt16>.self)
            // 220 · 255 at the most: sixteen bits hold the sum of three.
            let parts = (pixels & low) &* redAndBlue &+ (pixels &>> 8) &* green
            let pairs = unsafe unsafeBitCast(parts, to: SIMD8<UInt32>.self)
            let sums = ((pairs & half) &+ (pairs &>> 16) &+ offset) &>> 8
            unsafe UnsafeMutableRawPointer(target + x).storeBytes(
                of: SIMD8<UInt8>(truncatingIfNeeded: sums), as: SIMD8<UInt8>.self)
            x += 8
        }
        while x < count {
            let pixel = unsafe row[x]
            let sum = 47 * (pixel >> 16 & 255) + 157 * (pixel >> 8 & 255) + 16 * (pixel & 255)
            unsafe target[x] = UInt8((sum + 16 * 256 + 128) >> 8)
            x += 1
        }
    }

    private static func chroma(
        _ first: UnsafePointer<UInt32>, _ second: UnsafePointer<UInt32>, count: Int, blue: UnsafeMutablePointer<UInt8>,
        red: UnsafeMutablePointer<UInt8>
    ) {
        let (mask, low) = (SIMD8<UInt32>(repeating: 0x00FF_00FF), SIMD4<UInt32>(repeating: 0xFFFF))
        var x = 0
        while 2 * x + 8 <= count {
            let above = unsafe UnsafeRawPointer(first + 2 * x).loadUnaligned(as: SIMD8<UInt32>.self)
            let below = unsafe UnsafeRawPointer(second + 2 * x).loadUnaligned(as: SIMD8<UInt32>.self)
            // Red in the upper half of a lane, blue in the lower; alpha above green, which is not looked at.
            let columns = (above & mask) &+ (below & mask)
            let greens = (above &>> 8 & mask) &+ (below &>> 8 & mask)
            let both = columns.evenHalf &+ columns.oddHalf
            let green = (greens.evenHalf &+ greens.oddHalf) & low
            let (cb, cr) = difference(
                red: SIMD4<Int32>(truncatingIfNeeded: both &>> 16), green: SIMD4<Int32>(truncatingIfNeeded: green),
                blue: SIMD4<Int32>(truncatingIfNeeded: both & low))
            unsafe UnsafeMutableRawPointer(blue + x).storeBytes(of: cb, as: SIMD4<UInt8>.self)
            unsafe UnsafeMutableRawPointer(red + x).storeBytes(of: cr, as: SIMD4<UInt8>.self)
            x += 4
        }
        while 2 * x < count {
            let left = 2 * x
            let right = min(left + 1, count - 1)
            let four = unsafe SIMD4<UInt32>(first[left], first[right], second[left], second[right])
            let byte = SIMD4<UInt32>(repeating: 0xFF)
            let (cb, cr) = difference(
                red: SIMD4(repeating: Int32((four &>> 16 & byte).wrappedSum())),
                green: SIMD4(repeating: Int32((four &>> 8 & byte).wrappedSum())),
                blue: SIMD4(repeating: Int32((four & byte).wrappedSum())))
            unsafe blue[x] = cb[0]
            unsafe red[x] = cr[0]
            x += 1
        }
    }

    /// Blue and red difference of the sums of four pixels.
    @inline(__always) private static func difference(
        red: SIMD4<Int32>, green: SIMD4<Int32>, blue: SIMD4<Int32>
    ) -> (blue: SIMD4<UInt8>, red: SIMD4<UInt8>) {
        let middle = SIMD4<Int32>(repeating: (128 << 10) + 512)
        let cb = blue &* 112 &- green &* 86 &- red &* 26 &+ middle
        let cr = red &* 112 &- green &* 102 &- blue &* 10 &+ middle
        return (SIMD4<UInt8>(truncatingIfNeeded: cb &>> 10), SIMD4<UInt8>(truncatingIfNeeded: cr &>> 10))
    }

    /// Writes planes into the pixels of a picture of the same size, opaque.
    package static func convert(_ planes: borrowing PlanarBuffer, into picture: inout PixelBuffer) {
        precondition(picture.size == planes.size, "a picture of the planes' size")
        convert(planes, planes.size.bounds, into: &picture, at: (0, 0))
    }

    /// Writes a part of planes, which begins at even coordinates, into a picture, opaque; both have all of it.
    package static func convert(
        _ planes: borrowing PlanarBuffer, _ part: PixelRectangle, into picture: inout PixelBuffer,
        at place: (x: Int, y: Int)
    ) {
        let target = part.moved(x: place.x - part.x, y: place.y - part.y)
        precondition(planes.size.bounds.contains(part) && picture.size.bounds.contains(target), "pixels of both")
        precondition(part.x % 2 == 0 && part.y % 2 == 0, "a part that has chroma of its own")
        let (width, chromaWidth) = (planes.size.width, planes.chromaSize.width)
        let rows = picture.rows
        for y in 0..<part.height {
            let chroma = (part.y + y) / 2 * chromaWidth + part.x / 2
            unsafe pixels(
                planes.luma + (part.y + y) * width + part.x, blue: planes.blue + chroma, red: planes.red + chroma,
                into: rows.row(place.y + y, place.x), count: part.width)
        }
    }

    private static func pixels(
        _ luma: UnsafePointer<UInt8>, blue: UnsafePointer<UInt8>, red: UnsafePointer<UInt8>,
        into target: UnsafeMutablePointer<UInt32>, count: Int
    ) {
        var x = 0
        while x + 8 <= count {
            let bytes = unsafe UnsafeRawPointer(luma + x).loadUnaligned(as: SIMD8<UInt8>.self)
            let cb = unsafe UnsafeRawPointer(blue + x / 2).loadUnaligned(as: SIMD4<UInt8>.self)
            let cr = unsafe UnsafeRawPointer(red + x / 2).loadUnaligned(as: SIMD4<UInt8>.self)
            unsafe UnsafeMutableRawPointer(target + x).storeBytes(of: eight(bytes, cb, cr), as: SIMD8<UInt32>.self)
            x += 8
        }
        guard x < count else { return }
        // The rest as if it were eight.
        var (bytes, cb, cr) = (SIMD8<UInt8>(), SIMD4<UInt8>(), SIMD4<UInt8>())
        for index in x..<count {
            unsafe bytes[index - x] = luma[index]
            unsafe cb[(index - x) / 2] = blue[index / 2]
            unsafe cr[(index - x) / 2] = red[index / 2]
        }
        let pixels = eight(bytes, cb, cr)
        for index in x..<count { unsafe target[index] = pixels[index - x] }
    }

    /// Eight pixels; two have their chroma in common.
    ///
    /// Factors in 1/65,536: 1.16438, 1.79274, 0.21325, 0.53291, 2.11240.
    @inline(__always) private static func eight(
        _ luma: SIMD8<UInt8>, _ blue: SIMD4<UInt8>, _ red: SIMD4<UInt8>
    ) -> SIMD8<UInt32> {
        let y = (SIMD8<Int32>(truncatingIfNeeded: luma) &- 16) &* 76_309 &+ 32_768
        let cb = SIMD4<Int32>(truncatingIfNeeded: blue) &- 128
        let cr = SIMD4<Int32>(truncatingIfNeeded: red) &- 128
        let r = channel(y, cr &* 117_489)
        let g = channel(y, SIMD4<Int32>() &- cb &* 13_975 &- cr &* 34_925)
        let b = channel(y, cb &* 138_438)
        let pixel = r &<< 16 | g &<< 8 | b
        return unsafe unsafeBitCast(pixel, to: SIMD8<UInt32>.self) | PixelBuffer.opaque
    }

    @inline(__always) private static func channel(_ luma: SIMD8<Int32>, _ chroma: SIMD4<Int32>) -> SIMD8<Int32> {
        var both = SIMD8<Int32>()
        both.evenHalf = chroma
        both.oddHalf = chroma
        let value = (luma &+ both) &>> 16
        // Kept within 0…255 by signs: comparisons of vectors this wide are not lowered to instructions, and take
        // forty times as long.
        let positive = value & ~(value &>> 31)
        let beyond = positive &- 255
        return positive &- (beyond & ~(beyond &>> 31))
    }
}
