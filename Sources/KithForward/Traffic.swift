import Synchronization

/// The number of bytes carried each way.
final class Traffic: Sendable {
    private let sentBytes = Atomic<UInt64>(0)
    private let receivedBytes = Atomic<UInt64>(0)
    private let parent: Traffic?

    /// Makes a counter that counts for `parent` as well.
    init(_ parent: Traffic? = nil) { self.parent = parent }

    /// Bytes from where the connection came from.
    var sent: UInt64 { sentBytes.load(ordering: .relaxed) }
    /// Bytes back there.
    var received: UInt64 { receivedBytes.load(ordering: .relaxed) }

    func sent(_ count: Int) {
        sentBytes.wrappingAdd(UInt64(count), ordering: .relaxed)
        parent?.sent(count)
    }

    func received(_ count: Int) {
        receivedBytes.wrappingAdd(UInt64(count), ordering: .relaxed)
        parent?.received(count)
    }
}
