import KithIdentity
import KithQUIC
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// What outlives the process: of every device the newest ticket and token.
//
// Nothing is at two places at once. The bytes are made when the endpoint has shut down, and whoever keeps them takes
// them away when an endpoint starts with them: no ticket serves twice (RFC 8446 §C.4). The other direction is not kept:
// the keys of a server's own tickets die with its memory of the early data it has seen, so that nothing repeated from
// before a restart is ever read (RFC 8446 §8).
extension SessionCache {
    /// The time for which a kept cache is valid, in seconds: as long as the keys of a session.
    static let lifetime: Int64 = 2 * 86_400

    /// The present time, in seconds since 1970.
    static var now: Int64 { Int64(time(nil)) }

    private struct Kept: Codable {
        struct Peer: Codable {
            var id: DeviceID
            var address: NetworkAddress
            var ticket: ByteString
            var token: ByteString?
        }

        /// The time it was kept, in seconds since 1970.
        var time: Int64
        /// The longest unused first.
        var peers: [Peer]
    }

    /// Takes everything out, as bytes for ``restore(_:at:)``; `time` is in seconds since 1970.
    mutating func takeAll(at time: Int64) -> [UInt8] {
        let peers = entries.sorted { $0.value.used < $1.value.used }.compactMap { target, entry -> Kept.Peer? in
            guard case .device(let id) = target, let ticket = entry.tickets.last else { return nil }
            return Kept.Peer(
                id: id, address: entry.address, ticket: ByteString(ticket.encoded),
                token: entry.tokens.last.map { ByteString($0) })
        }
        entries = [:]
        // There is nothing in it that could not be encoded; and without it only a round trip is lost.
        return (try? CBOREncoder().encode(Kept(time: time, peers: peers))) ?? []
    }

    /// Remembers what was taken out not too long before; anything else is no loss.
    mutating func restore(_ bytes: [UInt8], at time: Int64) {
        guard !bytes.isEmpty, let kept = try? CBORDecoder().decode(Kept.self, from: bytes),
            (0..<Self.lifetime).contains(time - kept.time)
        else { return }
        for peer in kept.peers.suffix(limit) {
            guard let ticket = SessionTicket(peer.ticket.bytes) else { continue }
            remember(ticket: ticket, of: .device(peer.id), at: peer.address)
            if let token = peer.token { remember(token: token.bytes, of: .device(peer.id), at: peer.address) }
        }
    }
}
