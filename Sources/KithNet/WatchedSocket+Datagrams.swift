import CKithSystem
import KithIO
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

extension WatchedSocket {
    /// Waits for a datagram of at most `limit` bytes; a longer one is passed over.
    ///
    /// - Returns: the bytes and where they came from; `nil` when the task is cancelled, or the socket has failed.
    func receive(upTo limit: Int) async -> (bytes: [UInt8], from: NetworkAddress)? {
        while !Task.isCancelled {
            var from = kith_udp_address()
            var count = 0
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit + 1) { buffer, initialized in
                unsafe count = kith_datagram_receive(descriptor, buffer.baseAddress, buffer.count, &from)
                initialized = min(max(count, 0), buffer.count)
            }
            if count > limit { continue }
            if count >= 0 { return (bytes, NetworkAddress(from)) }
            switch Int32(clamping: -count) {
            case EBADF, ENOTSOCK, EINVAL, EFAULT: return nil
            // What the network says of a datagram that was sent is said once: there may be more to read.
            case ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE: continue
            default: await watch.wait(for: .reading)
            }
        }
        return nil
    }
}
