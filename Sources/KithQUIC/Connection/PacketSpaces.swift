/// One packet-number space of a connection: what arrived, the handshake bytes both ways, and the keys.
struct PacketSpaceState {
    var received: ReceivedPackets
    var cryptoSend = SendBuffer()
    var cryptoReceive = ReceiveBuffer()
    var readKeys: PacketKeys?
    var writeKeys: PacketKeys?
    /// The number of ack-eliciting packets to send at once, whatever the congestion window says.
    var probes = 0
    /// Indicates whether its keys are gone for good (RFC 9001 §4.9).
    var isDiscarded = false

    init(_ space: PacketSpace) {
        received = ReceivedPackets(space: space)
    }
}

/// Places of the three packet-number spaces in a connection's array of them.
///
/// An array, not a struct with a subscript by case: a coroutine accessor (`_read`) makes Swift 6.3's optimiser end
/// the access too early, and the yielded buffers are used after they are freed.
extension Int {
    static var initial: Int { PacketSpace.initial.rawValue }
    static var handshake: Int { PacketSpace.handshake.rawValue }
    static var application: Int { PacketSpace.application.rawValue }
}

extension ContiguousArray<PacketSpaceState> {
    /// The state of all three, at a connection's start.
    static var fresh: Self {
        [PacketSpaceState(.initial), PacketSpaceState(.handshake), PacketSpaceState(.application)]
    }
}
