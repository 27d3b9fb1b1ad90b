import KithIO
import KithIdentity
import KithQUIC
import KithWire
import NIOCore

/// An attempt to reach a peer: its addresses race, and the first handshake to complete wins.
///
/// An address is tried when the one before it has had its head start, or has failed. One whose machine says that nobody
/// listens there has failed, unless something else has come from it.
/// `@unchecked Sendable`: touched with the lock of the endpoint's loop only.
final class Dial: @unchecked Sendable {
    /// The peer to reach.
    enum Target: Hashable {
        /// The device with this key, and no other.
        case device(DeviceID)
        /// Any peer that presents a certificate.
        case foreign(serverName: String?)
    }

    private struct Waiter {
        let promise: Promise<Result<Connection, KithError>>
        let timer: Scheduled<Void>
        let isEarly: Bool
        /// True once it has a connection that may yet come to nothing: the race goes on for it until its time is up.
        var isServed = false
    }

    /// More addresses than this are not tried: a ticket is the peer's word, and each address costs packets.
    static let maxAddresses = 32
    /// A handshake on a local network takes less: no need to ask the machine anything.
    private static let headStart = TimeAmount.milliseconds(30)
    /// The time the other addresses have once one machine has said that no Kith is running there.
    private static let patience = TimeAmount.seconds(2)

    let target: Target
    private let endpoint: EndpointDriver
    private var untried: [NetworkAddress] = []
    private var known: Set<NetworkAddress> = []
    /// All of them, as they came.
    private(set) var addresses: [NetworkAddress] = []
    private var attempts: [ConnectionDriver] = []
    private var waiters: [Waiter] = []
    private var stagger: Scheduled<Void>?
    private var failure: KithError?
    /// The time after which the machines are asked if no handshake is complete.
    private var asking: Scheduled<Void>?
    private var probes: [NetworkAddress: PortProbe] = [:]
    /// The addresses where nobody listened a moment ago: the machine is asked before the device is.
    private var doubted: Set<NetworkAddress> = []
    /// The time to wait for the machine's answer in that case.
    private static let secondThought = TimeAmount.milliseconds(60)
    /// Ends the race when nothing else has come of it.
    private var grace: Scheduled<Void>?
    /// The bounds of the time the other addresses have once every relay has said that the device is not there: who is
    /// reached at all answers within a round trip.
    private static let lastChance: (shortest: Duration, longest: Duration) = (.milliseconds(200), .seconds(2))
    /// True when the relays have said so.
    private var isHopeless = false
    /// The times at which the attempts through relays began.
    private var begun: [NetworkAddress: ContinuousClock.Instant] = [:]
    private(set) var isOver = false
    /// Indicates whether a caller wants to send queries before the handshake is complete.
    var isEarly: Bool { waiters.contains { $0.isEarly } }
    /// The attempt that can be asked already.
    private var early: Connection?

    init(to target: Target, endpoint: EndpointDriver) {
        self.target = target
        self.endpoint = endpoint
    }

    /// Adds a caller, the addresses it knows, and how long it waits.
    func join(
        _ promise: Promise<Result<Connection, KithError>>, addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
    ) {
        if isEarly, let early, early.isOpen {
            promise.fulfil(.success(early))
            return
        }
        let timer = endpoint.loop.scheduleTask(in: .nanoseconds(max(0, timeout.clampedNanoseconds))) {
            self.timedOut(promise, after: timeout)
        }
        waiters.append(Waiter(promise: promise, timer: timer, isEarly: isEarly))
        for address in addresses where known.count < Self.maxAddresses && known.insert(address).inserted {
            untried.append(address)
            self.addresses.append(address)
            if case .device = target, endpoint.wasJustClosed(address) { doubted.insert(address) }
        }
        if isEarly, let last = endpoint.sessionCache.address(of: target),
            let index = untried.firstIndex(of: last)
        {
            // Only there the ticket is of use.
            untried.swapAt(0, index)
        }
        if stagger == nil { tryNext() }
        guard !isOver, asking == nil, case .device = target else { return }
        asking = endpoint.loop.scheduleTask(in: Self.headStart) { [weak self] in self?.askMachines() }
    }

    /// Tries more addresses, before those that were not tried yet: the peer has just been heard there.
    func add(_ addresses: [NetworkAddress]) {
        guard !isOver else { return }
        // It has been heard, or may be at another relay.
        if isHopeless {
            isHopeless = false
            grace?.cancel()
            grace = nil
        }
        for address in addresses.reversed() where known.count < Self.maxAddresses && known.insert(address).inserted {
            untried.insert(address, at: 0)
            self.addresses.append(address)
        }
        if !untried.isEmpty { tryNext() }
    }

    /// Asks the machine at each address whether anybody listens there.
    private func askMachines() {
        asking = nil
        for address in addresses where !isOver { askMachine(at: address) }
    }

    private func askMachine(at address: NetworkAddress, needed: Int = 2) {
        // Behind a relay there is no machine to ask.
        guard RelayedAddresses.link(of: address) == nil, probes[address]?.isAsking != true else { return }
        probes[address] = PortProbe(address, loop: endpoint.loop, needed: needed) { [weak self] count in
            if count == needed { self?.refused(address) }
        }
    }

    /// Notes that the machine at `address` says that nothing listens there.
    private func refused(_ address: NetworkAddress) {
        guard !isOver else { return }
        let attempt = attempts.first { $0.dialed == address }
        // Whatever the machine says, a peer is there.
        if let attempt, attempt.engine.statistics.packetsReceived > 0 { return }
        let closed = PortClosed(address: address)
        if grace == nil, !endpoint.isOwn(address) {
            grace = endpoint.loop.scheduleTask(in: Self.patience) { [weak self] in self?.giveUp(closed.error) }
        }
        if let attempt { return attempt.portIsClosed(closed) }
        untried.removeAll { $0 == address }
        remember(closed.error)
        if untried.isEmpty, attempts.isEmpty { finish(.failure(failure ?? closed.error)) }
    }

    /// Fails the dial: a machine says that no Kith is running there, or the relays that the device is not, and nothing
    /// came from the other addresses.
    private func giveUp(_ error: KithError) {
        guard !isOver, !attempts.contains(where: { $0.engine.statistics.packetsReceived > 0 }) else { return }
        finish(.failure(error))
    }

    private func timedOut(_ promise: Promise<Result<Connection, KithError>>, after timeout: Duration) {
        let error = KithError(.timedOut, "The device did not answer within \(timeout).")
        promise.fulfil(.failure(error))
        waiters.removeAll { $0.promise === promise }
        if waiters.isEmpty, !isOver { finish(.failure(error)) }
    }

    /// Notes that an attempt resumes a session, so that it can carry queries before the peer has answered.
    func earlyDataPossible(_ connection: Connection) {
        early = connection
        for index in waiters.indices where waiters[index].isEarly && !waiters[index].isServed {
            waiters[index].isServed = waiters[index].promise.fulfil(.success(connection))
        }
    }

    /// Ends the race when nobody waits for it any more.
    func prune() {
        waiters.removeAll { waiter in
            guard waiter.promise.isFulfilled, !waiter.isServed else { return false }
            waiter.timer.cancel()
            return true
        }
        if waiters.isEmpty, !isOver { finish(.failure(KithError(.cancelled, "Dialing was cancelled."))) }
    }

    private func tryNext() {
        stagger?.cancel()
        stagger = nil
        while !isOver, !untried.isEmpty {
            if doubted.remove(untried[0]) != nil {
                askMachine(at: untried[0], needed: 1)
                stagger = endpoint.loop.scheduleTask(in: Self.secondThought) { self.tryNext() }
                return
            }
            let address = untried.removeFirst()
            do {
                let driver = try endpoint.dial(address, for: self)
                attempts.append(driver)
                if RelayedAddresses.link(of: address) != nil { begun[address] = .now }
                driver.service()
                // Sending can fail on the spot, and then this very method has run again already.
                guard !isOver, stagger == nil, !untried.isEmpty else { return }
                // A relay has no head start over the first address: where that is near, it wins by itself.
                if isHopeless || RelayedAddresses.link(of: address) != nil { continue }
                stagger = endpoint.loop.scheduleTask(in: endpoint.stagger) { self.tryNext() }
                return
            } catch {
                remember(error)
            }
        }
        if !isOver, attempts.isEmpty { finish(.failure(failure ?? nobody())) }
    }

    /// Notes that the handshake with `driver` is complete.
    func succeeded(_ driver: ConnectionDriver, _ connection: Connection) {
        attempts.removeAll { $0 === driver }
        finish(.success(connection))
    }

    /// Takes the connection that the peer has dialed meanwhile, which is the one both ends keep.
    func overtaken(by connection: Connection) {
        finish(.success(connection))
    }

    /// An attempt ended without a connection.
    func failed(_ driver: ConnectionDriver, reason: CloseReason) {
        guard remove(driver) else { return }
        let code: KithError.Code =
            switch reason.code {
            case .denied, .unpaired, .unsupported, .exhausted: reason.code
            default: .unreachable
            }
        if reason.error.cause is PortClosed {
            remember(reason.error)
        } else {
            remember(
                KithError(
                    code,
                    "The device could not be reached \(RelayedAddresses.description(of: driver.dialed)): \(reason.message)"
                ))
        }
        tryNext()
    }

    /// Notes that the system refused to send to the attempt's address.
    func unreachable(_ driver: ConnectionDriver, errno: CInt) {
        guard remove(driver) else { return }
        let message = "There is no way from here to \(driver.dialed)."
        remember(KithError(.unreachable, message, cause: IOError(errnoCode: errno, reason: "send")))
        driver.leaveDial()
        endpoint.forget(driver)
        driver.abandon(CloseReason(origin: .local, code: .unreachable, message: message))
        tryNext()
    }

    /// Notes that the device is not where one attempt looks for it.
    func isInVain(at address: NetworkAddress) {
        guard !isOver, let attempt = attempts.first(where: { $0.dialed == address }),
            attempt.engine.statistics.packetsReceived == 0, remove(attempt)
        else { return }
        let error = KithError(.unreachable, "The device is not connected to its relay: it is off, or has no network.")
        remember(error)
        attempt.leaveDial()
        endpoint.forget(attempt)
        attempt.abandon(CloseReason(origin: .local, code: error.code, message: error.message))
        tryNext()
        hurry(error, after: begun[address].map { .now - $0 } ?? .zero)
    }

    /// Tries the addresses that are left all at once, and not for long: no relay leads to the device.
    ///
    /// `roundTrip` is the time in which the last one said so.
    private func hurry(_ error: KithError, after roundTrip: Duration) {
        let isRelayed = { (address: NetworkAddress) in RelayedAddresses.link(of: address) != nil }
        guard !isOver, !attempts.contains(where: { isRelayed($0.dialed) }), !untried.contains(where: isRelayed) else {
            return
        }
        isHopeless = true
        grace?.cancel()
        let chance = min(max(roundTrip * 2, Self.lastChance.shortest), Self.lastChance.longest)
        grace = endpoint.loop.scheduleTask(in: .nanoseconds(chance.clampedNanoseconds)) { [weak self] in
            self?.giveUp(error)
        }
        tryNext()
    }

    private func remove(_ driver: ConnectionDriver) -> Bool {
        let before = attempts.count
        attempts.removeAll { $0 === driver }
        return attempts.count < before && !isOver
    }

    /// Keeps the error that says most: a refusal before a machine without Kith, and that before silence.
    private func remember(_ error: KithError) {
        guard let failure, rank(error) <= rank(failure) else { return self.failure = error }
        if rank(failure) == 0 { self.failure = error }
    }

    private func rank(_ error: KithError) -> Int {
        guard error.code == .unreachable else { return 3 }
        guard let closed = error.cause as? PortClosed else { return 0 }
        // That nothing listens on this very machine says little of the other one.
        return endpoint.isOwn(closed.address) ? 1 : 2
    }

    private func nobody() -> KithError {
        KithError(.unreachable, "The device did not answer at any of \(known.count) addresses.")
    }

    private func finish(_ result: Result<Connection, KithError>) {
        guard !isOver else { return }
        isOver = true
        for timer in [stagger, asking, grace] { timer?.cancel() }
        (stagger, asking, grace) = (nil, nil, nil)
        for probe in probes.values { probe.stop() }
        probes = [:]
        endpoint.dialEnded(self)
        let losers = attempts
        attempts = []
        var end = KithError(.cancelled, "")
        if case .failure(let error) = result { end = error }
        for loser in losers {
            loser.leaveDial()
            loser.close(code: end.code, reason: end.message)
        }
        for waiter in waiters {
            waiter.timer.cancel()
            waiter.promise.fulfil(result)
        }
        waiters = []
    }

    /// Ends the race with `error`.
    func abort(_ error: KithError) { finish(.failure(error)) }
}
