import KithIO
import KithIdentity
package import KithReach
import KithWire
package import NIOCore
import Synchronization

/// A device's connection to one relay, which it keeps up by itself.
///
///     connect() ─▶ connecting ──▶ connected ──relay goes──▶ restarting ─┐
///                     ▲  │ fails      │ dies                            │
///                     │  ▼            ▼                                 │
///                     └─ waiting ◀────┴─────────────────────────────────┘
///                        captive
///
/// A relay that refuses this device is not asked again until ``connect()``: the state is `denied`, with its reason.
/// A proxy that refuses the password is asked again after ten minutes, as every time may count against its account.
/// A relay whose key is known is dialed by QUIC (``RelayQUIC``) at once, and 250 ms later by a WebSocket, too. The first
/// that is let in is used, and the other given up; where that is the WebSocket, QUIC is tried again each minute and
/// whenever the network changes, and takes over without a gap once it is let in.
///
/// States and datagrams come by `onEvent`, from event loops; it must not wait.
package final class RelayClient: Sendable {
    /// The state of the connection.
    package enum State: Hashable, Sendable {
        /// Nobody has asked for it yet.
        case idle
        /// It is being opened.
        case connecting
        /// Datagrams pass; the round trip is known once a ping was answered.
        case connected(roundTrip: Duration?)
        /// The relay has said that it restarts; this device comes back when it was told to.
        case restarting
        /// It failed, for this reason, and is tried again soon.
        case waiting(reason: String)
        /// It failed, as the network wants somebody to sign in first; it is tried again soon.
        case captive(CaptivePortal)
        /// The relay does not let this device in, for this reason.
        case denied(reason: String)
        /// Closed by ``close()``.
        case closed
    }

    /// What happens.
    package enum Event: Hashable, Sendable {
        /// The state is another.
        case state(State)
        /// Datagrams of a device: one, or several of `segmentSize` each but the last.
        case received(RelayedDatagrams, from: DeviceID)
        /// A device that was sent to, or that sent, is not at the relay.
        case gone(DeviceID)
        /// The relay's view of this connection.
        case status(RelayStatus)
    }

    /// The settings of a client.
    package struct Options: Sendable {
        /// The relay.
        package var address: RelayAddress
        /// The token it wants.
        package var token: String?
        /// A PEM file of certificates to trust in place of the system's.
        package var trustedCertificates: String?
        /// The time an attempt to open it may take.
        package var openingTime = Duration.seconds(10)
        /// The times of its pings.
        package var keepAlive = RelayKeepAlive.Times.client
        /// The longest pause between two attempts.
        package var longestPause = RelayBackoff.longest
        /// The address to connect to in place of the relay's name: of a relay in this very process.
        package var connectsTo: NetworkAddress?
        /// The address by which an address is reached from this network, asked for each attempt.
        package var way: @Sendable (NetworkAddress) -> NetworkAddress = { $0 }
        /// Indicates whether an address of this very machine, or of its link, is refused: a name may lead anywhere.
        package var refusesThisMachine = false
        /// The proxies by which relays are reached; nil: none.
        package var proxy: ProxySettings?
        /// The port of a relay's host that is asked whether a captive portal answers there.
        package var portalPort: UInt16
        /// The shortest time between two such questions.
        package var portalCheckInterval = Duration.seconds(30)
        /// Indicates whether a relay whose key is known is dialed by QUIC.
        package var usesQUIC = true
        /// The time by which QUIC is ahead of the WebSocket.
        package var headStart = Duration.milliseconds(250)
        /// The time between two attempts by QUIC while the WebSocket is in use.
        package var probeInterval = Duration.seconds(60)
        /// The bounds of what waits to be sent.
        package var queue = SendQueueLimits()

        /// Settings for a relay.
        package init(_ address: RelayAddress) {
            self.address = address
            // A portal answers for anybody where the web is not encrypted, and elsewhere often not at all.
            portalPort = address.isSecure ? 80 : address.port
        }

        /// The key by which the relay proves itself in QUIC; `nil` when it is not dialed so, as proxies pass TCP only.
        var quicKey: DeviceID? { usesQUIC && route == .direct ? address.key : nil }

        /// The way to the relay.
        var route: ProxySettings.Route { connectsTo == nil ? proxy?.route(to: address) ?? .direct : .direct }
    }

    /// The relay.
    package let address: RelayAddress
    let eventLoop: any EventLoop
    private let outbox: RelayOutbox
    let driver: NIOLoopBoundBox<RelayClientDriver?>

    /// The state now.
    package var state: State { outbox.state }
    /// The transport of the connection; `nil` while there is none.
    package var carrier: RelayCarrier? { outbox.carrier }
    /// The number of datagrams that were dropped because they waited too long, were too many, or too long for the path.
    package var dropped: UInt64 { outbox.dropped }

    /// Makes a client that proves `key`; it does nothing until ``connect()``.
    package init(
        key: DeviceKey, options: Options, on eventLoop: any EventLoop, onEvent: @escaping @Sendable (Event) -> Void
    ) {
        address = options.address
        self.eventLoop = eventLoop
        outbox = RelayOutbox(limits: options.queue)
        driver = NIOLoopBoundBox.makeBoxSendingValue(nil, as: RelayClientDriver?.self, eventLoop: eventLoop)
        eventLoop.execute { [outbox] in
            self.driver.value = RelayClientDriver(
                key: key, options: options, outbox: outbox, onEvent: onEvent, on: eventLoop)
        }
    }

    /// Opens the connection, and keeps it up.
    ///
    /// One that was denied is tried again.
    package func connect() { perform { $0.connect() } }

    /// Looks at once whether the connection lives, or tries again without waiting: the network has changed, or the
    /// machine slept.
    ///
    /// On another network, an attempt that is under way begins anew, and nothing that was found out about the silence a link
    /// bears holds any more.
    package func networkChanged(isElsewhere: Bool = false) { perform { $0.networkChanged(isElsewhere: isElsewhere) } }

    /// Closes it for good.
    package func close() async {
        let closed = Promise<Void>()
        eventLoop.execute {
            self.driver.value?.close()
            self.driver.value = nil
            closed.fulfil(())
        }
        await closed.value()
    }

    private func perform(_ body: @escaping @Sendable (RelayClientDriver) -> Void) {
        eventLoop.execute { if let driver = self.driver.value { body(driver) } }
    }

    /// Sends datagrams to a device; from any thread, and never waits.
    ///
    /// They are dropped when the link is not open, and the oldest when it is too slow. `segmentSize` is the length of
    /// each but the last.
    package func send(_ datagrams: [UInt8], segmentSize: Int, to device: DeviceID) {
        guard !datagrams.isEmpty, datagrams.count <= RelayedDatagrams.maxLength, segmentSize > 0 else { return }
        let size = segmentSize < datagrams.count ? UInt16(exactly: segmentSize) : nil
        guard size != nil || segmentSize >= datagrams.count else { return }
        let run = OutgoingDatagramRun(device: device, datagrams: datagrams, segmentSize: size)
        switch outbox.append(run, at: .now) {
        case .nothing: break
        case .driver: perform { $0.pump() }
        case .link(let connection): connection.wake()
        }
    }
}
