import KithAPI
import KithWire
import Synchronization

/// The rate that several streams share.
final class RateLimit: Sendable {
    private let bucket: Mutex<TokenBucket>
    private let clock: any Ticker

    /// `rate` is bytes per second, at least one.
    init(_ rate: UInt64, on clock: any Ticker = ContinuousClock()) {
        self.clock = clock
        bucket = Mutex(TokenBucket(rate: rate, at: clock.now))
    }

    /// Waits until `count` bytes may pass.
    func wait(for count: Int) async throws {
        let pause = bucket.withLock { $0.take(count, at: clock.now) }
        if pause > .zero { try await clock.sleep(for: pause) }
    }
}

/// A stream whose bytes, both ways together, pass no faster than a limit.
final class LimitedStream: StreamWrapper {
    /// Small enough that a slow limit is kept evenly.
    private static let part = 16 << 10
    let base: any ByteStream
    private let limit: RateLimit

    init(_ base: any ByteStream, limit: RateLimit) {
        self.base = base
        self.limit = limit
    }

    func read(upTo most: Int) async throws -> [UInt8]? {
        guard let bytes = try await base.read(upTo: min(most, Self.part)) else { return nil }
        // Cancelled meanwhile, the bytes go with the transfer: nobody reads on after that.
        try await limit.wait(for: bytes.count)
        return bytes
    }

    func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = rest.prefix(Self.part)
            try await limit.wait(for: part.count)
            try await base.write(Array(part))
            rest = rest.dropFirst(part.count)
        }
    }
}
