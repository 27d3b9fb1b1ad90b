/// The directory of a ZIP archive (APPNOTE 6.3), of which single files are unpacked.
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
        guard let size = tail.little(at + 12, 4), let start = tail.little(at + 16, 4), size <= Self.directoryLimit
        else { return nil }
        let directory = MemorySource(source.bytes(at: start, count: Int(size)))
        var entries: [Entry] = []
        var place: UInt64 = 0
        while entries.count < Self.countLimit, directory.little(place, 4) == 0x0201_4B50,
            let method = directory.little(place + 10, 2), let packed = directory.little(place + 20, 4),
            let nameLength = directory.little(place + 28, 2), let extra = directory.little(place + 30, 2),
            let comment = directory.little(place + 32, 2), let offset = directory.little(place + 42, 4)
        {
            let name = directory.bytes(at: place + 46, count: Int(nameLength))
            entries.append(
                Entry(
                    name: String(decoding: name, as: UTF8.self), method: method, packedSize: packed, offset: offset))
            place += 46 + nameLength + extra + comment
        }
        guard !entries.isEmpty else { return nil }
        self.entries = entries
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
