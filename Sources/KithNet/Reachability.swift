import CKithSystem
package import KithWire
import NIOPosix

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Checks what the system and the network say of an address, before a connection is tried.
package enum Reachability {
    /// The reasons nothing can be sent there.
    package enum Refusal: Hashable, Sendable {
        /// The system knows no way there, or a router said so.
        case noRoute
        /// The machine is there, and the port is closed (ICMP port unreachable).
        case closed
    }

    /// Sends one byte, which no protocol answers, and waits a quarter of a second for a refusal.
    ///
    /// - Returns: the refusal; `nil` when none came, which says nothing.
    package static func refusal(by address: NetworkAddress) async -> Refusal? {
        // The pool's threads may wait; one that is shut down has nothing to say.
        let errno = (try? await NIOThreadPool.singleton.runIfActive { probe(address) }) ?? 0
        switch errno {
        case 0: return nil
        case ECONNREFUSED: return .closed
        default: return .noRoute
        }
    }

    private static func probe(_ address: NetworkAddress) -> CInt {
        var remote = kith_udp_address(address)
        return -(unsafe kith_network_refusal(&remote, 250))
    }
}
