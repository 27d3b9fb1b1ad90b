/// The state of recovery before a packet, to go back to when the system refuses to send it.
struct BeforePacket: Sendable {
    fileprivate let space: PacketSpace
    fileprivate let number: UInt64
    fileprivate let bytesInFlight: Int
    fileprivate let statistics: RecoveryStatistics
    fileprivate let path: Recovery.Path
    fileprivate let delivery: DeliveryRate
    fileprivate let lastAckEliciting: Timestamp?
    fileprivate let unansweredSince: Timestamp?
    fileprivate let antiDeadlockBase: Timestamp?
}

// Packets that never were on their way, because the interface does not carry them.
extension Recovery {
    /// Remembers how things are before the next packet of a space is sent.
    func beforePacket(_ space: PacketSpace) -> BeforePacket {
        BeforePacket(
            space: space, number: nextPacketNumber(space), bytesInFlight: bytesInFlight, statistics: statistics,
            path: path, delivery: delivery,
            lastAckEliciting: spaces[space.rawValue].lastAckEliciting,
            unansweredSince: spaces[space.rawValue].unansweredSince, antiDeadlockBase: antiDeadlockBase)
    }

    /// Takes back the packet sent since then, before anything else has happened: it is neither in flight nor lost.
    ///
    /// Its number stays unused (RFC 9000 §12.3), and whoever acknowledges it has not received it.
    mutating func takeBack(_ before: BeforePacket) {
        let index = before.space.rawValue
        guard spaces[index].isOutstanding(before.number) else { return }
        _ = spaces[index].take(before.number)
        spaces[index].lastAckEliciting = before.lastAckEliciting
        spaces[index].unansweredSince = before.unansweredSince
        spaces[index].advance()
        skipped[index] = before.number
        bytesInFlight = before.bytesInFlight
        statistics = before.statistics
        path = before.path
        delivery = before.delivery
        antiDeadlockBase = before.antiDeadlockBase
    }
}
