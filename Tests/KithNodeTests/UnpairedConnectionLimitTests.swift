import KithIdentity
import Testing

@testable import KithNode

@Suite struct `The connections of unpaired devices` {
    private let limit = UnpairedConnectionLimit(total: 16, perNetwork: 4, perDevice: 2)

    private func connection(_ network: UInt8, isIdle: Bool = true, _ device: DeviceID = DeviceKey().id)
        -> UnpairedConnectionLimit.Connection
    {
        UnpairedConnectionLimit.Connection(device: device, network: [network], isIdle: isIdle)
    }

    @Test func `are shared: a place that has fewer takes from the one that has most, oldest first`() {
        var connections = (0..<13).map { connection(UInt8(1 + $0 / 4)) }
        #expect(limit.verdict(on: connection(9), among: connections) == .admit)
        connections += (0..<3).map { connection(UInt8(20 + $0)) }
        #expect(connections.count == 16)
        #expect(limit.verdict(on: connection(9), among: connections) == .displace(0))
        // Pairings that are under way give way only where more than one of them comes from one place.
        let busy = connections.map {
            UnpairedConnectionLimit.Connection(device: $0.device, network: $0.network, isIdle: false)
        }
        #expect(limit.verdict(on: connection(9), among: busy) == .displace(0))
        let spread = (0..<16).map { connection($0, isIdle: false) }
        #expect(limit.verdict(on: connection(99), among: spread) == .refuse)
        #expect(limit.verdict(on: connection(99), among: spread.map { connection($0.network[0]) }) == .displace(0))
    }

    @Test func `of one place are few, whatever their keys`() {
        var connections = [connection(1, isIdle: false), connection(1), connection(1), connection(1)]
        #expect(limit.verdict(on: connection(1), among: connections) == .displace(1))
        connections = connections.map {
            UnpairedConnectionLimit.Connection(device: $0.device, network: [1], isIdle: false)
        }
        #expect(limit.verdict(on: connection(1), among: connections) == .refuse)
        #expect(limit.verdict(on: connection(2), among: connections) == .admit)
    }

    @Test func `of one device replace each other`() {
        let device = DeviceKey().id
        let connections = [connection(1, isIdle: false, device), connection(1, device)]
        #expect(limit.verdict(on: connection(2, device), among: connections) == .displace(1))
    }
}
