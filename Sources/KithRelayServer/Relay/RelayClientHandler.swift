import KithIdentity
import KithNet
import KithReach
import KithWire
import NIOCore
import NIOWebSocket
import Synchronization

/// One client of the relay, after the WebSocket is open: it proves its key, then frames go both ways.
///
/// Lives on one event loop. What others send to the client waits in a ``FairSendQueue`` until the socket takes it.
final class RelayClientHandler: ChannelInboundHandler, RelayClientPort {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = ByteBuffer

    private enum State {
        case proving(RelayHandshake.Server)
        case open(RelayLink)
        case closing
    }

    /// The time between two looks at whether the client may still be here.
    private static let reviewInterval = Duration.seconds(20)

    private let hub: RelayHub
    private let loop: RelayLoop
    private let socket: RelaySocket
    private let reader: RelayFrameReader
    private let version: RelayVersion
    private let token: String?
    private var state: State
    private var context: ChannelHandlerContext?
    private var inbox = WebSocketInbox(limit: RelayFrame.maxLength, expectsMask: true)
    private var keepAlive: RelayKeepAlive
    /// When to ask ``keepAlive`` again.
    private var nextTick = ContinuousClock.now
    private var nextReview = ContinuousClock.now

    /// Small frames of the relay's own, which come before all else.
    private var control = ByteBuffer()
    private var queue: FairSendQueue<RelayedFrame>
    /// Frames that nothing stands before: written already, and sent with the next ``pump()``.
    private var ready = ByteBuffer()
    /// The frames of that kind since the last ``pump()``, and the bytes in them.
    private var passed = (frames: UInt64(0), bytes: UInt64(0))
    private var droppedBefore: UInt64 = 0
    /// True between queueing and sending.
    private var isTouched = false
    private var stalledSince: ContinuousClock.Instant?
    /// The rates of a client that has any.
    private var rates: Rates?
    private var work: RelayWork
    /// Of a client that was over one of its rates.
    private var pausing: Pausing?
    /// The number of a message that has begun and not ended, and when it began.
    private var unfinished: (number: UInt64, since: ContinuousClock.Instant)?
    /// True when one has ended since that was noted.
    private var hasFinished = false
    /// True once it is being closed: what it still says is not heard.
    private var isEnding = false
    /// Made for the first datagram: a client that is idle costs little.
    private var forwarding: RelayForwarding?

    /// How fast a client may send and be sent to, and what it did with that.
    private final class Rates {
        var receiving: TokenBucket
        var sending: TokenBucket
        var sendsAgainAt: ContinuousClock.Instant?

        init(_ bucket: TokenBucket) { (receiving, sending) = (bucket, bucket) }
    }

    /// The time from which a client that was over a rate was not read, that at which it is again, and the task that does it.
    private final class Pausing {
        var began = ContinuousClock.now
        var readsAgainAt: ContinuousClock.Instant?
        var task: Scheduled<Void>?
    }

    /// The bytes written at once: a full record of TLS.
    private static let batch = 16 << 10
    /// The most bytes that pass by the queue before they are sent: more waits there, each sender's for its turn.
    private static let passingLimit: UInt64 = 64 << 10
    /// The most bytes of the relay's own frames that wait.
    private static let controlLimit = 16 << 10

    init(
        _ hub: RelayHub, _ loop: RelayLoop, _ socket: RelaySocket, _ reader: RelayFrameReader,
        _ version: RelayVersion, token: String?, times: RelayKeepAlive.Times
    ) {
        (self.hub, self.loop, self.socket, self.reader) = (hub, loop, socket, reader)
        (self.version, self.token) = (version, token)
        work = RelayWork(rate: hub.options.frameRate, at: .now)
        var random = SystemRandomNumberGenerator()
        state = .proving(RelayHandshake.Server(using: &random))
        keepAlive = RelayKeepAlive(times, at: .now, using: &random)
        queue = FairSendQueue(limits: hub.options.queue)
    }

    // MARK: - The channel's events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if case .proving(let server) = state { send(server.opening) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { ended() }

    func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    private func ended() {
        pausing?.task?.cancel()
        pausing = nil
        if let unfinished { hub.unfinished.end(unfinished.number) }
        unfinished = nil
        if case .open(let link) = state {
            link.handler.value = nil
            loop.remove(self)
            hub.remove(link, whoSentTo: forwarding?.peers ?? [])
        }
        state = .closing
        queue.removeAll()
        (ready, passed) = (ByteBuffer(), (0, 0))
        forwarding?.end()
        context = nil
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is NIOWebSocketError { hub.counters.protocolErrors.count() }
        context.close(promise: nil)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { pump() }
        context.fireChannelWritabilityChanged()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isEnding else { return }
        let frame = unwrapInboundIn(data)
        // A whole message counts by what it holds.
        if frame.opcode != .binary || !frame.fin {
            let isPart = frame.opcode == .binary || frame.opcode == .continuation
            guard works(isPart && frame.length >= RelayWork.small ? 1 : RelayWork.idle) else { return }
        }
        do {
            switch try inbox.received(frame) {
            case .message(let message):
                hasFinished = true
                try received(message)
            case .ping(let bytes): write(.pong, bytes)
            case .close: close()
            case .nothing: break
            }
        } catch {
            hub.counters.protocolErrors.count()
            close()
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        let now = ContinuousClock.now
        keepAlive.heard(at: now)
        noteUnfinished(at: now)
        forwarding?.flush()
        pump()
        context.fireChannelReadComplete()
    }

    /// Counts what a message holds that has begun and not ended.
    private func noteUnfinished(at now: ContinuousClock.Instant) {
        let held = isEnding ? 0 : reader.held + inbox.held
        if let known = unfinished {
            if held > 0, !hasFinished { return hub.unfinished.update(known.number, held) }
            hub.unfinished.end(known.number)
            unfinished = nil
        }
        hasFinished = false
        guard held > 0, let channel = context?.channel else { return }
        let counters = hub.counters
        let number = hub.unfinished.begin(held) {
            counters.unfinished.count()
            channel.close(promise: nil)
        }
        unfinished = (number, now)
    }

    // MARK: - Received

    private func received(_ message: ByteBuffer) throws {
        switch state {
        case .proving(let server):
            let frame = try RelayFrame(Array(message.readableBytesView), version: version, from: .client)
            try prove(server.received(frame))
        case .open(let link):
            switch message.getInteger(at: message.readerIndex, as: UInt8.self) {
            case 4, 5: try forward(message, of: link)
            default:
                guard works(RelayWork.idle) else { return }
                switch try RelayFrame(Array(message.readableBytesView), version: version, from: .client) {
                case .ping(let bytes): send(.pong(bytes))
                case .pong(let bytes): _ = keepAlive.received(pong: bytes, at: .now)
                default: throw RelayHandshake.Failure.unexpected
                }
            }
        case .closing: break
        }
    }

    private func prove(_ key: DeviceID) {
        socket.opened()
        switch hub.options.decide?(key) ?? hub.options.access.decide(key, token: token) {
        case .deny(let reason):
            hub.counters.denied.count()
            send(.denied(reason))
            close()
        case .admit(let role):
            hub.counters.accepted.count()
            let link = RelayLink(key, role, by: .tcp, on: loop, self)
            state = .open(link)
            rates = hub.bucket(for: role, at: .now).map { Rates($0) }
            send(.confirmed)
            hub.add(link)
            loop.add(self)
        }
    }

    /// Passes datagrams on in the buffer they came in: only the type and the key change.
    private func forward(_ message: ByteBuffer, of link: RelayLink) throws {
        var message = message
        let start = message.readerIndex
        let count = message.readableBytes
        guard let type = message.getInteger(at: start, as: UInt8.self),
            let words = message.getMultipleIntegers(at: start + 1, as: (UInt64, UInt64, UInt64, UInt64).self),
            let ecn = message.getInteger(at: start + 33, as: UInt8.self)
        else { throw RelayFrameError.wire(.truncated(needed: 34, left: count)) }
        guard ecn <= 3 else { throw RelayFrameError.ecn(ecn) }
        let (length, segmentSize): (Int, Int?)
        if type == 5 {
            guard count > 36, let size = message.getInteger(at: start + 34, as: UInt16.self), size != 0 else {
                throw RelayFrameError.empty
            }
            (length, segmentSize) = (count - 36, Int(size))
        } else {
            guard count > 34 else { throw RelayFrameError.empty }
            (length, segmentSize) = (count - 34, nil)
        }
        hub.counters.receivedFrames.count()
        hub.counters.receivedBytes.count(UInt64(count))
        let cost = RelayWork.cost(of: length, segmentSize: segmentSize)
        guard works(cost ?? RelayWork.idle) else { return }
        guard cost != nil else { return hub.counters.droppedShort.count() }
        let further = RelayWork.datagrams(in: length, segmentSize: segmentSize) - 1
        if let pause = rates?.receiving.take(count + further * RelayWork.overhead, at: .now), pause > .zero {
            wait(pause)
        }
        let key = DeviceID(words: words)
        let forwarding = forwarding ?? RelayForwarding(hub, loop)
        self.forwarding = forwarding
        let receiver: RelayLink
        switch forwarding.route(to: key, from: link) {
        case .to(let found): receiver = found
        case .absent: return sendGone(key)
        case .nowhere: return
        }
        message.setInteger(type + 2, at: start)
        message.setInteger(link.key.words.0, at: start + 1)
        message.setInteger(link.key.words.1, at: start + 9)
        message.setInteger(link.key.words.2, at: start + 17)
        message.setInteger(link.key.words.3, at: start + 25)
        forwarding.add(.buffer(message), from: link, to: receiver)
    }

    /// Counts work that a frame makes; false when the client is closed for it.
    private func works(_ cost: Int) -> Bool {
        switch work.take(cost, at: .now) {
        case .goesOn: return true
        case .waits(let pause):
            wait(pause)
            return true
        case .ends:
            hub.counters.floods.count()
            close(code: 1008, reason: "far too many small frames")
            return false
        }
    }

    /// Stops reading while the client is over a rate: TCP slows it down.
    private func wait(_ pause: Duration) {
        guard let channel = context?.channel else { return }
        hub.counters.rateLimited.count()
        if pausing == nil, case .open = state { send(.rateLimited) }
        let pausing = pausing ?? Pausing()
        self.pausing = pausing
        _ = try? channel.syncOptions?.setOption(.autoRead, value: false)  // fails on a closed channel only
        let now = ContinuousClock.now
        let again = now + pause
        if pausing.readsAgainAt == nil { pausing.began = now }
        pausing.readsAgainAt = max(again, pausing.readsAgainAt ?? again)
        guard pausing.task == nil else { return }
        readLater()
    }

    /// Reads again when the client's debt is paid, which may have grown meanwhile.
    private func readLater() {
        guard let pausing, let again = pausing.readsAgainAt else { return }
        let pause = TimeAmount(max(again - .now, .zero))
        pausing.task = loop.eventLoop.assumeIsolated().scheduleTask(in: pause) { [weak self] in
            guard let self else { return }
            pausing.task = nil
            if let again = pausing.readsAgainAt, again > .now { return readLater() }
            pausing.readsAgainAt = nil
            // The time that it could not be heard does not count.
            if let since = unfinished?.since { unfinished?.since = since + (.now - max(pausing.began, since)) }
            // Fails on a closed channel only.
            _ = try? context?.channel.syncOptions?.setOption(.autoRead, value: true)
        }
    }

    // MARK: - Sent

    /// Queues a frame of another client; true when this is the first since the last ``pump()``.
    func enqueue(_ frame: RelayedFrame, from sender: DeviceID, at now: ContinuousClock.Instant) -> Bool {
        if !pass(frame) { queue.append(frame, size: frame.count, from: sender, at: now) }
        defer { isTouched = true }
        return !isTouched
    }

    /// Writes a frame at once where none has to wait: most of the time none has.
    private func pass(_ frame: RelayedFrame) -> Bool {
        guard queue.isEmpty, rates == nil, passed.bytes < Self.passingLimit, let context, context.channel.isWritable
        else { return false }
        let length = frame.count
        if ready.readableBytes == 0 { ready = context.channel.allocator.buffer(capacity: Self.batch + length + 16) }
        Self.write(frame, to: &ready)
        passed.frames += 1
        passed.bytes += UInt64(length)
        if ready.readableBytes >= Self.batch { writeReady(context) }
        return true
    }

    private static func write(_ frame: RelayedFrame, to batch: inout ByteBuffer) {
        switch frame {
        case .buffer(let buffer): batch.writeWebSocketFrame(.binary, buffer, mask: nil)
        case .bytes(let bytes): batch.writeWebSocketFrame(.binary, bytes)
        }
    }

    private func writeReady(_ context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(ready), promise: nil)
        ready = ByteBuffer()
    }

    func sendGone(_ key: DeviceID) {
        send(.gone(key))
        pump()
    }

    func send(_ status: RelayStatus) {
        send(version == .v1 ? .health(status.healthText) : .status(status))
        pump()
    }

    private func send(_ frame: RelayFrame) { write(.binary, ByteBuffer(bytes: frame.bytes)) }

    private func write(_ opcode: WebSocketOpcode, _ contents: ByteBuffer) {
        // Whoever reads nothing gets no answers either.
        guard control.readableBytes <= Self.controlLimit else { return }
        control.writeWebSocketFrame(opcode, contents, mask: nil)
        if case .proving = state { pump() }
    }

    /// Sends what the socket takes.
    func pump() {
        isTouched = false
        guard let context else { return }
        let channel = context.channel
        var (frames, bytes) = passed
        var hasWritten = frames > 0
        passed = (0, 0)
        if ready.readableBytes > 0 { writeReady(context) }
        let now = ContinuousClock.now
        while channel.isWritable {
            var batch = control
            control = ByteBuffer()
            if let again = rates?.sendsAgainAt, now >= again { rates?.sendsAgainAt = nil }
            while batch.readableBytes < Self.batch, rates?.sendsAgainAt == nil, let frame = queue.next(at: now) {
                if batch.readableBytes == 0, batch.capacity < Self.batch {
                    batch = channel.allocator.buffer(
                        capacity: min(Self.batch + frame.count, queue.bytes + frame.count + 16))
                }
                Self.write(frame, to: &batch)
                frames += 1
                bytes += UInt64(frame.count)
                if let pause = rates?.sending.take(frame.count, at: now), pause > .zero {
                    rates?.sendsAgainAt = now + pause
                    _ = loop.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pause)) { [weak self] in
                        self?.pump()
                    }
                }
            }
            guard batch.readableBytes > 0 else { break }
            context.write(wrapOutboundOut(batch), promise: nil)
            hasWritten = true
        }
        stalledSince = queue.isEmpty || channel.isWritable ? nil : stalledSince ?? now
        if queue.dropped > droppedBefore {
            hub.counters.droppedFull.count(queue.dropped - droppedBefore)
            droppedBefore = queue.dropped
        }
        if frames > 0 {
            hub.counters.sentFrames.count(frames)
            hub.counters.sentBytes.count(bytes)
        }
        if hasWritten { context.flush() }
    }

    // MARK: - Time and end

    /// Does what the time asks for; it is called every few seconds.
    func tick(at now: ContinuousClock.Instant) {
        guard let context else { return }
        if let stalledSince, now - stalledSince > .seconds(hub.options.stallTime) {
            context.close(promise: nil)
            return
        }
        if let unfinished, now - unfinished.since > .seconds(hub.options.unfinishedTime),
            pausing?.readsAgainAt == nil
        {
            hub.counters.unfinished.count()
            return close(code: 1008, reason: "a message was not finished")
        }
        // Whoever was forgotten, or became more than a guest, comes back and is treated accordingly.
        if nextReview <= now {
            nextReview = now + Self.reviewInterval
            if case .open(let link) = state, let decide = hub.options.decide, decide(link.key) != .admit(link.role) {
                return close()
            }
        }
        guard nextTick <= now else { return }
        var random = SystemRandomNumberGenerator()
        switch keepAlive.next(at: now, using: &random) {
        case .wait(let until): nextTick = until
        case .ping(let bytes):
            send(.ping(bytes))
            pump()
        case .dead: context.close(promise: nil)
        }
    }

    /// Tells the client when to come back, and closes.
    func restart(_ frame: RelayFrame) -> EventLoopFuture<Void> {
        guard let context else { return loop.eventLoop.makeSucceededVoidFuture() }
        send(frame)
        close(code: 1012)
        return context.channel.closeFuture
    }

    /// Sends what is due of the relay's own frames, and closes.
    func close() { close(code: 1000) }

    private func close(code: UInt16, reason: String = "") {
        guard let context, !isEnding else { return }
        isEnding = true
        reader.end()
        // Whatever else it sent at once is not looked at.
        if case .proving = state { state = .closing }
        let channel = context.channel
        var contents = ByteBuffer(integer: code)
        contents.writeString(reason)
        control.writeWebSocketFrame(.connectionClose, contents, mask: nil)
        queue.removeAll()
        (ready, passed) = (ByteBuffer(), (0, 0))
        // Whether or not it fits: the channel takes it, and forgets it with the socket.
        context.writeAndFlush(wrapOutboundOut(control)).whenComplete { _ in channel.close(promise: nil) }
        control.clear()
        // A peer that reads nothing would keep the socket.
        _ = loop.eventLoop.scheduleTask(in: .seconds(2)) { channel.close(promise: nil) }
    }
}
