/// One of the three sequences packets are numbered in (RFC 9000 §12.3).
package enum PacketSpace: Int, CaseIterable, Hashable, Sendable {
    /// Initial packets.
    case initial
    /// Handshake packets.
    case handshake
    /// 0-RTT and 1-RTT packets.
    case application
}

/// A run of packet numbers in an ACK frame, both ends included.
package struct AckRange: Hashable, Sendable {
    /// The smallest number.
    package var smallest: UInt64
    /// The largest number.
    package var largest: UInt64

    package init(smallest: UInt64, largest: UInt64) {
        self.smallest = smallest
        self.largest = largest
    }
}

/// An impossible claim in an ACK frame.
package enum AckViolation: Error, Hashable, Sendable {
    /// It acknowledges a packet that was never sent: PROTOCOL_VIOLATION.
    case unsentPacket
}

/// Indicates whether, and how much, may be sent now.
package enum SendPermission: Hashable, Sendable {
    /// So many bytes, at least one full datagram.
    case bytes(Int)
    /// Nothing before that time.
    case paced(until: Timestamp)
    /// Nothing before an acknowledgement or a time-out.
    case congestionBlocked
}

/// The action a time-out asks for.
package enum TimeoutAction: Hashable, Sendable {
    /// It came early; ask for the deadline again.
    case none
    /// Packets were declared lost; their contents are to be drained.
    case lossDetected
    /// Send so many ack-eliciting packets in that space at once, whatever the window says.
    case probe(PacketSpace, packets: Int)
}
