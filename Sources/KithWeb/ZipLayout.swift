import CZlib
import KithWire

/// A ZIP archive (APPNOTE 6.3.10) of entries that are stored as they are.
///
/// Sizes stand in front of each entry, in the fields of ZIP64 where they need them. The checksum stands there, too, where the
/// contents were read beforehand, as those of small files are; of others it follows.
struct ZipLayout: Sendable {
    /// A file up to this size is read whole before its entry is written.
    static let smallSize: UInt64 = 1 << 20

    let entries: [ArchiveEntry]
    /// The size of the archive, in bytes.
    let size: UInt64
    private let directoryStart: UInt64
    private let directorySize: UInt64

    /// Lays out an archive.
    init(_ entries: [ArchiveEntry]) {
        self.entries = entries
        var (offset, directory): (UInt64, UInt64) = (0, 0)
        for entry in entries {
            directory += UInt64(Self.directoryLength(entry, at: offset))
            offset += Self.length(entry)
        }
        (directoryStart, directorySize) = (offset, directory)
        size = offset + directory + UInt64(Self.endLength(entries.count, directory, offset))
    }

    private static let limit32 = UInt64(UInt32.max)

    static func isLarge(_ entry: ArchiveEntry) -> Bool { entry.size >= limit32 }
    /// Tells whether the checksum of an entry comes after it.
    static func isTrailed(_ entry: ArchiveEntry) -> Bool { entry.size > smallSize }

    private static func name(_ entry: ArchiveEntry) -> [UInt8] {
        var name = Array(entry.name.utf8.prefix(65_000))
        if entry.isFolder { name.append(UInt8(ascii: "/")) }
        return name
    }

    /// The bytes of an entry, with its contents.
    private static func length(_ entry: ArchiveEntry) -> UInt64 {
        UInt64(30 + name(entry).count + (isLarge(entry) ? 20 : 0) + 9) + entry.size
            + (isTrailed(entry) ? (isLarge(entry) ? 24 : 16) : 0)
    }

    private static func directoryLength(_ entry: ArchiveEntry, at offset: UInt64) -> Int {
        46 + name(entry).count + directoryExtra(entry, at: offset).count
    }

    /// What stands before the contents of an entry; `crc` is their checksum, unless it follows.
    static func header(_ entry: ArchiveEntry, crc: UInt32) -> [UInt8] {
        var writer = LittleWriter()
        let name = name(entry)
        writer.append(UInt32(0x0403_4B50))
        writer.append(UInt16(isLarge(entry) ? 45 : 20))
        writer.append(flags(entry))
        writer.append(UInt16(0))
        writer.append(time(entry))
        writer.append(isTrailed(entry) ? UInt32(0) : crc)
        let size = isLarge(entry) ? UInt32.max : UInt32(entry.size)
        writer.append(size)
        writer.append(size)
        writer.append(UInt16(name.count))
        writer.append(UInt16((isLarge(entry) ? 20 : 0) + 9))
        writer.bytes += name
        if isLarge(entry) {
            writer.append(UInt16(1))
            writer.append(UInt16(16))
            writer.append(entry.size)
            writer.append(entry.size)
        }
        writer.appendTime(entry)
        return writer.bytes
    }

    /// What stands behind the contents of an entry whose checksum follows; nothing for others.
    static func trailer(_ entry: ArchiveEntry, crc: UInt32) -> [UInt8] {
        guard isTrailed(entry) else { return [] }
        var writer = LittleWriter()
        writer.append(UInt32(0x0807_4B50))
        writer.append(crc)
        if isLarge(entry) {
            writer.append(entry.size)
            writer.append(entry.size)
        } else {
            writer.append(UInt32(entry.size))
            writer.append(UInt32(entry.size))
        }
        return writer.bytes
    }

    /// The directory at the end, in pieces; `checksums` are those of all entries, in order.
    func directory(_ checksums: [UInt32], _ body: ([UInt8]) async throws -> Void) async rethrows {
        var writer = LittleWriter()
        var offset: UInt64 = 0
        for (entry, crc) in zip(entries, checksums) {
            let name = Self.name(entry)
            let extra = Self.directoryExtra(entry, at: offset)
            writer.append(UInt32(0x0201_4B50))
            // Made by version 4.5, on a Unix.
            writer.append(UInt16(3 << 8 | 45))
            writer.append(UInt16(Self.isLarge(entry) || offset >= Self.limit32 ? 45 : 20))
            writer.append(Self.flags(entry))
            writer.append(UInt16(0))
            writer.append(Self.time(entry))
            writer.append(crc)
            let size = Self.isLarge(entry) ? UInt32.max : UInt32(entry.size)
            writer.append(size)
            writer.append(size)
            writer.append(UInt16(name.count))
            writer.append(UInt16(extra.count))
            writer.append(UInt16(0))
            writer.append(UInt16(0))
            writer.append(UInt16(0))
            let kind: UInt32 = entry.isFolder ? 0o040_000 : 0o100_000
            writer.append((kind | entry.mode & 0o777) << 16 | (entry.isFolder ? 0x10 : 0))
            writer.append(offset >= Self.limit32 ? UInt32.max : UInt32(offset))
            writer.bytes += name + extra
            offset += Self.length(entry)
            if writer.bytes.count >= 128 << 10 {
                try await body(writer.bytes)
                writer.bytes = []
            }
        }
        try await body(writer.bytes + end)
    }

    /// Sizes and place where 32 bits are not enough, and the time.
    private static func directoryExtra(_ entry: ArchiveEntry, at offset: UInt64) -> [UInt8] {
        var writer = LittleWriter()
        let isFar = offset >= limit32
        if isLarge(entry) || isFar {
            writer.append(UInt16(1))
            writer.append(UInt16((isLarge(entry) ? 16 : 0) + (isFar ? 8 : 0)))
            if isLarge(entry) {
                writer.append(entry.size)
                writer.append(entry.size)
            }
            if isFar { writer.append(offset) }
        }
        writer.appendTime(entry)
        return writer.bytes
    }

    private static func needs64(_ count: Int, _ directory: UInt64, _ start: UInt64) -> Bool {
        count >= 0xFFFF || directory >= limit32 || start >= limit32
    }

    private static func endLength(_ count: Int, _ directory: UInt64, _ start: UInt64) -> Int {
        22 + (needs64(count, directory, start) ? 56 + 20 : 0)
    }

    /// The end of the directory.
    private var end: [UInt8] {
        var writer = LittleWriter()
        let count = entries.count
        if Self.needs64(count, directorySize, directoryStart) {
            writer.append(UInt32(0x0606_4B50))
            writer.append(UInt64(44))
            writer.append(UInt16(3 << 8 | 45))
            writer.append(UInt16(45))
            writer.append(UInt32(0))
            writer.append(UInt32(0))
            writer.append(UInt64(count))
            writer.append(UInt64(count))
            writer.append(directorySize)
            writer.append(directoryStart)
            writer.append(UInt32(0x0706_4B50))
            writer.append(UInt32(0))
            writer.append(directoryStart + directorySize)
            writer.append(UInt32(1))
        }
        writer.append(UInt32(0x0605_4B50))
        writer.append(UInt16(0))
        writer.append(UInt16(0))
        writer.append(UInt16(clamping: count))
        writer.append(UInt16(clamping: count))
        writer.append(UInt32(clamping: directorySize))
        writer.append(UInt32(clamping: directoryStart))
        writer.append(UInt16(0))
        return writer.bytes
    }

    /// The flags of an entry: bit 11 says that its name is UTF-8, bit 3 that its checksum follows.
    private static func flags(_ entry: ArchiveEntry) -> UInt16 { 1 << 11 | (isTrailed(entry) ? 1 << 3 : 0) }

    /// The time in the form of DOS, in UTC, two seconds exact; the field of Unix beside it is better.
    private static func time(_ entry: ArchiveEntry) -> UInt32 {
        // 1980 to 2107.
        let seconds = min(max(entry.modified, 315_532_800), 4_354_819_198)
        let (year, month, day) = date(seconds / 86_400)
        let rest = seconds % 86_400
        let date = UInt32(year - 1980) << 9 | UInt32(month) << 5 | UInt32(day)
        return date << 16 | UInt32(rest / 3600) << 11 | UInt32(rest / 60 % 60) << 5 | UInt32(rest % 60 / 2)
    }

    /// The date of a day since 1970 (Howard Hinnant's algorithm).
    private static func date(_ days: Int64) -> (Int64, Int64, Int64) {
        let z = days + 719_468
        let era = z / 146_097
        let dayOfEra = z - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shifted + 2) / 5 + 1)
    }
}

/// The checksum of ZIP archives.
struct CRC32 {
    private(set) var value: UInt32 = 0

    mutating func update(_ bytes: [UInt8]) {
        value = unsafe bytes.withUnsafeBufferPointer { buffer in
            unsafe UInt32(truncatingIfNeeded: crc32_z(UInt(value), buffer.baseAddress, buffer.count))
        }
    }
}

/// Writes numbers with their lowest byte first.
private struct LittleWriter {
    var bytes: [UInt8] = []

    mutating func append<Number: FixedWidthInteger>(_ number: Number) {
        for index in 0..<Number.bitWidth / 8 { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
    }

    /// The field with the time of the last change, in seconds since 1970.
    mutating func appendTime(_ entry: ArchiveEntry) {
        append(UInt16(0x5455))
        append(UInt16(5))
        bytes.append(1)
        append(Int32(clamping: entry.modified))
    }
}
