/// The turn that makes a captured picture upright.
///
/// The values are those of image files (EXIF 2.32, tag 274) without the mirrored ones, as phones report them.
@frozen package enum PictureOrientation: UInt8, Hashable, Sendable, CaseIterable {
    /// It is upright.
    case up = 1
    /// It is upside down.
    case down = 3
    /// A quarter turn clockwise makes it upright.
    case right = 6
    /// A quarter turn counterclockwise makes it upright.
    case left = 8

    /// The size of the upright picture.
    package func upright(_ size: PixelSize) -> PixelSize {
        self == .up || self == .down ? size : PixelSize(width: size.height, height: size.width)
    }

    /// The start and the two steps of a walk over a plane's samples in the order of the upright picture's rows.
    func walk(_ size: PixelSize, column: Int, row: Int) -> (start: Int, column: Int, row: Int) {
        let (lastColumn, lastRow) = ((size.width - 1) * column, (size.height - 1) * row)
        return switch self {
        case .up: (0, column, row)
        case .down: (lastColumn + lastRow, -column, -row)
        case .right: (lastRow, -row, column)
        case .left: (lastColumn, row, -column)
        }
    }
}

extension PlanarBuffer {
    /// Writes a captured picture into planes of the upright size, turned; `halved` takes every other sample of each row and
    /// column, into planes of half of the size (rounded down).
    ///
    /// No memory is allocated.
    package mutating func update(
        from capture: borrowing BiplanarView, orientation: PictureOrientation, halved: Bool = false
    ) {
        let factor = halved ? 2 : 1
        let upright = orientation.upright(capture.size)
        precondition(
            size == PixelSize(width: upright.width / factor, height: upright.height / factor),
            "planes of the upright size")
        let luma = orientation.walk(capture.size, column: 1, row: capture.lumaStride)
        for y in 0..<size.height {
            var position = luma.start + y * factor * luma.row
            let target = unsafe self.luma + y * size.width
            for x in 0..<size.width {
                unsafe target[x] = capture.luma[position]
                position += luma.column * factor
            }
        }
        let source = PixelSize(width: (capture.size.width + 1) / 2, height: (capture.size.height + 1) / 2)
        let chroma = orientation.walk(source, column: 2, row: capture.chromaStride)
        let own = chromaSize
        for y in 0..<own.height {
            var position = chroma.start + y * factor * chroma.row
            let (blue, red) = unsafe (self.blue + y * own.width, self.red + y * own.width)
            for x in 0..<own.width {
                unsafe blue[x] = capture.chroma[position]
                unsafe red[x] = capture.chroma[position + 1]
                position += chroma.column * factor
            }
        }
    }
}
