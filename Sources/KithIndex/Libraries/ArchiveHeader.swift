/// The block before each file of a tar archive (POSIX.1-1988 "ustar"), as far as the archives of libraries have it:
/// regular files in no folder.
///
///     0 name (100) · 100 mode (8) · 108 user (8) · 116 group (8) · 124 size (12) · 136 time (12) · 148 sum (8)
///     156 type (1) · 157 link (100) · 257 "ustar" NUL "00" · 265 user name … · 345 prefix (155) · 500 nothing (12)
struct ArchiveHeader: Hashable {
    /// The bytes of a block, and what files are filled up to.
    static let size = 512

    var name: String
    /// Bytes.
    var count: UInt64
    /// Seconds since 1970.
    var modified: Int64

    enum Failure: Error { case notArchive, notPlainFile }

    func encoded() -> [UInt8] {
        var block = [UInt8](repeating: 0, count: Self.size)
        func put(_ bytes: some Sequence<UInt8>, at offset: Int) {
            for (index, byte) in bytes.enumerated() { block[offset + index] = byte }
        }
        func octal(_ number: UInt64, digits: Int) -> [UInt8] {
            let text = String(number, radix: 8)
            return Array((String(repeating: "0", count: max(0, digits - text.count)) + text).utf8)
        }
        precondition(name.utf8.count <= 100, "the names in an archive are our own")
        put(name.utf8, at: 0)
        put(octal(0o600, digits: 7), at: 100)
        put(octal(0, digits: 7), at: 108)
        put(octal(0, digits: 7), at: 116)
        if count < 1 << 33 {
            put(octal(count, digits: 11), at: 124)
        } else {
            // As GNU, BSD and star have it: a number in base 256, after a byte with its highest bit set.
            block[124] = 0x80
            put((0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * UInt64($0))) }, at: 128)
        }
        put(octal(UInt64(clamping: modified), digits: 11).suffix(11), at: 136)
        put(Array("        ".utf8), at: 148)
        block[156] = UInt8(ascii: "0")
        put(Array("ustar".utf8) + [0] + Array("00".utf8), at: 257)
        put(octal(UInt64(Self.sum(block)), digits: 6) + [0, UInt8(ascii: " ")], at: 148)
        return block
    }

    /// Reads a block; `nil` for the one of zeros that ends an archive.
    init?(_ block: [UInt8]) throws(Failure) {
        guard block.count == Self.size else { throw .notArchive }
        if block.allSatisfy({ $0 == 0 }) { return nil }
        var unsummed = block
        for index in 148..<156 { unsummed[index] = UInt8(ascii: " ") }
        guard block[257..<262].elementsEqual("ustar".utf8), let sum = Self.octal(block[148..<156]),
            sum == UInt64(Self.sum(unsummed))
        else { throw .notArchive }
        guard block[156] == UInt8(ascii: "0") || block[156] == 0, block[157] == 0, block[345] == 0 else {
            throw .notPlainFile
        }
        let name = block[..<100].prefix { $0 != 0 }
        guard !name.isEmpty, name.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }) else {
            throw .notPlainFile
        }
        self.name = String(decoding: name, as: UTF8.self)
        if block[124] & 0x80 != 0 {
            guard block[124] == 0x80, block[125..<128].allSatisfy({ $0 == 0 }) else { throw .notArchive }
            count = block[128..<136].reduce(0) { $0 << 8 | UInt64($1) }
        } else {
            guard let count = Self.octal(block[124..<136]) else { throw .notArchive }
            self.count = count
        }
        guard let modified = Self.octal(block[136..<148]) else { throw .notArchive }
        self.modified = Int64(clamping: modified)
    }

    init(name: String, count: UInt64, modified: Int64) {
        (self.name, self.count, self.modified) = (name, count, modified)
    }

    private static func sum(_ block: [UInt8]) -> UInt32 { block.reduce(0) { $0 + UInt32($1) } }

    /// An octal number, with what may stand around it; at most twelve digits, so that nothing overflows.
    private static func octal(_ field: ArraySlice<UInt8>) -> UInt64? {
        let digits = field.drop { $0 == UInt8(ascii: " ") }.prefix { $0 != 0 && $0 != UInt8(ascii: " ") }
        guard !digits.isEmpty else { return nil }
        var number: UInt64 = 0
        for digit in digits {
            guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "7") else { return nil }
            number = number << 3 | UInt64(digit - UInt8(ascii: "0"))
        }
        return number
    }
}
