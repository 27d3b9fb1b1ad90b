import KithIdentity
import KithReach
import KithWire
import Synchronization

/// A device's link to a relay by QUIC, from the dial to its end: see ``RelayQUIC``.
///
/// Datagrams go by it without a task, a hop or a copy more than their packets need: what waits in the client's queue is
/// taken when there is room in the congestion window, and what comes is handed on by runs.
///
/// `@unchecked Sendable`: what is no `Mutex` and not immutable is touched on the thread of the link's endpoint only.
final class RelayQUICLink: ConnectionHandler, @unchecked Sendable {
    /// What the driver of the client is told, from any thread.
    enum Report: Sendable {
        /// The relay lets this device in.
        case letIn(Connection)
        /// It does not, for this reason.
        case denied(String)
        /// It is about to go: when to come back, and how long to try, in milliseconds.
        case restarting(reconnectIn: UInt32, tryFor: UInt32)
        /// Nothing has come for a while.
        case silent
        /// It is over, or was never open.
        case failed(String)
    }

    private enum State { case dialing(Task<Void, Never>?), connected(Connection), ended }

    private let outbox: RelayOutbox
    private let token: String?
    private let onEvent: @Sendable (RelayClient.Event) -> Void
    private let report: @Sendable (RelayQUICLink, Report) -> Void
    private let state = Mutex(State.dialing(nil))

    private var connection: Connection?
    private var reader = RelayStreamReader(from: .relay)
    private var isOpen = false
    private var run = Run()
    private var segments: RelayedSegments?
    /// The time at which the datagrams of `segments` have waited too long.
    private var segmentsEnd = ContinuousClock.Instant.now

    /// Datagrams of one device that came together, all but the last of one length.
    private struct Run {
        static let maxLength = 60 << 10

        var device: DeviceID?
        var contents: [UInt8] = []
        var segmentSize = 0
        var last = 0

        func takes(_ count: Int, of device: DeviceID) -> Bool {
            self.device == device && last == segmentSize && count <= segmentSize
                && contents.count + count <= Self.maxLength
        }
    }

    init(
        _ outbox: RelayOutbox, token: String?, onEvent: @escaping @Sendable (RelayClient.Event) -> Void,
        report: @escaping @Sendable (RelayQUICLink, Report) -> Void
    ) {
        (self.outbox, self.token, self.onEvent, self.report) = (outbox, token, onEvent, report)
    }

    // MARK: - From the client's loop

    /// Dials, and says hello.
    func start(_ dialer: RelayQUICDialer) {
        let task = Task(name: "kith relay by quic") {
            do throws(KithError) {
                let connection = try await dialer.dial()
                let isWanted = state.withLock { state in
                    guard case .dialing = state else { return false }
                    state = .connected(connection)
                    return true
                }
                if isWanted { connection.handle(by: self) } else { connection.close() }
            } catch {
                report(self, .failed(Self.reason(error)))
            }
        }
        state.withLock { if case .dialing = $0 { $0 = .dialing(task) } }
    }

    private static func reason(_ error: KithError) -> String {
        switch error.code {
        case .denied: "what answers there does not have the key that its URL names"
        case .timedOut: "it did not answer in time"
        default: error.message
        }
    }

    /// Ends it; nothing is reported any more.
    func cancel() {
        let before = state.withLock { state in
            defer { state = .ended }
            return state
        }
        switch before {
        case .dialing(let task): task?.cancel()
        case .connected(let connection): connection.close()
        case .ended: break
        }
    }

    /// The connection, while there is one.
    var connected: Connection? {
        state.withLock { if case .connected(let connection) = $0 { connection } else { nil } }
    }

    private var isEnded: Bool { state.withLock { if case .ended = $0 { true } else { false } } }

    private func tell(_ what: Report) { if !isEnded { report(self, what) } }

    // MARK: - On the endpoint's thread

    func handshakeCompleted() {}

    func began(on connection: Connection) {
        self.connection = connection
        _ = connection.sendOnStream(RelayStreamMessage.hello(token: token).bytes)  // the first: there is room
    }

    func receivedOnStream(_ bytes: [UInt8]) {
        do {
            for message in try reader.receive(bytes) { try take(message) }
        } catch {
            breaks(error)
        }
    }

    private func breaks(_ error: any Error) {
        tell(.failed("it breaks the protocol: \(error)"))
        cancel()
    }

    private func take(_ message: RelayStreamMessage) throws {
        guard case .frame(let frame) = message else { throw RelayHandshake.Failure.unexpected }
        switch frame {
        case .confirmed:
            guard let connection else { return }
            isOpen = true
            tell(.letIn(connection))
        case .denied(let reason):
            tell(.denied(reason))
            cancel()
        case .received(let device, let datagrams):
            flush()
            onEvent(.received(datagrams, from: device))
        case .gone(let device): onEvent(.gone(device))
        case .status(let status): onEvent(.status(status))
        case .restarting(let reconnectIn, let tryFor): tell(.restarting(reconnectIn: reconnectIn, tryFor: tryFor))
        case .challenge, .proof, .send, .ping, .pong, .health: throw RelayHandshake.Failure.unexpected
        }
    }

    func received(_ datagram: consuming [UInt8]) {
        // What overtakes the relay's word is lost, as on any network.
        guard isOpen else { return }
        let datagram = datagram
        do throws(RelayFrameError) {
            let header = try RelayedHeader(datagram, from: .relay)
            let count = datagram.count - header.start
            if let size = header.segmentSize, size < count {
                flush()
                onEvent(
                    .received(
                        RelayedDatagrams(Array(datagram[header.start...]), segmentSize: UInt16(clamping: size)),
                        from: header.device))
                return
            }
            if !run.takes(count, of: header.device) {
                flush()
                (run.device, run.segmentSize) = (header.device, count)
            }
            run.contents += datagram[header.start...]
            run.last = count
        } catch {
            breaks(error)
        }
    }

    func receivedAll() { flush() }

    private func flush() {
        guard let device = run.device else { return }
        let isSingle = run.contents.count == run.segmentSize
        onEvent(
            .received(
                RelayedDatagrams(run.contents, segmentSize: isSingle ? nil : UInt16(clamping: run.segmentSize)),
                from: device))
        run = Run()
    }

    func nextDatagram(limit: Int) -> [UInt8]? {
        guard isOpen, let connection else { return nil }
        let now = ContinuousClock.now
        while true {
            if segments?.isEmpty != false || now > segmentsEnd {
                guard let next = outbox.next(at: now) else {
                    segments = nil
                    return nil
                }
                segments = RelayedSegments(
                    next.datagrams, segmentSize: next.segmentSize.map(Int.init), device: next.device, sender: .client)
                segmentsEnd = now + outbox.age
            }
            guard let frame = segments?.next() else { continue }
            switch RelayQUIC.carriage(of: frame.count, limit: limit) {
            case .datagram: return frame
            // A full stream drops it, as any queue does.
            case .stream: _ = connection.sendOnStream(RelayStreamMessage.framed(frame))
            case .none: outbox.droppedTooLong()
            }
        }
    }

    func fellSilent() { tell(.silent) }

    func closed(_ reason: CloseReason) {
        connection = nil
        isOpen = false
        tell(.failed(Self.reason(reason.error)))
    }
}
