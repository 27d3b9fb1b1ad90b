package import KithContent

/// Decodes JPEG (ITU-T T.81) as cameras and browsers write it: Huffman-coded, sequential or progressive, of 8 bits, grey,
/// colours or the four of a printer.
///
/// It is written here, in Swift, because what it reads comes from anybody: every index is checked, and what a file may make
/// it allocate or do is bounded by ``pixelLimit`` and ``visitLimit`` before anything is done. A library would be C inside
/// of the user's process, or a process of its own for each file the cursor stands on. Large images are decoded to an
/// eighth of their size, from the mean of each block alone. Colours are taken as they are, without profiles.
package enum JPEGImage {
    /// The reason there is no picture.
    package typealias Failure = ImageFailure

    /// At most so many pixels.
    static let pixelLimit = 1 << 27
    /// Beyond so many pixels only the mean of each block is decoded.
    package static let fullLimit = 4 << 20
    /// So many scans are decoded, and so many blocks looked at in all of them together.
    private static let (scanLimit, visitLimit) = (256, 1 << 24)

    /// Decodes a whole file.
    package static func decode(_ bytes: [UInt8], fullLimit: Int = fullLimit) throws(Failure) -> Picture {
        var decoder = Decoder(bytes, fullLimit: fullLimit)
        return try decoder.decode()
    }

    /// The codes of one Huffman table (§C, §F.2.2.3).
    private struct Codes {
        /// For each run of eight bits that begins with a short code: the symbol and how long the code is; else 0.
        private var short = [UInt16](repeating: 0, count: 256)
        /// For each length: the code behind its last, and what to add to a code to have the position of its symbol.
        private var end = [Int](repeating: -1, count: 17)
        private var offset = [Int](repeating: 0, count: 17)
        private var symbols: [UInt8]

        init(counts: ArraySlice<UInt8>, symbols: [UInt8]) throws(Failure) {
            self.symbols = symbols
            var (code, position) = (0, 0)
            for (index, count) in counts.enumerated() {
                let length = index + 1
                offset[length] = position - code
                for _ in 0..<count {
                    guard code < 1 << length, position < symbols.count else { throw .damaged }
                    if length <= 8 {
                        for rest in 0..<(1 << (8 - length)) {
                            short[code << (8 - length) | rest] = UInt16(symbols[position]) << 8 | UInt16(length)
                        }
                    }
                    code += 1
                    position += 1
                }
                end[length] = count > 0 ? code : -1
                code <<= 1
            }
        }

        /// Reads one symbol.
        func next(_ bits: inout Bits) throws(Failure) -> Int {
            let entry = short[bits.peek(8)]
            if entry != 0 {
                try bits.skip(Int(entry & 0xFF))
                return Int(entry >> 8)
            }
            for length in 9...16 {
                let code = bits.peek(length)
                guard code < end[length], code + offset[length] >= 0, code + offset[length] < symbols.count else {
                    continue
                }
                try bits.skip(length)
                return Int(symbols[code + offset[length]])
            }
            throw .damaged
        }
    }

    /// The bits of a scan, up to the next marker (§F.2.2.5).
    private struct Bits {
        private let bytes: [UInt8]
        private(set) var at: Int
        private var held: UInt64 = 0
        private var count = 0

        init(_ bytes: [UInt8], at: Int) { (self.bytes, self.at) = (bytes, at) }

        /// The next bits, zeros where a marker or the end of the file comes before; at most 16.
        mutating func peek(_ wanted: Int) -> Int {
            if count < wanted { fill() }
            guard count >= wanted else { return Int(held << UInt64(wanted - count)) & ((1 << wanted) - 1) }
            return Int(held >> UInt64(count - wanted)) & ((1 << wanted) - 1)
        }

        mutating func skip(_ taken: Int) throws(Failure) {
            guard count >= taken else { throw .damaged }
            count -= taken
            held &= (1 << UInt64(count)) - 1
        }

        mutating func take(_ wanted: Int) throws(Failure) -> Int {
            guard wanted > 0 else { return 0 }
            let value = peek(wanted)
            try skip(wanted)
            return value
        }

        /// A number of so many bits, those that begin with 0 being negative (§F.2.2.1).
        mutating func number(_ size: Int) throws(Failure) -> Int {
            let value = try take(size)
            return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value
        }

        private mutating func fill() {
            while count <= 48, at < bytes.count {
                let byte = bytes[at]
                if byte == 0xFF {
                    guard at + 1 < bytes.count, bytes[at + 1] == 0 else { return }
                    at += 1
                }
                at += 1
                held = held << 8 | UInt64(byte)
                count += 8
            }
        }

        /// Goes to behind the restart marker that must come next (§E.2.4).
        mutating func restart() throws(Failure) {
            (held, count) = (0, 0)
            while at + 1 < bytes.count, bytes[at] == 0xFF, bytes[at + 1] == 0xFF { at += 1 }
            guard at + 1 < bytes.count, bytes[at] == 0xFF, (0xD0...0xD7).contains(bytes[at + 1]) else {
                throw .damaged
            }
            at += 2
        }

        /// Goes to the next marker that is none of a restart.
        mutating func toMarker() {
            (held, count) = (0, 0)
            while at + 1 < bytes.count {
                if bytes[at] == 0xFF, bytes[at + 1] != 0, bytes[at + 1] != 0xFF, !(0xD0...0xD7).contains(bytes[at + 1])
                {
                    return
                }
                at += 1
            }
            at = bytes.count
        }
    }

    /// One of the colours of the image.
    private struct Component {
        var id: UInt8
        var across: Int
        var down: Int
        var table: Int
        /// Its blocks, and those of a scan of it alone.
        var columns = 0
        var rows = 0
        var usedColumns = 0
        var usedRows = 0
        /// The coefficients of all blocks, in the order of a scan (§A.3.6); of each the first alone where that is enough.
        var coefficients: [Int16] = []
        /// The quantisation when its first scan came.
        var quantisation: [UInt16]?
        var last = 0
        var direct = 0
        var alternating = 0
        /// Its samples, once all is decoded.
        var samples: [UInt8] = []
    }

    /// The components and coefficients of a scan (§B.2.3).
    private struct Scan {
        var first: Int
        var last: Int
        var high: Int
        var low: Int
    }

    private struct Decoder {
        private let bytes: [UInt8]
        private var at = 2
        private var width = 0
        private var height = 0
        private var isProgressive = false
        private var components: [Component] = []
        private var (mostAcross, mostDown) = (1, 1)
        /// The number of coefficients kept of a block: 64, or 1.
        private var kept = 64
        private var quantisation = [[UInt16]?](repeating: nil, count: 4)
        private var direct = [Codes?](repeating: nil, count: 4)
        private var alternating = [Codes?](repeating: nil, count: 4)
        private var interval = 0
        /// The colour transform that Adobe's programs declare.
        private var transform: Int?
        private var visits = 0
        private var scans = 0
        private var endOfBand = 0

        private let fullLimit: Int

        init(_ bytes: [UInt8], fullLimit: Int) { (self.bytes, self.fullLimit) = (bytes, fullLimit) }

        mutating func decode() throws(Failure) -> Picture {
            guard bytes.count > 4, bytes[0] == 0xFF, bytes[1] == 0xD8 else { throw .damaged }
            while at + 4 <= bytes.count {
                guard bytes[at] == 0xFF else { throw .damaged }
                let marker = bytes[at + 1]
                if marker == 0xFF {
                    at += 1
                    continue
                }
                if marker == 0xD9 { break }
                let length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
                guard length >= 2, length <= bytes.count - at - 2 else { throw .damaged }
                let body = Array(bytes[(at + 4)..<(at + 2 + length)])
                at += 2 + length
                switch marker {
                case 0xC0, 0xC1, 0xC2: try begin(body, isProgressive: marker == 0xC2)
                case 0xC3, 0xC5...0xC7, 0xC9...0xCB, 0xCD...0xCF: throw .unknownKind
                case 0xC4: try readCodes(body)
                case 0xDB: try readQuantisation(body)
                case 0xDD: interval = body.count >= 2 ? Int(body[0]) << 8 | Int(body[1]) : 0
                case 0xEE where body.starts(with: Array("Adobe".utf8)) && body.count >= 12: transform = Int(body[11])
                case 0xDA: try readScan(body)
                default: break
                }
            }
            guard scans > 0 else { throw .damaged }
            return try picture()
        }

        // MARK: - Headers

        private mutating func begin(_ body: [UInt8], isProgressive: Bool) throws(Failure) {
            guard components.isEmpty, body.count >= 6, body.count == 6 + 3 * Int(body[5]) else { throw .damaged }
            guard body[0] == 8, [1, 3, 4].contains(body[5]) else { throw .unknownKind }
            height = Int(body[1]) << 8 | Int(body[2])
            width = Int(body[3]) << 8 | Int(body[4])
            // A height of none is said behind the first scan: nobody does that.
            guard width > 0, height > 0 else { throw .unknownKind }
            guard width * height <= pixelLimit else { throw .tooLarge }
            self.isProgressive = isProgressive
            kept = width * height > fullLimit ? 1 : 64
            for index in 0..<Int(body[5]) {
                let (factors, table) = (body[7 + 3 * index], body[8 + 3 * index])
                let component = Component(
                    id: body[6 + 3 * index], across: Int(factors >> 4), down: Int(factors & 15), table: Int(table))
                guard (1...4).contains(component.across), (1...4).contains(component.down), table < 4 else {
                    throw .damaged
                }
                components.append(component)
            }
            if components.count == 1 { (components[0].across, components[0].down) = (1, 1) }
            mostAcross = components.map(\.across).max() ?? 1
            mostDown = components.map(\.down).max() ?? 1
            let unitsAcross = Self.up(width, 8 * mostAcross)
            let unitsDown = Self.up(height, 8 * mostDown)
            for index in components.indices {
                let (across, down) = (components[index].across, components[index].down)
                components[index].columns = unitsAcross * across
                components[index].rows = unitsDown * down
                components[index].usedColumns = Self.up(Self.up(width * across, mostAcross), 8)
                components[index].usedRows = Self.up(Self.up(height * down, mostDown), 8)
                components[index].coefficients = [Int16](
                    repeating: 0, count: components[index].columns * components[index].rows * kept)
            }
        }

        private static func up(_ number: Int, _ step: Int) -> Int { (number + step - 1) / step }

        private mutating func readQuantisation(_ body: [UInt8]) throws(Failure) {
            var at = 0
            while at < body.count {
                let (isWide, table) = (body[at] >> 4 != 0, Int(body[at] & 15))
                let size = isWide ? 128 : 64
                guard table < 4, at + 1 + size <= body.count else { throw .damaged }
                quantisation[table] = (0..<64).map { index in
                    isWide
                        ? UInt16(body[at + 1 + 2 * index]) << 8 | UInt16(body[at + 2 + 2 * index])
                        : UInt16(body[at + 1 + index])
                }
                at += 1 + size
            }
        }

        private mutating func readCodes(_ body: [UInt8]) throws(Failure) {
            var at = 0
            while at < body.count {
                guard at + 17 <= body.count else { throw .damaged }
                let (kind, table) = (body[at] >> 4, Int(body[at] & 15))
                let counts = body[(at + 1)..<(at + 17)]
                let count = counts.reduce(0) { $0 + Int($1) }
                guard kind < 2, table < 4, count <= 256, at + 17 + count <= body.count else { throw .damaged }
                let codes = try Codes(counts: counts, symbols: Array(body[(at + 17)..<(at + 17 + count)]))
                if kind == 0 { direct[table] = codes } else { alternating[table] = codes }
                at += 17 + count
            }
        }

        // MARK: - Scans

        private mutating func readScan(_ body: [UInt8]) throws(Failure) {
            guard !components.isEmpty, let count = body.first.map({ Int($0) }), (1...4).contains(count),
                body.count == 4 + 2 * count
            else { throw .damaged }
            var chosen: [Int] = []
            for index in 0..<count {
                let (id, tables) = (body[1 + 2 * index], body[2 + 2 * index])
                guard let component = components.firstIndex(where: { $0.id == id }), !chosen.contains(component),
                    tables >> 4 < 4, tables & 15 < 4
                else { throw .damaged }
                components[component].direct = Int(tables >> 4)
                components[component].alternating = Int(tables & 15)
                components[component].last = 0
                if components[component].quantisation == nil {
                    components[component].quantisation = quantisation[components[component].table]
                }
                chosen.append(component)
            }
            let scan = Scan(
                first: Int(body[1 + 2 * count]), last: Int(body[2 + 2 * count]), high: Int(body[3 + 2 * count] >> 4),
                low: Int(body[3 + 2 * count] & 15))
            if isProgressive {
                guard scan.first <= scan.last, scan.last < 64, scan.first > 0 ? count == 1 : scan.last == 0,
                    scan.low < 14, scan.high < 14
                else { throw .damaged }
            }
            scans += 1
            guard scans <= scanLimit else { throw .tooLarge }
            endOfBand = 0
            var bits = Bits(bytes, at: at)
            // The other coefficients are of no use where the first alone is kept.
            if !(isProgressive && scan.first > 0 && kept == 1) { try decode(scan, of: chosen, &bits) }
            bits.toMarker()
            at = bits.at
        }

        private mutating func decode(_ scan: Scan, of chosen: [Int], _ bits: inout Bits) throws(Failure) {
            let isAlone = chosen.count == 1
            let one = components[chosen[0]]
            let across = isAlone ? one.usedColumns : one.columns / one.across
            let down = isAlone ? one.usedRows : one.rows / one.down
            visits += chosen.reduce(0) {
                $0 + across * down * (isAlone ? 1 : components[$1].across * components[$1].down)
            }
            guard visits <= visitLimit else { throw .tooLarge }
            var left = interval
            for unit in 0..<(across * down) {
                if interval > 0 {
                    if left == 0 {
                        try bits.restart()
                        for index in chosen { components[index].last = 0 }
                        (endOfBand, left) = (0, interval)
                    }
                    left -= 1
                }
                let (row, column) = unit.quotientAndRemainder(dividingBy: across)
                for index in chosen {
                    let (width, height) =
                        isAlone ? (1, 1) : (components[index].across, components[index].down)
                    for inner in 0..<(width * height) {
                        let position =
                            (row * height + inner / width) * components[index].columns + column * width + inner % width
                        try block(at: position * kept, of: index, scan, &bits)
                    }
                }
            }
        }

        private mutating func block(at start: Int, of index: Int, _ scan: Scan, _ bits: inout Bits) throws(Failure) {
            if !isProgressive {
                try sequential(at: start, of: index, &bits)
            } else if scan.first == 0 {
                try progressiveDirect(at: start, of: index, scan, &bits)
            } else if scan.high == 0 {
                try progressiveBand(at: start, of: index, scan, &bits)
            } else {
                try refinedBand(at: start, of: index, scan, &bits)
            }
        }

        /// Reads by how much the mean of a block differs from the one before, and returns it (§F.2.2.1).
        private mutating func mean(of index: Int, _ bits: inout Bits) throws(Failure) -> Int {
            guard let codes = direct[components[index].direct] else { throw .damaged }
            let size = try codes.next(&bits)
            guard size <= 15 else { throw .damaged }
            components[index].last &+= try bits.number(size)
            return components[index].last
        }

        private mutating func sequential(at start: Int, of index: Int, _ bits: inout Bits) throws(Failure) {
            components[index].coefficients[start] = Int16(truncatingIfNeeded: try mean(of: index, &bits))
            guard let codes = alternating[components[index].alternating] else { throw .damaged }
            var position = 1
            while position < 64 {
                let symbol = try codes.next(&bits)
                let (run, size) = (symbol >> 4, symbol & 15)
                guard size > 0 else {
                    guard run == 15 else { return }
                    position += 16
                    continue
                }
                position += run
                guard position < 64 else { throw .damaged }
                let value = try bits.number(size)
                if kept == 64 { components[index].coefficients[start + position] = Int16(truncatingIfNeeded: value) }
                position += 1
            }
        }

        private mutating func progressiveDirect(
            at start: Int, of index: Int, _ scan: Scan, _ bits: inout Bits
        ) throws(Failure) {
            if scan.high == 0 {
                let value = try mean(of: index, &bits)
                components[index].coefficients[start] = Int16(truncatingIfNeeded: value << scan.low)
            } else if try bits.take(1) == 1 {
                components[index].coefficients[start] |= 1 << Int16(scan.low)
            }
        }

        /// The first bits of some coefficients (§G.1.2.2).
        private mutating func progressiveBand(
            at start: Int, of index: Int, _ scan: Scan, _ bits: inout Bits
        ) throws(Failure) {
            if endOfBand > 0 {
                endOfBand -= 1
                return
            }
            guard let codes = alternating[components[index].alternating] else { throw .damaged }
            var position = scan.first
            while position <= scan.last {
                let symbol = try codes.next(&bits)
                let (run, size) = (symbol >> 4, symbol & 15)
                guard size > 0 else {
                    guard run == 15 else {
                        endOfBand = (1 << run) - 1 + (try bits.take(run))
                        return
                    }
                    position += 16
                    continue
                }
                position += run
                guard position <= scan.last else { throw .damaged }
                components[index].coefficients[start + position] = Int16(
                    truncatingIfNeeded: try bits.number(size) << scan.low)
                position += 1
            }
        }

        /// One more bit of some coefficients (§G.1.2.3).
        private mutating func refinedBand(
            at start: Int, of index: Int, _ scan: Scan, _ bits: inout Bits
        ) throws(Failure) {
            let bit = Int16(1) << Int16(scan.low)
            guard let codes = alternating[components[index].alternating] else { throw .damaged }
            /// Takes the further bit of a coefficient that is there already.
            func refine(_ value: inout Int16) throws(Failure) {
                guard try bits.take(1) == 1, value & bit == 0 else { return }
                value = value >= 0 ? value &+ bit : value &- bit
            }
            var position = scan.first
            if endOfBand == 0 {
                while position <= scan.last {
                    let symbol = try codes.next(&bits)
                    var (run, size) = (symbol >> 4, symbol & 15)
                    var new: Int16 = 0
                    if size > 0 {
                        guard size == 1 else { throw .damaged }
                        new = try bits.take(1) == 1 ? bit : -bit
                    } else if run < 15 {
                        endOfBand = (1 << run) + (try bits.take(run))
                        break
                    }
                    while position <= scan.last {
                        if components[index].coefficients[start + position] != 0 {
                            try refine(&components[index].coefficients[start + position])
                        } else {
                            if run == 0 {
                                if size > 0 { components[index].coefficients[start + position] = new }
                                size = 0
                                position += 1
                                break
                            }
                            run -= 1
                        }
                        position += 1
                    }
                }
            }
            guard endOfBand > 0 else { return }
            while position <= scan.last {
                if components[index].coefficients[start + position] != 0 {
                    try refine(&components[index].coefficients[start + position])
                }
                position += 1
            }
            endOfBand -= 1
        }

        // MARK: - Pixels

        /// The position in its block of each coefficient of a scan (§A.3.6).
        private static let zigzag = [
            0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
            14,
            21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53,
            60, 61, 54, 47, 55, 62, 63,
        ]

        /// Half the cosine of (2x + 1)uπ/16, smaller by √2 for u = 0: at 8u + x (§A.3.3).
        private static let waves: [Float] = (0..<64).map { index in
            let (u, x) = index.quotientAndRemainder(dividingBy: 8)
            guard u > 0 else { return 0.353_553_390_6 }
            // The cosines of 0 to 8 sixteenths of π; the others mirror them.
            let cosines: [Float] = [
                1, 0.980_785_280_4, 0.923_879_532_5, 0.831_469_612_3, 0.707_106_781_2, 0.555_570_233, 0.382_683_432_4,
                0.195_090_322, 0,
            ]
            let angle = (2 * x + 1) * u % 32
            let folded = angle > 16 ? 32 - angle : angle
            return 0.5 * (folded > 8 ? -cosines[16 - folded] : cosines[folded])
        }

        private mutating func picture() throws(Failure) -> Picture {
            for index in components.indices {
                guard let table = components[index].quantisation else { throw .damaged }
                components[index].samples =
                    kept == 1 ? Self.means(components[index], table) : Self.samples(components[index], table)
            }
            let scale = kept == 1 ? 8 : 1
            let (columns, rows) = (Self.up(width, scale), Self.up(height, scale))
            // With Adobe's word, a printer's colours are stored as how much of each is not there.
            let isColour = components.count == 3 ? transform != 0 && !isNamed("RGB") : transform == 2
            let planes = components.map { component in
                (
                    samples: component.samples, stride: component.columns * (kept == 1 ? 1 : 8),
                    across: component.across, down: component.down
                )
            }
            func sample(_ index: Int, _ column: Int, _ row: Int) -> Int {
                Int(
                    planes[index].samples[
                        row * planes[index].down / mostDown * planes[index].stride
                            + column * planes[index].across / mostAcross])
            }
            var pixels = [UInt8](repeating: 0, count: columns * rows * 3)
            var at = 0
            for row in 0..<rows {
                for column in 0..<columns {
                    let first = sample(0, column, row)
                    var color = (first, first, first)
                    if planes.count > 2 { color = (first, sample(1, column, row), sample(2, column, row)) }
                    if isColour { color = Self.rgb(color) }
                    if planes.count == 4 {
                        var black = sample(3, column, row)
                        if transform != 0 { color = (255 - color.0, 255 - color.1, 255 - color.2) }
                        if transform == nil { black = 255 - black }
                        color = (color.0 * black / 255, color.1 * black / 255, color.2 * black / 255)
                    }
                    pixels[at] = UInt8(color.0)
                    pixels[at + 1] = UInt8(color.1)
                    pixels[at + 2] = UInt8(color.2)
                    at += 3
                }
            }
            return Picture(width: columns, height: rows, pixels: pixels)
        }

        private func isNamed(_ text: String) -> Bool { components.map(\.id).elementsEqual(text.utf8) }

        /// The colour of luminance and two differences of colour (ITU-T T.871).
        private static func rgb(_ values: (Int, Int, Int)) -> (Int, Int, Int) {
            let (y, blue, red) = (values.0 << 16, values.1 - 128, values.2 - 128)
            func clamped(_ value: Int) -> Int { min(max((value + 1 << 15) >> 16, 0), 255) }
            return (
                clamped(y + 91_881 * red), clamped(y - 22_554 * blue - 46_802 * red), clamped(y + 116_130 * blue)
            )
        }

        private static func byte(_ value: Float) -> UInt8 { UInt8(min(max(value + 128.5, 0), 255)) }

        /// A sample for each block.
        private static func means(_ component: Component, _ table: [UInt16]) -> [UInt8] {
            component.coefficients.map { byte(Float($0) * Float(table[0]) / 8) }
        }

        /// All samples, by the inverse of the cosine transform, first down and then across.
        private static func samples(_ component: Component, _ table: [UInt16]) -> [UInt8] {
            let stride = component.columns * 8
            var samples = [UInt8](repeating: 0, count: stride * component.rows * 8)
            var (block, half) = ([Float](repeating: 0, count: 64), [Float](repeating: 0, count: 64))
            for number in 0..<(component.columns * component.rows) {
                let (row, column) = number.quotientAndRemainder(dividingBy: component.columns)
                var isFlat = true
                for index in 0..<64 {
                    let value = component.coefficients[number * 64 + index]
                    if index > 0, value != 0 { isFlat = false }
                    block[zigzag[index]] = Float(value) * Float(table[index])
                }
                let start = row * 8 * stride + column * 8
                if isFlat {
                    let value = byte(block[0] / 8)
                    for y in 0..<8 { for x in 0..<8 { samples[start + y * stride + x] = value } }
                    continue
                }
                for u in 0..<8 {
                    for y in 0..<8 {
                        var sum: Float = 0
                        for v in 0..<8 { sum += block[8 * v + u] * waves[8 * v + y] }
                        half[8 * y + u] = sum
                    }
                }
                for y in 0..<8 {
                    for x in 0..<8 {
                        var sum: Float = 0
                        for u in 0..<8 { sum += half[8 * y + u] * waves[8 * u + x] }
                        samples[start + y * stride + x] = byte(sum)
                    }
                }
            }
            return samples
        }
    }
}
