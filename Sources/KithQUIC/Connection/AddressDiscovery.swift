import KithWire

/// The part an end takes in address discovery (draft-ietf-quic-address-discovery §4).
///
/// An end that reports tells the other from which address its packets come: behind a NAT, that is not the address its
/// socket has.
@frozen
public enum AddressDiscoveryRole: UInt64, Hashable, Sendable {
    /// It reports, and asks for no reports.
    case reports = 0
    /// It asks for reports, and gives none.
    case asks = 1
    /// It does both.
    case both = 2

    /// Indicates whether it gives reports.
    public var isReporting: Bool { self != .asks }

    /// Indicates whether it asks for reports.
    public var isAsking: Bool { self != .reports }
}

/// The observations of addresses that are to be sent, and those that came.
struct AddressReports {
    private struct Observation {
        var path: PathAddress
        var sequence: UInt64
        var address: NetworkAddress
        var isNews: Bool
    }

    /// The most paths of which the newest observation is kept.
    static let memory = 16

    /// Indicates whether the peer's address on the path in use is to be reported.
    var isReportPending = false
    private var nextSequence: UInt64 = 0
    private var observations: [Observation] = []
    private var hasNews = false

    /// The number of the next report; they rise.
    mutating func takeSequence() -> UInt64 {
        defer { nextSequence += 1 }
        return nextSequence
    }

    /// Notes a report that came along a path: the one with the highest number counts there.
    mutating func received(_ address: NetworkAddress, sequence: UInt64, on path: PathAddress) {
        if let index = observations.firstIndex(where: { $0.path == path }) {
            guard sequence > observations[index].sequence else { return }
            observations[index].sequence = sequence
            guard observations[index].address != address else { return }
            observations[index].address = address
            observations[index].isNews = true
        } else {
            if observations.count == Self.memory { observations.removeFirst() }
            observations.append(Observation(path: path, sequence: sequence, address: address, isNews: true))
        }
        hasNews = true
    }

    /// The next report that says something new; nil for none.
    mutating func nextNews() -> (address: NetworkAddress, path: PathAddress)? {
        guard hasNews else { return nil }
        guard let index = observations.firstIndex(where: \.isNews) else {
            hasNews = false
            return nil
        }
        observations[index].isNews = false
        return (observations[index].address, observations[index].path)
    }

    /// Notes that a report was lost: along the path in use another is sent, along others with the next challenge.
    mutating func lost(on path: PathAddress, inUse: PathAddress) {
        if path == inUse { isReportPending = true }
    }
}

// Reports of the peer's address, where it asks for them (draft-ietf-quic-address-discovery). One is sent when the
// handshake is complete, and one with each challenge of a path. What a relay delivers comes from no address of the peer's.
extension QUICConnection {
    /// Indicates whether both ends agreed that this one reports.
    var reportsAddresses: Bool {
        configuration.addressDiscovery?.isReporting ?? false && peerParameters?.addressDiscovery?.isAsking ?? false
    }

    /// Queues a report along the path in use, where that was agreed.
    mutating func reportAddress() {
        discovery.isReportPending = reportsAddresses && path.address.local.kind == .socket
    }

    /// Writes a report of the address at the other end of a path; false when there is no room for it.
    mutating func writeObservedAddress(_ packet: inout PacketBuilder, of path: PathAddress, at now: Timestamp) -> Bool {
        guard path.local.kind == .socket else { return true }
        guard packet.writer.room >= PacketWriter.maximumObservedAddress else { return false }
        let sequence = discovery.takeSequence()
        packet.writer.observedAddress(sequence: sequence, path.remote)
        packet.content.add(.observedAddress(path))
        packet.isAckEliciting = true
        log?.observedAddress(path.remote, sequence: sequence, isSent: true, at: now)
        return true
    }

    /// Takes a report of this end's address in.
    ///
    /// - Throws: PROTOCOL_VIOLATION where it was not agreed that the peer reports.
    mutating func receivedObservedAddress(
        _ observed: NetworkAddress, sequence: UInt64, on path: PathAddress, at now: Timestamp
    ) throws(TransportError) {
        guard configuration.addressDiscovery?.isAsking ?? false, peerParameters?.addressDiscovery?.isReporting ?? false
        else {
            throw TransportError(
                .protocolViolation, frameType: observed.isIPv6 ? FrameType.observedIPv6 : FrameType.observedIPv4,
                "an address is reported that was not asked for")
        }
        guard path.local.kind == .socket else { return }
        log?.observedAddress(observed, sequence: sequence, isSent: false, at: now)
        discovery.received(observed, sequence: sequence, on: path)
    }
}
