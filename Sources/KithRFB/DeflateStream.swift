import CZlib

/// Compresses a zlib stream that goes on over many messages (RFC 1950).
@safe struct DeflateStream: ~Copyable, @unchecked Sendable {  // the pointer never leaves it
    private var stream: UnsafeMutablePointer<z_stream>?
    private var level: Int32 = 0

    init() {}

    deinit {
        guard let stream = unsafe stream else { return }
        unsafe deflateEnd(stream)
        unsafe stream.deinitialize(count: 1)
        unsafe stream.deallocate()
    }

    /// Appends `bytes` compressed, to the last of them; `level` is 0…9.
    mutating func compress(_ bytes: [UInt8], level: Int, to output: inout [UInt8]) {
        let stream = unsafe open(Int32(level))
        var chunk = [UInt8](repeating: 0, count: max(256, min(1 << 16, bytes.count + bytes.count / 512 + 64)))
        unsafe bytes.withUnsafeBufferPointer { input in
            unsafe stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            unsafe stream.pointee.avail_in = UInt32(input.count)
            var room: UInt32
            repeat {
                room = unsafe chunk.withUnsafeMutableBufferPointer { chunk in
                    unsafe stream.pointee.next_out = chunk.baseAddress
                    unsafe stream.pointee.avail_out = UInt32(chunk.count)
                    _ = unsafe deflate(stream, Z_SYNC_FLUSH)
                    return unsafe stream.pointee.avail_out
                }
                output += chunk[..<(chunk.count - Int(room))]
            } while room == 0
        }
    }

    private mutating func open(_ level: Int32) -> UnsafeMutablePointer<z_stream> {
        if let stream = unsafe stream {
            if level != self.level {
                // Nothing is waiting in it: each message was flushed, so no output is made here.
                var nothing: UInt8 = 0
                unsafe withUnsafeMutablePointer(to: &nothing) { room in
                    unsafe stream.pointee.avail_in = 0
                    unsafe stream.pointee.next_out = room
                    unsafe stream.pointee.avail_out = 0
                    _ = unsafe deflateParams(stream, level, Z_DEFAULT_STRATEGY)
                }
                self.level = level
            }
            return unsafe stream
        }
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        unsafe stream.initialize(to: z_stream())
        let code = unsafe deflateInit_(stream, level, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(code == Z_OK, "there is no memory to compress with")
        unsafe self.stream = stream
        self.level = level
        return unsafe stream
    }
}
