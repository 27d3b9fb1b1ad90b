import KithReach
import KithWire
import Synchronization

// The outside port that a hard NAT gives next, which only a socket that nothing was sent from can show.
extension DeviceReach {
    /// A question from such a socket.
    struct NextMapping {
        var stun = STUNClient()
        /// The endpoint's number of the socket; `nil` until it is open.
        var socket: UInt32?
    }

    /// Finds out the next port, if a NAT and a server are there for that.
    func observeMapping(at now: ContinuousClock.Instant) {
        guard nextMapping == nil, phase == .running, reporter.report(at: now).nat.isHard, mappingServer != nil else {
            return
        }
        nextMapping = NextMapping()
        Task { [endpoint, feed = inputs.continuation] in feed.yield(.spare(await endpoint.openSpare())) }
    }

    /// Asks from the socket that was opened for it.
    func askForMapping(from socket: UInt32?, at now: ContinuousClock.Instant) {
        guard let socket else { return endMapping() }
        // Asked for on another network.
        guard nextMapping?.socket == nil, nextMapping != nil else { return endpoint.closeSpare(socket) }
        nextMapping?.socket = socket
        guard let server = mappingServer else { return endMapping() }
        guard nextMapping?.stun.ask(STUNClient.Request(server: server), at: now, using: &random) == true else {
            return endMapping()
        }
    }

    /// Sends the question, again if need be, and takes the answer in.
    func followMapping(at now: ContinuousClock.Instant) {
        guard var mapping = nextMapping, let socket = mapping.socket else { return }
        mapping.stun.timedOut(at: now)
        while let datagram = mapping.stun.nextDatagram(at: now) {
            endpoint.send(datagram.bytes, to: datagram.server, from: socket)
        }
        let result = mapping.stun.nextResult()
        nextMapping = mapping
        guard let result else { return }
        endMapping()
        guard case .answered(let mapped, _, _) = result.outcome else { return }
        reporter.observedNewMapping(mapped)
        predict(at: now)
        if reporter.wantsNewMapping { observeMapping(at: now) }
    }

    /// Forgets the question, as on another network.
    func endMapping() {
        if let socket = nextMapping?.socket { endpoint.closeSpare(socket) }
        // One that is being opened is closed when it is.
        nextMapping = nil
    }

    /// Tells others which port is next.
    private func predict(at now: ContinuousClock.Instant) {
        let report = reporter.report(at: now)
        var next: NetworkAddress?
        if report.nat.isHard, let last = report.lastPort, var address = report.publicIPv4 {
            switch report.nat.ports {
            case .sequential(let step):
                let port = Int(last) + Int(step)
                address.port = (1_024...65_535).contains(port) ? UInt16(port) : last
                next = address
            case .block:
                address.port = last
                next = address
            case .unknown, .preserved, .random: break
            }
        }
        info.candidates.set(next.map { [$0] } ?? [], of: .predicted)
    }

    /// A server that sees this device's IPv4 address.
    private var mappingServer: NetworkAddress? {
        mailbox.withLock { $0.servers.filter { !$0.isIPv6 } }.min { $0.description < $1.description }
    }
}
