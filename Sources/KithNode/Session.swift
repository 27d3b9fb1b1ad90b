import KithAPI
import KithIdentity
import KithWire
import Synchronization

/// A connection with another device while it lasts: its peer, the grants it holds, the calls it has running.
final class Session: Sendable {
    let link: any PeerLink
    private let state: Mutex<State>
    private let newsSignal = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let sightingSignal = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let announcementSignal = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    private struct State {
        /// The other end as the store knows it; `nil` while it is not paired.
        var known: KnownDevice?
        var calls: [UInt64: Running] = [:]
        var next: UInt64 = 0
        /// The addresses the other end announced, until they are written down.
        var announced: [NetworkAddress]?
        var lastAnnounced: [NetworkAddress]?
        var isIntroduced = false
        var hello: Reach.Hello?
        var ended: KithError?
        var isDisplaced = false
        /// Whether the other end is sure to have this one among its own.
        var isMutual: Bool
    }

    private struct Running {
        let access: Access
        let scope: CallScope
        /// The further check of the service, see ``CallContext/narrow(_:by:)``.
        var narrowing: (@Sendable ([Grant]) -> KithError?)?
    }

    /// Its number among the connections, in their order.
    let arrival: UInt64

    init(_ link: any PeerLink, known: KnownDevice?, arrival: UInt64) {
        self.arrival = arrival
        self.link = link
        // Of two that pair, the one that dials stores the other last. Where they were paired before, the other end may
        // have forgotten this one.
        state = Mutex(State(known: known, isMutual: known == nil && link.isDialed))
    }

    /// The other end as the store knows it; `nil` while it is not paired.
    var known: KnownDevice? { state.withLock { $0.known } }

    /// True while the other end is paired with this device.
    var isPaired: Bool { known != nil }

    /// True when another session got its slot, and it is being closed.
    var isDisplaced: Bool {
        get { state.withLock { $0.isDisplaced } }
        set { state.withLock { $0.isDisplaced = newValue } }
    }

    /// True when the two are paired, and the other end has stored that as well.
    var isMutual: Bool { state.withLock { $0.isMutual && $0.known != nil } }

    /// Notes that one end was given what only a paired one may have; false when that is known.
    func noteMutual() -> Bool {
        state.withLock { state in
            defer { if state.known != nil { state.isMutual = true } }
            return !state.isMutual && state.known != nil
        }
    }

    /// The number of running calls.
    var running: Int { state.withLock { $0.calls.count } }

    /// The caller, as services see it.
    var caller: Caller { state.withLock { caller($0) } }

    private func caller(_ state: borrowing State) -> Caller {
        .device(link.peer, name: state.known?.name ?? link.peer.short, paired: state.known != nil)
    }

    /// Yields when the other end's addresses have changed.
    var news: AsyncStream<Void> { newsSignal.stream }

    /// Yields when the other end is to be told where this device listens.
    var announcements: AsyncStream<Void> { announcementSignal.stream }

    /// Notes that the other end is connected, or connected another way.
    func wasSeen() {
        newsSignal.continuation.yield()
        sightingSignal.continuation.yield()
    }

    /// Yields when the other end is somewhere else, or has just become a paired one; for one reader.
    var sightings: AsyncStream<Void> { sightingSignal.stream }

    /// Notes the addresses the other end announces.
    func receivedAnnouncement(_ addresses: [NetworkAddress]) {
        let isNew = state.withLock { state in
            guard state.lastAnnounced != addresses else { return false }
            state.lastAnnounced = addresses
            state.announced = addresses
            return true
        }
        if isNew { newsSignal.continuation.yield() }
    }

    /// The description the other end gave of its software; `nil` until it does.
    var hello: Reach.Hello? {
        get { state.withLock { $0.hello } }
        set { state.withLock { $0.hello = newValue?.bounded } }
    }

    /// Takes the addresses the other end announced; `nil` when there is nothing new.
    func takeAnnouncedAddresses() -> [NetworkAddress]? {
        state.withLock { state in
            defer { state.announced = nil }
            return state.announced
        }
    }

    /// Asks for this device's addresses to be sent to the other end, unless that was done on this connection.
    func announceOnce() {
        let isFirst = state.withLock { state in
            defer { state.isIntroduced = true }
            return !state.isIntroduced
        }
        if isFirst { announcementSignal.continuation.yield() }
    }

    /// Asks for this device's present addresses to be sent to the other end.
    func announceAgain() {
        state.withLock { $0.isIntroduced = true }
        announcementSignal.continuation.yield()
    }

    /// Checks the access and, in the same step, adds the call to those a change of grants can end.
    ///
    /// `limit` is how many calls the session may run; one more is `.exhausted`.
    func begin(_ scope: CallScope, access: Access, limit: Int, unpairedLimit: Int) throws -> (
        ticket: UInt64, caller: Caller, grants: [Grant]
    ) {
        try state.withLock { state throws in
            if let ended = state.ended { throw ended }
            let caller = caller(state)
            let grants = state.known?.grants ?? []
            if let refusal = access.refusal(of: caller, holding: grants) { throw refusal }
            guard state.calls.count < (state.known == nil ? unpairedLimit : limit) else {
                throw KithError(.exhausted, "Too many calls at once on one connection. Try again when some are done.")
            }
            state.next += 1
            state.calls[state.next] = Running(access: access, scope: scope)
            return (state.next, caller, grants)
        }
    }

    /// Checks the other end's grants, and keeps the check for when they change.
    ///
    /// - Throws: the error that the check returns.
    func narrow(_ ticket: UInt64, by check: @escaping @Sendable ([Grant]) -> KithError?) throws {
        try state.withLock { state throws in
            if let refusal = check(state.known?.grants ?? []) { throw refusal }
            state.calls[ticket]?.narrowing = check
        }
    }

    /// The call is over.
    func end(_ ticket: UInt64) { state.withLock { _ = $0.calls.removeValue(forKey: ticket) } }

    /// Takes the store's present record of the other end, and calls off what is no longer allowed.
    func update(_ known: KnownDevice?) {
        let refused = state.withLock { state -> [(CallScope, KithError)] in
            state.known = known
            let caller = caller(state)
            return state.calls.values.compactMap { call in
                let refusal =
                    call.access.refusal(of: caller, holding: known?.grants ?? [])
                    ?? call.narrowing?(known?.grants ?? [])
                return refusal.map { (call.scope, $0) }
            }
        }
        for (scope, refusal) in refused { scope.cancel(refusal) }
        if known != nil { link.liftLimits() }
    }

    /// Calls off everything, and whatever would begin later.
    func end(_ reason: KithError) {
        let scopes = state.withLock { state in
            if state.ended == nil { state.ended = reason }
            return state.calls.values.map(\.scope)
        }
        for scope in scopes { scope.cancel(reason) }
    }
}
