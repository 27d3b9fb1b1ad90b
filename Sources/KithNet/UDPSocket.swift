import CKithSystem
import KithIO
import KithWire
import NIOCore
import NIOPosix

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// One bound UDP socket: SwiftNIO reads it, sends go straight to the kernel.
///
/// SwiftNIO closes a datagram channel at most failed sends, and one unreachable address among many is
/// everyday life here; a direct send also spares a buffer and a promise per datagram.
/// `@unchecked Sendable`: touched with the lock of its endpoint's loop only, apart from what is immutable.
final class UDPSocket: @unchecked Sendable {
    /// The outcome of a send.
    enum Outcome {
        /// All bytes were handed to the kernel, or are lost as on any network.
        case sent
        /// The socket's buffer is full; so many bytes were taken.
        case blocked(taken: Int)
        /// The interface's queue is full, of which no system tells when it has room; so many bytes were taken.
        case congested(taken: Int)
        /// The address cannot be sent to from here.
        case unreachable(CInt)
        /// Datagrams of that size are too large for the interface.
        case tooLarge
    }

    /// Unique among the sockets its endpoint ever had.
    let number: UInt32
    /// The address it is bound to, with the actual port; it may be a wildcard.
    let address: NetworkAddress
    /// The channel that reads it.
    let channel: any Channel
    /// The channel's own.
    let descriptor: CInt
    private var sendsSegments: Bool
    /// The last destination, converted; consecutive sends mostly go to one peer.
    private var lastRemote: NetworkAddress?
    private var lastAddress = kith_udp_address()
    /// Tells when the buffer has room again; made when it first has none.
    private var room: Watch?

    private init(
        number: UInt32, address: NetworkAddress, channel: any Channel, descriptor: CInt, sendsSegments: Bool
    ) {
        self.number = number
        self.address = address
        self.channel = channel
        self.descriptor = descriptor
        self.sendsSegments = sendsSegments
    }

    /// A descriptor that is bound and not yet read by anyone.
    struct Bound {
        var descriptor: CInt
        var features: UInt32
        var address: NetworkAddress

        /// Closes it, when it is not going to be used.
        func close() {
            #if canImport(Glibc)
            _ = Glibc.close(descriptor)
            #elseif canImport(Musl)
            _ = Musl.close(descriptor)
            #else
            _ = Darwin.close(descriptor)
            #endif
        }
    }

    /// Opens a socket bound to `address`.
    ///
    /// - Throws: `IOError` with the system's reason.
    static func open(at address: NetworkAddress, buffer: Int) throws(IOError) -> Bound {
        var wanted = kith_udp_address(address)
        var features: UInt32 = 0
        let descriptor = unsafe kith_udp_open(&wanted, CInt(clamping: buffer), &features)
        guard descriptor >= 0 else { throw IOError(errnoCode: -descriptor, reason: "open UDP socket") }
        var actual = kith_udp_address()
        let status = unsafe kith_udp_local(descriptor, &actual)
        var bound = Bound(descriptor: descriptor, features: features, address: address)
        guard status == 0 else {
            bound.close()
            throw IOError(errnoCode: -status, reason: "getsockname")
        }
        bound.address = NetworkAddress(actual)
        return bound
    }

    /// Hands `bound` to a channel on `loop` that feeds `handler`.
    static func start(
        _ bound: Bound, on loop: any EventLoop, handler: @escaping @Sendable (any Channel) throws -> any ChannelHandler
    ) -> EventLoopFuture<any Channel> {
        let receivesSegments = bound.features & UInt32(KITH_UDP_RECEIVE_SEGMENTS) != 0
        // One read takes up to eight runs of datagrams where the system has recvmmsg, each run up to 64 KiB.
        let runs = receivesSegments ? 8 : 1
        var bootstrap = DatagramBootstrap(group: loop)
            .channelOption(
                ChannelOptions.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: runs * Self.receiveSize)
            )
            // One such read takes all that is there as a rule: asking again would make what came wait.
            .channelOption(ChannelOptions.maxMessagesPerRead, value: receivesSegments ? UInt(1) : UInt(32))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(handler(channel))
                }
            }
        if bound.features & UInt32(KITH_UDP_ECN) != 0 {
            bootstrap = bootstrap.channelOption(ChannelOptions.explicitCongestionNotification, value: true)
        }
        if receivesSegments {
            bootstrap =
                bootstrap
                .channelOption(ChannelOptions.datagramVectorReadMessageCount, value: runs)
                .channelOption(ChannelOptions.datagramReceiveOffload, value: true)
                .channelOption(ChannelOptions.datagramReceiveSegmentSize, value: true)
        }
        return bootstrap.withBoundSocket(bound.descriptor)
    }

    /// The largest datagram, or run of datagrams, one receive can return.
    static let receiveSize = 64 << 10

    /// Makes the sending half of `bound`, whose `channel` is running.
    convenience init(_ bound: Bound, number: UInt32, channel: any Channel) {
        self.init(
            number: number, address: bound.address, channel: channel, descriptor: bound.descriptor,
            sendsSegments: bound.features & UInt32(KITH_UDP_SEND_SEGMENTS) != 0)
    }

    /// Returns a watch that tells when the socket can be written to again.
    ///
    /// - Throws: when the system watches no more.
    func room(_ reactor: Reactor) throws(SystemError) -> Watch {
        if let room { return room }
        let watch = try reactor.watch(descriptor, reads: false)
        room = watch
        return watch
    }

    /// Whoever waits for room waits no longer: the channel has closed, or is about to.
    func stopWaiting() {
        room?.close()
        room = nil
    }

    /// Closes it.
    func close() {
        stopWaiting()
        channel.close(promise: nil)
    }

    /// Sends `bytes` as datagrams of `segmentSize`, the last one possibly shorter.
    func send(
        _ bytes: UnsafeRawBufferPointer, segmentSize: Int, to remote: NetworkAddress, ecn: UInt8
    ) -> Outcome {
        // The channel owns the descriptor: once it is closed, the number may belong to someone else.
        guard channel.isActive else { return .sent }
        if remote != lastRemote {
            lastAddress = kith_udp_address(remote)
            lastRemote = remote
        }
        while true {
            let sent = unsafe kith_udp_send(
                descriptor, &lastAddress, bytes.baseAddress, bytes.count, segmentSize, sendsSegments ? 1 : 0, ecn)
            if sent == bytes.count { return .sent }
            if sent >= 0 { return .blocked(taken: sent) }
            switch CInt(-sent) {
            case EAGAIN, EWOULDBLOCK:
                return .blocked(taken: 0)
            case ENOBUFS:
                return .congested(taken: 0)
            case EIO, EINVAL, EOPNOTSUPP, ENOTSUP:
                // An interface that cannot cut segments says so only now.
                guard sendsSegments, segmentSize < bytes.count else { return .unreachable(CInt(-sent)) }
                sendsSegments = false
            case EMSGSIZE:
                return .tooLarge
            case let error:
                return .unreachable(error)
            }
        }
    }
}

extension kith_udp_address {
    init(_ address: NetworkAddress) {
        self.init()
        is_ipv6 = address.isIPv6 ? 1 : 0
        port = address.port
        zone = address.zone
        let (high, low) = address.halves
        unsafe withUnsafeMutableBytes(of: &ip) { ip in
            if address.isIPv6 {
                unsafe ip.storeBytes(of: high.bigEndian, as: UInt64.self)
                unsafe ip.storeBytes(of: low.bigEndian, toByteOffset: 8, as: UInt64.self)
            } else {
                unsafe ip.storeBytes(of: UInt32(truncatingIfNeeded: low).bigEndian, as: UInt32.self)
            }
        }
    }
}

extension NetworkAddress {
    init(_ address: kith_udp_address) {
        self = unsafe withUnsafeBytes(of: address.ip) { ip in
            guard address.is_ipv6 != 0 else {
                return NetworkAddress(
                    ipv4: UInt32(bigEndian: unsafe ip.loadUnaligned(as: UInt32.self)), port: address.port)
            }
            let high = UInt64(bigEndian: unsafe ip.loadUnaligned(as: UInt64.self))
            let low = UInt64(bigEndian: unsafe ip.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            return NetworkAddress(ipv6: high, low, port: address.port, zone: address.zone)
        }
    }

    /// Reads the address SwiftNIO reports a datagram from; `nil` for a Unix socket.
    init?(_ address: SocketAddress) {
        var read = kith_udp_address()
        guard unsafe address.withSockAddr({ pointer, _ in unsafe kith_udp_read(pointer, &read) }) == 0 else {
            return nil
        }
        self.init(read)
    }
}
