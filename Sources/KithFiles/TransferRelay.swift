import KithAPI
import KithIO
import KithWire
import Synchronization

/// Passes the messages of a transfer from one device to another, and the answers back.
struct TransferRelay: Sendable {
    let from: any ByteStream
    let to: any ByteStream
    let progress: TransferProgress
    /// The tree the sender was asked for: nothing else is passed on.
    let requested: RequestedTree
    /// The features for compressed messages that this device takes, and asks the sender for.
    private let features: TransferFrame.Features
    private let listing = Listing()
    /// The most a receiver may send before its first message; empty messages do not count as one.
    private static let greetingLimit = 512 << 10

    init(
        from: any ByteStream, to: any ByteStream, requested: RequestedTree, compress: Files.Compression,
        progress: TransferProgress
    ) {
        self.from = from
        self.to = to
        self.requested = requested
        self.progress = progress
        features = TransferFrame.Features(compress)
    }

    /// The sizes of the files listed and not answered for.
    private final class Listing: Sendable {
        private let sizes = Mutex(Ring<UInt64>())

        func add(_ size: UInt64) throws {
            try sizes.withLock { sizes in
                guard sizes.count < TransferFrame.maximumListed else {
                    throw KithError(.invalid, "The other end listed more files than it may.")
                }
                sizes.append(size)
            }
        }

        /// Takes the next few away; returns how many bytes they have.
        func take(_ count: UInt64) -> UInt64 {
            sizes.withLock { sizes in
                var total: UInt64 = 0
                for _ in 0..<count {
                    guard let size = sizes.popFirst() else { break }
                    total.saturatingAdd(size)
                }
                return total
            }
        }
    }

    /// Runs until the receiver has acknowledged all, or either end has said why it cannot.
    ///
    /// An end that takes no more says why in its other direction, or is just done: a receiver that has everything does
    /// not wait for the sender's end, nor a sender that has read the acknowledgement for the receiver's. So what counts
    /// is only ever what was read.
    func run() async throws -> Files.Summary {
        try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                try await forward()
                return nil
            }
            group.addTask { try await back() }
            while let part = try await group.next() {
                if let summary = part { return summary }
            }
            throw KithError(.closed, "The transfer was cut off before all was in place. Run it again to go on.")
        }
    }

    private func forward() async throws {
        var parser = TransferParser(takesCompressed: features.contains(.compression))
        var requested = requested
        while let bytes = try await from.read(upTo: 256 << 10) {
            progress.add(wire: UInt64(bytes.count))
            parser.feed(bytes)
            var failure: KithError?
            while let frame = try parser.next() {
                // Before any of it is passed on.
                try requested.take(frame)
                switch frame {
                case .data(let data): progress.add(bytes: UInt64(data.count), sent: UInt64(data.count))
                case .small(_, let data): progress.add(bytes: UInt64(data.count), sent: UInt64(data.count), files: 1)
                case .copied(_, let length), .hole(let length): progress.add(bytes: length)
                case .file(let attributes, let size, _):
                    try listing.add(size)
                    progress.begin(attributes.name)
                case .fileEnd, .same: progress.add(files: 1)
                case .total(let bytes, let files): progress.addTotal(bytes: bytes, files: files)
                case .skipped(let skipped): progress.skip(skipped)
                case .failure(let reason): failure = reason.error
                default: break
                }
            }
            let isTaken = (try? await to.write(bytes)) != nil
            if let failure { throw failure }
            guard isTaken else { return }
        }
        try? await to.finish()
    }

    private func back() async throws -> Files.Summary {
        var parser = TransferParser()
        var isTaken = true
        /// Passes something on, as long as the sender takes it.
        func answer(_ bytes: [UInt8]) async { if isTaken { isTaken = (try? await from.write(bytes)) != nil } }
        /// The bytes that came before the first message was whole; `nil` after it.
        var early: [UInt8]? = []
        while let bytes = try await to.read(upTo: 256 << 10) {
            if early == nil { await answer(bytes) } else { early? += bytes }
            parser.feed(bytes)
            while let frame = try parser.next() {
                if let begun = early {
                    early = nil
                    await answer(try greeting(frame, in: begun))
                }
                switch frame {
                case .send(let files): _ = listing.take(files)
                case .sendDifference: _ = listing.take(1)
                case .notNeeded(let files): progress.add(bytes: listing.take(files), files: files)
                case .skipped(let skipped): progress.skip(skipped)
                case .change(let change): progress.note(change)
                case .acknowledgement(let summary):
                    try? await from.finish()
                    return summary
                case .failure(let failure): throw failure.error
                default: break
                }
            }
            guard (early?.count ?? 0) <= Self.greetingLimit else {
                throw KithError(.invalid, "The receiving device did not begin the copy with a greeting.")
            }
        }
        throw KithError(.closed, "The other end stopped before all was in place. Run it again to go on.")
    }

    /// Makes the sender's first message: of the receiver's hello, only what this device takes and wishes for, too.
    private func greeting(_ frame: TransferFrame, in bytes: [UInt8]) throws -> [UInt8] {
        guard case .hello(let version, let theirs) = frame else { return bytes }
        var greeting: [UInt8] = []
        // Bytes pass as they are: what the receiver tells of them is as true for the sender.
        var common = theirs.intersection(.confirmation)
        if theirs.contains(.compression) { common.formUnion(features.subtracting(.confirmation)) }
        try TransferFrame.hello(version: version, features: common).append(to: &greeting)
        // A type, a length of one to eight bytes, and a body of six: anything else is not a hello.
        return greeting + bytes.dropFirst(1 + (1 << Int(bytes[1] >> 6)) + 6)
    }
}
