// How large datagrams are: searched for, and given up when they stop getting through (RFC 8899, RFC 9000 §14).
extension QUICConnection {
    /// Begins to look for the largest datagram of a path nothing is known about; until then they have 1200 bytes.
    ///
    /// Relays carry no more than networks do as a rule, whatever the frames of their protocol could hold.
    mutating func startPathMTUDiscovery(on link: LocalLink? = nil) {
        let limit = Int(clamping: peerParameters?.maxUDPPayloadSize ?? 1200)
        let bound = (link ?? path.address.local).kind == .relay ? 1452 : 65527
        recovery.path.mtu.start(limit: min(max(configuration.udpPayloadSize, 1200), max(limit, 1200), bound))
        setDatagramSize(PathMTUDiscovery.smallest)
    }

    /// The size of a full datagram's UDP payload now.
    var datagramSize: Int { recovery.path.datagramSize }

    /// Notes that a probe of that size arrived; one sent along another path says nothing of this one.
    mutating func plpmtudProbeArrived(_ size: Int, path: UInt32, at now: Timestamp) {
        guard path == recovery.path.number, let size = recovery.path.mtu.acknowledged(size, at: now),
            size > datagramSize
        else { return }
        setDatagramSize(size)
    }

    /// Notes that a probe of that size was lost.
    mutating func plpmtudProbeLost(_ size: Int, path: UInt32, at now: Timestamp) {
        if path == recovery.path.number { recovery.path.mtu.lost(size, at: now) }
    }

    /// Goes back to what every path carries: large packets no longer arrive while small ones do, or nothing does
    /// (RFC 8899 §4.3).
    mutating func fallBackToSmallest(at now: Timestamp) {
        guard datagramSize > PathMTUDiscovery.smallest else { return }
        startPathMTUDiscovery()
    }

    /// Says that the system refused to send datagrams of `size` bytes as too large for the interface (EMSGSIZE).
    ///
    /// A probe of that size has failed without having to be waited for, and when nothing has happened since it was
    /// written, it is as if it had never been: neither in flight nor lost (RFC 9000 §14.4). What was in use is given up.
    public mutating func datagramRefused(size: Int, at now: Timestamp) {
        guard size > PathMTUDiscovery.smallest else { return }
        if size <= datagramSize {
            fallBackToSmallest(at: now)
        } else {
            if let before = beforePLPMTUDProbe, before.size == size { takeBack(before) }
            recovery.path.mtu.refused(size, at: now)
        }
    }

    /// Returns the state before a probe of that size is written.
    func state(beforePLPMTUDProbeOf size: Int) -> BeforePLPMTUDProbe {
        BeforePLPMTUDProbe(
            size: size, recovery: recovery.beforePacket(.application), traffic: traffic, bytesOnPath: path.bytesSent,
            lastActivity: lastActivity, hasSentSinceReceipt: hasSentSinceReceipt)
    }

    private mutating func takeBack(_ before: BeforePLPMTUDProbe) {
        beforePLPMTUDProbe = nil
        recovery.takeBack(before.recovery)
        traffic = before.traffic
        path.bytesSent = before.bytesOnPath
        lastActivity = before.lastActivity
        hasSentSinceReceipt = before.hasSentSinceReceipt
    }

    private mutating func setDatagramSize(_ size: Int) {
        guard size != datagramSize else { return }
        recovery.setMaxDatagramSize(size)
    }
}

/// The state of a connection before the PLPMTUD probe it wrote last.
struct BeforePLPMTUDProbe: Sendable {
    let size: Int
    let recovery: BeforePacket
    let traffic: Traffic
    let bytesOnPath: UInt64
    let lastActivity: Timestamp
    let hasSentSinceReceipt: Bool
}
