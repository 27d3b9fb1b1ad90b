import KithQUIC
import KithWire

/// The word of the machine at the other end of a path about its port, and what that is worth.
///
/// It is asked for once while the peer is certainly there, and again whenever the peer is silent. A firewall refuses
/// whom it does not know although the peer lives: a machine that refused a byte and whose peer was heard after that is
/// not believed any more.
/// Touched with the turn of the endpoint's loop only.
struct PortWatch {
    /// The path it is about; nil when the machine was not asked while the peer was there.
    private var path: PathAddress?
    private var probe: PortProbe?
    /// How many packets had come when the newest byte's probe began.
    private var packets: UInt64 = 0
    private var isWorthless = false
    /// Whether the probe is the one made while the peer was there.
    private var isFirst = true

    /// How many looks lie between two bytes for a silent peer: it has had two probe time-outs already.
    private static let pause = 2

    /// Asks once, while the peer is there.
    mutating func begin(on path: PathAddress, packets: UInt64, loop: EndpointLoop) {
        stop()
        probe = PortProbe(path.remote, loop: loop, pause: nil) {}
        self = PortWatch(path: probe == nil ? nil : path, probe: probe, packets: packets)
    }

    /// Asks again because of the peer's silence, unless that is done already or would mean nothing.
    ///
    /// `refused` is called at the second refusal; the peer may have been heard meanwhile.
    mutating func ask(
        on path: PathAddress, packets: UInt64, loop: EndpointLoop, refused: @escaping @Sendable () -> Void
    ) {
        guard path == self.path, !isWorthless else { return }
        if packets != self.packets {
            if probe?.isRefused == true { isWorthless = true }
            stop()
            self.packets = packets
            if isWorthless { return }
        }
        guard isFirst || probe?.isAsking != true else { return }
        stop()
        isFirst = false
        probe = PortProbe(path.remote, loop: loop, pause: Self.pause, refused: refused)
    }

    /// Asks no more.
    mutating func stop() {
        probe?.stop()
        probe = nil
    }

    private init(path: PathAddress?, probe: PortProbe?, packets: UInt64) {
        (self.path, self.probe, self.packets) = (path, probe, packets)
    }

    /// Makes one that has asked nothing yet.
    init() {}
}
