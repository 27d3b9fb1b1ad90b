/// The latest output of a session, by position, so that a client that lost the connection goes on where it was.
///
/// Positions count every byte since the session began, of both sources together. A pure value.
package struct OutputLog: Sendable {
    /// A run of bytes from one source.
    package struct Piece: Hashable, Sendable {
        package var source: ShellProcess.Source
        package var bytes: ArraySlice<UInt8>
    }

    private struct Chunk: Sendable {
        var source: ShellProcess.Source
        var start: UInt64
        var bytes: [UInt8]

        var end: UInt64 { start + UInt64(bytes.count) }
    }

    /// Small writes are gathered up to this.
    private static let chunkSize = 32 << 10

    private var chunks: [Chunk] = []
    private var first = 0
    /// The position of the oldest byte that is still there.
    package private(set) var start: UInt64 = 0
    /// The position the next byte will have.
    package private(set) var end: UInt64 = 0

    package init() {}

    /// The number of bytes held.
    package var count: Int { Int(end - start) }

    /// Adds what was written.
    package mutating func append(_ bytes: [UInt8], from source: ShellProcess.Source) {
        guard !bytes.isEmpty else { return }
        if let last = chunks.indices.last, last >= first, chunks[last].source == source,
            chunks[last].bytes.count + bytes.count <= Self.chunkSize
        {
            chunks[last].bytes += bytes
        } else {
            chunks.append(Chunk(source: source, start: end, bytes: bytes))
        }
        end += UInt64(bytes.count)
    }

    /// The bytes from `position` on, at most `limit` of them and of one source; `nil` at the end.
    ///
    /// `position` must not lie before ``start``.
    package func piece(from position: UInt64, limit: Int) -> Piece? {
        precondition(position >= start, "what is asked for was let go of")
        guard position < end, limit > 0 else { return nil }
        var low = first
        var high = chunks.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if chunks[middle].start <= position { low = middle } else { high = middle }
        }
        let chunk = chunks[low]
        let offset = Int(position - chunk.start)
        return Piece(source: chunk.source, bytes: chunk.bytes[offset..<min(chunk.bytes.count, offset + limit)])
    }

    /// Lets go of what lies before `position`; whole chunks at a time.
    package mutating func forget(before position: UInt64) {
        while first < chunks.count, chunks[first].end <= min(position, end) {
            chunks[first].bytes = []
            first += 1
        }
        start = first < chunks.count ? chunks[first].start : end
        // Moved rarely, so that letting go of one chunk does not cost what all of them do.
        if first > 64, first * 2 > chunks.count {
            chunks.removeFirst(first)
            first = 0
        }
    }
}
