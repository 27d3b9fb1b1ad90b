import KithWire

/// One peer address: whether it is proven to be the peer's, and how much may be sent there before it is.
struct PathState {
    /// The peer's address.
    var remote: NetworkAddress
    /// Whether the peer has shown that it receives there (RFC 9000 §8).
    var isValidated: Bool
    var bytesReceived: UInt64 = 0
    var bytesSent: UInt64 = 0

    /// How many bytes may be sent: three times what came in until the address is validated (RFC 9000 §8.1).
    var allowance: Int {
        isValidated ? .max : Int(clamping: 3 * bytesReceived) - Int(clamping: bytesSent)
    }
}

/// A PATH_RESPONSE to send.
struct PathAnswer {
    var data: UInt64
    var remote: NetworkAddress
    /// How large the answer's datagram may be.
    var size: Int
}

/// An address the peer seems to have moved to, being validated (RFC 9000 §9.3).
struct PathCandidate {
    var path: PathState
    var challenge: UInt64
    /// When to send the challenge, again.
    var nextAttempt: Timestamp
    var attempts = 0

    /// Counts what came from the address.
    mutating func noteReceived(_ count: Int, from remote: NetworkAddress) {
        if remote == path.remote { path.bytesReceived += UInt64(count) }
    }
}
