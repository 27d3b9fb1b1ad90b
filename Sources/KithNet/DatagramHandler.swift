import KithQUIC
import KithWire
import Logging
import NIOCore

/// Hands what a socket reads to the endpoint, batch by batch.
final class DatagramHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>

    private let endpoint: EndpointDriver
    /// The last sender, converted; consecutive datagrams mostly come from one peer.
    private var last: (socket: SocketAddress, network: NetworkAddress)?

    /// The socket, as the endpoint's engines know it.
    private let link: LocalLink

    init(_ endpoint: EndpointDriver, socket: UInt32) {
        self.endpoint = endpoint
        link = .socket(socket)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let envelope = unwrapInboundIn(data)
        let remote: NetworkAddress
        if let last, last.socket == envelope.remoteAddress {
            remote = last.network
        } else {
            guard let converted = NetworkAddress(envelope.remoteAddress) else { return }
            last = (envelope.remoteAddress, converted)
            remote = converted
        }
        let ecn: UInt8 =
            switch envelope.metadata?.ecnState {
            case .transportCapableFlag0: 2
            case .transportCapableFlag1: 1
            case .congestionExperienced: 3
            case .transportNotCapable, nil: 0
            }
        unsafe envelope.data.withUnsafeReadableBytes { bytes in
            // Packets are decrypted where they lie. SwiftNIO's pool keeps a second reference to the storage, so asking
            // for mutable bytes would copy them; it reads nothing there and reuses the storage only when we let go.
            let datagrams = unsafe UnsafeMutableRawBufferPointer(mutating: bytes)
            endpoint.loop.withLock {
                unsafe endpoint.received(
                    datagrams, segmentSize: envelope.metadata?.segmentSize, from: remote, ecn: ecn, link: link)
            }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        endpoint.loop.withLock { endpoint.readCompleted() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // An ICMP answer to an earlier datagram, or a passing shortage: the engines' timers deal with either.
        endpoint.logger.debug("UDP socket reported an error", metadata: ["error": "\(error)"])
    }

    func channelInactive(context: ChannelHandlerContext) {
        endpoint.loop.withLock { endpoint.socketClosed(context.channel) }
        context.fireChannelInactive()
    }
}
