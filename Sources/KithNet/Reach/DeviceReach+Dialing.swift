import KithIO
package import KithIdentity
import KithReach
import Synchronization
package import KithWire

// Other devices: what they announce, and how they are dialed.
extension DeviceReach {
    func peerAnnounced(_ announced: [RelayAddress], _ device: DeviceID, at now: ContinuousClock.Instant) {
        // An idle device asks servers seldom, and the NAT may have given the port up.
        if let lastQuestions {
            let due = max(now, lastQuestions + pauseBetweenQuestions(at: now))
            nextQuestions = min(nextQuestions ?? due, due)
        }
        let before = relays(of: device)
        let mine = ownRelays
        let relays = announced.distinct.filter { Self.mayUse($0, own: mine, before: before) }
            .prefix(PeerRelays.maxPerDevice)
        known.withLock { $0[device] = Known(relays: Array(relays), isAnnounced: true) }
        if preference(for: device) != .local { peers.announced(Array(relays), by: device, own: mine, at: now) }
        usePeerRelays(of: device, at: now)
    }

    /// Indicates whether a relay may be used that another device names, or a record of it.
    private static func mayUse(_ relay: RelayAddress, own: Set<RelayAddress>, before: [RelayAddress]) -> Bool {
        relay.mayBeNamedByPeers || before.contains(relay) || own.contains { $0.isSameRelay(as: relay) }
    }

    /// Keeps what devices have announced, as often as they may change what is used of it.
    func keepAnnounced(of device: DeviceID) {
        guard let known = known.withLock({ $0[device] }), known.isAnnounced else { return }
        if store.relays(device) != known.relays { store.keepRelays(device, known.relays) }
    }

    /// Opens the links to a device's relays, and has its connections hold paths by them.
    func usePeerRelays(of device: DeviceID, at now: ContinuousClock.Instant) {
        needsChanged(at: now)
        if !peers.isPending(device) { keepAnnounced(of: device) }
        let relays = preference(for: device) == .local ? [] : peers.relays(of: device)
        let links = used(for: relays).compactMap { open($0, at: now)?.link.number }
        endpoint.setLinks(links, of: device)
    }

    /// The links to a device: the numbers of those that are open, and what the others come to.
    func links(to device: DeviceID) -> (open: [UInt32], opening: [Promise<UInt32?>]) {
        guard phase != .stopped, preference(for: device) != .local else { return ([], []) }
        let now = ContinuousClock.now
        let addresses = used(for: peers.use(relays(of: device), for: device, own: ownRelays, at: now))
        needsChanged(at: now)
        var (numbers, opening) = ([UInt32](), [Promise<UInt32?>]())
        for address in addresses {
            guard let relay = open(address, at: now) else { continue }
            switch relay.state {
            case .connected:
                numbers.append(relay.link.number)
                continue
            case .denied: continue
            case .waiting, .captive: relay.link.client.networkChanged()
            case .idle, .connecting, .restarting, .closed: break
            }
            let promise = relay.opening ?? Promise<UInt32?>()
            relays[address]?.opening = promise
            opening.append(promise)
        }
        return (numbers, opening)
    }

    /// The open connection to a device, or a new one at one of `addresses` or through one of the relays at which it is
    /// to be found.
    ///
    /// The preference for the device holds: addresses elsewhere are not dialed for `local`, none is for `relay`, and for
    /// `direct` it waits for the path to be one.
    ///
    /// - Throws: as ``Endpoint/connect(to:at:timeout:)``; `.unreachable` where the preferred way does not exist.
    package nonisolated func connect(
        to peer: DeviceID, at addresses: [NetworkAddress], isEarly: Bool = false, timeout: Duration
    ) async throws(KithError) -> Connection {
        let preference = preference(for: peer)
        // On the local network nobody takes long to answer.
        let deadline = ContinuousClock.now + (preference == .local ? min(timeout, Self.localWait) : timeout)
        let addresses = self.addresses(addresses, for: peer)
        while true {
            let connection: Connection
            do {
                connection = try await self.connection(
                    to: peer, at: addresses, isEarly: isEarly && preference == .auto, until: deadline)
            } catch {
                guard preference == .local, error.code == .unreachable || error.code == .timedOut else { throw error }
                throw unmet(preference, for: peer)
            }
            if preference == .auto { return connection }
            if try await settles(connection, with: peer, by: preference, until: deadline) { return connection }
        }
    }

    /// Waits until a connection goes along a path as preferred; false when it ends before.
    private nonisolated func settles(
        _ connection: Connection, with peer: DeviceID, by preference: ReachPreference,
        until deadline: ContinuousClock.Instant
    ) async throws(KithError) -> Bool {
        while connection.isOpen {
            let change = pathChanges.withLock { changes in
                let change = changes[peer] ?? Promise<Void>()
                changes[peer] = change
                return change
            }
            guard let path = await connection.statistics().paths.first(where: \.isActive) else { break }
            if preference.permits(path) { return true }
            guard deadline > .now, await Self.wait(for: change, until: deadline) else {
                throw unmet(preference, for: peer)
            }
        }
        guard deadline > .now else { throw unmet(preference, for: peer) }
        return false
    }

    /// Waits until a promise is fulfilled; false when the time is up before, or the task is cancelled.
    private static func wait(for promise: Promise<Void>, until deadline: ContinuousClock.Instant) async -> Bool {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask { (try? await promise.valueUnlessCancelled()) != nil }
            group.addTask {
                // Cancelled when the promise is fulfilled.
                try? await Task.sleep(until: deadline, clock: .continuous)
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    private nonisolated func connection(
        to peer: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, until deadline: ContinuousClock.Instant
    ) async throws(KithError) -> Connection {
        if let open = endpoint.connection(to: peer) { return open }
        let isKnown = !addresses.isEmpty || !relays(of: peer).isEmpty
        if !isKnown { _ = await askDirectories(for: peer, until: deadline) }
        let tried = (addresses + publishedAddresses(of: peer)).distinct
        do throws(KithError) {
            return try await reach(peer, at: tried, isEarly: isEarly, until: deadline)
        } catch {
            // It is not where it was; by now it may be elsewhere.
            guard error.code == .unreachable, isKnown, deadline > .now else { throw error }
            let isElsewhere = await askDirectories(for: peer, until: deadline)
            // They may have been asked already, while it was dialed.
            let found = publishedAddresses(of: peer).filter { !tried.contains($0) }
            guard isElsewhere || !found.isEmpty, deadline > .now else { throw error }
            return try await reach(peer, at: found, isEarly: isEarly, until: deadline)
        }
    }

    /// The addresses that a device has published, as far as they may be dialed.
    private nonisolated func publishedAddresses(of device: DeviceID) -> [NetworkAddress] {
        addresses(published.withLock { $0[device] ?? [] }, for: device)
    }

    /// Asks the directories where a device is, for as long as there is time; true when they say something new.
    private nonisolated func askDirectories(for device: DeviceID, until deadline: ContinuousClock.Instant) async -> Bool
    {
        guard options.directories != nil else { return false }
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask { await self.askDirectories(for: device) }
            group.addTask {
                // Cancelled when they have answered.
                try? await Task.sleep(until: deadline, clock: .continuous)
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
    }

    /// Asks the directories at which relays and addresses a device is; true when they say something new.
    nonisolated func askDirectories(for device: DeviceID) async -> Bool {
        guard preference(for: device) != .local else { return false }
        // Directories that do not answer only make things slower.
        guard let found = try? await options.directories?.resolve(device), let record = try? DeviceRecord(found.record)
        else { return false }
        let addresses = record.addresses.distinct.filter(\.mayBeNamedByPeers)
        let isMoved = published.withLock { published in
            defer { published[device] = addresses.isEmpty ? nil : addresses }
            return !addresses.isEmpty && published[device] != addresses
        }
        let (before, mine) = (relays(of: device), ownRelays)
        let relays = record.relays.distinct.filter { Self.mayUse($0, own: mine, before: before) }
            .prefix(PeerRelays.maxPerDevice)
        guard !relays.isEmpty, Array(relays) != before else { return isMoved }
        note(Array(relays), of: device)
        return true
    }

    /// Asks the directories while a dial is under way that takes long, and has it try what they say.
    nonisolated func askDirectories(whileDialing peer: DeviceID) async {
        guard options.directories != nil, (try? await Task.sleep(for: Self.directoryWait)) != nil,
            await askDirectories(for: peer)
        else { return }
        let (open, opening) = await links(to: peer)
        for number in open { endpoint.found(peer, by: number) }
        for promise in opening {
            // Cancelled when the dial is over.
            if let number = try? await promise.valueUnlessCancelled() { endpoint.found(peer, by: number) }
        }
    }

    /// Dials at addresses and through relays that are known, until one answers.
    private nonisolated func reach(
        _ peer: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, until deadline: ContinuousClock.Instant
    ) async throws(KithError) -> Connection {
        var (open, opening) = await links(to: peer)
        var addresses = addresses
        var failure: KithError?
        while true {
            if open.isEmpty, addresses.isEmpty {
                guard let next = await Self.first(of: &opening, until: deadline) else {
                    throw failure ?? noWay(to: peer, until: deadline)
                }
                open = [next]
            }
            guard deadline > .now else {
                throw failure ?? KithError(.timedOut, "The device was not reached in time.")
            }
            do {
                return try await dial(
                    peer, at: addresses, through: open, orLater: opening, isEarly: isEarly,
                    timeout: deadline - .now)
            } catch {
                // Where it was once, nobody is; it may well be at a relay that is not connected yet.
                guard error.code == .unreachable, !opening.isEmpty else { throw error }
                (failure, open, addresses) = (error, [], [])
            }
        }
    }

    /// Dials by what is open, and by what opens meanwhile.
    nonisolated func dial(
        _ peer: DeviceID, at addresses: [NetworkAddress], through open: [UInt32], orLater opening: [Promise<UInt32?>],
        isEarly: Bool, timeout: Duration
    ) async throws(KithError) -> Connection {
        let result = await withTaskGroup(of: Result<Connection, KithError>?.self) { [endpoint] group in
            group.addTask {
                do throws(KithError) {
                    return .success(
                        try await endpoint.connect(
                            to: peer, at: addresses, through: open, isEarly: isEarly, timeout: timeout))
                } catch {
                    return .failure(error)
                }
            }
            for promise in opening {
                group.addTask {
                    // Cancelled when the dial is over.
                    if let number = try? await promise.valueUnlessCancelled() { endpoint.found(peer, by: number) }
                    return nil
                }
            }
            group.addTask {
                await self.askDirectories(whileDialing: peer)
                return nil
            }
            for await result in group {
                guard let result else { continue }
                group.cancelAll()
                return result
            }
            return .failure(KithError(.cancelled, "The attempt to reach the device was cancelled."))
        }
        return try result.get()
    }

    /// Waits until one of several links is open, and takes it out of them; nil when none opens in time.
    static func first(
        of opening: inout [Promise<UInt32?>], until deadline: ContinuousClock.Instant
    ) async -> UInt32? {
        guard !opening.isEmpty else { return nil }
        let candidates = opening
        let first = await withTaskGroup(of: (place: Int, number: UInt32)?.self) { group in
            for (place, promise) in candidates.enumerated() {
                group.addTask {
                    // Cancelled when another link is there, or the time is up.
                    guard let number = try? await promise.valueUnlessCancelled() else { return nil }
                    return (place, number)
                }
            }
            let waiting = candidates.count
            group.addTask {
                // Cancelled when a link is there.
                try? await Task.sleep(until: deadline, clock: .continuous)
                return (waiting, 0)
            }
            var left = waiting
            for await result in group {
                if result == nil { left -= 1 }
                guard left == 0 || result != nil else { continue }
                group.cancelAll()
                return result
            }
            return nil
        }
        guard let first, first.place < opening.count else { return nil }
        opening.remove(at: first.place)
        return first.number
    }

    nonisolated func noWay(to peer: DeviceID, until deadline: ContinuousClock.Instant) -> KithError {
        let preference = preference(for: peer)
        if preference == .local { return unmet(preference, for: peer) }
        let relays = relays(of: peer)
        guard !relays.isEmpty else {
            if preference == .relay { return unmet(preference, for: peer) }
            return KithError(.unreachable, "No address of the device is known, and no relay to reach it through.")
        }
        let names = relays.map(\.description).joined(separator: ", ")
        return deadline <= .now
            ? KithError(.timedOut, "The relay of the device did not answer in time: \(names).")
            : KithError(.unreachable, "The relay of the device cannot be reached from here: \(names).")
    }
}

extension ReachPreference {
    /// Tells whether a connection may send along a path.
    func permits(_ path: ConnectionStatistics.Path) -> Bool {
        switch self {
        case .auto: true
        case .direct: path.relay == nil
        case .relay: path.relay != nil
        case .local: path.remoteAddress?.isOfLocalNetwork == true
        }
    }
}

extension DeviceReach {
    /// The error of a device that is not reached the way it is to be.
    private nonisolated func unmet(_ preference: ReachPreference, for peer: DeviceID) -> KithError {
        let isHeld = preferences.withLock { $0.isHeld(for: peer) }
        let cause = UnmetPreference(preference: preference, isHeld: isHeld)
        return KithError(.unreachable, cause.message(for: "the device"), cause: cause)
    }
}

/// A way by which a device is to be reached, and is not.
package struct UnmetPreference: Error {
    let preference: ReachPreference
    /// Indicates whether it was asked for by one command, and is not kept.
    let isHeld: Bool

    /// The reason, and what helps, for a device of that name.
    package func message(for name: String) -> String {
        let command = name == "the device" ? "kith path" : "kith path \(name) auto"
        func otherwise(_ way: String) -> String {
            isHeld ? "without --path \(preference) it is reached \(way)" : "`\(command)` lets it be reached \(way)"
        }
        return switch preference {
        case .auto: "\(name) cannot be reached."
        case .direct:
            "Only a relay leads to \(name) now, and it is to be reached directly only. `kith doctor --network` says what is in the way; \(otherwise("through the relay"))."
        case .relay: "No relay leads to \(name), and it is to be reached through one only; \(otherwise("directly"))."
        case .local:
            "\(name) is not on this network, and it is to be reached here only; \(otherwise("elsewhere, too"))."
        }
    }
}
