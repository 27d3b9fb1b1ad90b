import KithIdentity
import KithNet
import KithReach
import KithWire
import NIOCore
import Synchronization

/// One client of the relay by QUIC: see ``RelayQUIC``.
///
/// TLS has proven its key. It says hello, with its token, and from then on its datagrams come and go in the memory in
/// which they were decrypted. What others send to it waits in a ``FairSendQueue`` until its congestion window has room.
///
/// `@unchecked Sendable`: touched on the thread of the QUIC endpoint only.
final class RelayQUICHandler: ConnectionHandler, RelayClientPort, @unchecked Sendable {
    private enum State {
        /// Nothing has come yet.
        case waiting
        /// It has said hello, but that may be a repetition: nobody is here before the handshake is complete.
        case greeted(RelayAccess.Role)
        case open(RelayLink)
        case closing
    }

    private let hub: RelayHub
    private let loop: RelayLoop
    private let key: DeviceID
    private let ip: [UInt8]
    private var connection: Connection?
    private var state = State.waiting
    private var isProven = false
    private var isCounted = false
    private var isOpening = true
    /// Its number among the clients that have not proven a key yet.
    private var number: UInt64 = 0
    private var reader = RelayStreamReader(from: .client)
    private let forwarding: RelayForwarding

    private var queue: FairSendQueue<RelayedFrame>
    private var droppedBefore: UInt64 = 0
    /// A batch that is being sent, one datagram after the other, and the time when the rest has waited too long.
    private var segments: RelayedSegments?
    private var segmentsEnd = ContinuousClock.now
    private var isTouched = false
    private var receiving: TokenBucket?
    private var sending: TokenBucket?
    private var sendsAgainAt: ContinuousClock.Instant?
    private var wasLimited = false
    private var work: RelayWork
    private var timer: Scheduled<Void>?
    /// Fulfilled when it is gone.
    private var leaving: [EventLoopPromise<Void>] = []

    /// The time a client has to hear the last word.
    private static let farewell = TimeAmount.seconds(2)
    /// The time between two looks at whether it may still be here.
    private static let reviewInterval = TimeAmount.seconds(20)

    init(_ hub: RelayHub, _ loop: RelayLoop, key: DeviceID, ip: [UInt8]) {
        (self.hub, self.loop, self.key, self.ip) = (hub, loop, key, ip)
        forwarding = RelayForwarding(hub, loop)
        queue = FairSendQueue(limits: hub.options.queue)
        work = RelayWork(rate: hub.options.frameRate, at: .now)
    }

    // MARK: - The connection's events

    func began(on connection: Connection) {
        self.connection = connection
        isCounted = hub.limiter.withLock { $0.open(from: ip, at: .now) }
        guard isCounted else {
            hub.counters.refusedSockets.count()
            state = .closing
            return connection.close(code: .exhausted, reason: "too many connections come from this address")
        }
        timer = schedule(in: .seconds(Int64(hub.options.openingTime))) { handler in
            handler.connection?.close(code: .timedOut, reason: "nothing was said")
        }
        number = hub.openings.add { connection.close(code: .exhausted, reason: "too many clients say nothing") }
        hub.makeRoom()
    }

    private func schedule(
        in time: TimeAmount, _ body: @escaping @Sendable (RelayQUICHandler) -> Void
    ) -> Scheduled<Void> {
        loop.eventLoop.scheduleTask(in: time) { [weak self] in if let self { body(self) } }
    }

    func handshakeCompleted() {
        isProven = true
        if case .greeted(let role) = state { open(role) }
    }

    func fellSilent() {}

    func closed(_ reason: CloseReason) {
        timer?.cancel()
        (timer, connection) = (nil, nil)
        if case .open(let link) = state {
            link.handler.value = nil
            hub.remove(link, whoSentTo: forwarding.peers)
        }
        state = .closing
        queue.removeAll()
        segments = nil
        forwarding.end()
        if isCounted {
            openingEnded()
            hub.limiter.withLock { $0.close(from: ip) }
            isCounted = false
        }
        for promise in leaving { promise.succeed() }
        leaving = []
    }

    private func openingEnded() {
        guard isCounted, isOpening else { return }
        isOpening = false
        hub.openings.remove(number)
        hub.limiter.withLock { $0.handshakeEnded() }
    }

    // MARK: - Received

    func receivedOnStream(_ bytes: [UInt8]) {
        do throws(RelayFrameError) {
            for message in try reader.receive(bytes) { take(message) }
        } catch {
            breaks()
        }
        forwarding.flush()
    }

    private func take(_ message: RelayStreamMessage) {
        switch (message, state) {
        case (.hello(let token), .waiting): greeted(token)
        case (.frame(.send(let device, let datagrams)), .open(let link)):
            let frame = RelayFrame.received(from: key, datagrams).bytes
            guard admits(frame.count, datagrams.contents.count, nil) else { return }
            forward(frame, from: link, to: device)
        // What it says while it is shown out, or before it is known to be there.
        case (.frame(.send), .closing), (.frame(.send), .greeted): break
        default: breaks()
        }
    }

    private func breaks() {
        hub.counters.protocolErrors.count()
        state = leave()
        connection?.close(code: .invalid, reason: "that is not the protocol of relays")
    }

    /// The state after the end, with the client taken out of the hub.
    private func leave() -> State {
        if case .open(let link) = state {
            link.handler.value = nil
            hub.remove(link, whoSentTo: forwarding.peers)
        }
        return .closing
    }

    private func greeted(_ token: String?) {
        openingEnded()
        switch hub.options.decide?(key) ?? hub.options.access.decide(key, token: token) {
        case .deny(let reason):
            hub.counters.denied.count()
            state = .closing
            send(.denied(reason))
            closeSoon()
        case .admit(let role):
            state = .greeted(role)
            // Nobody but the client can read it, whoever repeated its hello.
            send(.confirmed)
            if isProven { open(role) }
        }
    }

    private func open(_ role: RelayAccess.Role) {
        hub.counters.accepted.count()
        hub.counters.quicAccepted.count()
        (receiving, sending) = (hub.bucket(for: role, at: .now), hub.bucket(for: role, at: .now))
        let link = RelayLink(key, role, by: .quic, on: loop, self)
        state = .open(link)
        hub.add(link)
        timer?.cancel()
        review()
    }

    /// Whoever was forgotten, or became more than a guest, comes back and is treated accordingly.
    private func review() {
        guard case .open(let link) = state, let decide = hub.options.decide else { return }
        guard decide(key) == .admit(link.role) else { return close() }
        timer = schedule(in: Self.reviewInterval) { $0.review() }
    }

    func received(_ datagram: consuming [UInt8]) {
        guard case .open(let link) = state else { return }
        // Its only copy from here on.
        var frame = datagram
        do throws(RelayFrameError) {
            let header = try RelayedHeader(frame, from: .client)
            guard admits(frame.count, frame.count - header.start, header.segmentSize) else { return }
            RelayedHeader.turn(&frame, toFrameFrom: key)
            forward(frame, from: link, to: header.device)
        } catch {
            breaks()
        }
    }

    func receivedAll() { forwarding.flush() }

    private func forward(_ frame: consuming [UInt8], from link: RelayLink, to device: DeviceID) {
        switch forwarding.route(to: device, from: link) {
        case .to(let receiver): forwarding.add(.bytes(frame), from: link, to: receiver)
        case .absent: sendGone(device)
        case .nowhere: break
        }
    }

    /// Counts a frame, of `count` bytes and in it `length` of datagrams; false when the client is over a rate: nothing slows
    /// datagrams down but their loss.
    private func admits(_ count: Int, _ length: Int, _ segmentSize: Int?) -> Bool {
        hub.counters.receivedFrames.count()
        hub.counters.receivedBytes.count(UInt64(count))
        let now = ContinuousClock.now
        let cost = RelayWork.cost(of: length, segmentSize: segmentSize)
        switch work.takeIfThere(cost ?? RelayWork.idle, at: now) {
        case .goesOn: break
        case .waits:
            limited()
            return false
        case .ends:
            hub.counters.floods.count()
            state = leave()
            connection?.close(code: .exhausted, reason: "far too many small frames")
            return false
        }
        guard cost != nil else {
            hub.counters.droppedShort.count()
            return false
        }
        let further = RelayWork.datagrams(in: length, segmentSize: segmentSize) - 1
        guard receiving?.takeIfThere(count + further * RelayWork.overhead, at: now) == false else { return true }
        limited()
        return false
    }

    private func limited() {
        hub.counters.rateLimited.count()
        guard !wasLimited else { return }
        wasLimited = true
        send(RelayStatus.rateLimited)
    }

    // MARK: - Sent

    func enqueue(_ frame: RelayedFrame, from sender: DeviceID, at now: ContinuousClock.Instant) -> Bool {
        queue.append(frame, size: frame.count, from: sender, at: now)
        countDrops()
        defer { isTouched = true }
        return !isTouched
    }

    func pump() {
        isTouched = false
        connection?.datagramsWait()
    }

    func nextDatagram(limit: Int) -> [UInt8]? {
        guard case .open = state, sendsAgainAt == nil else { return nil }
        let now = ContinuousClock.now
        while let frame = nextFrame(at: now) {
            switch RelayQUIC.carriage(of: frame.count, limit: limit) {
            case .datagram:
                sent(frame.count, at: now)
                return frame
            case .stream:
                sent(frame.count, at: now)
                // A full stream drops it, as any queue does.
                let isTaken = connection?.sendOnStream(RelayStreamMessage.framed(frame)) ?? false
                if !isTaken { hub.counters.droppedFull.count() }
                if sendsAgainAt != nil { return nil }
            case .none: hub.counters.droppedTooLong.count()
            }
        }
        countDrops()
        return nil
    }

    private func countDrops() {
        guard queue.dropped > droppedBefore else { return }
        hub.counters.droppedFull.count(queue.dropped - droppedBefore)
        droppedBefore = queue.dropped
    }

    /// The next datagram's frame, batches cut into theirs.
    private func nextFrame(at now: ContinuousClock.Instant) -> [UInt8]? {
        while true {
            if segments != nil, now <= segmentsEnd, let frame = segments?.next() { return frame }
            segments = nil
            guard let next = queue.next(at: now) else { return nil }
            let frame: [UInt8] =
                switch next {
                case .bytes(let bytes): bytes
                case .buffer(let buffer): Array(buffer.readableBytesView)
                }
            // Whoever passed it on has read it already.
            guard let header = try? RelayedHeader(frame, from: .relay) else { continue }
            guard let size = header.segmentSize else { return frame }
            segments = RelayedSegments(
                frame, from: header.start, segmentSize: size, device: header.device, sender: .relay, ecn: frame[33])
            segmentsEnd = now + hub.options.queue.age
        }
    }

    private func sent(_ count: Int, at now: ContinuousClock.Instant) {
        hub.counters.sentFrames.count()
        hub.counters.sentBytes.count(UInt64(count))
        guard let pause = sending?.take(count, at: now), pause > .zero else { return }
        sendsAgainAt = now + pause
        _ = schedule(in: TimeAmount(pause)) { handler in
            handler.sendsAgainAt = nil
            handler.pump()
        }
    }

    func sendGone(_ key: DeviceID) { send(.gone(key)) }

    func send(_ status: RelayStatus) { send(.status(status)) }

    /// Whoever reads nothing gets no more of the relay's own frames.
    private func send(_ frame: RelayFrame) { _ = connection?.sendOnStream(RelayStreamMessage.frame(frame).bytes) }

    // MARK: - The end

    func restart(_ frame: RelayFrame) -> EventLoopFuture<Void> {
        guard connection != nil else { return loop.eventLoop.makeSucceededVoidFuture() }
        let promise = loop.eventLoop.makePromise(of: Void.self)
        leaving.append(promise)
        send(frame)
        closeSoon()
        return promise.futureResult
    }

    /// Closes unless the client does, once it has heard what was said.
    private func closeSoon() { _ = schedule(in: Self.farewell) { $0.close() } }

    func close() { connection?.close(code: .closed, reason: "the relay closes") }
}
