package import KithWire

/// A candidate as it is told to another device.
public struct RankedCandidate: Hashable, Sendable {
    /// The address, and how it is known.
    public var candidate: Candidate
    /// The larger the better.
    public var priority: UInt32

    /// Makes one.
    public init(_ candidate: Candidate, priority: UInt32) {
        (self.candidate, self.priority) = (candidate, priority)
    }
}

/// The candidates of one device at one time.
public struct CandidateList: Hashable, Sendable {
    /// The number of the network they belong to, which rises: those of an older one hold no more.
    public var generation: UInt32
    /// The candidates, the best first.
    public var candidates: [RankedCandidate]

    /// Makes a list.
    public init(generation: UInt32, candidates: [RankedCandidate] = []) {
        (self.generation, self.candidates) = (generation, candidates)
    }
}

/// The addresses at which this device may be reached, and which of them another device is told.
///
/// Another network begins another generation, without any address of the one before. At most
/// ``maxCandidates`` are told, the best first.
package struct CandidateTable: Hashable, Sendable {
    /// The most candidates of a device.
    package static let maxCandidates = 32
    /// The most addresses that are kept of each kind.
    package static let maxPerKind = 32

    /// The number of the network.
    package private(set) var generation: UInt32
    private var local: [LocalAddress] = []
    private var others: [Candidate.Kind: [NetworkAddress]] = [:]

    /// Starts without addresses.
    ///
    /// Generations go on from those of an earlier life when one is given.
    package init(generation: UInt32 = 1) { self.generation = generation }

    /// Begins a new generation: the device is on another network.
    package mutating func networkChanged() {
        // Four billion changes of network come first.
        generation = generation.saturatingAdding(1)
        (local, others) = ([], [:])
    }

    /// Sets the addresses of this device's interfaces; returns whether what is told to others may have changed.
    @discardableResult
    package mutating func set(_ addresses: [LocalAddress]) -> Bool {
        let addresses = Array(addresses.prefix(256))
        defer { local = addresses }
        return local != addresses
    }

    /// Sets the addresses known in another way, replacing those of that kind; returns whether any changed.
    @discardableResult
    package mutating func set(_ addresses: [NetworkAddress], of kind: Candidate.Kind) -> Bool {
        let addresses = Array(addresses.prefix(Self.maxPerKind))
        defer { others[kind] = addresses }
        return others[kind] ?? [] != addresses
    }

    /// The addresses of this device's interfaces.
    package var localAddresses: [NetworkAddress] { local.map(\.address) }

    /// What a device is told, by the preference for it.
    ///
    /// `relay` tells nothing; `local` tells addresses of the local network alone.
    package func list(for preference: ReachPreference) -> CandidateList {
        guard preference != .relay else { return CandidateList(generation: generation) }
        let hasOrdinaryIPv4 = local.contains { !$0.address.isIPv6 && mayLeave($0, withLinkLocal: false) }
        var ranked: [RankedCandidate] = []
        for entry in local where mayLeave(entry, withLinkLocal: !hasOrdinaryIPv4) {
            guard preference != .local || Self.isLocal(entry) else { continue }
            ranked.append(RankedCandidate(Candidate(entry.address, .host), priority: Self.priority(of: entry)))
        }
        if preference != .local {
            for (kind, addresses) in others {
                for (place, address) in addresses.enumerated() where Self.isReachable(address) {
                    let priority = Self.priority(of: kind, address) - UInt32(place)
                    ranked.append(RankedCandidate(Candidate(address, kind), priority: priority))
                }
            }
        }
        ranked.sort {
            ($0.priority, $1.candidate.address.description) > ($1.priority, $0.candidate.address.description)
        }
        // An address that is known in two ways is told once, in the better one.
        var seen: Set<NetworkAddress> = []
        ranked.removeAll { !seen.insert($0.candidate.address).inserted }
        return CandidateList(generation: generation, candidates: Array(ranked.prefix(Self.maxCandidates)))
    }

    /// Returns whether a datagram to an address could reach one other device, and nothing else.
    ///
    /// Not those of groups, of this machine, of no machine (0.0.0.0/8, ::), or reserved (240.0.0.0/4), nor with port 0.
    package static func isReachable(_ address: NetworkAddress) -> Bool {
        guard address.port != 0, !address.isMulticast, !address.isLoopback, !address.isUnspecified else { return false }
        guard !address.isIPv6 else {
            // fe80 is of some link: its number here says nothing about the link there.
            return !address.isLinkLocal
        }
        let first = address.halves.low >> 24
        return first != 0 && first < 240
    }

    private func mayLeave(_ entry: LocalAddress, withLinkLocal: Bool) -> Bool {
        guard Self.isReachable(entry.address), !entry.isDeprecated else { return false }
        switch entry.interface {
        case .containers, .loopback: return false
        case .ordinary, .cellular, .tunnel: return withLinkLocal || !entry.address.isLinkLocal
        }
    }

    private static func isLocal(_ entry: LocalAddress) -> Bool {
        // Every IPv6 address of a local network is of the same prefix as its neighbours'; a packet to them stays there.
        entry.interface == .ordinary && (entry.address.isIPv6 || entry.address.isPrivate || entry.address.isLinkLocal)
    }

    private static func priority(of entry: LocalAddress) -> UInt32 {
        let tunnelled: UInt32 = entry.interface == .tunnel ? 0 : 1 << 24
        // Of an interface's IPv6 addresses the temporary ones come first: they tell the least of the device.
        let lasting: UInt32 = entry.address.isIPv6 && !entry.isTemporary ? 1 : 0
        return tunnelled | priority(of: .host, entry.address) - lasting
    }

    /// Ordinary before tunnelled, then by kind, then IPv6 before IPv4, then in the order told.
    private static func priority(of kind: Candidate.Kind, _ address: NetworkAddress) -> UInt32 {
        let others: UInt32 = kind == .host ? 0 : 1 << 24
        return others | UInt32(255 - kind.rawValue) << 16 | (address.isIPv6 ? 0x0200 : 0x0100) | 0xFF
    }
}

/// The candidates of another device, as it told them.
package struct PeerCandidates: Hashable, Sendable {
    /// What it told last; `nil` before it told anything.
    package private(set) var list: CandidateList?

    /// Starts with nothing told.
    package init() {}

    /// Takes a list in; returns whether it holds anything new.
    ///
    /// One of an older generation is dropped. Addresses that no packet may go to are left out, as are any beyond
    /// ``CandidateTable/maxCandidates``.
    package mutating func receive(_ new: CandidateList) -> Bool {
        if let list, new.generation < list.generation { return false }
        var seen: Set<NetworkAddress> = []
        let usable = new.candidates.filter {
            CandidateTable.isReachable($0.candidate.address) && seen.insert($0.candidate.address).inserted
        }
        let sorted = usable.sorted { $0.priority > $1.priority }.prefix(CandidateTable.maxCandidates)
        let kept = CandidateList(generation: new.generation, candidates: Array(sorted))
        defer { list = kept }
        return kept != list
    }
}
