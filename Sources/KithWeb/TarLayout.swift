/// A tar archive (POSIX.1-2001, pax): each entry in blocks of 512 bytes.
enum TarLayout {
    private static let block = 512

    /// The size of an archive, in bytes.
    static func size(_ entries: [ArchiveEntry]) -> UInt64 {
        entries.reduce(UInt64(2 * block)) { $0 + UInt64(header($1).count) + $1.size + UInt64(padding($1)) }
    }

    /// The bytes that fill the last block of an entry.
    static func padding(_ entry: ArchiveEntry) -> Int {
        Int((UInt64(block) - entry.size % UInt64(block)) % UInt64(block))
    }

    /// The end of an archive.
    static let end = [UInt8](repeating: 0, count: 2 * block)

    /// What stands before the contents of an entry.
    static func header(_ entry: ArchiveEntry) -> [UInt8] {
        let name = Array((entry.isFolder ? entry.name + "/" : entry.name).utf8)
        var records: [UInt8] = []
        if name.count > 100 || !name.allSatisfy({ $0 < 0x80 }) { records += record("path", name) }
        if entry.size > 0o77_777_777_777 { records += record("size", Array(String(entry.size).utf8)) }
        if entry.modified < 0 || entry.modified > 0o77_777_777_777 {
            records += record("mtime", Array(String(entry.modified).utf8))
        }
        var bytes: [UInt8] = []
        if !records.isEmpty {
            bytes += ustar(Array("pax".utf8), size: UInt64(records.count), mode: 0o644, modified: 0, kind: "x")
            bytes += records
            bytes += [UInt8](repeating: 0, count: (block - records.count % block) % block)
        }
        return bytes
            + ustar(
                Array(name.prefix(100)), size: entry.size, mode: entry.mode, modified: entry.modified,
                kind: entry.isFolder ? "5" : "0")
    }

    private static func record(_ key: String, _ value: [UInt8]) -> [UInt8] {
        let rest = Array(" \(key)=".utf8) + value + [0x0A]
        // Its own length counts.
        var count = rest.count + 1
        while String(count).utf8.count + rest.count != count { count = String(count).utf8.count + rest.count }
        return Array(String(count).utf8) + rest
    }

    private static func ustar(_ name: [UInt8], size: UInt64, mode: UInt32, modified: Int64, kind: Character) -> [UInt8]
    {
        var bytes = [UInt8](repeating: 0, count: block)
        func put(_ value: [UInt8], at place: Int) { bytes.replaceSubrange(place..<place + value.count, with: value) }
        func octal(_ number: UInt64, _ digits: Int) -> [UInt8] {
            let text = String(number, radix: 8)
            return Array((String(repeating: "0", count: max(0, digits - text.count)) + text.suffix(digits)).utf8)
        }
        put(name, at: 0)
        put(octal(UInt64(mode & 0o777), 7), at: 100)
        put(octal(0, 7), at: 108)
        put(octal(0, 7), at: 116)
        put(octal(min(size, 0o77_777_777_777), 11), at: 124)
        put(octal(UInt64(clamping: min(modified, 0o77_777_777_777)), 11), at: 136)
        put(Array("        ".utf8), at: 148)
        put(Array(String(kind).utf8), at: 156)
        put(Array("ustar\u{0}00".utf8), at: 257)
        let sum = bytes.reduce(0) { $0 + UInt64($1) }
        put(octal(sum, 6) + [0, 0x20], at: 148)
        return bytes
    }
}
