import Foundation
import KithWire

/// What both ends of a link sent, as `kith-link` recorded it.
struct Capture: Sendable {
    /// One UDP datagram.
    struct Datagram: Sendable {
        /// Nanoseconds since 1970.
        var time: UInt64
        var source: Address
        var destination: Address
        /// The ECN field of the IP header (RFC 3168 §5).
        var ecn: UInt8
        var payload: [UInt8]

        /// Whether the left end sent it.
        var isFromLeft: Bool { source.host != 2 }

        /// Whether it only asks if the port is open: one byte, from a socket of its own.
        var isPortProbe: Bool { payload.count == 1 }

        /// The QUIC version if the payload begins with a long header (RFC 8999 §5.1).
        var version: UInt32? {
            guard payload.count >= 5, payload[0] & 0x80 != 0 else { return nil }
            return payload[1...4].reduce(0) { $0 << 8 | UInt32($1) }
        }

        /// Whether one of its packets is a 0-RTT packet of version 1 (RFC 9000 §17.2.3).
        var hasEarlyData: Bool {
            var reader = ByteReader(payload)
            // What cannot be read ends the search.
            while let first = try? reader.integer(as: UInt8.self), first & 0x80 != 0 {
                if first & 0x30 == 0x10 { return true }
                guard first & 0x30 != 0x30, (try? skipHeader(&reader, isInitial: first & 0x30 == 0)) != nil else {
                    return false
                }
            }
            return false
        }

        private func skipHeader(_ reader: inout ByteReader, isInitial: Bool) throws {
            try reader.skip(4)
            try reader.skip(Int(try reader.integer(as: UInt8.self)))
            try reader.skip(Int(try reader.integer(as: UInt8.self)))
            if isInitial { try reader.skip(Int(clamping: try reader.varint())) }
            try reader.skip(Int(clamping: try reader.varint()))
        }
    }

    /// An address as the sender saw it, before the link translated anything.
    struct Address: Hashable, Sendable {
        /// The last byte or two of the IP address: 2 is the right end.
        var host: UInt16
        var port: UInt16
    }

    private let file: URL

    init(_ file: URL) { self.file = file }

    /// Every UDP datagram, in the order they were sent; those that ask for open ports only when wanted.
    func datagrams(withPortProbes: Bool = false) throws -> [Datagram] {
        let bytes = [UInt8](try Data(contentsOf: file))
        func number(_ offset: Int) -> Int {
            (0..<4).reversed().reduce(0) { $0 << 8 | Int(bytes[offset + $1]) }
        }
        var datagrams: [Datagram] = []
        var offset = 24
        while offset + 16 <= bytes.count {
            let size = number(offset + 8)
            let time = UInt64(number(offset)) * 1_000_000_000 + UInt64(number(offset + 4))
            offset += 16
            guard offset + size <= bytes.count else { throw LinkError("the recording is cut short") }
            if let datagram = Self.datagram(bytes[offset..<(offset + size)], at: time),
                withPortProbes || !datagram.isPortProbe
            {
                datagrams.append(datagram)
            }
            offset += size
        }
        return datagrams
    }

    private static func datagram(_ packet: ArraySlice<UInt8>, at time: UInt64) -> Datagram? {
        let start = packet.startIndex
        let isIPv6 = packet[start] >> 4 == 6
        let header = isIPv6 ? 40 : Int(packet[start] & 15) * 4
        guard packet.count >= header + 8, packet[start + (isIPv6 ? 6 : 9)] == 17 else { return nil }
        func number(_ offset: Int) -> UInt16 {
            UInt16(packet[start + offset]) << 8 | UInt16(packet[start + offset + 1])
        }
        return Datagram(
            time: time, source: Address(host: number(isIPv6 ? 22 : 14), port: number(header)),
            destination: Address(host: number(isIPv6 ? 38 : 18), port: number(header + 2)),
            ecn: isIPv6 ? packet[start + 1] >> 4 & 3 : packet[start + 1] & 3,
            payload: Array(packet[(start + header + 8)...]))
    }
}
