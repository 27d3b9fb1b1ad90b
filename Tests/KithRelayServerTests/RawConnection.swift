import KithWire
import NIOCore
import NIOPosix
import Synchronization

/// Connections by TCP, byte for byte.
enum RawConnection {
    typealias Connection = NIOAsyncChannel<ByteBuffer, ByteBuffer>

    static func open(to address: NetworkAddress) async throws -> Connection {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: Int(address.port)) { channel in
                channel.eventLoop.makeCompletedFuture { try Connection(wrappingChannelSynchronously: channel) }
            }
    }

    /// Sends bytes on a new connection, and returns all that comes until the other end closes.
    static func exchange(_ bytes: [UInt8], with address: NetworkAddress) async throws -> String {
        let answer = Mutex("")
        do {
            try await open(to: address).executeThenClose { inbound, outbound in
                if !bytes.isEmpty { try await outbound.write(ByteBuffer(bytes: bytes)) }
                for try await part in inbound { answer.withLock { $0 += String(buffer: part) } }
            }
        } catch is IOError {
            // Reset: the end as well.
        } catch is ChannelError {
            // Closed before anything was written: the same.
        }
        return answer.withLock { $0 }
    }
}
