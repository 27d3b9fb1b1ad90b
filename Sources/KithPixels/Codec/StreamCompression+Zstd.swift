#if Zstd && canImport(CZstd)
import CZstd

/// Compresses messages into one zstd stream that remembers those before.
@safe struct StreamCompressor: ~Copyable {  // the pointer never leaves it
    /// True when this build has zstd (the package's trait `Zstd`).
    static let isAvailable = true
    private let context: OpaquePointer

    /// Begins a stream; `nil` when there is no memory for it.
    init?(level: Int32) {
        guard let context = unsafe ZSTD_createCCtx() else { return nil }
        unsafe self.context = context
        _ = unsafe ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level)
        _ = unsafe ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, TileFormat.windowLog)
        _ = unsafe ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)
    }

    deinit { unsafe ZSTD_freeCCtx(context) }

    /// Appends what the next message's bytes become, up to a point where the other end can show them.
    ///
    /// False when zstd refused, which only want of memory makes it do: the stream is of no use then.
    mutating func append(_ bytes: [UInt8], to output: inout [UInt8]) -> Bool {
        unsafe bytes.withUnsafeBytes { source in
            var input = unsafe ZSTD_inBuffer(src: source.baseAddress, size: source.count, pos: 0)
            while true {
                var left = 0
                let room = max(256, min(ZSTD_CStreamOutSize(), ZSTD_compressBound(source.count)))
                let chunk = unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                    var target = unsafe ZSTD_outBuffer(dst: buffer.baseAddress, size: buffer.count, pos: 0)
                    left = unsafe ZSTD_compressStream2(context, &target, &input, ZSTD_e_flush)
                    count = unsafe target.pos
                }
                if ZSTD_isError(left) != 0 { return false }
                output += chunk
                if left == 0 { return true }
            }
        }
    }
}

/// Takes one zstd stream apart, message by message, no more of it at a time than was asked for.
@safe struct StreamExpander: ~Copyable {  // the pointer never leaves it
    private let context: OpaquePointer

    /// Begins a stream; `nil` when there is no memory for it.
    ///
    /// It never holds more than the format's window.
    init?() {
        guard let context = unsafe ZSTD_createDCtx() else { return nil }
        unsafe self.context = context
        _ = unsafe ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, TileFormat.windowLog)
    }

    deinit { unsafe ZSTD_freeDCtx(context) }

    /// Writes the next bytes to `target` and moves `position` over the input used; `nil` when the stream is damaged.
    mutating func expand(
        _ input: Span<UInt8>, from position: inout Int, into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        unsafe input.withUnsafeBufferPointer { source in
            var given = unsafe ZSTD_inBuffer(src: source.baseAddress, size: source.count, pos: position)
            var taken = unsafe ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
            while unsafe taken.pos < taken.size {
                let before = unsafe (given.pos, taken.pos)
                let result = unsafe ZSTD_decompressStream(context, &taken, &given)
                if ZSTD_isError(result) != 0 { return nil }
                if unsafe before == (given.pos, taken.pos) { break }
            }
            unsafe position = given.pos
            return unsafe taken.pos
        }
    }
}

/// Whole runs of bytes compressed one by one, for what is small and seldom.
enum OneShotCompression {
    /// The bytes compressed; `nil` when that does not make them fewer.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var isGood = false
        let result = unsafe [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, count in
            let size = unsafe bytes.withUnsafeBytes {
                unsafe ZSTD_compress(buffer.baseAddress, buffer.count, $0.baseAddress, $0.count, 3)
            }
            isGood = ZSTD_isError(size) == 0
            count = isGood ? size : 0
        }
        return isGood ? result : nil
    }

    /// The `count` bytes that `bytes` were made from; `nil` for anything else.
    static func expand(_ bytes: [UInt8], count: Int) -> [UInt8]? {
        var isWhole = false
        let result = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            let size = unsafe bytes.withUnsafeBytes {
                unsafe ZSTD_decompress(buffer.baseAddress, buffer.count, $0.baseAddress, $0.count)
            }
            isWhole = ZSTD_isError(size) == 0 && size == count
            initialized = isWhole ? count : 0
        }
        return isWhole ? result : nil
    }
}
#endif
