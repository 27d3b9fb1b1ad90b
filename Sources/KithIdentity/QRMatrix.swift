/// The modules of a QR code while it is drawn: fixed patterns first, then data, then the best of eight masks.
struct QRMatrix {
    let version: Int
    let size: Int
    private(set) var dark: [Bool]
    /// Modules of the fixed patterns, which hold no data and are not masked.
    private var fixed: [Bool]

    /// Draws the fixed patterns of a version.
    init(version: Int) {
        self.version = version
        size = 17 + 4 * version
        dark = Array(repeating: false, count: size * size)
        fixed = dark
        for index in 0..<size {
            setFixed(6, index, index % 2 == 0)
            setFixed(index, 6, index % 2 == 0)
        }
        for (row, column) in [(3, 3), (3, size - 4), (size - 4, 3)] { drawFinder(row, column) }
        let centers = alignmentCenters
        for row in centers {
            for column in centers where !isFixedFinder(row, column) { drawAlignment(row, column) }
        }
        drawFormat(0)
        drawVersion()
    }

    /// The number of modules left for data.
    var freeModules: Int { fixed.reduce(0) { $0 + ($1 ? 0 : 1) } }

    private mutating func setFixed(_ row: Int, _ column: Int, _ isDark: Bool) {
        guard (0..<size).contains(row), (0..<size).contains(column) else { return }
        dark[row * size + column] = isDark
        fixed[row * size + column] = true
    }

    // MARK: - Fixed patterns

    private mutating func drawFinder(_ row: Int, _ column: Int) {
        for down in -4...4 {
            for right in -4...4 {
                let distance = max(abs(down), abs(right))
                setFixed(row + down, column + right, distance != 2 && distance != 4)
            }
        }
    }

    private mutating func drawAlignment(_ row: Int, _ column: Int) {
        for down in -2...2 {
            for right in -2...2 { setFixed(row + down, column + right, max(abs(down), abs(right)) != 1) }
        }
    }

    /// Rows, and columns, of the centres of alignment patterns (ISO/IEC 18004, annex E).
    private var alignmentCenters: [Int] {
        guard version > 1 else { return [] }
        let count = version / 7 + 2
        let span = size - 13
        // Evenly spaced by an even number, rounded up; version 32 alone is rounded down.
        let step = version == 32 ? 26 : (span + 2 * (count - 1) - 1) / (2 * (count - 1)) * 2
        return [6] + (0..<count - 1).reversed().map { size - 7 - $0 * step }
    }

    private func isFixedFinder(_ row: Int, _ column: Int) -> Bool {
        (row == 6 && column == 6) || (row == 6 && column == size - 7) || (row == size - 7 && column == 6)
    }

    /// Draws 15 bits twice: the level, the mask, and a BCH code of them (ISO/IEC 18004 §7.9).
    private mutating func drawFormat(_ value: Int) {
        let bits = (value << 10 | Self.remainder(value, by: 0x537, degree: 10)) ^ 0x5412
        for index in 0..<15 {
            let isDark = bits >> index & 1 == 1
            // Down the upper left corner, around it, and to the left; the timing patterns are passed over.
            switch index {
            case ..<6: setFixed(index, 8, isDark)
            case 6: setFixed(7, 8, isDark)
            case 7: setFixed(8, 8, isDark)
            case 8: setFixed(8, 7, isDark)
            default: setFixed(8, 14 - index, isDark)
            }
            if index < 8 { setFixed(8, size - 1 - index, isDark) } else { setFixed(size - 15 + index, 8, isDark) }
        }
        setFixed(size - 8, 8, true)
    }

    /// Draws 18 bits twice, from version 7 on: the version and a BCH code of it (ISO/IEC 18004 §7.10).
    private mutating func drawVersion() {
        guard version >= 7 else { return }
        let bits = version << 12 | Self.remainder(version, by: 0x1F25, degree: 12)
        for index in 0..<18 {
            let isDark = bits >> index & 1 == 1
            let (long, short) = (index / 3, size - 11 + index % 3)
            setFixed(long, short, isDark)
            setFixed(short, long, isDark)
        }
    }

    private static func remainder(_ value: Int, by divisor: Int, degree: Int) -> Int {
        var rest = value
        for _ in 0..<degree { rest = rest << 1 ^ (rest >> (degree - 1)) * divisor }
        return rest
    }

    // MARK: - Data

    /// Places codewords: in pairs of columns from the right, upwards and downwards in turn.
    mutating func place(_ codewords: [UInt8]) {
        var bit = 0
        var isUpward = true
        var right = size - 1
        while right > 0 {
            if right == 6 { right = 5 }
            for step in 0..<size {
                let row = isUpward ? size - 1 - step : step
                for column in [right, right - 1] where !fixed[row * size + column] && bit < 8 * codewords.count {
                    dark[row * size + column] = codewords[bit / 8] >> (7 - bit % 8) & 1 == 1
                    bit += 1
                }
            }
            isUpward.toggle()
            right -= 2
        }
    }

    // MARK: - Masks

    /// Applies the mask that makes the fewest features a reader could stumble over.
    mutating func mask(correction: QRCode.Correction) {
        let level = correction == .low ? 0b01 : 0b00
        var best: (penalty: Int, matrix: QRMatrix)?
        for number in 0..<8 {
            var candidate = self
            candidate.apply(mask: number)
            candidate.drawFormat(level << 3 | number)
            let penalty = candidate.penalty
            if best.map({ penalty < $0.penalty }) ?? true { best = (penalty, candidate) }
        }
        if let best { self = best.matrix }
    }

    private mutating func apply(mask: Int) {
        for row in 0..<size {
            for column in 0..<size where !fixed[row * size + column] {
                if Self.inverts(mask, row, column) { dark[row * size + column].toggle() }
            }
        }
    }

    private static func inverts(_ mask: Int, _ row: Int, _ column: Int) -> Bool {
        let product = row * column
        return switch mask {
        case 0: (row + column) % 2 == 0
        case 1: row % 2 == 0
        case 2: column % 3 == 0
        case 3: (row + column) % 3 == 0
        case 4: (row / 2 + column / 3) % 2 == 0
        case 5: product % 2 + product % 3 == 0
        case 6: (product % 2 + product % 3) % 2 == 0
        default: ((row + column) % 2 + product % 3) % 2 == 0
        }
    }

    /// The penalty for being hard to read (ISO/IEC 18004 §7.8.3): long runs, squares, false finders, uneven shades.
    private var penalty: Int {
        var penalty = 0
        for line in 0..<size {
            penalty += linePenalty { self.dark[line * self.size + $0] }
            penalty += linePenalty { self.dark[$0 * self.size + line] }
        }
        for row in 0..<size - 1 {
            for column in 0..<size - 1 {
                let index = row * size + column
                let shade = dark[index]
                if dark[index + 1] == shade, dark[index + size] == shade, dark[index + size + 1] == shade {
                    penalty += 3
                }
            }
        }
        let darkCount = dark.reduce(0) { $0 + ($1 ? 1 : 0) }
        return penalty + 10 * (abs(20 * darkCount - 10 * size * size) / (size * size))
    }

    private func linePenalty(_ isDark: (Int) -> Bool) -> Int {
        var penalty = 0
        var run = 0
        // The last eleven modules as bits: a finder's 1011101 with four light ones before or behind.
        var window = 0
        for index in 0..<size {
            run = index > 0 && isDark(index) == isDark(index - 1) ? run + 1 : 1
            if run == 5 { penalty += 3 } else if run > 5 { penalty += 1 }
            window = (window << 1 | (isDark(index) ? 1 : 0)) & 0x7FF
            if index >= 10, window == 0b101_1101_0000 || window == 0b000_0101_1101 { penalty += 40 }
        }
        return penalty
    }
}
