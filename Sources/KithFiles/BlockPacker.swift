import KithAPI
import Synchronization

/// What the receiver of a transfer has said in its hello; nothing until then.
final class PeerFeatures: Sendable {
    private let value = Atomic<UInt32>(0)

    var current: TransferFrame.Features {
        get { TransferFrame.Features(rawValue: value.load(ordering: .relaxed)) }
        set { value.store(newValue.rawValue, ordering: .relaxed) }
    }
}

extension TransferFrame.Features {
    /// What the end that receives says of compression.
    init(_ compression: Files.Compression) {
        guard BlockCompression.isAvailable, compression != .never else {
            self = []
            return
        }
        self = compression == .always ? [.compression, .compressionAlways] : .compression
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

    /// Writes whole messages, compressed or as they are; returns how many bytes went onto the stream.
    func write(_ bytes: [UInt8], to stream: any ByteStream) async throws -> Int {
        guard let compressor = begun() else {
            try await stream.write(bytes)
            return bytes.count
        }
        let packed = bytes.count < Self.minimum ? bytes : pack(bytes, with: compressor)
        let start = ContinuousClock.now
        try await stream.write(packed)
        let now = ContinuousClock.now
        policy.wrote(bytes.count, as: packed.count, waiting: now - start, at: now)
        return packed.count
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
