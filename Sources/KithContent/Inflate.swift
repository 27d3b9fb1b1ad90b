/// Unpacks what DEFLATE packed (RFC 1951), alone or inside a zlib wrapper (RFC 1950).
///
/// Written in Swift because what is unpacked here comes from unknown people: a mistake ends the decoding, not the process.
package enum Inflate {
    /// A defect of packed bytes.
    package enum Failure: Error {
        case truncated
        case damaged
        /// More comes out than may.
        case tooLarge
    }

    /// A canonical Huffman code (RFC 1951 §3.2.2), decoded by counting how many codes of each length there are.
    private struct Code {
        private var counts = [Int](repeating: 0, count: 16)
        private var symbols: [UInt16] = []

        /// - Throws: `.damaged` when more codes are given than there can be.
        init(_ lengths: some Collection<UInt8>) throws(Failure) {
            for length in lengths { counts[Int(length)] += 1 }
            counts[0] = 0
            var left = 1
            var offsets = [Int](repeating: 0, count: 16)
            for length in 1..<16 {
                left = left * 2 - counts[length]
                guard left >= 0 else { throw .damaged }
                if length < 15 { offsets[length + 1] = offsets[length] + counts[length] }
            }
            symbols = [UInt16](repeating: 0, count: counts.reduce(0, +))
            for (symbol, length) in lengths.enumerated() where length > 0 {
                symbols[offsets[Int(length)]] = UInt16(symbol)
                offsets[Int(length)] += 1
            }
        }

        func symbol(_ bits: inout Bits) throws(Failure) -> Int {
            var code = 0
            var first = 0
            var index = 0
            for length in 1..<16 {
                code |= try bits.take(1)
                let count = counts[length]
                if code - count < first { return Int(symbols[index + code - first]) }
                index += count
                first = (first + count) << 1
                code <<= 1
            }
            throw .damaged
        }
    }

    /// The bits of a run of bytes, the lowest of each byte first.
    private struct Bits {
        let bytes: ArraySlice<UInt8>
        var index: Int
        private var buffer: UInt32 = 0
        private var count = 0

        init(_ bytes: ArraySlice<UInt8>) {
            self.bytes = bytes
            index = bytes.startIndex
        }

        mutating func take(_ wanted: Int) throws(Failure) -> Int {
            while count < wanted {
                guard index < bytes.endIndex else { throw .truncated }
                buffer |= UInt32(bytes[index]) << UInt32(count)
                index += 1
                count += 8
            }
            defer {
                buffer >>= UInt32(wanted)
                count -= wanted
            }
            return Int(buffer & (1 << UInt32(wanted) - 1))
        }

        /// Drops the rest of a byte.
        mutating func align() {
            buffer = 0
            count = 0
        }
    }

    private static let lengthBases = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227,
        258,
    ]
    private static let lengthBits = [
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
    ]
    private static let distanceBases = [
        1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097,
        6145, 8193, 12289, 16385, 24577,
    ]
    private static let distanceBits = [
        0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13,
    ]
    private static let orderOfLengths = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

    /// Unpacks a zlib stream into at most `limit` bytes, and compares its checksum.
    package static func zlib(_ bytes: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        guard bytes.count >= 6 else { throw .truncated }
        // Method 8, a window of at most 32 KiB, no dictionary.
        guard bytes[0] & 0x0F == 8, bytes[0] >> 4 <= 7, bytes[1] & 0x20 == 0,
            (Int(bytes[0]) << 8 | Int(bytes[1])) % 31 == 0
        else { throw .damaged }
        var bits = Bits(bytes[2...])
        var output: [UInt8] = []
        try blocks(&bits, &output, limit)
        let end = bits.index
        guard bytes.count >= end + 4 else { throw .truncated }
        let sum = bytes[end..<end + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard sum == adler32(output) else { throw .damaged }
        return output
    }

    /// Unpacks the beginning of a stream without a wrapper: at most `limit` bytes, and what comes before a defect.
    package static func prefix(_ bytes: [UInt8], limit: Int) -> [UInt8] {
        var (bits, output) = (Bits(bytes[...]), [UInt8]())
        // What was unpacked until then is as good as it was.
        do { try blocks(&bits, &output, limit) } catch {}
        return output
    }

    private static func blocks(_ bits: inout Bits, _ output: inout [UInt8], _ limit: Int) throws(Failure) {
        var isLast = false
        while !isLast {
            isLast = try bits.take(1) == 1
            switch try bits.take(2) {
            case 0: try stored(&bits, &output, limit)
            case 1:
                let lengths =
                    [UInt8](repeating: 8, count: 144) + [UInt8](repeating: 9, count: 112)
                    + [UInt8](repeating: 7, count: 24) + [UInt8](repeating: 8, count: 8)
                try block(&bits, try Code(lengths), try Code([UInt8](repeating: 5, count: 30)), &output, limit)
            case 2:
                let (literals, distances) = try codes(&bits)
                try block(&bits, literals, distances, &output, limit)
            default: throw .damaged
            }
        }
    }

    private static func stored(_ bits: inout Bits, _ output: inout [UInt8], _ limit: Int) throws(Failure) {
        bits.align()
        let length = try bits.take(16)
        let complement = try bits.take(16)
        guard length == complement ^ 0xFFFF else { throw .damaged }
        guard output.count + length <= limit else { throw .tooLarge }
        guard bits.bytes.endIndex - bits.index >= length else { throw .truncated }
        output += bits.bytes[bits.index..<bits.index + length]
        bits.index += length
    }

    /// The codes that a block brings along (§3.2.7).
    private static func codes(_ bits: inout Bits) throws(Failure) -> (Code, Code) {
        let literals = try bits.take(5) + 257
        let distances = try bits.take(5) + 1
        let count = try bits.take(4) + 4
        guard literals <= 286, distances <= 30 else { throw .damaged }
        var lengths = [UInt8](repeating: 0, count: 19)
        for index in 0..<count { lengths[orderOfLengths[index]] = UInt8(try bits.take(3)) }
        let code = try Code(lengths)
        lengths = []
        while lengths.count < literals + distances {
            let symbol = try code.symbol(&bits)
            switch symbol {
            case ..<16: lengths.append(UInt8(symbol))
            case 16:
                guard let last = lengths.last else { throw .damaged }
                lengths += [UInt8](repeating: last, count: 3 + (try bits.take(2)))
            case 17: lengths += [UInt8](repeating: 0, count: 3 + (try bits.take(3)))
            default: lengths += [UInt8](repeating: 0, count: 11 + (try bits.take(7)))
            }
        }
        guard lengths.count == literals + distances else { throw .damaged }
        return (try Code(lengths[..<literals]), try Code(lengths[literals...]))
    }

    private static func block(
        _ bits: inout Bits, _ literals: Code, _ distances: Code, _ output: inout [UInt8], _ limit: Int
    ) throws(Failure) {
        while true {
            let symbol = try literals.symbol(&bits)
            if symbol == 256 { return }
            guard output.count < limit else { throw .tooLarge }
            if symbol < 256 {
                output.append(UInt8(symbol))
                continue
            }
            guard symbol - 257 < lengthBases.count else { throw .damaged }
            let length = lengthBases[symbol - 257] + (try bits.take(lengthBits[symbol - 257]))
            let number = try distances.symbol(&bits)
            guard number < distanceBases.count else { throw .damaged }
            let distance = distanceBases[number] + (try bits.take(distanceBits[number]))
            guard distance <= output.count else { throw .damaged }
            guard output.count + length <= limit else { throw .tooLarge }
            // Byte by byte: what is copied may be what is being written.
            for _ in 0..<length { output.append(output[output.count - distance]) }
        }
    }

    static func adler32(_ bytes: [UInt8]) -> UInt32 {
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            low = (low + UInt32(byte)) % 65_521
            high = (high + low) % 65_521
        }
        return high << 16 | low
    }
}
