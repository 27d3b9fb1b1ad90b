import KithIdentity
import KithReach
import NIOCore

/// A relay as one of an endpoint's links.
final class RelayLink: DatagramLink {
    let number: UInt32
    let client: RelayClient

    /// Makes a link that does nothing until its client is told to connect.
    ///
    /// `note` is told of its state, from an event loop.
    init(
        number: UInt32, key: DeviceKey, options: RelayClient.Options, endpoint: Endpoint, on eventLoop: any EventLoop,
        note: @escaping @Sendable (RelayClient.State) -> Void
    ) {
        self.number = number
        client = RelayClient(key: key, options: options, on: eventLoop) { [weak endpoint] event in
            switch event {
            case .received(let datagrams, let device):
                endpoint?.received(
                    datagrams.contents, segmentSize: datagrams.segmentSize.map(Int.init), from: device, by: number)
            case .gone(let device): endpoint?.isGone(device, by: number)
            case .state(let state): note(state)
            case .status: break
            }
        }
    }

    func send(_ datagrams: [UInt8], segmentSize: Int, to device: DeviceID) {
        client.send(datagrams, segmentSize: segmentSize, to: device)
    }
}
