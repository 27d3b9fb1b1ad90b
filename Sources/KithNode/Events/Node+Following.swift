import KithAPI
import KithIO
import KithIdentity
import KithWire
import Logging
import Synchronization

// This device follows its peers: one stream to each, as long as a subscriber here wants something of it.

extension Node {
    /// Follows the other end of a connection until the task is cancelled.
    func follow(_ session: Session) async {
        let device = session.link.peer
        guard await session.link.handshakeCompleted() else { return }
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observer = hub.observe { signal.yield() }
        defer { hub.remove(observer) }
        var changes = signals.makeAsyncIterator()
        // However many connections there are with a device, one carries its events.
        guard await following.lock(device) else { return }
        defer { following.unlock(device) }
        var delay = Duration.seconds(1)
        while !Task.isCancelled, session.link.isOpen {
            guard let grants = session.known?.grants, !hub.wanted(of: grants).isEmpty else {
                // Who wants nothing misses nothing.
                hub.setPosition(nil, of: device)
                guard await changes.next() != nil else { return }
                continue
            }
            do {
                try await follow(device, over: session)
                delay = .seconds(1)
            } catch let error as KithError where error.code == .unsupported {
                // A device of an earlier version has no events.
                return
            } catch {
                logger.debug("a stream of events ended", metadata: ["peer": "\(device.short)", "error": "\(error)"])
                // The sleep ends early only when cancelled.
                try? await clock.sleep(until: clock.now.advanced(by: delay), tolerance: nil)
                delay = min(delay * 2, .seconds(60))
            }
        }
    }

    /// Follows over one stream, until nothing is wanted any more.
    private func follow(_ device: DeviceID, over session: Session) async throws {
        let resume = hub.position(of: device)
        let wanted = hub.wanted(of: session.known?.grants ?? [])
        let input = Events.Follow.Input(patterns: wanted.sorted(), resume: resume)
        let coding = AnyMethod(Events.Follow.self)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let opened = try await session.link.openStream()
        let (start, stream) = try await withTaskCancellationHandler {
            do {
                let (output, rest) = try await withDeadline(options.headerTimeout, on: clock) {
                    try await HeaderExchange.request(
                        StreamHeader(method: coding.name, millisecondsLeft: nil, trace: nil, input: bytes),
                        over: opened, isCall: false)
                }
                return (
                    try Self.output(of: Events.Follow.self, coding, .cbor(output)),
                    MethodStream<Events.Follow.Item, Events.Follow.Request>(rest)
                )
            } catch {
                opened.abort(.cancelled)
                throw error
            }
        } onCancel: {
            opened.abort(.cancelled)
        }
        // Behind a place of another epoch nothing is sent again.
        if resume?.epoch != start.epoch { hub.setPosition(start, of: device) }
        // Whoever is cancelled while it waits for a signal ends the signals: each stream has its own.
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observer = hub.observe { signal.yield() }
        defer { hub.remove(observer) }
        let receipts = Receipts(signal)
        do {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    while let item = try await stream.receive() { self.received(item, of: session, receipts) }
                    return true
                }
                group.addTask {
                    try await self.ask(stream, from: session, wanted, start.epoch, receipts, signals)
                    return false
                }
                // When nothing is wanted any more, what is on its way still arrives.
                while let isOver = try await group.next(), !isOver {}
            }
        } catch {
            stream.abort(.cancelled)
            throw error
        }
    }

    /// Tells the other end what is wanted, whenever that changes, and what was taken.
    private func ask(
        _ stream: MethodStream<Events.Follow.Item, Events.Follow.Request>, from session: Session,
        _ wanted: Set<String>, _ epoch: UInt64, _ receipts: Receipts, _ signals: AsyncStream<Void>
    ) async throws {
        var told = wanted
        var changes = signals.makeAsyncIterator()
        while true {
            let grants = session.known?.grants ?? []
            let now = hub.wanted(of: grants)
            var request = receipts.take()
            (request.add, request.remove) = (now.subtracting(told).sorted(), told.subtracting(now).sorted())
            request.lookBack = hub.lookBacks(of: session.link.peer, epoch: epoch, grants)
            told = now
            if !request.isEmpty { try await stream.send(request) }
            guard !now.isEmpty else { return try await stream.finish() }
            guard await changes.next() != nil else { throw CancellationError() }
        }
    }

    /// Takes what the other end sends: only what a device published itself comes from it, and only as its own.
    private func received(_ item: Events.Follow.Item, of session: Session, _ receipts: Receipts) {
        let device = session.link.peer
        if var gap = item.gap {
            gap.publisher = device
            hub.receive(gap)
        }
        guard let published = item.event else { return }
        let receipt = item.delivery.map { number in
            EventReceipt(number: number) { receipts.add(number, isDelivered: $0) }
        }
        // A name that makes no sense here is nobody's topic.
        guard let topic = try? TopicPath(published.topic), topic.isConcrete, !topic.isReserved else {
            receipt?.fail()
            return
        }
        let event = Events.Event(
            topic: topic.text, message: published.message, publisher: device, epoch: published.epoch,
            sequence: published.sequence, time: published.time, sender: published.sender)
        let isPast = item.lookBack != nil || item.delivery != nil
        hub.receive(
            SharedEvent(event, topic: topic),
            isGranted: session.known?.grants.allows(.node(pattern: topic.grantName)) ?? false, lookBack: item.lookBack,
            receipt: receipt,
            position: isPast ? nil : Events.Follow.Position(epoch: published.epoch, sequence: published.sequence))
    }

    // MARK: - Connections to those that are wanted

    /// Connects to the paired devices of which something is wanted, until the task is cancelled.
    ///
    /// One that does not answer is tried again after a second, and then after twice the time, up to 5 minutes.
    func reachFollowed() async {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observer = hub.observe { signal.yield() }
        defer { hub.remove(observer) }
        var attempts: [DeviceID: (next: ContinuousClock.Instant, delay: Duration)] = [:]
        var changes = signals.makeAsyncIterator()
        while !Task.isCancelled {
            let missing = unreachedDevices()
            attempts = attempts.filter { attempt in missing.contains { $0.id == attempt.key } }
            let time = clock.now
            let due = missing.filter { attempts[$0.id].map { $0.next <= time } ?? true }
            await withDiscardingTaskGroup { group in
                for device in due {
                    // That it is not there is nothing new.
                    group.addTask { _ = try? await self.connect(to: device.id.description) }
                }
            }
            for device in due {
                let delay = attempts[device.id].map { min($0.delay * 2, .seconds(300)) } ?? .seconds(1)
                attempts[device.id] = (clock.now.advanced(by: delay), delay)
            }
            let timer = attempts.values.map(\.next).min().map { timers.schedule(at: $0) { signal.yield() } }
            defer { if let timer { timers.cancel(timer) } }
            guard await changes.next() != nil else { return }
        }
    }

    // MARK: - Guaranteed events

    /// Gives up guaranteed events whose time is up, until the task is cancelled.
    func keepOutbox() async {
        guard let outbox = hub.outbox else { return }
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observer = outbox.observe { signal.yield() }
        defer { outbox.remove(observer) }
        var changes = signals.makeAsyncIterator()
        while !Task.isCancelled {
            var next: Duration?
            do {
                next = try outbox.bury(in: hub).map {
                    .milliseconds($0.subtractingReportingOverflow(hub.now()).partialValue)
                }
            } catch {
                logger.error("the outbox could not be read", metadata: ["error": "\(error)"])
                next = .seconds(60)
            }
            let timer = next.map { next in
                timers.schedule(at: clock.now.advanced(by: max(next, .milliseconds(10)))) { signal.yield() }
            }
            defer { if let timer { timers.cancel(timer) } }
            guard await changes.next() != nil else { return }
        }
    }

    /// The paired devices of which something is wanted, and with which there is no connection.
    private func unreachedDevices() -> [KnownDevice] {
        guard isOnNetwork, !isShuttingDown, hub.counts.wanted > 0 else { return [] }
        let online = onlineDevices
        do {
            return try directory.devices().filter { device in
                !online.contains(device.id) && !device.addresses.isEmpty && !hub.wanted(of: device.grants).isEmpty
            }
        } catch {
            logger.warning("the devices to follow could not be read", metadata: ["error": "\(error)"])
            return []
        }
    }
}

/// What subscribers have done with guaranteed events, until it is told to their publisher.
private final class Receipts: Sendable {
    private let state = Mutex((delivered: [UInt64](), failed: [UInt64]()))
    private let signal: AsyncStream<Void>.Continuation

    init(_ signal: AsyncStream<Void>.Continuation) { self.signal = signal }

    func add(_ number: UInt64, isDelivered: Bool) {
        state.withLock { state in
            if isDelivered { state.delivered.append(number) } else { state.failed.append(number) }
        }
        signal.yield()
    }

    func take() -> Events.Follow.Request {
        state.withLock { state in
            defer { state = ([], []) }
            return Events.Follow.Request(delivered: state.delivered, failed: state.failed)
        }
    }
}

/// Lets one connection of each device carry its events; the next takes over when that ends.
final class FollowLocks: Sendable {
    private struct Entry {
        let mutex = AsyncMutex()
        var users = 0
    }

    private let entries = Mutex<[DeviceID: Entry]>([:])

    /// Waits for the device's turn; false when the task was cancelled first.
    func lock(_ device: DeviceID) async -> Bool {
        let mutex = entries.withLock { entries in
            entries[device, default: Entry()].users += 1
            return entries[device, default: Entry()].mutex
        }
        do throws(CancellationError) {
            try await mutex.lockUnlessCancelled()
            return true
        } catch {
            leave(device)
            return false
        }
    }

    /// Lets the next connection take over.
    func unlock(_ device: DeviceID) {
        entries.withLock { $0[device]?.mutex }?.unlock()
        leave(device)
    }

    private func leave(_ device: DeviceID) {
        entries.withLock { entries in
            guard let users = entries[device]?.users else { return }
            if users > 1 { entries[device]?.users = users - 1 } else { entries[device] = nil }
        }
    }
}
