import KithIdentity
import KithQUIC
import KithWire
import NIOCore

/// One attempt to reach one peer: its addresses race, the first handshake to complete wins.
///
/// An address is tried when the one before it has had its head start, or has failed.
/// `@unchecked Sendable`: touched with the turn of the endpoint's loop only.
final class Dial: @unchecked Sendable {
    /// Whom to reach.
    enum Target: Hashable {
        /// The device with this key, and no other.
        case device(DeviceID)
        /// Whoever answers there with a certificate.
        case foreign(serverName: String?)
    }

    private struct Waiter {
        let promise: OneShot<Result<Connection, KithError>>
        let timer: Scheduled<Void>
        let isEarly: Bool
        /// Whether it has a connection that may yet come to nothing: the race goes on for it until its time is up.
        var isServed = false
    }

    /// More addresses than this are not tried: a ticket is the peer's word, and each address costs packets.
    static let maxAddresses = 32

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
    private(set) var isOver = false
    /// Whether somebody wants to ask before the handshake is complete.
    var isEarly: Bool { waiters.contains { $0.isEarly } }
    /// The attempt that can be asked already.
    private var early: Connection?

    init(to target: Target, endpoint: EndpointDriver) {
        self.target = target
        self.endpoint = endpoint
    }

    /// Adds a caller, the addresses it knows, and how long it waits.
    func join(
        _ promise: OneShot<Result<Connection, KithError>>, addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
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
        }
        if isEarly, let last = endpoint.memory.address(of: target),
            let index = untried.firstIndex(of: last)
        {
            // Only there the ticket is of use.
            untried.swapAt(0, index)
        }
        if stagger == nil { tryNext() }
    }

    private func timedOut(_ promise: OneShot<Result<Connection, KithError>>, after timeout: Duration) {
        let error = KithError(.timedOut, "The device did not answer within \(timeout).")
        promise.fulfil(.failure(error))
        waiters.removeAll { $0.promise === promise }
        if waiters.isEmpty, !isOver { finish(.failure(error)) }
    }

    /// An attempt resumes a session, and can be asked before the peer has answered.
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
            let address = untried.removeFirst()
            do {
                let driver = try endpoint.dial(address, for: self)
                attempts.append(driver)
                driver.service()
                // Sending can fail on the spot, and then this very method has run again already.
                guard !isOver, stagger == nil, !untried.isEmpty else { return }
                stagger = endpoint.loop.scheduleTask(in: endpoint.stagger) { self.tryNext() }
                return
            } catch {
                remember(error)
            }
        }
        if !isOver, attempts.isEmpty { finish(.failure(failure ?? nobody())) }
    }

    /// The handshake with `driver` is complete.
    func succeeded(_ driver: ConnectionDriver, _ connection: Connection) {
        attempts.removeAll { $0 === driver }
        finish(.success(connection))
    }

    /// The peer connected by itself meanwhile, and that connection is the one both ends keep.
    func overtaken(by connection: Connection) {
        finish(.success(connection))
    }

    /// An attempt ended without a connection.
    func failed(_ driver: ConnectionDriver, reason: CloseReason) {
        guard remove(driver) else { return }
        let code: KithError.Code =
            switch reason.code {
            case .denied, .unsupported, .exhausted: reason.code
            default: .unreachable
            }
        remember(KithError(code, "The device could not be reached at \(driver.dialed): \(reason.message)"))
        tryNext()
    }

    /// The system refused to send to the attempt's address.
    func unreachable(_ driver: ConnectionDriver, errno: CInt) {
        guard remove(driver) else { return }
        remember(
            KithError(
                .unreachable, "There is no way from here to \(driver.dialed).",
                cause: IOError(errnoCode: errno, reason: "send")))
        driver.purpose = nil
        endpoint.forget(driver)
        driver.abandon()
        tryNext()
    }

    private func remove(_ driver: ConnectionDriver) -> Bool {
        let before = attempts.count
        attempts.removeAll { $0 === driver }
        return attempts.count < before && !isOver
    }

    /// Keeps the error that says most: a refusal before silence.
    private func remember(_ error: KithError) {
        if failure == nil || failure?.code == .unreachable { failure = error }
    }

    private func nobody() -> KithError {
        KithError(.unreachable, "The device did not answer at any of \(known.count) addresses.")
    }

    private func finish(_ result: Result<Connection, KithError>) {
        guard !isOver else { return }
        isOver = true
        stagger?.cancel()
        stagger = nil
        endpoint.dialEnded(self)
        let losers = attempts
        attempts = []
        var end = KithError(.cancelled, "")
        if case .failure(let error) = result { end = error }
        for loser in losers {
            loser.purpose = nil
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
