import KithWire
package import NIOCore
import NIOHTTP1
import NIOPosix
package import NIOSSL

/// A connection to a server of HTTP/1.1, with TLS where it is asked for.
package enum HTTPClientChannel {
    /// Connects, and adds what `handler` makes behind the coding of HTTP.
    ///
    /// `patience` is the time to connect.
    package static func connect(
        to host: String, port: UInt16, tls: NIOSSLContext?, patience: TimeAmount, on loop: any EventLoop,
        handler: @escaping @Sendable () -> any ChannelHandler
    ) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: loop)
            .connectTimeout(patience)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls {
                        // The name of a server that is named by its address is not sent (RFC 6066 §3).
                        let name = isAddress(host) ? nil : host
                        try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: name))
                    }
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(handler())
                }
            }
            .connect(host: host, port: Int(port))
    }

    private static func isAddress(_ host: String) -> Bool {
        NetworkAddress(host.contains(":") ? "[\(host)]:1" : "\(host):1") != nil
    }
}
