public import KithWire

/// A text as a QR code (ISO/IEC 18004, model 2), for a camera to read off a terminal.
///
/// The text goes in whole, in the smallest version that holds it: two characters in 11 bits when all are of the 45 that
/// QR codes know (digits, capitals, `$%*+-./:` and the space), else its UTF-8. Tickets and invitations are read in
/// either case, so that ``Ticket/text`` in capitals makes a code a fifth smaller.
public struct QRCode: Hashable, Sendable {
    /// The share of the code that may be unreadable.
    @frozen
    public enum Correction: Hashable, Sendable, CaseIterable {
        /// About 7 %: enough for a screen.
        case low
        /// About 15 %.
        case medium
    }

    /// The version, 1…40, which decides the size.
    public let version: Int
    /// The number of modules of a side: 21 to 177.
    public let size: Int
    private let modules: [Bool]

    /// Encodes a text.
    ///
    /// - Throws: `KithError` `.invalid` when it does not fit: beyond 2,953 bytes or 4,296 of the 45 characters.
    public init(_ text: String, correction: Correction = .low) throws(KithError) {
        let segment = QRSegment(text)
        for version in 1...40 {
            var matrix = QRMatrix(version: version)
            let blocks = QRBlocks(codewords: matrix.freeModules / 8, version: version, correction: correction)
            guard let data = segment.codewords(version: version, capacity: blocks.dataCount) else { continue }
            matrix.place(blocks.interleaved(data))
            matrix.mask(correction: correction)
            self.version = version
            size = matrix.size
            modules = matrix.dark
            return
        }
        throw KithError(.invalid, "A text of \(text.utf8.count) bytes does not fit into a QR code.")
    }

    /// Tells whether a module is dark; those outside are light.
    public subscript(row: Int, column: Int) -> Bool {
        guard (0..<size).contains(row), (0..<size).contains(column) else { return false }
        return modules[row * size + column]
    }

    /// The code as lines of text, two modules to a character one above the other, with a light margin.
    ///
    /// `margin` is how many light modules surround it; the standard asks for 4. `colors` sets black on white by escape
    /// sequences, which is right on every terminal; without them light modules are drawn and dark ones left out, which
    /// is right where the background is dark.
    public func terminal(margin: Int = 4, colors: Bool = false) -> String {
        var lines: [String] = []
        for row in stride(from: -margin, to: size + margin, by: 2) {
            var line = ""
            for column in -margin..<size + margin {
                // A margin of odd height leaves half a line over: it stays as the background is.
                let lower = row + 1 < size + margin ? self[row + 1, column] : !colors
                switch (self[row, column], lower) {
                case (false, false): line += colors ? " " : "█"
                case (false, true): line += colors ? "▄" : "▀"
                case (true, false): line += colors ? "▀" : "▄"
                case (true, true): line += colors ? "█" : " "
                }
            }
            lines.append(colors ? "\u{1B}[38;5;16;48;5;231m\(line)\u{1B}[0m" : line)
        }
        return lines.joined(separator: "\n")
    }
}

/// A text as the bits of one QR segment (ISO/IEC 18004 §7.4).
private struct QRSegment {
    private static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:".utf8)

    private let count: Int
    private let isAlphanumeric: Bool
    /// Says that bytes are UTF-8, when that makes a difference: readers take them for Latin-1, or guess.
    private let prefix: QRBits
    private let body: QRBits

    init(_ text: String) {
        let digits = text.utf8.compactMap { Self.alphabet.firstIndex(of: $0) }
        count = text.utf8.count
        isAlphanumeric = digits.count == count
        var prefix = QRBits()
        if text.utf8.contains(where: { $0 >= 0x80 }) {
            prefix.append(0b0111, 4)
            prefix.append(26, 8)
        }
        self.prefix = prefix
        var body = QRBits()
        if isAlphanumeric {
            for index in stride(from: 0, to: count, by: 2) {
                if index + 1 < count {
                    body.append(digits[index] * 45 + digits[index + 1], 11)
                } else {
                    body.append(digits[index], 6)
                }
            }
        } else {
            for byte in text.utf8 { body.append(Int(byte), 8) }
        }
        self.body = body
    }

    /// The data codewords, padded to `capacity`; `nil` when they do not fit.
    func codewords(version: Int, capacity: Int) -> [UInt8]? {
        let countWidth =
            switch version {
            case ...9: isAlphanumeric ? 9 : 8
            case ...26: isAlphanumeric ? 11 : 16
            default: isAlphanumeric ? 13 : 16
            }
        guard count < 1 << countWidth, prefix.count + 4 + countWidth + body.count <= 8 * capacity else { return nil }
        var bits = prefix
        bits.append(isAlphanumeric ? 0b0010 : 0b0100, 4)
        bits.append(count, countWidth)
        bits.append(body)
        bits.append(0, min(4, 8 * capacity - bits.count))
        bits.append(0, (8 - bits.count % 8) % 8)
        var bytes = bits.bytes
        var pad: UInt8 = 0xEC
        while bytes.count < capacity {
            bytes.append(pad)
            pad ^= 0xEC ^ 0x11
        }
        return bytes
    }
}

/// Bits in a row, most significant first.
private struct QRBits {
    private var bits: [Bool] = []

    var count: Int { bits.count }

    mutating func append(_ value: Int, _ width: Int) {
        for shift in (0..<width).reversed() { bits.append(value >> shift & 1 == 1) }
    }

    mutating func append(_ more: QRBits) { bits += more.bits }

    var bytes: [UInt8] {
        stride(from: 0, to: bits.count, by: 8).map { start in
            bits[start..<start + 8].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
        }
    }
}
