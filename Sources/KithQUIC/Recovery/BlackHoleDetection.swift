/// Notices that packets above the size every path carries have stopped arriving while smaller ones arrive
/// (RFC 8899 §4.3).
///
/// A packet is declared lost when a later one has arrived. When that happens to large packets three times in a row,
/// each sent after the time before was noticed, and no large packet sent since has arrived, they go down a black hole.
struct BlackHoleDetection: Sendable {
    /// The size every path carries.
    static let smallest = 1200
    /// So many times in a row.
    static let bursts = 3

    private var count = 0
    private var suspected = Timestamp.distantFuture
    private var noticed = Timestamp(nanoseconds: .min)
    private var newestArrived = Timestamp(nanoseconds: .min)

    var isFound: Bool { count >= Self.bursts }

    @inline(__always)
    mutating func acknowledged(size: Int, sentAt time: Timestamp) {
        guard size > Self.smallest else { return }
        if time > newestArrived { newestArrived = time }
        if time >= suspected { clear() }
    }

    mutating func lost(size: Int, sentAt time: Timestamp, now: Timestamp) {
        guard size > Self.smallest, time > newestArrived, time > noticed else { return }
        if count == 0 { suspected = time }
        count += 1
        noticed = now
    }

    mutating func clear() {
        count = 0
        suspected = .distantFuture
    }
}
