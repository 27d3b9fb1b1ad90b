/// The 1-RTT keys of both directions through their updates (RFC 9001 §6).
///
/// ```
///  phase 0 ──we or the peer update──▶ phase 1 ──▶ phase 0 ──▶ …
/// ```
/// Read keys of the phase before stay for a while for packets that were overtaken; those of the next are made when
/// a packet with the other phase bit asks for them.
struct KeyPhases {
    /// The phase bit of packets sent now.
    private(set) var isOdd = false
    /// The number of key updates so far.
    private(set) var count: UInt64 = 0
    /// The first packet number received in the current phase; nil before the first one.
    private(set) var firstReceived: UInt64?
    /// The first packet number sent in the current phase.
    private(set) var firstSent: UInt64 = 0
    /// The number of packets sealed with the current write keys.
    var sealed: UInt64 = 0
    /// The number of received packets that failed to open, under all keys (RFC 9001 §6.6).
    var failures: UInt64 = 0
    var previousRead: PacketKeys?
    var previousExpiry: Timestamp?
    var nextRead: PacketKeys?

    /// Notes the number of a packet opened with the current keys.
    @inline(__always)
    mutating func opened(_ number: UInt64) {
        guard let first = firstReceived else {
            firstReceived = number
            return
        }
        if number < first { firstReceived = number }
    }

    /// Moves to the next phase.
    mutating func advance(firstReceived number: UInt64?, firstSent: UInt64) {
        isOdd.toggle()
        count += 1
        firstReceived = number
        self.firstSent = firstSent
        sealed = 0
        nextRead = nil
    }
}
