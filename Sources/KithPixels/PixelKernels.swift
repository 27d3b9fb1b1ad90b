/// The inner loops over rows of pixels: comparing and hashing.
///
/// They compare 32 bytes at a time. `SIMD32<UInt8>` would do the same but is not lowered to vector instructions by this
/// compiler, and takes a hundred times as long; kith-pixel-bench measures each of these.
enum PixelKernels {
    typealias Pixels = UnsafeMutablePointer<UInt32>

    private static let colours = SIMD4<UInt64>(repeating: 0x00FF_FFFF_00FF_FFFF)

    @inline(__always) private static func load(_ pixels: Pixels, _ index: Int) -> SIMD4<UInt64> {
        unsafe UnsafeRawPointer(pixels + index).loadUnaligned(as: SIMD4<UInt64>.self)
    }

    @inline(__always) private static func isAnySet(_ vector: SIMD4<UInt64>) -> Bool {
        vector[0] | vector[1] | vector[2] | vector[3] != 0
    }

    @inline(__always) private static func differs(_ first: UInt32, _ second: UInt32) -> Bool {
        (first ^ second) & ~PixelBuffer.opaque != 0
    }

    /// True when two runs of pixels have the same colours.
    @inline(__always) static func isEqual(_ first: Pixels, _ second: Pixels, count: Int) -> Bool {
        var index = 0
        while index + 64 <= count {
            var difference = SIMD4<UInt64>()
            for step in 0..<8 {
                unsafe difference |= load(first, index + step * 8) ^ load(second, index + step * 8)
            }
            if isAnySet(difference & colours) { return false }
            index += 64
        }
        var difference = SIMD4<UInt64>()
        while index + 8 <= count {
            unsafe difference |= load(first, index) ^ load(second, index)
            index += 8
        }
        if isAnySet(difference & colours) { return false }
        while index < count {
            if unsafe differs(first[index], second[index]) { return false }
            index += 1
        }
        return true
    }

    /// The index of the first pixel that differs, below `count`; `count` when none does.
    static func firstDifference(_ first: Pixels, _ second: Pixels, count: Int) -> Int {
        var index = 0
        while index + 8 <= count, unsafe !isAnySet((load(first, index) ^ load(second, index)) & colours) { index += 8 }
        while index < count, unsafe !differs(first[index], second[index]) { index += 1 }
        return index
    }

    /// The index behind the last pixel that differs, not below `start`; `start` when none does.
    static func lastDifference(_ first: Pixels, _ second: Pixels, from start: Int, count: Int) -> Int {
        var end = count
        while end - 8 >= start, unsafe !isAnySet((load(first, end - 8) ^ load(second, end - 8)) & colours) { end -= 8 }
        while end > start, unsafe !differs(first[end - 1], second[end - 1]) { end -= 1 }
        return end
    }

    /// True when all pixels of a row have the colour.
    static func isSolid(_ row: Pixels, count: Int, colour: UInt32) -> Bool {
        let wide = UInt64(colour) << 32 | UInt64(colour)
        let pattern = SIMD4<UInt64>(repeating: wide)
        var difference = SIMD4<UInt64>()
        var index = 0
        while index + 8 <= count {
            unsafe difference |= load(row, index) ^ pattern
            index += 8
        }
        if isAnySet(difference & colours) { return false }
        while index < count {
            if unsafe differs(row[index], colour) { return false }
            index += 1
        }
        return true
    }

    /// A number that runs of equal colours have in common, and others seldom.
    @inline(__always) static func hash(_ row: Pixels, count: Int) -> UInt32 {
        let prime: UInt64 = 0x9E37_79B9_7F4A_7C15
        var (a, b, c, d) = (prime, prime &+ 1, prime &+ 2, prime &+ 3)
        var index = 0
        while index + 8 <= count {
            let value = unsafe load(row, index) & colours
            a = (a ^ value[0]) &* prime
            b = (b ^ value[1]) &* prime
            c = (c ^ value[2]) &* prime
            d = (d ^ value[3]) &* prime
            index += 8
        }
        while index < count {
            unsafe a = (a ^ UInt64(row[index] & ~PixelBuffer.opaque)) &* prime
            index += 1
        }
        var mixed = (a ^ a >> 29) &+ (b ^ b >> 31) &* 3 &+ (c ^ c >> 33) &* 5 &+ (d ^ d >> 35) &* 7
        mixed = mixed &* prime
        return UInt32(truncatingIfNeeded: mixed >> 32)
    }

    /// Adds one row to the hashes of `count` columns.
    static func hashColumns(_ row: Pixels, count: Int, into hashes: Pixels) {
        for x in 0..<count {
            let mixed = unsafe (hashes[x] ^ (row[x] & ~PixelBuffer.opaque)) &* 0x9E37_79B1
            unsafe hashes[x] = mixed ^ mixed >> 15
        }
    }
}
