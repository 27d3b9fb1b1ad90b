import KithQUIC
import KithWire

/// The answers of the machine at the other end of a path about its port, and whether they can be trusted.
///
/// The machine is asked once while the peer is certainly there, and again whenever the peer is silent. A firewall may
/// refuse although the peer lives: when the peer is heard after a refusal, the machine's answers are ignored from then
/// on.
/// Touched with the lock of the endpoint's loop only.
struct PortWatch {
    /// The path it is about; nil when the machine was not asked while the peer was there.
    private var path: PathAddress?
    private var probe: PortProbe?
    /// Indicates whether the probe is the one made while the peer was there.
    private var isFirst = true
    /// The time the newest probe for a silent peer began, and the number of packets that had come by then.
    private var asked: (time: Timestamp, packets: UInt64)?
    /// The number of packets that had come at the first refusal since the peer was heard.
    private var refusedAt: UInt64?
    private var isWorthless = false

    /// The number of checks between a refusal and the next byte: the peer has the time of both to be heard.
    private static let pause = 1
    /// The time after a false alarm in which nothing is asked: links lose packets.
    private static let rest: Int64 = .seconds(1)

    /// Asks once, while the peer is there.
    mutating func begin(on path: PathAddress, loop: EndpointLoop, refused: @escaping @Sendable (Int) -> Void) {
        stop()
        self = PortWatch()
        probe = PortProbe(path.remote, loop: loop, needed: 1, isRepeated: false, refused: refused)
        if probe != nil { self.path = path }
    }

    /// Asks again because of the peer's silence, unless that is done already or would mean nothing.
    mutating func ask(
        on path: PathAddress, packets: UInt64, loop: EndpointLoop, at now: Timestamp,
        refused: @escaping @Sendable (Int) -> Void
    ) {
        if let refusedAt, packets > refusedAt { isWorthless = true }
        guard path == self.path, !isWorthless else { return stop() }
        if let asked {
            if asked.packets == packets, probe?.isAsking == true { return }
            if asked.packets != packets, now - asked.time < Self.rest { return }
        }
        stop()
        isFirst = false
        asked = (now, packets)
        probe = PortProbe(path.remote, loop: loop, pause: Self.pause, refused: refused)
    }

    /// Notes a refusal.
    ///
    /// - Returns: whether it says that nobody is there: it is the second, and nothing has been heard meanwhile.
    mutating func refused(_ count: Int, packets: UInt64) -> Bool {
        // The peer was there when the first byte was sent.
        if isFirst { isWorthless = true }
        if refusedAt == nil { refusedAt = packets }
        return !isFirst && count == 2 && packets == asked?.packets && refusedAt == packets
    }

    /// Asks no more.
    mutating func stop() {
        probe?.stop()
        probe = nil
    }
}
