@testable import KithQUIC
import KithWire
import Testing

/// What a peer must not do, done through an established connection's own keys.
@Suite struct ViolationTests {
    /// Sends `frames` in one 1-RTT packet from the client; answers the code the server closes with.
    private func code(
        reserved: UInt8 = 0, server: (inout QUICConfiguration) -> Void = { _ in },
        _ frames: (inout PacketWriter) -> Void
    ) throws -> UInt64? {
        let pair = try Pair(server: server)
        #expect(pair.connect())
        pair.run(seconds: 1)
        try pair.forge(reserved: reserved, frames)
        guard case .transport(let code, _, _, false) = Pair.closeReason(pair.serverEvents) else { return nil }
        #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
        return code
    }

    @Test func `unknown frames are a FRAME_ENCODING_ERROR`() throws {
        #expect(try code { $0.varint(0x2F) } == 0x7)
    }

    @Test func `reserved bits are a PROTOCOL_VIOLATION`() throws {
        #expect(try code(reserved: 0x10) { $0.ping() } == 0xA)
    }

    @Test func `a packet without frames is a PROTOCOL_VIOLATION`() throws {
        #expect(try code { _ in } == 0xA)
    }

    @Test func `HANDSHAKE_DONE from a client is a PROTOCOL_VIOLATION`() throws {
        #expect(try code { $0.handshakeDone() } == 0xA)
    }

    @Test func `acknowledging what was never sent is a PROTOCOL_VIOLATION`() throws {
        let got = try code { writer in
            for value: UInt64 in [2, 1 << 20, 0, 0, 0] { writer.varint(value) }
        }
        #expect(got == 0xA)
    }

    @Test func `more stream data than allowed is a FLOW_CONTROL_ERROR`() throws {
        let got = try code { writer in
            for value: UInt64 in [0x0E, 0, 1 << 30, 1, 7] { writer.varint(value) }
        }
        #expect(got == 0x3)
    }

    @Test func `more streams than allowed are a STREAM_LIMIT_ERROR`() throws {
        let got = try code { writer in
            for value: UInt64 in [0x0E, 4 * 5000, 0, 1, 7] { writer.varint(value) }
        }
        #expect(got == 0x4)
    }

    @Test func `data on a stream only we may write is a STREAM_STATE_ERROR`() throws {
        let got = try code { writer in
            for value: UInt64 in [0x0E, 3, 0, 1, 7] { writer.varint(value) }
        }
        #expect(got == 0x5)
    }

    @Test func `bytes beyond the end are a FINAL_SIZE_ERROR`() throws {
        let got = try code { writer in
            for value: UInt64 in [0x0F, 0, 4, 1, 7] { writer.varint(value) }
            for value: UInt64 in [0x0E, 0, 8, 1, 7] { writer.varint(value) }
        }
        #expect(got == 0x6)
    }

    @Test func `handshake bytes far ahead are CRYPTO_BUFFER_EXCEEDED`() throws {
        let got = try code { writer in
            for value: UInt64 in [0x06, 1 << 20, 1, 7] { writer.varint(value) }
        }
        #expect(got == 0xD)
    }

    @Test func `retiring an id never issued is a PROTOCOL_VIOLATION`() throws {
        #expect(try code { $0.retireConnectionID(77) } == 0xA)
    }

    @Test func `retiring ids as soon as they are issued, before they are sent, is a PROTOCOL_VIOLATION`() throws {
        let got = try code { writer in
            for sequence: UInt64 in 1..<100 { writer.retireConnectionID(sequence) }
        }
        #expect(got == 0xA)
    }

    @Test func `retiring the id in use is a PROTOCOL_VIOLATION`() throws {
        #expect(try code { $0.retireConnectionID(0) } == 0xA)
    }

    @Test func `more connection ids than allowed are a CONNECTION_ID_LIMIT_ERROR`() throws {
        let got = try code { writer in
            for sequence: UInt64 in 20..<40 {
                guard let id = ConnectionID([UInt8](repeating: UInt8(sequence), count: 8)),
                    let token = ResetToken([UInt8](repeating: UInt8(sequence), count: 16))
                else { return }
                writer.newConnectionID(sequence: sequence, retirePriorTo: 0, id: id, token: token)
            }
        }
        #expect(got == 0x9)
    }

    @Test func `so they are under numbers that are taken`() throws {
        let got = try code { writer in
            for sequence: UInt64 in 1..<20 {
                guard let id = ConnectionID([UInt8](repeating: UInt8(sequence), count: 8)),
                    let token = ResetToken([UInt8](repeating: UInt8(sequence), count: 16))
                else { return }
                writer.newConnectionID(sequence: sequence, retirePriorTo: 0, id: id, token: token)
            }
        }
        #expect(got == 0x9)
    }

    @Test func `a datagram where none are taken is a PROTOCOL_VIOLATION`() throws {
        #expect(try code(server: { $0.maxDatagramFrameSize = 0 }) { $0.datagram([1, 2, 3]) } == 0xA)
    }

    @Test func `an unexpected path response is ignored`() throws {
        #expect(try code { $0.pathResponse(1) } == nil)
    }
}
