@testable import KithQUIC
import KithWire
import Testing

extension Pair {
    /// Sends the server one authentic 1-RTT packet with anything in it, as only a client that breaks the rules would.
    ///
    /// `gap` is how far its number lies beyond the numbers the client has used.
    func forge(reserved: UInt8 = 0, gap: UInt64 = 100, _ frames: (inout PacketWriter) -> Void) throws {
        var packet = [UInt8](repeating: 0, count: 1200)
        let keys = try #require(client.spaces[.application].writeKeys)
        let number = client.recovery.nextPacketNumber(.application) + gap
        let destination = client.peerIDs.current
        let isOdd = client.keys.isOdd
        let count = packet.withUnsafeMutableBytes { buffer in
            var writer = PacketWriter(buffer)
            writer.shortHeader(destination: destination, keyPhase: isOdd, number: number, numberLength: 4)
            let headerLength = writer.count
            buffer[0] |= reserved
            frames(&writer)
            keys.protect(
                writer.base, headerLength: headerLength, packetNumberLength: 4,
                payloadLength: writer.count - headerLength, packetNumber: number)
            return writer.count + 16
        }
        deliver(Datagram(bytes: Array(packet[..<count]), from: clientFrom, due: now, toServer: true))
        flush()
    }
}
