import KithIdentity
import NIOCore
import NIOPosix
import Synchronization

@testable import KithNet

/// A relay in memory between endpoints: it loses, delays and reorders, and can be cut.
final class MemoryRelay: Sendable {
    /// One endpoint's link to it.
    final class Link: DatagramLink {
        let number: UInt32
        let relay: MemoryRelay
        let id: DeviceID

        fileprivate init(number: UInt32, relay: MemoryRelay, id: DeviceID) {
            (self.number, self.relay, self.id) = (number, relay, id)
        }

        func send(_ datagrams: [UInt8], segmentSize: Int, to device: DeviceID) {
            relay.forward(datagrams, segmentSize: segmentSize, from: id, to: device)
        }
    }

    private struct Client {
        weak var endpoint: Endpoint?
        let link: Link
    }

    private struct State {
        var clients: [DeviceID: Client] = [:]
        var random: SplitMix
        var isCut = false
        var forwarded = 0
    }

    private let loop = MultiThreadedEventLoopGroup.singleton.next()
    private let state: Mutex<State>
    /// The share of datagrams that are lost.
    private let loss: Double
    /// Every datagram takes between one and two of it, so that they overtake each other.
    private let delay: Int64

    init(loss: Double, delay: Int64, seed: UInt64) {
        (self.loss, self.delay) = (loss, delay)
        state = Mutex(State(random: SplitMix(seed: seed)))
    }

    /// Connects an endpoint.
    @discardableResult
    func connect(_ endpoint: Endpoint, as number: UInt32) -> Link {
        let link = Link(number: number, relay: self, id: endpoint.id)
        state.withLock { $0.clients[endpoint.id] = Client(endpoint: endpoint, link: link) }
        endpoint.add(link)
        return link
    }

    func cut() { state.withLock { $0.isCut = true } }

    /// The number of datagrams that have gone through.
    var forwarded: Int { state.withLock { $0.forwarded } }

    private func forward(_ datagrams: [UInt8], segmentSize: Int, from sender: DeviceID, to device: DeviceID) {
        for start in stride(from: 0, to: datagrams.count, by: max(1, segmentSize)) {
            let datagram = Array(datagrams[start..<min(start + segmentSize, datagrams.count)])
            let wait = state.withLock { state -> Int64? in
                guard !state.isCut, Double.random(in: 0..<1, using: &state.random) >= loss else { return nil }
                state.forwarded += 1
                return Int64.random(in: delay...2 * delay, using: &state.random)
            }
            guard let wait else { continue }
            loop.scheduleTask(in: .nanoseconds(wait)) {
                guard let client = self.state.withLock({ $0.clients[device] }) else { return }
                client.endpoint?.received(datagram, from: sender, by: client.link.number)
            }
        }
    }
}
