import KithIdentity
import KithNet
import KithReach
import NIOPosix

/// A relay client, and all it has said.
final class ObservedClient: Sendable {
    let client: RelayClient
    private let stream: AsyncStream<RelayClient.Event>

    init(
        _ address: RelayAddress, key: DeviceKey = DeviceKey(), token: String? = nil,
        change: (inout RelayClient.Options) -> Void = { _ in }
    ) {
        var options = RelayClient.Options(address)
        options.token = token
        change(&options)
        let (stream, feed) = AsyncStream.makeStream(of: RelayClient.Event.self)
        self.stream = stream
        client = RelayClient(key: key, options: options, on: MultiThreadedEventLoopGroup.singleton.next()) {
            feed.yield($0)
        }
    }

    /// Waits for the next event that `accepts` does.
    func next(_ accepts: (RelayClient.Event) -> Bool) async -> RelayClient.Event? {
        for await event in stream where accepts(event) { return event }
        return nil
    }

    /// Waits until it waits for the next attempt, and returns the reason.
    func waiting() async -> String? {
        var reason: String?
        _ = await next {
            if case .state(.waiting(let why)) = $0 { reason = why }
            return reason != nil
        }
        return reason
    }

    func connected() async { _ = await next { if case .state(.connected) = $0 { true } else { false } } }

    /// Sends datagrams until `other` receives some, or `accepts` another event, and returns that.
    func send(
        _ datagrams: [UInt8], segmentSize: Int, to other: ObservedClient, of device: DeviceID,
        until accepts: (RelayClient.Event) -> Bool = { if case .received = $0 { true } else { false } }
    ) async -> RelayClient.Event? {
        let sending = Task {
            while !Task.isCancelled {
                client.send(datagrams, segmentSize: segmentSize, to: device)
                // Real time: a busy machine drops what waits too long, so it is sent again.
                try await Task.sleep(for: .milliseconds(500))
            }
        }
        defer { sending.cancel() }
        return await other.next(accepts)
    }
}
