/// The way a viewer wants its pixels (RFC 6143 §7.4): true colour in 8, 16 or 32 bits.
package struct RFBPixelFormat: Hashable, Sendable {
    package var bitsPerPixel: Int
    package var depth: Int
    package var isBigEndian: Bool
    /// The largest value of each part, 2ⁿ−1, and where it begins.
    package var redMax: UInt32
    package var greenMax: UInt32
    package var blueMax: UInt32
    package var redShift: UInt32
    package var greenShift: UInt32
    package var blueShift: UInt32

    package init(
        bitsPerPixel: Int, depth: Int, isBigEndian: Bool = false, redMax: UInt32, greenMax: UInt32, blueMax: UInt32,
        redShift: UInt32, greenShift: UInt32, blueShift: UInt32
    ) {
        self.bitsPerPixel = bitsPerPixel
        self.depth = depth
        self.isBigEndian = isBigEndian
        self.redMax = redMax
        self.greenMax = greenMax
        self.blueMax = blueMax
        self.redShift = redShift
        self.greenShift = greenShift
        self.blueShift = blueShift
    }

    /// 32 bits, 0xXXRRGGBB, the lowest byte first: what a frame buffer holds.
    package static let xrgb = RFBPixelFormat(
        bitsPerPixel: 32, depth: 24, redMax: 255, greenMax: 255, blueMax: 255, redShift: 16, greenShift: 8, blueShift: 0
    )
    /// 16 bits: five of red, six of green, five of blue.
    package static let rgb565 = RFBPixelFormat(
        bitsPerPixel: 16, depth: 16, redMax: 31, greenMax: 63, blueMax: 31, redShift: 11, greenShift: 5, blueShift: 0)
    /// 8 bits: three of blue, three of green, two of red from the top.
    package static let bgr233 = RFBPixelFormat(
        bitsPerPixel: 8, depth: 8, redMax: 7, greenMax: 7, blueMax: 3, redShift: 0, greenShift: 3, blueShift: 6)

    /// Reads the sixteen bytes at `offset`.
    ///
    /// - Throws: ``RFBError/unsupported(_:)`` for a colour map, ``RFBError/malformed(_:)`` for what no pixel can hold.
    init(_ input: ByteQueue, at offset: Int) throws(RFBError) {
        self.init(
            bitsPerPixel: Int(input[offset]), depth: Int(input[offset + 1]), isBigEndian: input[offset + 2] != 0,
            redMax: UInt32(input.u16(at: offset + 4)), greenMax: UInt32(input.u16(at: offset + 6)),
            blueMax: UInt32(input.u16(at: offset + 8)), redShift: UInt32(input[offset + 10]),
            greenShift: UInt32(input[offset + 11]), blueShift: UInt32(input[offset + 12]))
        guard [8, 16, 32].contains(bitsPerPixel) else { throw .malformed("a pixel has 8, 16 or 32 bits") }
        guard input[offset + 3] != 0 else { throw .unsupported("a colour map") }
        for (max, shift) in [(redMax, redShift), (greenMax, greenShift), (blueMax, blueShift)] {
            guard max > 0, max & (max + 1) == 0, Int(shift) + (32 - max.leadingZeroBitCount) <= bitsPerPixel else {
                throw .malformed("a colour's bits are inside the pixel")
            }
        }
    }

    /// The form on the wire.
    func append(to bytes: inout [UInt8]) {
        bytes += [UInt8(bitsPerPixel), UInt8(depth), isBigEndian ? 1 : 0, 1]
        for max in [redMax, greenMax, blueMax] { bytes.appendInteger(UInt16(max)) }
        bytes += [UInt8(redShift), UInt8(greenShift), UInt8(blueShift), 0, 0, 0]
    }

    /// The value of a colour.
    func value(of color: UInt32) -> UInt32 {
        let (red, green, blue) = (color >> 16 & 0xFF, color >> 8 & 0xFF, color & 0xFF)
        if hasBytes { return red << redShift | green << greenShift | blue << blueShift }
        return ((red * redMax + 127) / 255) << redShift | ((green * greenMax + 127) / 255) << greenShift
            | ((blue * blueMax + 127) / 255) << blueShift
    }

    /// The colour of a value.
    func color(of value: UInt32) -> UInt32 {
        let red = value >> redShift & redMax
        let green = value >> greenShift & greenMax
        let blue = value >> blueShift & blueMax
        if hasBytes { return red << 16 | green << 8 | blue }
        return ((red * 255 + redMax / 2) / redMax) << 16 | ((green * 255 + greenMax / 2) / greenMax) << 8
            | (blue * 255 + blueMax / 2) / blueMax
    }

    /// True when each part has exactly eight bits.
    var hasBytes: Bool { redMax == 255 && greenMax == 255 && blueMax == 255 }

    /// A whole pixel.
    var pixel: PixelLayout { PixelLayout(self, size: bitsPerPixel / 8, dropped: 0) }

    /// A pixel as ZRLE writes it, three bytes where the colours are in three (RFC 6143 §7.7.6).
    var compressed: PixelLayout {
        guard bitsPerPixel == 32, depth <= 24 else { return pixel }
        let used = redMax << redShift | greenMax << greenShift | blueMax << blueShift
        if used & 0xFF00_0000 == 0 { return PixelLayout(self, size: 3, dropped: 0) }
        return used & 0xFF == 0 ? PixelLayout(self, size: 3, dropped: 8) : pixel
    }

    /// A pixel as Tight writes it: red, green and blue where they have eight bits each in 32 (rfbproto, Tight Encoding).
    var tight: PixelLayout {
        guard bitsPerPixel == 32, depth == 24, hasBytes else { return pixel }
        return PixelLayout(self, redFirst: true)
    }
}

/// The bytes of a pixel in one of the places where pixels are written.
struct PixelLayout: Hashable, Sendable {
    let format: RFBPixelFormat
    /// 1…4 bytes.
    let size: Int
    /// Low bits that are not written.
    private let dropped: UInt32
    private let isRedFirst: Bool
    /// The byte that holds each part alone, where each has one.
    private let parts: (red: Int, green: Int, blue: Int)?

    init(_ format: RFBPixelFormat, size: Int, dropped: UInt32) {
        self.format = format
        self.size = size
        self.dropped = dropped
        isRedFirst = false
        func place(_ shift: UInt32) -> Int? {
            guard shift % 8 == 0, shift >= dropped else { return nil }
            let byte = Int((shift - dropped) / 8)
            return byte < size ? (format.isBigEndian ? size - 1 - byte : byte) : nil
        }
        if format.hasBytes, let red = place(format.redShift), let green = place(format.greenShift),
            let blue = place(format.blueShift)
        {
            parts = (red, green, blue)
        } else {
            parts = nil
        }
    }

    init(_ format: RFBPixelFormat, redFirst: Bool) {
        self.format = format
        size = 3
        dropped = 0
        isRedFirst = redFirst
        parts = (0, 1, 2)
    }

    static func == (left: PixelLayout, right: PixelLayout) -> Bool {
        left.format == right.format && left.size == right.size && left.isRedFirst == right.isRedFirst
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(format)
        hasher.combine(size)
    }

    /// The colours of `count` pixels from `bytes` on, written from `start` on.
    func read(_ bytes: UnsafeBufferPointer<UInt8>, count: Int, into colors: inout [UInt32], at start: Int = 0) {
        precondition(count >= 0 && bytes.count >= count * size && start >= 0 && colors.count - start >= count)
        guard count > 0 else { return }
        unsafe colors.withUnsafeMutableBufferPointer { target in
            guard let base = target.baseAddress, let from = bytes.baseAddress else { return }
            let to = unsafe base + start
            if isOurs {
                let words = unsafe UnsafeRawPointer(from)
                for index in 0..<count {
                    unsafe to[index] = words.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self) & 0xFF_FFFF
                }
            } else if let parts {
                // The pixel's size is known where the loop is made: for three bytes, and for four.
                if size == 3 {
                    for index in 0..<count { unsafe to[index] = Self.color(from + index * 3, parts) }
                } else {
                    for index in 0..<count { unsafe to[index] = Self.color(from + index * 4, parts) }
                }
            } else {
                for index in 0..<count { unsafe to[index] = color(at: from + index * size) }
            }
        }
    }

    /// True where a pixel's bytes are those of our own in memory.
    private var isOurs: Bool {
        guard let parts, size == 4, UInt32(1).littleEndian == 1 else { return false }
        return parts == (2, 1, 0)
    }

    @inline(__always)
    private static func color(_ from: UnsafePointer<UInt8>, _ parts: (red: Int, green: Int, blue: Int)) -> UInt32 {
        unsafe UInt32(from[parts.red]) << 16 | UInt32(from[parts.green]) << 8 | UInt32(from[parts.blue])
    }

    /// The colour of the pixel that begins there.
    @inline(__always)
    func color(at from: UnsafePointer<UInt8>) -> UInt32 {
        if let parts { return unsafe Self.color(from, parts) }
        return unsafe format.color(of: value(at: from))
    }

    /// The value of the pixel that begins there, its parts where the format has them.
    @inline(__always)
    func value(at from: UnsafePointer<UInt8>) -> UInt32 {
        if isRedFirst {
            return unsafe UInt32(from[0]) << format.redShift | UInt32(from[1]) << format.greenShift
                | UInt32(from[2]) << format.blueShift
        }
        var value: UInt32 = 0
        for byte in 0..<size { value = unsafe value << 8 | UInt32(from[format.isBigEndian ? byte : size - 1 - byte]) }
        return value << dropped
    }

    /// Appends pixels by their values in the format.
    func append(_ values: ArraySlice<UInt32>, to bytes: inout [UInt8]) {
        let count = values.count
        if size == 4, !format.isBigEndian, UInt32(1).littleEndian == 1 {
            return unsafe values.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        }
        guard size == 3 else {
            bytes.reserveCapacity(bytes.count + count * size)
            for value in values { append(value, to: &bytes) }
            return
        }
        let shifts = byteShifts
        bytes += unsafe [UInt8](unsafeUninitializedCapacity: count * 3) { target, written in
            unsafe values.withUnsafeBufferPointer { values in
                for index in 0..<count {
                    let value = unsafe values[index]
                    unsafe target[index * 3] = UInt8(truncatingIfNeeded: value >> shifts.0)
                    unsafe target[index * 3 + 1] = UInt8(truncatingIfNeeded: value >> shifts.1)
                    unsafe target[index * 3 + 2] = UInt8(truncatingIfNeeded: value >> shifts.2)
                }
            }
            written = count * 3
        }
    }

    /// The distances by which a value is shifted for each of three bytes.
    private var byteShifts: (UInt32, UInt32, UInt32) {
        if isRedFirst { return (format.redShift, format.greenShift, format.blueShift) }
        return format.isBigEndian ? (dropped + 16, dropped + 8, dropped) : (dropped, dropped + 8, dropped + 16)
    }

    /// Appends a pixel by its value in the format.
    @inline(__always)
    func append(_ value: UInt32, to bytes: inout [UInt8]) {
        if size == 3 {
            let shifts = byteShifts
            bytes.append(UInt8(truncatingIfNeeded: value >> shifts.0))
            bytes.append(UInt8(truncatingIfNeeded: value >> shifts.1))
            bytes.append(UInt8(truncatingIfNeeded: value >> shifts.2))
            return
        }
        if format.isBigEndian {
            for byte in 0..<size { bytes.append(UInt8(truncatingIfNeeded: value >> UInt32(8 * (size - 1 - byte)))) }
        } else {
            for byte in 0..<size { bytes.append(UInt8(truncatingIfNeeded: value >> UInt32(8 * byte))) }
        }
    }
}
