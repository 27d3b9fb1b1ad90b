#if !(Zstd && canImport(CZstd))
extension BlockCompression {
    /// True when this kith was built with zstd (the package's trait `Zstd`).
    static let isAvailable = false

    /// Nothing can be taken apart without zstd.
    static func decompress(_ frame: ArraySlice<UInt8>, size: Int) -> [UInt8]? { nil }
}

/// Makes no compressed blocks: this kith was built without zstd.
final class BlockCompressor {
    init?() { return nil }

    func message(_ block: ArraySlice<UInt8>, level: Int32, limit: Int) -> [UInt8]? { nil }
}
#endif
