import KithIdentity
import KithNet
import KithReach
import NIOCore
import NIOPosix
import Synchronization

/// A device that sends to another one, both by QUIC and by the client that devices have.
///
/// That client costs more than the relay does: what is measured is the relay's processor time, and what is under way is
/// bounded, as QUIC bounds it.
final class QUICFlow: Sendable {
    /// The most bytes under way.
    private static let window = 192 << 10
    /// The length of each datagram.
    private static let size = 1_300

    private struct State {
        var sent = 0
        var result = Flow.Result()
        var isOver = false
        var isOpen = [false, false]
    }

    private let state = Mutex(State())
    private let ends = Mutex<[RelayClient]>([])
    private let receiver = DeviceKey()
    private let datagrams: [UInt8]

    private init(batch: Int) {
        datagrams = (0..<Self.size * batch).map { _ in UInt8.random(in: 0...255) }
    }

    /// Opens both; `address` has the relay's key.
    static func open(_ address: RelayAddress, on loop: any EventLoop, batch: Int) async throws -> QUICFlow {
        let flow = QUICFlow(batch: batch)
        let ends = [DeviceKey(), flow.receiver].enumerated().map { index, key in
            var options = RelayClient.Options(address)
            // A WebSocket would be another measurement.
            options.headStart = .seconds(60)
            return RelayClient(key: key, options: options, on: loop) { flow.happened($0, at: index) }
        }
        flow.ends.withLock { $0 = ends }
        for end in ends { end.connect() }
        while !flow.state.withLock({ $0.isOpen == [true, true] }) { try await Task.sleep(for: .milliseconds(10)) }
        return flow
    }

    private func happened(_ event: RelayClient.Event, at index: Int) {
        switch event {
        case .state(.connected): state.withLock { $0.isOpen[index] = true }
        case .received(let received, _):
            state.withLock {
                $0.result.bytes += received.contents.count
                $0.result.datagrams += received.contents.count / Self.size
            }
            fill()
        default: break
        }
    }

    /// Starts to send; every 200 ms what was dropped meanwhile is made up for.
    func begin() {
        fill()
        Task {
            var before = -1
            while !state.withLock({ $0.isOver }) {
                state.withLock { state in
                    if state.result.bytes == before { state.sent = state.result.bytes }
                    before = state.result.bytes
                }
                fill()
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    private func fill() {
        let count = state.withLock { state in
            guard !state.isOver else { return 0 }
            let count = max(0, Self.window - (state.sent - state.result.bytes)) / datagrams.count
            state.sent += count * datagrams.count
            return count
        }
        guard count > 0, let sender = ends.withLock({ $0.first }) else { return }
        for _ in 0..<count { sender.send(datagrams, segmentSize: Self.size, to: receiver.id) }
    }

    /// Ends it, and tells what arrived.
    func end() async -> Flow.Result {
        let result = state.withLock { state in
            state.isOver = true
            return state.result
        }
        for end in ends.withLock({ $0 }) { await end.close() }
        return result
    }
}
