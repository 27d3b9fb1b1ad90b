import Synchronization

/// The memory that the messages of all clients hold which have not come to their end yet.
///
/// Bounded: when there is too much of it the client goes that has not finished for the longest time. An honest one needs
/// moments.
final class UnfinishedMessages: Sendable {
    private struct State {
        var entries: [UInt64: (bytes: Int, close: @Sendable () -> Void)] = [:]
        var bytes = 0
        var next: UInt64 = 0
        /// No number below it is there.
        var oldest: UInt64 = 0

        mutating func takeOldest() -> (@Sendable () -> Void)? {
            while oldest < next {
                defer { oldest += 1 }
                if let entry = entries.removeValue(forKey: oldest) {
                    bytes -= entry.bytes
                    return entry.close
                }
            }
            return nil
        }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// Begins without any; `limit` is the most bytes.
    init(limit: Int) { self.limit = limit }

    /// The bytes that are held.
    var bytes: Int { state.withLock { $0.bytes } }

    /// Counts a message that has begun, and returns its number.
    func begin(_ bytes: Int, _ close: @escaping @Sendable () -> Void) -> UInt64 {
        let (number, closes) = state.withLock { state in
            let number = state.next
            state.next += 1
            state.entries[number] = (bytes, close)
            state.bytes += bytes
            return (number, trim(&state))
        }
        for close in closes { close() }
        return number
    }

    /// Notes what a message holds by now.
    func update(_ number: UInt64, _ bytes: Int) {
        let closes = state.withLock { state -> [@Sendable () -> Void] in
            guard let old = state.entries[number]?.bytes else { return [] }
            state.entries[number]?.bytes = bytes
            state.bytes += bytes - old
            return trim(&state)
        }
        for close in closes { close() }
    }

    /// The message is whole, or its client is gone.
    func end(_ number: UInt64) {
        state.withLock { state in
            guard let entry = state.entries.removeValue(forKey: number) else { return }
            state.bytes -= entry.bytes
        }
    }

    private func trim(_ state: inout State) -> [@Sendable () -> Void] {
        var closes: [@Sendable () -> Void] = []
        while state.bytes > limit, let close = state.takeOldest() { closes.append(close) }
        return closes
    }
}
