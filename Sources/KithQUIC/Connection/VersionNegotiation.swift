/// The version one connection speaks, and the way to it (RFC 9368).
///
/// ```
///  client  dials v ──server's packets in w──▶ speaks w          (compatible: v and w share the first flight)
///                 └─Version Negotiation without v─▶ dials w     (incompatible: all over again)
///  server  hears v ──ClientHello offers w, we prefer it──▶ speaks w
/// ```
/// Both ends authenticate the outcome in the handshake, so that nobody between them can bring it about.
struct VersionNegotiation {
    /// The version of the client's first flight.
    let original: QUICVersion
    /// The version spoken now.
    private(set) var version: QUICVersion
    /// Client: whether a Version Negotiation packet made it dial again.
    var followedPacket = false
    /// Server: reads Initials the client sent before it heard of the change (RFC 9369 §4.1).
    private(set) var originalReadKeys: PacketKeys?

    init(_ version: QUICVersion) {
        original = version
        self.version = version
    }

    /// Returns this end's version information for the handshake, a reserved version in it (RFC 9368 §3, §7.1).
    func information(_ configuration: QUICConfiguration) -> VersionInformation {
        let reserved = QUICVersion.reserved(UInt32(truncatingIfNeeded: configuration.random()))
        return VersionInformation(
            chosen: version, available: configuration.versions.map(\.rawValue) + [reserved])
    }

    /// Moves to another version; `keys` still read packets of the first.
    mutating func move(to other: QUICVersion, keeping keys: PacketKeys?) {
        originalReadKeys = keys
        version = other
    }

    /// Server: the version to speak with a client that said `theirs`.
    ///
    /// - Throws: VERSION_NEGOTIATION_ERROR when the client believes that it spoke another version (RFC 9368 §4).
    func choice(
        _ theirs: VersionInformation?, _ configuration: QUICConfiguration
    ) throws(TransportError) -> QUICVersion {
        guard let theirs else { return original }
        guard theirs.available.contains(theirs.chosen) else {
            throw TransportError(.transportParameter, "the version chosen is not among those available")
        }
        guard theirs.chosen == original.rawValue else {
            throw TransportError(.versionNegotiation, "the client chose another version than it speaks")
        }
        guard configuration.prefersOwnVersion else { return original }
        return configuration.versions.first { theirs.available.contains($0.rawValue) } ?? original
    }

    /// Client: checks that the server brought this version about itself (RFC 9368 §4).
    ///
    /// - Throws: VERSION_NEGOTIATION_ERROR when somebody else may have.
    func check(_ theirs: VersionInformation?, _ configuration: QUICConfiguration) throws(TransportError) {
        guard let theirs else {
            guard version == original, !followedPacket else {
                throw TransportError(.versionNegotiation, "the server does not confirm the version")
            }
            return
        }
        guard theirs.chosen == version.rawValue else {
            throw TransportError(.versionNegotiation, "the server chose another version than it speaks")
        }
        guard followedPacket else { return }
        guard configuration.versions.first(where: { theirs.available.contains($0.rawValue) }) == original else {
            throw TransportError(.versionNegotiation, "the server would have spoken a better version")
        }
    }
}

extension QUICConnection {
    /// Takes a Version Negotiation in (RFC 9000 §6.2).
    ///
    /// Unless it is an echo, the server does not speak the version dialed; another common one is dialed then, once.
    mutating func receiveVersionNegotiation(_ header: PacketHeader, at now: Timestamp) {
        guard isClient, phase == .handshaking, !hasReceivedPacket, retrySource == nil, !negotiation.followedPacket,
            header.destination == firstLocalID, header.source == peerIDs.current
        else { return }
        var reader = unsafe PacketReader(header.token)
        var offered: [UInt32] = []
        while offered.count < 64, let version = try? reader.uint32() { offered.append(version) }
        guard !offered.contains(negotiation.original.rawValue) else { return }
        guard let next = configuration.versions.first(where: { offered.contains($0.rawValue) }) else {
            return finish(.versionMismatch, at: now)
        }
        dialAgain(next, at: now)
    }

    /// Begins anew with another version, as the same connection to whoever holds it.
    private mutating func dialAgain(_ next: QUICVersion, at now: Timestamp) {
        var fresh: QUICConnection
        do {
            fresh = try QUICConnection(
                configuration, isClient: true,
                .dialing(path.address, version: next, random: configuration.random()), at: created)
        } catch {
            // The same credentials were good for the first attempt.
            return finish(.versionMismatch, at: now)
        }
        fresh.negotiation.followedPacket = true
        fresh.lastActivity = now
        fresh.traffic = traffic
        let hadEarlyData = early.state == .possible
        if hadEarlyData {
            // The ticket is of no use in the other version; what was written waits for its handshake.
            fresh.streams = streams
            fresh.streams.withdraw()
            fresh.early.state = .rejected
        }
        var kept = EventQueue()
        while let event = events.next() { kept.append(event) }
        kept.append(.connectionIDRetired(firstLocalID))
        if hadEarlyData { kept.append(.earlyDataRejected) }
        while let event = fresh.events.next() { kept.append(event) }
        fresh.events = kept
        fresh.driveHandshake(at: now)
        self = fresh
    }
}
