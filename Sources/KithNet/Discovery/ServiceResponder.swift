import KithIO
import KithWire

/// A DNS-SD responder, as discovery uses it.
protocol ServiceResponder: Sendable {
    /// What it does for the device now.
    var state: LocalDiscovery.Responder { get }

    /// Offers the services, and looks for those of other devices, until the task is cancelled.
    ///
    /// Comes back to a responder that was away.
    func run(on reactor: Reactor) async

    /// Offers these services, in place of those before.
    func publish(_ records: [ServiceRecord])

    /// Looks again at which services are wanted: other networks are used now, or, with `isNew`, other names are known.
    func examine(isNew: Bool)

    /// Notes the interfaces that are used: they, or their addresses, have changed.
    func use(_ interfaces: [NetworkInterface])

    /// Says goodbye with these, and waits until that is out.
    func leave(_ records: [ServiceRecord]) async
}

#if os(Linux)
/// Avahi where it serves, and a responder of this device's own elsewhere.
///
/// One of the two, because one responder for a machine is what its owner has set up (interfaces, reflectors), asks less of
/// the network, and because of what is sent to port 5353 of the machine alone only one of those who share it gets to hear.
final class ResponderChoice: ServiceResponder {
    /// How long Avahi may take to answer before the other begins.
    private static let patience = Duration.seconds(1)

    private let avahi: AvahiResponder
    private let own: MulticastDNS
    private let clock: any Ticker

    /// Makes the choice; `avahi` is to call ``noted(_:)``.
    init(_ avahi: AvahiResponder, or own: MulticastDNS, clock: any Ticker) {
        (self.avahi, self.own, self.clock) = (avahi, own, clock)
    }

    var state: LocalDiscovery.Responder { own.isActive ? own.state : avahi.state }

    func run(on reactor: Reactor) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.avahi.run(on: reactor) }
            group.addTask { await self.own.run(on: reactor) }
            group.addTask {
                // Ends early only when cancelled.
                try? await self.clock.sleep(for: Self.patience)
                if self.avahi.presence == .unknown { self.own.activate(true) }
            }
        }
    }

    func publish(_ records: [ServiceRecord]) {
        avahi.publish(records)
        own.publish(records)
    }

    func examine(isNew: Bool) {
        avahi.examine(isNew: isNew)
        own.examine(isNew: isNew)
    }

    func use(_ interfaces: [NetworkInterface]) {
        avahi.use(interfaces)
        own.use(interfaces)
    }

    func leave(_ records: [ServiceRecord]) async {
        await own.leave(records)
        await avahi.leave(records)
    }
}
#endif
