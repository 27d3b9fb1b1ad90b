import KithPixels

/// A frame of H.264 as a viewer takes it, looked into before a decoder is given it (ITU-T H.264, 7.3 and Annex B).
///
/// A key frame is one sequence and one picture parameter set and the slices of an IDR picture; any other is slices that
/// refer to earlier ones. The sequence parameter set says exactly the size that was agreed, the baseline profile and at
/// most ``referenceLimit`` pictures to refer to, which bounds what a decoder allocates. What goes beyond is refused: other
/// profiles, fields, several slice groups, extensions for layers.
struct H264Frame: Hashable {
    /// The most pictures that a stream may refer to.
    static let referenceLimit = 4
    /// The most NAL units of a frame.
    static let unitLimit = 64

    /// The two parameter sets of a key frame; empty for another.
    let parameters: [UInt8]

    /// Looks into a frame whose picture has to have that size.
    init(_ bytes: [UInt8], size: PixelSize) throws(VideoError) {
        guard bytes.count <= VideoCodec.frameLimit else { throw .malformed("a frame that is too large") }
        guard VideoCodec.isAllowed(size) else { throw .unsupportedSize }
        let units = try Self.units(of: bytes)
        let kinds = units.map { bytes[$0.lowerBound] & 0x1F }
        // Parameter sets come first, and once; slices are all of one kind.
        let isKey = kinds.first == 7
        let slices = kinds.drop { $0 == 7 || $0 == 8 }
        let heads = kinds.prefix(kinds.count - slices.count)
        guard !slices.isEmpty, slices.allSatisfy({ $0 == (isKey ? 5 : 1) }), heads.elementsEqual(isKey ? [7, 8] : [])
        else { throw .malformed("units that are not a frame's") }
        guard isKey else {
            parameters = []
            return
        }
        try Self.checkSequence(H264Bits(bytes[units[0].dropFirst()]), size: size)
        try Self.checkPicture(H264Bits(bytes[units[1].dropFirst()]))
        parameters = Array(bytes[units[0]]) + Array(bytes[units[1]])
    }

    /// The NAL units, without their start codes.
    static func units(of bytes: [UInt8]) throws(VideoError) -> [Range<Int>] {
        var starts: [Int] = []
        var zeros = 0
        for index in bytes.indices {
            if bytes[index] == 1, zeros >= 2 {
                starts.append(index + 1)
                guard starts.count <= unitLimit else { throw .malformed("a frame of too many units") }
            } else if starts.isEmpty, bytes[index] != 0 {
                throw .malformed("bytes before the first start code")
            }
            zeros = bytes[index] == 0 ? zeros + 1 : 0
        }
        var units: [Range<Int>] = []
        for (number, start) in starts.enumerated() {
            var end = number + 1 < starts.count ? starts[number + 1] - 3 : bytes.count
            // Zeros may follow a unit; none ends with one.
            while end > start, bytes[end - 1] == 0 { end -= 1 }
            guard end - start >= 2, bytes[start] & 0x80 == 0 else { throw .malformed("an empty unit") }
            units.append(start..<end)
        }
        return units
    }

    /// Reads a sequence parameter set (7.3.2.1.1) up to its size.
    private static func checkSequence(_ set: H264Bits, size: PixelSize) throws(VideoError) {
        var bits = set
        let profile = try bits.bits(8)
        let constraints = try bits.bits(8)
        guard profile == 66, constraints & 0x40 != 0 else { throw .malformed("a profile that is not taken") }
        guard try bits.bits(8) <= 52 else { throw .malformed("an unknown level") }
        guard try bits.number() <= 31 else { throw .malformed("the number of a parameter set") }
        guard try bits.number() <= 12 else { throw .malformed("the length of a frame's number") }
        switch try bits.number() {
        case 0: guard try bits.number() <= 12 else { throw .malformed("the length of an order's number") }
        case 2: break
        default: throw .malformed("an order that is not taken")
        }
        guard try bits.number() <= referenceLimit else { throw .malformed("too many pictures to refer to") }
        // Gaps in the numbers: frames come whole and in order.
        guard try bits.bits(1) == 0 else { throw .malformed("gaps between frames") }
        let width = try bits.number() + 1
        let height = try bits.number() + 1
        // A coded picture's sides are whole macroblocks of 16 pixels.
        guard width == (size.width + 15) / 16, height == (size.height + 15) / 16 else { throw .wrongSize }
        guard try bits.bits(1) == 1 else { throw .malformed("fields") }
        _ = try bits.bits(1)
        var (left, right, top, bottom) = (0, 0, 0, 0)
        if try bits.bits(1) == 1 {
            left = try bits.number()
            right = try bits.number()
            top = try bits.number()
            bottom = try bits.number()
        }
        // In chroma's pixels: two of luma.
        guard left == 0, top == 0, right <= 7, bottom <= 7, width * 16 - right * 2 == size.width,
            height * 16 - bottom * 2 == size.height
        else { throw .wrongSize }
    }

    /// Reads a picture parameter set (7.3.2.2) up to its slice groups.
    private static func checkPicture(_ set: H264Bits) throws(VideoError) {
        var bits = set
        guard try bits.number() <= 255, try bits.number() <= 31 else {
            throw .malformed("the number of a parameter set")
        }
        // Entropy coding is that of the baseline profile; then the order of fields, of which there are none.
        guard try bits.bits(1) == 0 else { throw .malformed("an entropy coding that is not taken") }
        _ = try bits.bits(1)
        guard try bits.number() == 0 else { throw .malformed("several slice groups") }
    }
}

/// The bits of a NAL unit, without the bytes that keep start codes out of it (ITU-T H.264, 7.4.1.1 and 9.1).
struct H264Bits {
    private let bytes: [UInt8]
    private var position = 0

    /// Reads at most 256 bytes: more than parameter sets have.
    init(_ unit: ArraySlice<UInt8>) {
        var bytes: [UInt8] = []
        var zeros = 0
        for byte in unit.prefix(256) {
            if zeros >= 2, byte == 3 {
                zeros = 0
                continue
            }
            zeros = byte == 0 ? zeros + 1 : 0
            bytes.append(byte)
        }
        self.bytes = bytes
    }

    /// The next `count` bits, at most 32.
    mutating func bits(_ count: Int) throws(VideoError) -> Int {
        guard position + count <= bytes.count * 8 else { throw .malformed("a parameter set that ends too early") }
        var value = 0
        for _ in 0..<count {
            value = value << 1 | Int(bytes[position / 8] >> UInt8(7 - position % 8) & 1)
            position += 1
        }
        return value
    }

    /// The next number by Exp-Golomb coding, at most 2³¹.
    mutating func number() throws(VideoError) -> Int {
        var zeros = 0
        while try bits(1) == 0 {
            zeros += 1
            guard zeros < 32 else { throw .malformed("a number that is too large") }
        }
        return (1 << zeros) - 1 + (try bits(zeros))
    }
}
