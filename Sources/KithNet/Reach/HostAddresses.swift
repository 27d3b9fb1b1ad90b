import CKithSystem
import KithIO
package import KithWire
import NIOPosix

/// The addresses of hosts, by the system's resolver.
package enum HostAddresses {
    /// The most addresses of one host.
    private static let maxCount = 8

    /// The addresses of a name or address, with a port; none when the name is not known, or the task is cancelled.
    ///
    /// The resolver waits in a thread of its own, as long as the system has it.
    package static func of(_ host: String, port: UInt16) async -> [NetworkAddress] {
        let answer = Promise<[NetworkAddress]>()
        NIOThreadPool.singleton.submit { state in
            // Not active only when the process ends.
            answer.fulfil(state == .active ? lookUp(host, port: port) : [])
        }
        return await withTaskCancellationHandler {
            await answer.value()
        } onCancel: {
            answer.fulfil([])
        }
    }

    private static func lookUp(_ host: String, port: UInt16) -> [NetworkAddress] {
        var addresses = [kith_udp_address](repeating: kith_udp_address(), count: maxCount)
        let count = unsafe kith_network_resolve(host, port, &addresses, CInt(maxCount))
        return addresses.prefix(max(0, Int(count))).map { NetworkAddress($0) }
    }
}
