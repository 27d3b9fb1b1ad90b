/// The directory of a ZIP archive (APPNOTE 6.3, with Zip64), of which single files are unpacked.
struct ZipArchive {
    /// The most files, and the most bytes of the directory.
    private static let (countLimit, directoryLimit) = (16_384, 4 << 20)

    /// A file in it.
    struct Entry {
        var name: String
        /// 0: stored, 8: deflated; others are not read.
        var method: UInt64
        var packedSize: UInt64
        var offset: UInt64
    }

    let entries: [Entry]
    private let source: any ByteSource

    /// Reads the directory; `nil` when there is none.
    init?(_ source: any ByteSource) {
        self.source = source
        // At the end, before a comment of at most 65,535 bytes.
        let tailSize = min(source.size, 65_557)
        let tail = MemorySource(source.bytes(at: source.size - tailSize, count: Int(tailSize)))
        guard tail.size >= 22 else { return nil }
        var at = tail.size - 22
        while tail.little(at, 4) != 0x0605_4B50 {
            guard at > 0 else { return nil }
            at -= 1
        }
        guard var size = tail.little(at + 12, 4), var start = tail.little(at + 16, 4) else { return nil }
        if size == Self.elsewhere || start == Self.elsewhere {
            guard let place = Self.zip64Directory(source, before: source.size - tailSize + at) else { return nil }
            (size, start) = place
        }
        guard size <= Self.directoryLimit else { return nil }
        let directory = MemorySource(source.bytes(at: start, count: Int(size)))
        var entries: [Entry] = []
        var place: UInt64 = 0
        while entries.count < Self.countLimit, directory.little(place, 4) == 0x0201_4B50,
            let method = directory.little(place + 10, 2), let packed = directory.little(place + 20, 4),
            let nameLength = directory.little(place + 28, 2), let extra = directory.little(place + 30, 2),
            let comment = directory.little(place + 32, 2), let offset = directory.little(place + 42, 4)
        {
            let name = directory.bytes(at: place + 46, count: Int(nameLength))
            var entry = Entry(
                name: String(decoding: name, as: UTF8.self), method: method, packedSize: packed, offset: offset)
            if packed == Self.elsewhere || offset == Self.elsewhere {
                Self.readZip64(
                    SourceSlice(directory, from: place + 46 + nameLength, size: extra),
                    isWholeSizeThere: directory.little(place + 24, 4) == Self.elsewhere, &entry)
            }
            // One that begins behind the end is not there.
            if entry.offset < source.size { entries.append(entry) }
            place += 46 + nameLength + extra + comment
        }
        guard !entries.isEmpty else { return nil }
        self.entries = entries
    }

    /// A number of 4 bytes whose 8 bytes stand elsewhere.
    private static let elsewhere: UInt64 = 0xFFFF_FFFF

    /// The size and the start of the directory, by the record of Zip64 (APPNOTE 4.3.14) that stands before the usual one.
    private static func zip64Directory(
        _ source: any ByteSource, before end: UInt64
    ) -> (size: UInt64, start: UInt64)? {
        // Its locator says where it is (4.3.15).
        guard end >= 20, source.little(end - 20, 4) == 0x0706_4B50, let record = source.little(end - 12, 8),
            record < source.size, source.little(record, 4) == 0x0606_4B50, let size = source.little(record + 40, 8),
            let start = source.little(record + 48, 8), start < source.size
        else { return nil }
        return (size, start)
    }

    /// Reads the numbers of an entry that have 8 bytes in its extra field (APPNOTE 4.5.3): the size, the packed size and the
    /// offset, those of them that are not in their places.
    private static func readZip64(_ extra: any ByteSource, isWholeSizeThere: Bool, _ entry: inout Entry) {
        var place: UInt64 = 0
        while let kind = extra.little(place, 2), let size = extra.little(place + 2, 2) {
            guard kind == 1 else {
                place += 4 + size
                continue
            }
            var at = place + 4 + (isWholeSizeThere ? 8 : 0)
            if entry.packedSize == elsewhere {
                entry.packedSize = extra.little(at, 8) ?? elsewhere
                at += 8
            }
            if entry.offset == elsewhere { entry.offset = extra.little(at, 8) ?? .max }
            return
        }
    }

    subscript(_ name: String) -> Entry? { entries.first { $0.name == name } }

    /// The beginning of a file: at most `limit` bytes, and as much of it as is whole.
    func content(of entry: Entry, limit: Int) -> [UInt8] {
        guard source.little(entry.offset, 4) == 0x0403_4B50, let name = source.little(entry.offset + 26, 2),
            let extra = source.little(entry.offset + 28, 2)
        else { return [] }
        let start = entry.offset + 30 + name + extra
        let packed = source.bytes(at: start, count: Int(min(entry.packedSize, UInt64(limit))))
        switch entry.method {
        case 0: return packed
        case 8: return Inflate.prefix(packed, limit: limit)
        default: return []
        }
    }
}
