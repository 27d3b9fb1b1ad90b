import NIOCore
import Synchronization

/// The TCP connections of the door: those of nobody in particular are few, and short.
final class WebConnections: Sendable {
    /// The most that have not proven anything; with one more, the oldest goes.
    static let unknownLimit = 64
    /// The most in all; one more is refused.
    static let limit = 512

    private struct State {
        var channels: [UInt64: any Channel] = [:]
        /// Those that have proven nothing, in the order in which they came.
        var unknown: [UInt64] = []
        var number: UInt64 = 0
    }

    private let state = Mutex(State())

    /// Takes in a connection; `nil` when there are too many.
    func enter(_ channel: any Channel) -> UInt64? {
        let (number, gone) = state.withLock { state -> (UInt64?, (any Channel)?) in
            guard state.channels.count < Self.limit else { return (nil, nil) }
            var gone: (any Channel)?
            if state.unknown.count >= Self.unknownLimit { gone = state.channels[state.unknown.removeFirst()] }
            state.number += 1
            state.channels[state.number] = channel
            state.unknown.append(state.number)
            return (state.number, gone)
        }
        gone?.close(promise: nil)
        return number
    }

    /// Notes that a connection has shown a login or a ticket.
    func prove(_ number: UInt64) { state.withLock { $0.unknown.removeAll { $0 == number } } }

    /// Notes that a connection has ended.
    func leave(_ number: UInt64) {
        state.withLock { state in
            state.channels[number] = nil
            state.unknown.removeAll { $0 == number }
        }
    }

    /// Closes all of them.
    func closeAll() {
        for channel in state.withLock({ Array($0.channels.values) }) { channel.close(promise: nil) }
    }
}
