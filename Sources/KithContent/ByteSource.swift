/// The bytes of a file, read where they are wanted.
package protocol ByteSource {
    /// The number of bytes.
    var size: UInt64 { get }

    /// Reads at most `count` bytes at a place; fewer at the end, and where the file cannot be read.
    func bytes(at offset: UInt64, count: Int) -> [UInt8]
}

/// Bytes in memory.
package struct MemorySource: ByteSource {
    private let content: [UInt8]

    /// Reads from `content`.
    package init(_ content: [UInt8]) { self.content = content }

    package var size: UInt64 { UInt64(content.count) }

    package func bytes(at offset: UInt64, count: Int) -> [UInt8] {
        guard let start = Int(exactly: offset), start < content.count, count > 0 else { return [] }
        return Array(content[start..<(start + min(count, content.count - start))])
    }
}

/// Part of a source, as one of its own.
struct SourceSlice: ByteSource {
    private let source: any ByteSource
    private let start: UInt64
    let size: UInt64

    /// The bytes from `start`, at most `size` of them.
    init(_ source: any ByteSource, from start: UInt64, size: UInt64 = .max) {
        self.source = source
        self.start = min(start, source.size)
        self.size = min(size, source.size - min(start, source.size))
    }

    func bytes(at offset: UInt64, count: Int) -> [UInt8] {
        guard offset < size, count > 0 else { return [] }
        return source.bytes(at: start + offset, count: Int(min(UInt64(count), size - offset)))
    }
}

extension ByteSource {
    /// A big-endian number of 1 to 8 bytes; `nil` beyond the end.
    func big(_ offset: UInt64, _ count: Int) -> UInt64? {
        let bytes = bytes(at: offset, count: count)
        return bytes.count == count ? bytes.reduce(0) { $0 << 8 | UInt64($1) } : nil
    }

    /// A little-endian number of 1 to 8 bytes; `nil` beyond the end.
    func little(_ offset: UInt64, _ count: Int) -> UInt64? {
        let bytes = bytes(at: offset, count: count)
        return bytes.count == count ? bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) } : nil
    }

    /// The text of four letters at a place, a byte a letter.
    func code(_ offset: UInt64) -> String? {
        let bytes = bytes(at: offset, count: 4)
        return bytes.count == 4 ? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })) : nil
    }
}
