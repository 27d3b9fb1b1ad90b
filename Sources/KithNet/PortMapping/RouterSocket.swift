import CKithSystem
import KithIO
import KithReach
import KithWire

/// The UDP socket by which a router is asked.
final class RouterSocket: Sendable {
    private let socket: WatchedSocket

    /// Tells it from those before and after it.
    var id: ObjectIdentifier { ObjectIdentifier(self) }

    /// Opens a socket at an address of this device, at any port.
    init(at local: NetworkAddress, on reactor: Reactor) throws(SystemError) {
        var address = kith_udp_address(local)
        address.port = 0
        socket = try WatchedSocket(owning: unsafe kith_datagram_open(&address), on: reactor)
    }

    /// Sends a datagram; one that cannot be sent is lost, as on any network.
    func send(_ bytes: [UInt8], to remote: NetworkAddress) {
        var address = kith_udp_address(remote)
        _ = unsafe bytes.withUnsafeBytes {
            unsafe kith_datagram_send(socket.descriptor, $0.baseAddress, $0.count, &address)
        }
    }

    /// Waits for a datagram of at most 2048 bytes; a longer one is passed over.
    ///
    /// - Returns: the bytes and where they came from; `nil` when the task is cancelled.
    func receive() async -> (bytes: [UInt8], from: NetworkAddress)? { await socket.receive(upTo: 2_048) }
}

/// A request to a router by HTTP.
enum RouterExchange {
    /// Makes it; `nil` when there is no whole answer in time.
    static func answer(
        to request: [UInt8], from server: NetworkAddress, on reactor: Reactor, clock: any Ticker
    ) async -> HTTPAnswer? {
        await withTaskGroup(of: HTTPAnswer?.self) { group in
            group.addTask { await exchange(request, with: server, on: reactor) }
            group.addTask {
                // Ends early only when cancelled.
                try? await clock.sleep(for: UPnPClient.answerTimeout)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    private static func exchange(
        _ request: [UInt8], with server: NetworkAddress, on reactor: Reactor
    ) async -> HTTPAnswer? {
        var address = kith_udp_address(server)
        guard let socket = try? WatchedSocket(owning: unsafe kith_stream_connect(&address), on: reactor) else {
            return nil
        }
        var sent = 0
        while sent < request.count {
            await socket.watch.wait(for: .writing)
            guard !Task.isCancelled, kith_stream_outcome(socket.descriptor) == 0 else { return nil }
            let count = unsafe request[sent...].withUnsafeBytes {
                unsafe kith_stream_send(socket.descriptor, $0.baseAddress, $0.count)
            }
            if count >= 0 {
                sent += count
            } else if !SystemError(Int32(clamping: -count)).isWouldBlock {
                return nil
            }
        }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while !Task.isCancelled {
            let count = unsafe buffer.withUnsafeMutableBytes {
                unsafe kith_stream_receive(socket.descriptor, $0.baseAddress, $0.count)
            }
            if count > 0 {
                received += buffer[..<count]
                do {
                    return try HTTPAnswer(received, isAll: false)
                } catch .truncated {
                    continue
                } catch {
                    return nil
                }
            } else if count == 0 {
                // What is not whole at its end is as good as none.
                return try? HTTPAnswer(received, isAll: true)
            } else if SystemError(Int32(clamping: -count)).isWouldBlock {
                await socket.watch.wait(for: .reading)
            } else {
                return nil
            }
        }
        return nil
    }
}
