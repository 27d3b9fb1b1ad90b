import Testing

@testable import KithQUIC

@Suite struct TransportParametersTests {
    private var sample: TransportParameters {
        var parameters = TransportParameters()
        parameters.originalDestination = ConnectionID([1, 2, 3])
        parameters.maxIdleTimeout = 30_000
        parameters.statelessResetToken = ResetToken([UInt8](repeating: 5, count: 16))
        parameters.maxUDPPayloadSize = 1452
        parameters.initialMaxData = 1 << 20
        parameters.initialMaxStreamDataBidiLocal = 1
        parameters.initialMaxStreamDataBidiRemote = 2
        parameters.initialMaxStreamDataUni = 3
        parameters.initialMaxStreamsBidi = 4
        parameters.initialMaxStreamsUni = 5
        parameters.ackDelayExponent = 4
        parameters.maxAckDelay = 26
        parameters.disableActiveMigration = true
        parameters.activeConnectionIDLimit = 8
        parameters.initialSource = ConnectionID([])
        parameters.retrySource = ConnectionID([9])
        parameters.maxDatagramFrameSize = 65535
        return parameters
    }

    @Test func `parameters read back as written, whatever the grease`() throws {
        for grease: UInt64 in 0..<20 {
            #expect(try TransportParameters.decode(sample.encoded(grease: grease &* 7919), fromServer: true) == sample)
        }
    }

    @Test func `address discovery travels as the draft has it`() throws {
        for role in [AddressDiscoveryRole.reports, .asks, .both] {
            var parameters = TransportParameters()
            parameters.addressDiscovery = role
            let bytes = parameters.encoded(grease: 0)
            let wanted: [UInt8] = [0xC0, 0, 0, 0, 0x9F, 0x81, 0xA1, 0x76, 1, UInt8(role.rawValue)]
            #expect(bytes.indices.contains { bytes[$0...].starts(with: wanted) })
            #expect(try TransportParameters.decode(bytes, fromServer: false).addressDiscovery == role)
        }
        #expect(try TransportParameters.decode([], fromServer: true).addressDiscovery == nil)
    }

    @Test func `defaults are not sent and hold when absent`() throws {
        #expect(try TransportParameters.decode([], fromServer: false) == TransportParameters())
    }

    @Test func `a client may not send a server's parameters`() {
        #expect { try TransportParameters.decode(sample.encoded(grease: 0), fromServer: false) } throws: {
            ($0 as? TransportError)?.code == 0x8
        }
    }

    @Test(
        arguments: [
            [0x01, 1, 5, 0x01, 1, 5],  // twice
            [0x03, 2, 0x44, 0xAF],  // max_udp_payload_size 1199
            [0x0A, 1, 21],  // ack_delay_exponent
            [0x0B, 4, 0x80, 0, 0x40, 0],  // max_ack_delay 2¹⁴
            [0x0E, 1, 1],  // active_connection_id_limit
            [0x08, 8, 0xD0, 0, 0, 0, 0, 0, 0, 1],  // more streams than there are ids
            [0x0C, 1, 0],  // a flag with a value
            [0x02, 15] + [UInt8](repeating: 0, count: 15),  // a short token
            [0x0F, 21] + [UInt8](repeating: 0, count: 21),  // a long id
            [0x04, 2, 5],  // cut short
            [0xC0, 0, 0, 0, 0x9F, 0x81, 0xA1, 0x76, 1, 3],  // address discovery 3
            [0xC0, 0, 0, 0, 0x9F, 0x81, 0xA1, 0x76, 0],  // address discovery without a value
            [0x04, 2, 5, 5],  // a number with something behind it
            [0x0D, 3, 1, 2, 3],  // no address
        ] as [[UInt8]])
    func `a malformed parameter is a TRANSPORT_PARAMETER_ERROR`(bytes: [UInt8]) {
        #expect { try TransportParameters.decode(bytes, fromServer: true) } throws: {
            ($0 as? TransportError)?.code == 0x8
        }
    }
}
