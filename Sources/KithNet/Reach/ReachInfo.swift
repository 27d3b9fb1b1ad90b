import KithIO
package import KithIdentity
import KithQUIC
package import KithReach
package import KithWire

/// The ways to reach this device, as it announces them to the devices it is connected to.
package struct ReachInfo: Hashable, Sendable {
    /// Its addresses, and how they are known.
    package var candidates = CandidateTable()
    /// The NAT in front of it.
    package var nat = NATKind()
    /// The relay at which it is to be found.
    package var home: RelayAddress?
    /// The relay that takes over when that is gone.
    package var standby: RelayAddress?
    /// The ways by which it wants to be reached by those without a preference of their own.
    package var preference = ReachPreference.auto
    /// The same for single devices.
    package var preferences: [DeviceID: ReachPreference] = [:]
    /// Indicates whether the network is paid for by volume, or the battery low.
    package var isMetered = false

    /// Nothing is known yet.
    package init() {}

    /// The preference that holds for a device.
    package func preference(for device: DeviceID) -> ReachPreference { preferences[device] ?? preference }

    /// The messages of all of it for a device, in the order in which they are sent.
    func messages(for device: DeviceID) -> [ControlMessage] {
        let preference = preference(for: device)
        let isLocal = preference == .local
        return [
            .preference(preference), .nat(nat),
            .relays(home: isLocal ? nil : home, standby: isLocal ? nil : standby),
            .candidates(candidates.list(for: preference)),
        ]
    }
}

/// What the connections of one endpoint share about reaching devices; touched with the lock of its loop only.
final class ReachState {
    /// What connected devices know, or are about to hear.
    var info = ReachInfo()
    /// What devices may have this one send to addresses that they name.
    let punching = PunchBudget()
    /// The links at which devices are to be found.
    var links: [DeviceID: [UInt32]] = [:]
    /// Gets the relays at which a peer says that it is to be found.
    var onPeerRelays: (@Sendable (DeviceID, _ relays: [RelayAddress]) -> Void)?
    /// Gets the device to which another path is used from now on, or a connection has ended.
    var onPathChange: (@Sendable (DeviceID) -> Void)?
    /// Gets the address at which a device says that it sees this one.
    var onObservedAddress: (@Sendable (DeviceID, NetworkAddress) -> Void)?
    /// Is called when the next port of a NAT that counts is to be found out.
    var onMappingWanted: (@Sendable () -> Void)?
    /// Is called when the machine has slept.
    var onWake: (@Sendable () -> Void)?
}

extension EndpointDriver {
    /// Sends every connected device what is new.
    func announce(_ info: ReachInfo) {
        guard let reach else { return }
        let isElsewhere = info.candidates.generation != reach.info.candidates.generation
        reach.info = info
        for driver in Array(drivers.values) { driver.pathFinder?.infoChanged(isElsewhere: isElsewhere) }
    }

    /// Notes by which links a device is to be found; its connections hold a path by each ready.
    func setLinks(_ links: [UInt32], of peer: DeviceID) {
        guard let reach, reach.links[peer] ?? [] != links else { return }
        reach.links[peer] = links.isEmpty ? nil : links
        for driver in Array(drivers.values) where driver.connection?.peerID == peer {
            driver.pathFinder?.linksChanged()
        }
    }

    /// The numbers of the links by which connections send now.
    var activeLinks: Set<UInt32> {
        var active: Set<UInt32> = []
        for driver in drivers.values where !driver.isClosed {
            for path in driver.engine.paths where path.isActive && path.address.local.kind == .relay {
                active.insert(path.address.local.number)
            }
        }
        return active
    }
}

extension Endpoint {
    /// Sends every connected device the ways to reach this one, and those that connect later.
    package func announce(_ info: ReachInfo) {
        let driver = self.driver
        driver.loop.execute { driver.announce(info) }
    }

    /// Notes by which links a device is to be found: connections to it hold a path by each ready.
    package func setLinks(_ links: [UInt32], of peer: DeviceID) {
        let driver = self.driver
        driver.loop.execute { driver.setLinks(links, of: peer) }
    }

    /// Notes that a link's relay says that a device is not there.
    package func isGone(_ device: DeviceID, by link: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.dialIsInVain(to: device, by: link) }
    }

    /// Has an attempt to reach a device that is under way try a link that is open now, too.
    package func found(_ peer: DeviceID, by link: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.found(peer, by: link) }
    }

    /// Calls `handler` when this machine has slept, from the event loop; it must not wait.
    package func onWake(_ handler: @escaping @Sendable () -> Void) {
        let driver = self.driver
        driver.loop.execute { driver.reach?.onWake = handler }
    }

    /// Calls `handler` when the next port of a NAT that counts is to be found out, from the event loop; it must not wait.
    package func onMappingWanted(_ handler: @escaping @Sendable () -> Void) {
        let driver = self.driver
        driver.loop.execute { driver.reach?.onMappingWanted = handler }
    }

    /// Opens a socket beside the usual one for IPv4, and returns its number; `nil` when there can be none.
    ///
    /// Whoever opens it closes it: ``closeSpare(_:)``.
    package func openSpare() async -> UInt32? {
        let answer = Promise<UInt32?>()
        let driver = self.driver
        driver.loop.execute {
            guard let usual = driver.sockets.first(where: { !$0.address.isIPv6 }) else {
                answer.fulfil(nil)
                return
            }
            driver.openSpare(like: usual) { answer.fulfil($0?.number) }
        }
        return await answer.value()
    }

    /// Closes a socket that ``openSpare()`` opened.
    package func closeSpare(_ number: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.closeSpares([number]) }
    }

    /// Calls `handler` with each device to which another path is used from now on, or a connection has ended.
    ///
    /// It is called from the event loop, and must not wait.
    package func onPathChange(_ handler: @escaping @Sendable (DeviceID) -> Void) {
        let driver = self.driver
        driver.loop.execute { driver.reach?.onPathChange = handler }
    }

    /// Calls `handler` whenever a device says at which relays it is to be found, from the event loop; it must not wait.
    package func onPeerRelays(_ handler: @escaping @Sendable (DeviceID, _ relays: [RelayAddress]) -> Void) {
        let driver = self.driver
        driver.loop.execute { driver.reach?.onPeerRelays = handler }
    }

    /// Calls `handler` whenever a device says where it sees this one, from the event loop; it must not wait.
    package func onObservedAddress(_ handler: @escaping @Sendable (DeviceID, NetworkAddress) -> Void) {
        let driver = self.driver
        driver.loop.execute { driver.reach?.onObservedAddress = handler }
    }

    /// The numbers of the links by which connections send now.
    package func activeLinks() async -> Set<UInt32> {
        let answer = Promise<Set<UInt32>>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.activeLinks) }
        return await answer.value()
    }
}
