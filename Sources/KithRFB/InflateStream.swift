import CZlib

/// Decompresses a zlib stream that goes on over many messages (RFC 1950); holds at most 64 KiB of what it gives.
@safe struct InflateStream: ~Copyable, @unchecked Sendable {  // the pointer never leaves it
    private static let window = 1 << 16
    private var stream: UnsafeMutablePointer<z_stream>?
    private var input: [UInt8] = []
    private var inputOffset = 0
    private var hasEnded = false
    /// Bytes that were decompressed; those before `start` were read.
    private(set) var output: [UInt8] = []
    private(set) var start = 0
    private var end = 0

    init() {}

    deinit { close() }

    private func close() {
        guard let stream = unsafe stream else { return }
        unsafe inflateEnd(stream)
        unsafe stream.deinitialize(count: 1)
        unsafe stream.deallocate()
    }

    /// The number of bytes that can be read at once.
    var available: Int { end - start }

    /// Begins a new stream with the next bytes.
    mutating func reset() {
        if let stream = unsafe stream { unsafe inflateReset(stream) }
        hasEnded = false
        (start, end) = (0, 0)
    }

    /// Takes the compressed bytes of the next message in place of the last one's.
    mutating func begin(_ bytes: [UInt8]) throws(RFBError) {
        if unsafe stream == nil { try open() }
        input = bytes
        inputOffset = 0
        (start, end) = (0, 0)
    }

    private mutating func open() throws(RFBError) {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        unsafe stream.initialize(to: z_stream())
        guard unsafe inflateInit_(stream, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            unsafe stream.deallocate()
            throw .unsupported("compression, for which there is no memory")
        }
        unsafe self.stream = stream
        output = [UInt8](repeating: 0, count: Self.window)
    }

    /// Makes `count` bytes, at most 64 KiB, ready to be read.
    ///
    /// - Throws: ``RFBError/malformed(_:)`` when the message ends before, or cannot be decompressed.
    mutating func require(_ count: Int) throws(RFBError) {
        guard available < count else { return }
        precondition(count <= Self.window, "more is asked for than fits")
        fill()
        while available < count {
            let before = available
            try inflate()
            guard available > before else { throw .malformed("compressed data ends early") }
        }
    }

    /// Decompresses as much as there is room for; what cannot be decompressed shows when it is required.
    private mutating func fill() {
        guard start > 0 else { return }
        let left = available
        for index in 0..<left { output[index] = output[start + index] }
        (start, end) = (0, left)
    }

    private mutating func inflate() throws(RFBError) {
        guard let stream = unsafe stream, !hasEnded else { return }
        let (from, room) = (inputOffset, output.count - end)
        let target = end
        let code = unsafe input.withUnsafeBufferPointer { input in
            unsafe output.withUnsafeMutableBufferPointer { output in
                unsafe stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress?.advanced(by: from))
                unsafe stream.pointee.avail_in = UInt32(input.count - from)
                unsafe stream.pointee.next_out = output.baseAddress?.advanced(by: target)
                unsafe stream.pointee.avail_out = UInt32(room)
                return unsafe CZlib.inflate(stream, Z_SYNC_FLUSH)
            }
        }
        inputOffset = unsafe input.count - Int(stream.pointee.avail_in)
        end = unsafe output.count - Int(stream.pointee.avail_out)
        switch code {
        case Z_OK, Z_BUF_ERROR: break
        case Z_STREAM_END: hasEnded = true
        default: throw .malformed("compressed data is damaged")
        }
    }

    /// The next byte.
    mutating func byte() throws(RFBError) -> UInt8 {
        if available == 0 { try require(1) }
        defer { start += 1 }
        return output[start]
    }

    /// Passes the next `count` bytes, at most 64 KiB, to `body`, and passes over them.
    mutating func read(_ count: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Void) throws(RFBError) {
        try require(count)
        let from = start
        unsafe output.withUnsafeBufferPointer { buffer in
            unsafe body(UnsafeBufferPointer(rebasing: buffer[from..<from + count]))
        }
        start += count
    }

    /// Appends the next `count` bytes.
    mutating func read(_ count: Int, to bytes: inout [UInt8]) throws(RFBError) {
        var left = count
        while left > 0 {
            let piece = min(left, Self.window)
            try unsafe read(piece) { unsafe bytes.append(contentsOf: $0) }
            left -= piece
        }
    }

    /// Ends the message: what is left of it holds no further data, and is the stream's own.
    ///
    /// - Throws: ``RFBError/malformed(_:)`` when it has more data than was read.
    mutating func finish() throws(RFBError) {
        guard available == 0 else { throw .malformed("compressed data goes on behind its end") }
        (start, end) = (0, 0)
        while inputOffset < input.count, !hasEnded {
            let before = inputOffset
            try inflate()
            guard available == 0 else { throw .malformed("compressed data goes on behind its end") }
            guard inputOffset > before else { break }
        }
        input = []
        inputOffset = 0
    }
}
