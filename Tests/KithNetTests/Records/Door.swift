import KithReach
import NIOCore
import NIOPosix
import Synchronization

/// An address that stays the same while what answers behind it changes, or is away.
///
/// A port that was closed is no such address: another program may hold it, and a process that was started meanwhile may
/// have inherited the socket.
final class Door: Sendable {
    /// Where the door is.
    let address: DirectoryAddress
    private let listener: any Channel
    private let behind = Mutex<DirectoryAddress?>(nil)

    private init(_ address: DirectoryAddress, _ listener: any Channel) {
        self.address = address
        self.listener = listener
    }

    /// Runs `body` with a door that nobody is behind.
    static func run(_ body: (Door) async throws -> Void) async throws {
        let door = Mutex<Door?>(nil)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { visitor in
                guard let directory = door.withLock({ $0?.directory }) else { return visitor.close() }
                return ClientBootstrap(group: visitor.eventLoop)
                    .connect(host: directory.host, port: Int(directory.port))
                    .flatMapThrowing { host in
                        try visitor.pipeline.syncOperations.addHandler(PassageHandler(to: host))
                        try host.pipeline.syncOperations.addHandler(PassageHandler(to: visitor))
                    }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        guard let port = listener.localAddress?.port, let address = DirectoryAddress("http://127.0.0.1:\(port)") else {
            return try await listener.close()
        }
        let made = Door(address, listener)
        door.withLock { $0 = made }
        do {
            try await body(made)
        } catch {
            try await listener.close()
            throw error
        }
        try await listener.close()
    }

    private var directory: DirectoryAddress? { behind.withLock { $0 } }

    /// Has `directory` answer, or nobody.
    func lead(to directory: DirectoryAddress?) { behind.withLock { $0 = directory } }
}

/// Passes on what one side says to the other, and its end.
private final class PassageHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) { self.other = other }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }
}
