import CKithSystem
import KithIO
package import KithReach
package import KithWire

/// Has the router of this device's network pass a UDP port on to it, as long as it runs.
///
/// One of each family: at the router of IPv4 by PCP, NAT-PMP or UPnP, at that of IPv6 by PCP or UPnP, which let packets in. It
/// looks for the router again when the network changes, and gives what it was given back when it is stopped. Nobody
/// but the router of the default route is asked.
package final class PortMappingService: Sendable {
    private enum Event: Sendable {
        case network, deadline, stop
        case datagram([UInt8], from: NetworkAddress)
        case announcement([UInt8], from: NetworkAddress)
        case answer(HTTPAnswer?, to: UPnPClient.Exchange, by: ObjectIdentifier)
    }

    /// The router that is asked, and this device's address there.
    package struct Route: Hashable, Sendable {
        /// The router; its port is 0.
        package let gateway: NetworkAddress
        /// The address of this device that others are to reach.
        package let local: NetworkAddress
    }

    /// The groups and the port at which routers say that they were started anew (RFC 6886 §3.2.1, RFC 6887 §14.1.1).
    private static let announcements = NetworkAddress(ipv4: (224, 0, 0, 1), port: 5_350)
    private static let announcements6 = NetworkAddress(ipv6: 0xFF02 << 48, 1, port: 5_350)
    /// Some address of the internet: the one this device would send from to it is the one to let packets in at.
    private static let elsewhere = NetworkAddress(ipv6: 0x2000 << 48, 1, port: 9)

    private let port: UInt16
    private let isIPv6: Bool
    private let clock: any Ticker
    private let inputs = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingNewest(64))

    /// Makes a service for a UDP port of this device, of one family.
    package init(port: UInt16, isIPv6: Bool = false, clock: any Ticker = ContinuousClock()) {
        (self.port, self.isIPv6, self.clock) = (port, isIPv6, clock)
    }

    /// The router of a family that the network has now; `nil` for none.
    package static func route(isIPv6: Bool) -> Route? {
        var entries = [kith_udp_address](repeating: kith_udp_address(), count: 2)
        let count = unsafe kith_network_gateways(&entries, CInt(entries.count))
        let gateways = entries.prefix(max(0, Int(count))).map { NetworkAddress($0) }
        guard let gateway = gateways.first(where: { $0.isIPv6 == isIPv6 }),
            let local = LocalAddresses.source(to: isIPv6 ? elsewhere : gateway.withPort(9))
        else { return nil }
        return Route(gateway: gateway, local: local)
    }

    /// Gives back what there is, and ends ``run(_:)``.
    package func stop() { inputs.continuation.yield(.stop) }

    /// Asks the router, keeps what it gives, and calls `note` with news, until it is stopped.
    ///
    /// Cancelling the task ends it at once; nothing is given back then but by a datagram. Called once.
    package func run(_ note: (PortMappingUpdate) async -> Void) async {
        guard let reactor = try? Reactor(name: "kith router") else {
            return await note(.unavailable(.refused("this device is out of resources")))
        }
        await withDiscardingTaskGroup { group in
            defer { group.cancelAll() }
            let inputs = self.inputs.continuation
            group.addTask { [clock] in
                await NetworkMonitor.follow(on: clock) { _ in inputs.yield(.network) }
            }
            // The first event is that there is a network.
            guard case .network = await nextEvent() else { return }
            var isRunning = true
            while isRunning, !Task.isCancelled {
                if let route = Self.route(isIPv6: isIPv6) {
                    isRunning = await serve(route, reactor, note)
                } else {
                    await note(.unavailable(.noGateway))
                    isRunning = await waitForNetwork()
                }
            }
        }
    }

    private func nextEvent() async -> Event? {
        var events = inputs.stream.makeAsyncIterator()
        return await events.next()
    }

    /// Returns false when the service was stopped.
    private func waitForNetwork() async -> Bool {
        while let event = await nextEvent() {
            switch event {
            case .network where Self.route(isIPv6: isIPv6) != nil: return true
            case .stop: return false
            default: break
            }
        }
        return false
    }

    /// Asks one router, until the network has another; returns false when the service was stopped.
    private func serve(
        _ route: Route, _ reactor: Reactor, _ note: (PortMappingUpdate) async -> Void
    ) async -> Bool {
        guard let socket = try? RouterSocket(at: route.local, on: reactor) else {
            await note(.unavailable(.noGateway))
            return await waitForNetwork()
        }
        // A router of IPv6 answers a search from the address of its link, by which it is known, where it came from one.
        let link = isIPv6 ? LocalAddresses.source(to: route.gateway.withPort(9)) : nil
        let searching = (try? link.map { try RouterSocket(at: $0, on: reactor) }) ?? nil
        var random = SystemRandomNumberGenerator()
        var mapper = PortMapper(gateway: route.gateway, local: route.local.withPort(port), using: &random)
        mapper.start(at: clock.now)
        let timers = TimerQueue(on: clock)
        let exchanges = AsyncStream.makeStream(of: UPnPClient.Exchange.self)
        let isStopped = await withDiscardingTaskGroup { group in
            defer { group.cancelAll() }
            listen(socket, route, reactor, in: &group)
            if let searching {
                group.addTask { [inputs] in
                    while let (bytes, source) = await searching.receive() {
                        inputs.continuation.yield(.datagram(bytes, from: source))
                    }
                }
            }
            group.addTask { [clock, inputs] in
                for await exchange in exchanges.stream {
                    let answer = await RouterExchange.answer(
                        to: exchange.request, from: exchange.server, on: reactor, clock: clock)
                    inputs.continuation.yield(.answer(answer, to: exchange, by: socket.id))
                }
            }
            while true {
                while let (bytes, to) = mapper.nextDatagram(at: clock.now) {
                    let sender = to.port == GatewayClient.port ? socket : searching ?? socket
                    sender.send(bytes, to: to)
                }
                while let exchange = mapper.nextExchange() { exchanges.continuation.yield(exchange) }
                while let update = mapper.nextUpdate() { await note(update) }
                timers.removeAll()
                if let deadline = mapper.nextDeadline {
                    _ = timers.schedule(at: deadline) { [inputs] in inputs.continuation.yield(.deadline) }
                }
                let event = await nextEvent()
                let now = clock.now
                switch event {
                case .deadline: mapper.timedOut(at: now)
                case .datagram(let bytes, let source): mapper.receive(bytes, from: source, at: now)
                case .announcement(let bytes, let source):
                    mapper.receive(announcement: bytes, from: source, at: now)
                case .answer(let answer, let exchange, socket.id):
                    mapper.receive(answer, to: exchange.number, at: now)
                // Of the router before.
                case .answer: break
                case .network where Self.route(isIPv6: isIPv6) == route: break
                case .network: return false
                case .stop, nil: return true
                }
            }
        }
        timers.removeAll()
        let release = mapper.release()
        for bytes in release.datagrams { socket.send(bytes, to: route.gateway.withPort(GatewayClient.port)) }
        if let exchange = release.exchange {
            // Whether the router has heard it or not, there is nothing more to do.
            _ = await RouterExchange.answer(to: exchange.request, from: exchange.server, on: reactor, clock: clock)
        }
        return !isStopped
    }

    /// Passes on what the router sends.
    private func listen(
        _ socket: RouterSocket, _ route: Route, _ reactor: Reactor, in group: inout DiscardingTaskGroup
    ) {
        let inputs = inputs.continuation
        group.addTask {
            while let (bytes, source) = await socket.receive() { inputs.yield(.datagram(bytes, from: source)) }
        }
        // Where that port is taken, a restart is noticed later, when the router is asked again.
        let announcements = isIPv6 ? Self.announcements6 : Self.announcements
        guard let news = try? MulticastSocket(group: announcements, on: reactor) else { return }
        for interface in NetworkInterface.all where interface.addresses.contains(where: { $0.ip == route.local.ip }) {
            try? news.join(interface.index)  // the same holds
        }
        group.addTask {
            while let (bytes, source) = await news.receive(limit: 1_100) {
                if source.ip == route.gateway.ip { inputs.yield(.announcement(bytes, from: source)) }
            }
        }
    }
}
