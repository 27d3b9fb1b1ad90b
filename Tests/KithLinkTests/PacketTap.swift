import Glibc

/// Copies of all packets of IP that a place of a lab receives and sends, on every interface, from its beginning on.
final class PacketTap: Sendable {
    /// A packet of IPv4.
    struct Packet {
        var source: UInt32
        var destination: UInt32
        var bytes: [UInt8]

        /// Indicates whether it stays on its link: to a group or to everybody there.
        var isToGroup: Bool { destination >> 28 == 0xE || destination == 0xFFFF_FFFF }
    }

    private let file: CInt

    /// Listens in the namespace that the calling thread is in.
    init() throws {
        // All protocols; without the headers of the link.
        file = socket(17 /* AF_PACKET */, CInt(SOCK_DGRAM.rawValue), CInt(UInt16(0x0003).bigEndian))
        guard file >= 0 else { throw LinkError("no packet socket: \(String(cString: strerror(errno)))") }
        var size: CInt = 64 << 20
        setsockopt(file, SOL_SOCKET, 33 /* SO_RCVBUFFORCE */, &size, socklen_t(MemoryLayout<CInt>.size))
    }

    deinit { close(file) }

    /// All packets of IPv4 since the last call.
    func packets() throws -> [Packet] {
        try all().compactMap { bytes in
            guard bytes[0] >> 4 == 4 else { return nil }
            func address(_ offset: Int) -> UInt32 { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
            return Packet(source: address(12), destination: address(16), bytes: bytes)
        }
    }

    /// All packets of IPv4 and IPv6 since the last call.
    func all() throws -> [[UInt8]] {
        var packets: [[UInt8]] = []
        var buffer = [UInt8](repeating: 0, count: 70_000)
        while true {
            let count = recv(file, &buffer, buffer.count, CInt(MSG_DONTWAIT))
            guard count >= 0 else {
                guard errno == EAGAIN || errno == EINTR else {
                    throw LinkError("recv: \(String(cString: strerror(errno)))")
                }
                return packets
            }
            guard count >= 20, [4, 6].contains(buffer[0] >> 4) else { continue }
            packets.append(Array(buffer[..<count]))
        }
    }
}

extension Lab {
    /// Begins to copy the packets of a place.
    func tap(in place: String) async throws -> PacketTap {
        try await inside(place) { try PacketTap() }
    }
}
