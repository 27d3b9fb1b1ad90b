/// One packet-number space of a connection: what arrived, the handshake bytes both ways, and the keys.
struct PacketSpaceState {
    var received: ReceivedPackets
    var cryptoSend = SendBuffer()
    var cryptoReceive = ReceiveBuffer()
    var readKeys: PacketKeys?
    var writeKeys: PacketKeys?
    /// How many ack-eliciting packets have to go at once, whatever the congestion window says.
    var probes = 0
    /// Whether its keys are gone for good (RFC 9001 §4.9).
    var isDiscarded = false

    init(_ space: PacketSpace) {
        received = ReceivedPackets(space: space)
    }
}

/// The three packet-number spaces.
struct PacketSpaces {
    var initial = PacketSpaceState(.initial)
    var handshake = PacketSpaceState(.handshake)
    var application = PacketSpaceState(.application)

    subscript(space: PacketSpace) -> PacketSpaceState {
        @inline(__always) _read {
            switch space {
            case .initial: yield initial
            case .handshake: yield handshake
            case .application: yield application
            }
        }
        @inline(__always) _modify {
            switch space {
            case .initial: yield &initial
            case .handshake: yield &handshake
            case .application: yield &application
            }
        }
    }
}
