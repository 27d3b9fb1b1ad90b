import KithWire

/// Writes what happens on a connection as qlog records (draft-ietf-quic-qlog-main-schema, JSON-SEQ).
///
/// Each record is one RFC 7464 text: RS, a JSON object, a line feed. The first is the file's header.
struct EventLog {
    private let sink: @Sendable ([UInt8]) -> Void
    private let start: Timestamp

    init(sink: @escaping @Sendable ([UInt8]) -> Void, isClient: Bool, original: ConnectionID, at now: Timestamp) {
        self.sink = sink
        start = now
        let side = isClient ? "client" : "server"
        write(
            """
            {"file_schema":"urn:ietf:params:qlog:file:sequential","serialization_format":"application/qlog+json-seq",\
            "title":"kith","trace":{"vantage_point":{"type":"\(side)"},"common_fields":{"group_id":"\(original)",\
            "time_format":"relative_to_epoch","reference_time":{"clock_type":"monotonic","epoch":"unknown"}},\
            "event_schemas":["urn:ietf:params:qlog:events:quic-12"]}}
            """)
        event("quic:connection_started", "{}", at: now)
    }

    private func write(_ text: String) {
        sink([0x1E] + Array(text.utf8) + [0x0A])
    }

    private func event(_ name: String, _ data: String, at now: Timestamp) {
        let microseconds = (now - start) / 1000
        let fraction = String(microseconds % 1000)
        let padded = String(repeating: "0", count: 3 - fraction.utf8.count) + fraction
        write("{\"time\":\(microseconds / 1000).\(padded),\"name\":\"\(name)\",\"data\":\(data)}")
    }

    private static func type(_ space: PacketSpace) -> String {
        switch space {
        case .initial: "initial"
        case .handshake: "handshake"
        case .application: "1RTT"
        }
    }

    private func packet(
        _ name: String, _ space: PacketSpace, _ number: UInt64, _ size: Int, isEarly: Bool, at now: Timestamp
    ) {
        let type = isEarly ? "0RTT" : Self.type(space)
        event(
            name, "{\"header\":{\"packet_type\":\"\(type)\",\"packet_number\":\(number)},\"raw\":{\"length\":\(size)}}",
            at: now)
    }

    func packetSent(_ space: PacketSpace, number: UInt64, size: Int, isEarly: Bool = false, at now: Timestamp) {
        packet("quic:packet_sent", space, number, size, isEarly: isEarly, at: now)
    }

    func packetReceived(_ space: PacketSpace, number: UInt64, size: Int, isEarly: Bool = false, at now: Timestamp) {
        packet("quic:packet_received", space, number, size, isEarly: isEarly, at: now)
    }

    func packetLost(_ space: PacketSpace, at now: Timestamp) {
        event("quic:packet_lost", "{\"header\":{\"packet_type\":\"\(Self.type(space))\"}}", at: now)
    }

    func keyUpdated(isRemote: Bool, at now: Timestamp) {
        let trigger = isRemote ? "remote_update" : "local_update"
        for side in ["client", "server"] {
            event("quic:key_updated", "{\"key_type\":\"\(side)_1rtt_secret\",\"trigger\":\"\(trigger)\"}", at: now)
        }
    }

    /// An OBSERVED_ADDRESS frame that was sent or received; no schema of qlog has one.
    func observedAddress(_ address: NetworkAddress, sequence: UInt64, isSent: Bool, at now: Timestamp) {
        event(
            "kith:observed_address_\(isSent ? "sent" : "received")",
            "{\"sequence\":\(sequence),\"address\":\"\(address)\"}", at: now)
    }

    func connected(at now: Timestamp) {
        event("quic:connection_state_updated", "{\"new\":\"handshake_complete\"}", at: now)
    }

    func metrics(_ recovery: borrowing Recovery, at now: Timestamp) {
        event(
            "quic:recovery_metrics_updated",
            """
            {"smoothed_rtt":\(recovery.rtt.smoothed / 1_000_000),"min_rtt":\(recovery.rtt.minimum / 1_000_000),\
            "latest_rtt":\(recovery.rtt.latest / 1_000_000),"congestion_window":\(recovery.congestionWindow),\
            "bytes_in_flight":\(recovery.bytesInFlight),"pacing_rate":\(recovery.pacingRate)}
            """, at: now)
    }

    func closed(_ reason: QUICConnection.CloseReason, at now: Timestamp) {
        let data: String
        switch reason {
        case .application(let code, _, let isRemote):
            data = "{\"initiator\":\"\(isRemote ? "remote" : "local")\",\"application_error\":\(code)}"
        case .transport(let code, _, _, let isRemote):
            data = "{\"initiator\":\"\(isRemote ? "remote" : "local")\",\"connection_error\":\(code)}"
        case .idleTimeout, .handshakeTimeout: data = "{\"trigger\":\"idle_timeout\"}"
        case .statelessReset: data = "{\"trigger\":\"stateless_reset\"}"
        case .versionMismatch: data = "{\"trigger\":\"version_mismatch\"}"
        }
        event("quic:connection_closed", data, at: now)
    }
}
