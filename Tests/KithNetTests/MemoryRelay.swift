import KithIdentity
import NIOCore
import NIOPosix
import Synchronization

@testable import KithNet

/// A relay in memory between endpoints: it loses, delays and reorders, and can be cut; a hostile one does worse.
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
    /// What a relay does that is out to do harm: shares of all datagrams.
    struct Malice: Sendable {
        /// Are delivered twice, the second time much later.
        var repeated = 0.0
        /// Are delayed forty times as long as others.
        var held = 0.0
        /// Are delivered as if another device had sent them.
        var misattributed = 0.0
        /// Have a bit changed.
        var altered = 0.0
    }

    private let malice: Malice
    /// In whose name it delivers what it misattributes.
    private let impostor = DeviceKey().id
    /// The share of datagrams that are lost.
    private let loss: Double
    /// Every datagram takes between one and two of it, so that they overtake each other.
    private let delay: Int64

    init(loss: Double, delay: Int64, seed: UInt64, malice: Malice = Malice()) {
        (self.loss, self.delay, self.malice) = (loss, delay, malice)
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
            var datagram = Array(datagrams[start..<min(start + segmentSize, datagrams.count)])
            var sender = sender
            let waits = state.withLock { state -> [Int64] in
                func happens(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &state.random) < share }
                guard !state.isCut, !happens(loss) else { return [] }
                state.forwarded += 1
                var waits = [Int64.random(in: delay...2 * delay, using: &state.random)]
                if happens(malice.held) { waits[0] *= 40 }
                if happens(malice.repeated) { waits.append(waits[0] * 40) }
                if happens(malice.misattributed) { sender = impostor }
                if happens(malice.altered), let index = datagram.indices.randomElement(using: &state.random) {
                    datagram[index] ^= 1
                }
                return waits
            }
            for wait in waits {
                loop.scheduleTask(in: .nanoseconds(wait)) { [datagram, sender] in
                    guard let client = self.state.withLock({ $0.clients[device] }) else { return }
                    client.endpoint?.received(datagram, from: sender, by: client.link.number)
                }
            }
        }
    }
}
