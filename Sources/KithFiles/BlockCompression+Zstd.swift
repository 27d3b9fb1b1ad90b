#if Zstd && canImport(CZstd)
import CZstd

extension BlockCompression {
    /// True when this kith was built with zstd (the package's trait `Zstd`).
    static let isAvailable = true

    /// The contents of one frame that has exactly `size` bytes of them; `nil` for anything else.
    static func decompress(_ frame: ArraySlice<UInt8>, size: Int) -> [UInt8]? {
        unsafe frame.withUnsafeBytes { source in
            // What the frame says of itself is compared first; a second frame behind it is none of ours.
            guard unsafe ZSTD_getFrameContentSize(source.baseAddress, source.count) == UInt64(size),
                unsafe ZSTD_findFrameCompressedSize(source.baseAddress, source.count) == source.count
            else { return nil }
            var isWhole = false
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
                let result = unsafe ZSTD_decompress(buffer.baseAddress, buffer.count, source.baseAddress, source.count)
                isWhole = ZSTD_isError(result) == 0 && result == size
                if isWhole { count = size }
            }
            return isWhole ? bytes : nil
        }
    }
}

/// Makes compressed blocks; its working memory is kept between them.
@safe final class BlockCompressor {  // the pointer never leaves it
    private let context: OpaquePointer
    private var level: Int32 = 0

    /// Makes one; `nil` when there is no memory for it, or no zstd.
    init?() {
        guard let context = unsafe ZSTD_createCCtx() else { return nil }
        unsafe self.context = context
        _ = unsafe ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, BlockCompression.windowLog)
    }

    deinit { unsafe ZSTD_freeCCtx(context) }

    /// A whole message that holds `block` compressed; `nil` when that has not at most `limit` bytes.
    func message(_ block: ArraySlice<UInt8>, level: Int32, limit: Int) -> [UInt8]? {
        let head = TransferFrame.dataPrefix + BlockCompression.headCount
        guard block.count <= BlockCompression.maximumBlock, limit > head else { return nil }
        if level != self.level {
            _ = unsafe ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level)
            self.level = level
        }
        var isGood = false
        let message = unsafe block.withUnsafeBytes { source in
            unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, count in
                let result = unsafe ZSTD_compress2(
                    context, buffer.baseAddress?.advanced(by: head), buffer.count - head, source.baseAddress,
                    source.count)
                guard ZSTD_isError(result) == 0 else { return }
                isGood = true
                for (index, byte) in BlockCompression.prefix(size: source.count, count: result).enumerated() {
                    unsafe buffer[index] = byte
                }
                count = head + result
            }
        }
        return isGood ? message : nil
    }
}
#endif
