import KithIdentity
import KithReach
import NIOCore
import Synchronization

/// Datagrams on their way to one device by a relay, all but the last of one length.
struct OutgoingDatagramRun: Sendable {
    let device: DeviceID
    let datagrams: [UInt8]
    /// `nil` for a single one.
    let segmentSize: UInt16?
}

/// What a relay's client is to send, the state of its connection, and what sends by it.
///
/// Any thread puts datagrams in; the thread of the link in use takes them out.
final class RelayOutbox: Sendable {
    private struct Contents {
        var queue: FairSendQueue<OutgoingDatagramRun>
        var isScheduled = false
        var state = RelayClient.State.idle
        /// The link by QUIC, when that is in use.
        var connection: Connection?
        var carrier: RelayCarrier?
        var tooLong: UInt64 = 0
    }

    /// The longest that datagrams wait.
    let age: Duration
    private let contents: Mutex<Contents>

    init(limits: SendQueueLimits) {
        age = limits.age
        contents = Mutex(Contents(queue: FairSendQueue(limits: limits)))
    }

    var state: RelayClient.State { contents.withLock { $0.state } }
    var carrier: RelayCarrier? { contents.withLock { $0.carrier } }
    var dropped: UInt64 { contents.withLock { $0.queue.dropped + $0.tooLong } }

    /// What is to be done about datagrams that were put in.
    enum Wake {
        case nothing
        case driver
        case link(Connection)
    }

    /// Puts datagrams in; dropped while the relay is not connected.
    func append(_ run: OutgoingDatagramRun, at now: ContinuousClock.Instant) -> Wake {
        contents.withLock { contents in
            guard case .connected = contents.state else { return .nothing }
            let size = run.datagrams.count + RelayQUIC.headerLength
            contents.queue.append(run, size: size, from: run.device, at: now)
            guard !contents.isScheduled else { return .nothing }
            contents.isScheduled = true
            return contents.connection.map { .link($0) } ?? .driver
        }
    }

    /// Takes the next out; `nil` when none waits: from then on whoever takes has to be woken again.
    func next(at now: ContinuousClock.Instant) -> OutgoingDatagramRun? {
        contents.withLock { contents in
            let next = contents.queue.next(at: now)
            if next == nil { contents.isScheduled = false }
            return next
        }
    }

    /// The socket takes nothing: the driver comes back by itself when it does.
    func isFull() { contents.withLock { $0.isScheduled = true } }

    /// One was too long for the path.
    func droppedTooLong() { contents.withLock { $0.tooLong += 1 } }

    /// Notes the state; true when it is another.
    func changed(to state: RelayClient.State) -> Bool {
        contents.withLock { contents in
            guard contents.state != state else { return false }
            contents.state = state
            if case .connected = state { return true }
            contents.queue.removeAll()
            contents.isScheduled = false
            (contents.connection, contents.carrier) = (nil, nil)
            return true
        }
    }

    /// Has what waits, and what comes, sent by a link, or without one by the driver's WebSocket.
    func use(_ carrier: RelayCarrier, _ connection: Connection?) {
        contents.withLock { contents in
            (contents.carrier, contents.connection) = (carrier, connection)
            contents.isScheduled = connection != nil
        }
        connection?.wake()
    }
}
