/// Losses since the controller last had a reason to slow down (RFC 9002 §7.3.2), in case every one of them was spurious.
struct RecoveryPeriod: Sendable {
    /// Tells a period from the others of the connection.
    struct ID: Hashable, Sendable {
        fileprivate let path: UInt32
        fileprivate var number: UInt32 = 0
    }

    private(set) var id: ID
    private var began = Timestamp(nanoseconds: .min)
    private var unexplained = 0

    /// The periods of the path with that number.
    init(path: UInt32) { id = ID(path: path) }

    /// Takes a loss in.
    ///
    /// - Returns: whether it begins a period: its packet was sent after the one before began.
    mutating func lost(sentAt time: Timestamp, now: Timestamp) -> Bool {
        let isFirst = time > began
        if isFirst {
            id.number &+= 1
            began = now
            unexplained = 0
        }
        unexplained += 1
        return isFirst
    }

    /// Takes in that a packet lost in period `id` arrived after all.
    ///
    /// - Returns: whether that was the last loss of the current period.
    mutating func lossWasSpurious(_ id: ID) -> Bool {
        guard id == self.id, unexplained > 0 else { return false }
        unexplained -= 1
        guard unexplained == 0 else { return false }
        began = Timestamp(nanoseconds: .min)
        return true
    }
}
