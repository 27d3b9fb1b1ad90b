#if !(Zstd && canImport(CZstd))
/// Compresses nothing: this build is without zstd (the package's trait `Zstd`).
struct StreamCompressor: ~Copyable {
    /// True when this build has zstd.
    static let isAvailable = false

    init?(level: Int32) { return nil }

    mutating func append(_ bytes: [UInt8], to output: inout [UInt8]) -> Bool { false }
}

/// Takes nothing apart: this build is without zstd.
struct StreamExpander: ~Copyable {
    init?() { return nil }

    mutating func expand(
        _ input: Span<UInt8>, from position: inout Int, into target: UnsafeMutableRawBufferPointer
    ) -> Int? { nil }
}

/// Compresses nothing: this build is without zstd.
enum OneShotCompression {
    static func compress(_ bytes: [UInt8]) -> [UInt8]? { nil }

    static func expand(_ bytes: [UInt8], count: Int) -> [UInt8]? { nil }
}
#endif
