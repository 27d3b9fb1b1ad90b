/// The division of a QR code's codewords into blocks, each with Reed–Solomon check codewords of its own.
struct QRBlocks {
    /// Check codewords in each block, for versions 1…40 (ISO/IEC 18004, table 9).
    private static let checkCounts: [QRCode.Correction: [Int]] = [
        .low: [
            7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28,
            28, 28, 30, 30, 26, 28, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
        ],
        .medium: [
            10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26,
            26, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28,
        ],
    ]

    /// Blocks, for versions 1…40 (the same table).
    private static let blockCounts: [QRCode.Correction: [Int]] = [
        .low: [
            1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8,
            8, 9, 9, 10, 12, 12, 12, 13, 14, 15, 16, 17, 18, 19, 19, 20, 21, 22, 24, 25,
        ],
        .medium: [
            1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16,
            17, 17, 18, 20, 21, 23, 25, 26, 28, 29, 31, 33, 35, 37, 38, 40, 43, 45, 47, 49,
        ],
    ]

    private let codewords: Int
    private let blocks: Int
    private let checks: Int

    init(codewords: Int, version: Int, correction: QRCode.Correction) {
        self.codewords = codewords
        blocks = Self.blockCounts[correction]?[version - 1] ?? 1
        checks = Self.checkCounts[correction]?[version - 1] ?? 1
    }

    /// The number of data codewords there is room for.
    var dataCount: Int { codewords - blocks * checks }

    /// Data and check codewords in the order in which they are placed: the first of each block, the second of each, ….
    func interleaved(_ data: [UInt8]) -> [UInt8] {
        // The later blocks have one codeword more when it does not come out even.
        let shorter = blocks - dataCount % blocks
        let length = dataCount / blocks
        let divisor = GaloisField.generator(degree: checks)
        var parts: [(data: ArraySlice<UInt8>, check: [UInt8])] = []
        var start = 0
        for block in 0..<blocks {
            let part = data[start..<start + length + (block < shorter ? 0 : 1)]
            parts.append((part, GaloisField.remainder(of: part, by: divisor)))
            start = part.endIndex
        }
        var result: [UInt8] = []
        for index in 0...length {
            for part in parts where index < part.data.count { result.append(part.data[part.data.startIndex + index]) }
        }
        for index in 0..<checks {
            for part in parts { result.append(part.check[index]) }
        }
        return result
    }
}

/// Arithmetic on bytes as polynomials modulo x⁸ + x⁴ + x³ + x² + 1 (ISO/IEC 18004 §7.5.2).
private enum GaloisField {
    static func product(_ left: UInt8, _ right: UInt8) -> UInt8 {
        var result: UInt8 = 0
        for shift in (0..<8).reversed() {
            let carry = result >> 7
            result = result << 1 ^ carry * 0x1D
            if right >> shift & 1 == 1 { result ^= left }
        }
        return result
    }

    /// (x − 2⁰)(x − 2¹)…(x − 2ᵈ⁻¹) without its leading 1, the highest power first.
    static func generator(degree: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: degree - 1) + [1]
        var root: UInt8 = 1
        for _ in 0..<degree {
            for index in result.indices {
                result[index] = product(result[index], root) ^ (index + 1 < degree ? result[index + 1] : 0)
            }
            root = product(root, 2)
        }
        return result
    }

    /// Computes the remainder of `data` · xᵈ divided by a polynomial of degree d.
    static func remainder(of data: some Sequence<UInt8>, by divisor: [UInt8]) -> [UInt8] {
        var rest = [UInt8](repeating: 0, count: divisor.count)
        for byte in data {
            let factor = byte ^ rest[0]
            rest.removeFirst()
            rest.append(0)
            for index in rest.indices { rest[index] ^= product(divisor[index], factor) }
        }
        return rest
    }
}
