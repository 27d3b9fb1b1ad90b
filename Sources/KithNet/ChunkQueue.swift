/// Bytes in the order they came, kept in the arrays they came in.
struct ChunkQueue {
    private var chunks: [[UInt8]] = []
    /// The first chunk not yet taken.
    private var head = 0
    /// The number of its bytes already taken.
    private var offset = 0
    /// The number of bytes in the queue.
    private(set) var count = 0

    /// Indicates whether there are none.
    var isEmpty: Bool { count == 0 }

    /// The oldest chunk, and where its untaken bytes begin.
    var first: (chunk: [UInt8], offset: Int)? {
        head < chunks.count ? (chunks[head], offset) : nil
    }

    /// Appends a chunk without copying it.
    mutating func append(_ chunk: [UInt8]) {
        guard !chunk.isEmpty else { return }
        chunks.append(chunk)
        count += chunk.count
    }

    /// Appends a copy of `bytes`, to the newest chunk as long as that stays below `limit`.
    mutating func append(copying bytes: UnsafeRawBufferPointer, joiningBelow limit: Int) {
        guard unsafe !bytes.isEmpty else { return }
        if let last = chunks.indices.last, last >= head, chunks[last].count + bytes.count <= limit {
            unsafe chunks[last].append(contentsOf: bytes)
        } else {
            chunks.append(unsafe [UInt8](bytes))
        }
        count += bytes.count
    }

    /// Forgets the first `amount` bytes.
    mutating func drop(_ amount: Int) {
        var left = min(amount, count)
        count -= left
        while left > 0 {
            let rest = chunks[head].count - offset
            if left < rest {
                offset += left
                return
            }
            left -= rest
            removeHead()
        }
    }

    /// Takes at least one and at most `limit` bytes; `nil` when there are none.
    ///
    /// A chunk that fits is handed over as it is when it is large or alone; otherwise bytes are gathered.
    mutating func take(upTo limit: Int) -> [UInt8]? {
        guard count > 0 else { return nil }
        let first = chunks[head]
        if offset == 0, first.count <= limit, first.count == count || first.count >= 64 << 10 {
            count -= first.count
            removeHead()
            return first
        }
        let total = min(limit, count)
        var taken: [UInt8] = []
        taken.reserveCapacity(total)
        while taken.count < total {
            let chunk = chunks[head]
            let end = min(chunk.count, offset + total - taken.count)
            taken.append(contentsOf: chunk[offset..<end])
            if end == chunk.count {
                removeHead()
            } else {
                offset = end
            }
        }
        count -= total
        return taken
    }

    private mutating func removeHead() {
        chunks[head] = []
        head += 1
        offset = 0
        if head == chunks.count {
            chunks.removeAll(keepingCapacity: chunks.count <= 64)
            head = 0
        } else if head >= 64, head * 2 >= chunks.count {
            chunks.removeFirst(head)
            head = 0
        }
    }
}
