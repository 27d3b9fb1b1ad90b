package import KithIdentity
package import KithReach
package import KithWire
package import Logging
import Synchronization

/// A relay's rows in etcd, for as long as it runs: where it is, and who is connected to it.
///
/// All are on one lease of 20 seconds. Nothing is written for a client that stays.
package final class EtcdRelayRows: Sendable {
    private struct State {
        var presence: EtcdPresence
        var lease: Int64?
        var hasFailed = false
    }

    /// Who is connected to the relay now.
    package protocol Clients: Sendable {
        /// The devices connected now.
        var devices: Set<DeviceID> { get }
        /// The number of connections.
        var clientCount: Int { get }
        /// Tells whether a device is connected now.
        func isConnected(_ device: DeviceID) -> Bool
    }

    /// The relay's id: another one for each process.
    package let id = String((0..<16).map { _ in "0123456789abcdef".randomElement() ?? "0" })

    private let session: EtcdSession
    private let ticker: any Ticker
    private let logger: Logger
    private let state: Mutex<State>
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    /// Makes the rows of a relay at `url`.
    ///
    /// - Throws: `KithError` `.invalid` for certificates that cannot be read.
    package convenience init(
        _ options: EtcdOptions, url: RelayAddress, region: String, logger: Logger
    ) throws(KithError) {
        try self.init(options, url: url, region: region, logger: logger, ticker: ContinuousClock())
    }

    init(
        _ options: EtcdOptions, url: RelayAddress, region: String, logger: Logger, ticker: any Ticker
    ) throws(KithError) {
        session = try EtcdSession(options)
        self.ticker = ticker
        self.logger = logger
        state = Mutex(State(presence: EtcdPresence(EtcdRelay(url: url, load: 0, region: region))))
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// Notes that a device has come or gone.
    package func noted(_ device: DeviceID) {
        state.withLock { $0.presence.noted(device) }
        signal.yield()
    }

    /// Writes until the task is cancelled; then the lease is given back, and all rows vanish.
    package func run(_ clients: some Clients) async {
        let (ticker, signal) = (ticker, signal)
        await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            var timer: ContinuousClock.Instant?
            signal.yield()
            for await _ in signals {
                var until: ContinuousClock.Instant?
                while until == nil, !Task.isCancelled { until = await step(clients) }
                guard let due = until, due != timer else { continue }
                timer = due
                group.addTask {
                    try? await ticker.sleep(until: due, tolerance: nil)  // ends early only when cancelled
                    signal.yield()
                }
            }
        }
        guard let id = state.withLock({ $0.lease }) else { return }
        // The task is over; this question is its last, and a relay that cannot ask it is forgotten in 20 seconds.
        await Task(name: "kith etcd revoke") {
            _ = try? await session.call(
                "/v3/lease/revoke", EtcdMessages.LeaseNumber(id: EtcdMessages.Number(id)), as: EtcdMessages.Page.self)
            session.close()
        }.value
    }

    /// Takes the next step; returns until when there is nothing to do after it.
    private func step(_ clients: some Clients) async -> ContinuousClock.Instant? {
        let now = ticker.now
        let step = state.withLock { state in
            state.presence.noted(load: max(0, clients.clientCount))
            return state.presence.next(at: now) { clients.isConnected($0) }
        }
        var devices: [DeviceID] = []
        do throws(KithError) {
            switch step {
            case .wait(let until): return until
            case .grant(let seconds):
                let granted = try await session.call(
                    "/v3/lease/grant", EtcdMessages.LeaseGrant(seconds: EtcdMessages.Number(seconds)),
                    as: EtcdMessages.Lease.self)
                let devices = clients.devices
                guard granted.id != 0, granted.seconds > 0 else {
                    throw KithError(.corrupt, "etcd at \(session.endpoint) grants a lease that is none.")
                }
                state.withLock { state in
                    state.lease = granted.id
                    state.presence.granted(granted.id, seconds: granted.seconds, devices: devices, at: ticker.now)
                }
            case .keepAlive(let id):
                let kept = try await session.call(
                    "/v3/lease/keepalive", EtcdMessages.LeaseNumber(id: EtcdMessages.Number(id)),
                    as: EtcdMessages.Line<EtcdMessages.Lease>.self)
                state.withLock { $0.presence.keptAlive(seconds: kept.result?.seconds ?? 0, at: ticker.now) }
            case .write(let id, let relay, let came, let went):
                devices = came + went
                state.withLock { $0.presence.began(devices) }
                let answer = try await session.call(
                    "/v3/kv/txn",
                    EtcdPresence.transaction(id: self.id, lease: id, relay: relay, came: came, went: went),
                    as: EtcdMessages.TransactionAnswer.self)
                guard answer.succeeded else {
                    throw KithError(.corrupt, "etcd at \(session.endpoint) answered another question.")
                }
                state.withLock { $0.presence.wrote(relay, at: ticker.now) }
            }
            session.succeeded()
            note(nil)
        } catch {
            // The lease of a write is gone, and with it all rows.
            if error.code == .notFound { state.withLock { $0.presence.lost() } }
            let pause = error.code == .notFound ? .zero : session.failed()
            if session.haveAllFailed { note(error) }
            state.withLock { $0.presence.failed(devices, until: ticker.now + pause) }
        }
        return nil
    }

    /// Says once that etcd is away, and once that it is back.
    private func note(_ error: KithError?) {
        let before = state.withLock { state in
            defer { state.hasFailed = error != nil }
            return state.hasFailed
        }
        if let error, !before {
            logger.warning("etcd is away, and does not hear who is connected here: \(error.message)")
        } else if error == nil, before {
            logger.warning("etcd is back.")
        }
    }
}

extension RelayServer: EtcdRelayRows.Clients {}
