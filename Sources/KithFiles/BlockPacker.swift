import KithAPI
import Synchronization

/// The features a receiver has named in its hello; none until then.
final class PeerFeatures: Sendable {
    private let value = Atomic<UInt32>(0)

    var current: TransferFrame.Features {
        get { TransferFrame.Features(rawValue: value.load(ordering: .relaxed)) }
        set { value.store(newValue.rawValue, ordering: .relaxed) }
    }
}

extension TransferFrame.Features {
    /// Makes the features that a receiver names in its hello, for the compression asked for.
    init(_ compression: Files.Compression) {
        self = .confirmation
        guard BlockCompression.isAvailable, compression != .never else { return }
        formUnion(compression == .always ? [.compression, .compressionAlways] : .compression)
    }
}

/// Compresses the buffers of a transfer on their way to the stream, where both ends want that and it pays.
///
/// One task uses it, on a ``DiskExecutor``: compressing takes its time.
final class BlockPacker {
    private let wish: Files.Compression
    private let peer: PeerFeatures
    private var compressor: BlockCompressor?
    private var policy = CompressionPolicy()
    private var isOver: Bool

    /// Less than a packet saves nothing.
    private static let minimum = 1_024

    init(_ wish: Files.Compression, peer: PeerFeatures) {
        self.wish = wish
        self.peer = peer
        isOver = wish == .never || !BlockCompression.isAvailable
    }

    /// Whole messages, compressed or as they are.
    func packed(_ bytes: [UInt8]) -> [UInt8] {
        guard let compressor = begun(), bytes.count >= Self.minimum else { return bytes }
        return pack(bytes, with: compressor)
    }

    /// Notes that `count` bytes went onto the stream as `wire` bytes, and how long that was waited for.
    func wrote(_ count: Int, as wire: Int, waiting: Duration, at now: ContinuousClock.Instant) {
        if compressor != nil { policy.wrote(count, as: wire, waiting: waiting, at: now) }
    }

    /// The compressor, once the other end has said that it takes compressed messages.
    private func begun() -> BlockCompressor? {
        if isOver || compressor != nil { return compressor }
        let features = peer.current
        guard features.contains(.compression) else { return nil }
        compressor = BlockCompressor()
        isOver = compressor == nil
        policy = CompressionPolicy(isForced: wish == .always || features.contains(.compressionAlways))
        return compressor
    }

    private func pack(_ bytes: [UInt8], with compressor: BlockCompressor) -> [UInt8] {
        let level: Int32
        switch policy.next() {
        case .plain: return bytes
        case .sample(let wanted):
            level = wanted
            let middle = bytes[(bytes.count / 2)...].prefix(CompressionPolicy.sample)
            let shrank = compressor.message(middle, level: 1, limit: Self.limit(middle.count)) != nil
            policy.sampled(shrank)
            if !shrank { return bytes }
        case .compress(let wanted): level = wanted
        }
        let start = ContinuousClock.now
        let message = compressor.message(bytes[...], level: level, limit: Self.limit(bytes.count))
        policy.compressed(bytes.count, shrank: message != nil, in: ContinuousClock.now - start)
        return message ?? bytes
    }

    private static func limit(_ count: Int) -> Int { Int(Double(count) * CompressionPolicy.worth) }
}
