// How large datagrams are: searched for, and given up when they stop getting through (RFC 8899, RFC 9000 §14).
extension QUICConnection {
    /// Begins to look for the largest datagram of a path nothing is known about; until then they have 1200 bytes.
    mutating func startSizeSearch() {
        let limit = Int(clamping: peerParameters?.maxUDPPayloadSize ?? 1200)
        sizeProbe.start(limit: min(max(configuration.udpPayloadSize, 1200), max(limit, 1200), 65527))
        setDatagramSize(SizeProbe.smallest)
    }

    /// Notes that a probe of that size arrived.
    mutating func sizeProbeArrived(_ size: Int, at now: Timestamp) {
        if let size = sizeProbe.acknowledged(size, at: now), size > datagramSize { setDatagramSize(size) }
    }

    /// Goes back to what every path carries: large packets no longer arrive while small ones do, or nothing does
    /// (RFC 8899 §4.3).
    mutating func fallBackToSmallest(at now: Timestamp) {
        guard datagramSize > SizeProbe.smallest else { return }
        startSizeSearch()
    }

    /// Says that the system refused to send datagrams of `size` bytes as too large for the interface (EMSGSIZE).
    ///
    /// A probe of that size has failed without having to be waited for, and when nothing has happened since it was
    /// written, it is as if it had never been: neither in flight nor lost (RFC 9000 §14.4). What was in use is given up.
    public mutating func datagramRefused(size: Int, at now: Timestamp) {
        guard size > SizeProbe.smallest else { return }
        if size <= datagramSize {
            fallBackToSmallest(at: now)
        } else {
            if let before = beforeSizeProbe, before.size == size { takeBack(before) }
            sizeProbe.refused(size, at: now)
        }
    }

    /// How things are before a probe of that size is written.
    func state(beforeSizeProbeOf size: Int) -> BeforeSizeProbe {
        BeforeSizeProbe(
            size: size, recovery: recovery.beforePacket(.application), traffic: traffic, bytesOnPath: path.bytesSent,
            lastActivity: lastActivity, hasSentSinceReceipt: hasSentSinceReceipt)
    }

    private mutating func takeBack(_ before: BeforeSizeProbe) {
        beforeSizeProbe = nil
        recovery.takeBack(before.recovery)
        traffic = before.traffic
        path.bytesSent = before.bytesOnPath
        lastActivity = before.lastActivity
        hasSentSinceReceipt = before.hasSentSinceReceipt
    }

    private mutating func setDatagramSize(_ size: Int) {
        guard size != datagramSize else { return }
        datagramSize = size
        recovery.setMaxDatagramSize(size)
    }
}

/// What a connection knew before the size probe it wrote last.
struct BeforeSizeProbe: Sendable {
    let size: Int
    let recovery: BeforePacket
    let traffic: Traffic
    let bytesOnPath: UInt64
    let lastActivity: Timestamp
    let hasSentSinceReceipt: Bool
}
