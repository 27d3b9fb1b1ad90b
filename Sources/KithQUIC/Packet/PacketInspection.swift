/// Reads what anybody may send, without a connection: for fuzzers, and for tools that look at captures.
package enum PacketInspection {
    /// Counts the packets that can be told apart in a datagram without keys.
    ///
    /// The rest of a datagram that is not a packet ends the count (RFC 9000 §12.2).
    package static func packets(in datagram: UnsafeRawBufferPointer) -> Int {
        var rest = unsafe datagram
        var count = 0
        while unsafe !rest.isEmpty {
            guard
                let header = unsafe PacketHeader.read(rest, localConnectionIDLength: ConnectionID.localLength),
                header.length > 0, header.length <= rest.count
            else { break }
            count += 1
            unsafe rest = unsafe UnsafeRawBufferPointer(rebasing: rest[header.length...])
        }
        return count
    }

    /// Counts the frames of a decrypted payload, and looks at every field.
    ///
    /// - Throws: what a connection would be closed with.
    package static func frames(in payload: UnsafeRawBufferPointer) throws -> Int {
        var reader = unsafe PacketReader(payload)
        var count = 0
        while !reader.isAtEnd {
            let frame = try Frame.read(&reader)
            if case .acknowledgement(let ranges) = frame {
                var covered: UInt64 = 0
                ranges.forEachRange { smallest, largest in
                    precondition(smallest <= largest, "An acknowledged range is not upside down")
                    covered &+= largest - smallest + 1
                }
            }
            count += 1
        }
        return count
    }

    /// Decodes transport parameters, writes what they mean and decodes that; tells whether it means the same.
    ///
    /// - Throws: what a connection would be closed with.
    package static func transportParametersSurvive(_ bytes: [UInt8], fromServer: Bool) throws -> Bool {
        let parameters = try TransportParameters.decode(bytes, fromServer: fromServer)
        return try TransportParameters.decode(parameters.encoded(grease: 0), fromServer: fromServer) == parameters
    }

    /// Forges a 1-RTT packet: `frames` as though `sender` had written them, sealed with its keys.
    ///
    /// So a test can send what a peer that has passed the handshake and then misbehaves can send. Returns nil before
    /// the keys exist, and for a payload too long for a datagram.
    package static func datagram(
        of frames: UnsafeRawBufferPointer, number: UInt64, from sender: borrowing QUICConnection
    ) -> [UInt8]? {
        guard let keys = sender.spaces[.application].writeKeys, frames.count <= 1_400 else { return nil }
        let number = number & 0xffff_ffff
        let destination = sender.peerIDs.current.bytes
        // Key phase 0, a packet number of four bytes.
        var packet: [UInt8] = [0x43] + destination
        for shift in [24, 16, 8, 0] as [UInt64] { packet.append(UInt8(truncatingIfNeeded: number >> shift)) }
        let headerLength = packet.count
        unsafe packet.append(contentsOf: frames)
        packet.append(contentsOf: repeatElement(0, count: CipherSuite.tagLength))
        unsafe packet.withUnsafeMutableBytes { packet in
            guard let base = packet.baseAddress else { return }
            unsafe keys.protect(
                base, headerLength: headerLength, packetNumberLength: 4, payloadLength: frames.count,
                packetNumber: number)
        }
        return packet
    }
}
