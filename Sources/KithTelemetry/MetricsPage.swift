import KithNet
public import KithWire
import NIOCore
import NIOHTTP1
import NIOPosix

/// A web page with a process's metrics, for a Prometheus server to read: `GET /metrics`, nothing else.
///
/// It has no password: whoever reaches its address can read it, which on the loopback address is every user and program of the
/// machine. A browser that was led there by another page's name is refused, since only requests for an address or for
/// `localhost` are answered.
public final class MetricsPage: Sendable {
    private let channel: any Channel

    /// The most readers at once; one more is disconnected.
    static let readerLimit = 16
    /// The time a reader has to send its request and to receive the answer.
    static let patience = TimeAmount.seconds(10)

    /// The address it is shown at.
    public let address: NetworkAddress

    /// Opens the page at `address`; `text` returns its contents, as ``PrometheusMetrics/text`` does.
    ///
    /// - Throws: `KithError` `.conflict` when it cannot listen there.
    public static func open(
        at address: NetworkAddress, text: @escaping @Sendable () async -> String
    ) async throws -> MetricsPage {
        let readers = Readers()
        do {
            let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .serverChannelOption(.backlog, value: 16)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelInitializer { channel in
                    // One that is refused was counted, too.
                    channel.closeFuture.whenComplete { _ in readers.leave() }
                    guard readers.enter() else { return channel.close() }
                    return channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        try pipeline.configureHTTPServerPipeline(withPipeliningAssistance: false)
                        try pipeline.addHandler(PageHandler(text))
                    }
                }
                .bind(
                    to: try SocketAddress(
                        packedIPAddress: ByteBuffer(bytes: address.ip), port: Int(address.port))
                ).get()
            let port = channel.localAddress?.port.flatMap { UInt16(exactly: $0) } ?? address.port
            var bound = address
            bound.port = port
            return MetricsPage(channel, bound)
        } catch {
            throw KithError(
                .conflict,
                "The metrics cannot be shown at \(address): \(NetworkFailure.words(error)). Choose another address.",
                cause: error)
        }
    }

    private init(_ channel: any Channel, _ address: NetworkAddress) {
        self.channel = channel
        self.address = address
    }

    /// Closes the page.
    public func close() async {
        try? await channel.close()  // closed already: as wanted
    }
}
