import Synchronization

/// The counters of a relay: no address, no key.
final class RelayCounters: Sendable {
    let accepted = Atomic<UInt64>(0)
    let refusedSockets = Atomic<UInt64>(0)
    let denied = Atomic<UInt64>(0)
    let clients = Atomic<Int>(0)
    let quicClients = Atomic<Int>(0)
    let quicAccepted = Atomic<UInt64>(0)
    let droppedTooLong = Atomic<UInt64>(0)
    let receivedFrames = Atomic<UInt64>(0)
    let receivedBytes = Atomic<UInt64>(0)
    let sentFrames = Atomic<UInt64>(0)
    let sentBytes = Atomic<UInt64>(0)
    let droppedFull = Atomic<UInt64>(0)
    let droppedAbsent = Atomic<UInt64>(0)
    let droppedGuests = Atomic<UInt64>(0)
    let droppedShort = Atomic<UInt64>(0)
    let unfinished = Atomic<UInt64>(0)
    let floods = Atomic<UInt64>(0)
    let rateLimited = Atomic<UInt64>(0)
    let protocolErrors = Atomic<UInt64>(0)
    let stunAnswers = Atomic<UInt64>(0)
    let discoveryClients = Atomic<UInt64>(0)

    /// The page for Prometheus.
    var text: String {
        func read(_ counter: borrowing Atomic<UInt64>) -> UInt64 { counter.load(ordering: .relaxed) }
        var lines: [String] = []
        func add(_ name: String, _ help: String, _ kind: String, _ value: String) {
            lines += [
                "# HELP kith_relay_\(name) \(help)", "# TYPE kith_relay_\(name) \(kind)", "kith_relay_\(name) \(value)",
            ]
        }
        add("clients", "Clients connected now.", "gauge", "\(clients.load(ordering: .relaxed))")
        add(
            "quic_clients", "Clients connected now by QUIC; the others are by WebSocket.", "gauge",
            "\(quicClients.load(ordering: .relaxed))")
        add("quic_accepted_total", "Clients let in by QUIC.", "counter", "\(read(quicAccepted))")
        add("accepted_total", "Clients let in.", "counter", "\(read(accepted))")
        add("denied_total", "Clients refused by key or token.", "counter", "\(read(denied))")
        add("refused_sockets_total", "Sockets closed at once by a limit.", "counter", "\(read(refusedSockets))")
        add("received_frames_total", "Frames of datagrams from clients.", "counter", "\(read(receivedFrames))")
        add("received_bytes_total", "Bytes in them.", "counter", "\(read(receivedBytes))")
        add("sent_frames_total", "Frames of datagrams to clients.", "counter", "\(read(sentFrames))")
        add("sent_bytes_total", "Bytes in them.", "counter", "\(read(sentBytes))")
        add(
            "dropped_full_total", "Frames dropped from a full queue, or for their age.", "counter",
            "\(read(droppedFull))")
        add(
            "dropped_too_long_total", "Datagrams too long for a client's path.", "counter", "\(read(droppedTooLong))")
        add("dropped_absent_total", "Frames for devices that are not here.", "counter", "\(read(droppedAbsent))")
        add("dropped_guests_total", "Frames between two guests.", "counter", "\(read(droppedGuests))")
        add(
            "dropped_short_total", "Frames of many datagrams too short to travel together.", "counter",
            "\(read(droppedShort))")
        add(
            "unfinished_total", "Clients closed for messages they did not finish.", "counter", "\(read(unfinished))")
        add(
            "floods_total", "Clients closed for far more small frames than they may send.", "counter", "\(read(floods))"
        )
        add("rate_limited_total", "Clients that sent faster than they may.", "counter", "\(read(rateLimited))")
        add("protocol_errors_total", "Clients closed for breaking the protocol.", "counter", "\(read(protocolErrors))")
        add("stun_answers_total", "Questions of STUN answered.", "counter", "\(read(stunAnswers))")
        add("qad_clients_total", "Clients told their address over QUIC.", "counter", "\(read(discoveryClients))")
        return lines.joined(separator: "\n") + "\n"
    }
}

extension Atomic where Value == UInt64 {
    /// Counts.
    func count(_ more: UInt64 = 1) { wrappingAdd(more, ordering: .relaxed) }
}
