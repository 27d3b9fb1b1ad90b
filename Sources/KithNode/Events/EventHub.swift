package import KithAPI
import KithIO
public import KithIdentity
package import KithWire
import Synchronization

/// The topics of a device: who subscribes to what, what is retained, and the numbers of what is published.
///
/// It outlives the node: a device that stops and runs again keeps its subscriptions and its retained events.
///
/// A publication is numbered and put into every mailbox in one step, so that all subscribers get the events of a device in
/// one order; nobody waits for a subscriber.
public final class EventHub: Sendable {
    /// The device.
    public let publisher: DeviceID
    /// The time at which it began to count, in milliseconds since 1970.
    public let epoch: UInt64

    let clock: any Ticker
    /// The time in milliseconds since 1970.
    let now: @Sendable () -> Int64
    let timers: TimerQueue
    private let state: Mutex<State>

    /// The most subscriptions at once.
    static let subscriptionLimit = 100_000

    private struct State {
        var subscribers = TopicTree<Subscriber>()
        /// The patterns of other devices, each with the device that wants it.
        var followed = TopicTree<Follower>()
        var followerCount = 0
        var retained = RetainedEvents()
        /// Kept from the moment another device first follows.
        var history: EventHistory?
        /// The device's own events of the topics that are remembered, from the moment somebody asked for that.
        var remembered: EventHistory?
        var sequence: UInt64 = 0
        var lastSubscriber: UInt64 = 0
        /// The patterns wanted of other devices, and by how many subscriptions.
        var wanted: [Want: Int] = [:]
        /// Those that are told when they change.
        var observers: [UInt64: @Sendable () -> Void] = [:]
        /// The last event received of each device.
        var positions: [DeviceID: Events.Follow.Position] = [:]
        var expiry: (ticket: TimerQueue.Ticket, time: ContinuousClock.Instant)?
        var outbox: Outbox?
        /// True while no timer may run.
        var isAsleep = false
    }

    /// A pattern wanted of other devices.
    struct Want: Hashable {
        let pattern: TopicPath
        /// True when it is wanted of those that hold no grant here, too.
        let isOfAll: Bool
    }

    /// A subscription, as the hub sees it.
    final class Subscriber: Sendable {
        let number: UInt64
        let pattern: TopicPath
        let publishers: Events.Publishers
        let lookBack: LookBack?
        let began: ContinuousClock.Instant
        let box: EventBox
        /// The epochs of other devices whose retained events it has asked for.
        let asked = Locked<[DeviceID: UInt64]>([:])

        init(
            _ number: UInt64, _ pattern: TopicPath, _ options: SubscriptionOptions, at now: ContinuousClock.Instant
        ) {
            self.number = number
            self.pattern = pattern
            publishers = options.from
            lookBack = options.lookBack.map { LookBack(age: $0, perTopic: options.retainedPerTopic) }
            began = now
            box = EventBox(capacity: options.buffer, overflow: options.overflow)
        }
    }

    /// The retained events a subscription wants first.
    struct LookBack: Hashable {
        let age: Duration
        let perTopic: Int
    }

    /// The number of an event, and how far it went.
    package struct Publication: Hashable, Sendable {
        /// The number.
        package var sequence: UInt64
        /// The subscribers here.
        package var subscribers: Int
        /// The other devices it goes to now.
        package var devices: Int
    }

    /// Makes a hub without subscriptions.
    ///
    /// `now` is the time in milliseconds since 1970.
    package init(
        publisher: DeviceID, clock: any Ticker = ContinuousClock(), now: @escaping @Sendable () -> Int64
    ) {
        self.publisher = publisher
        self.clock = clock
        self.now = now
        epoch = UInt64(max(1, now()))
        timers = TimerQueue(on: clock)
        state = Mutex(State())
    }

    // MARK: - Publishing

    /// Publishes to the subscribers here, and to the devices that follow.
    ///
    /// `value` is the message itself, for subscribers of its very type, and `sender` the device that asked for it. `own`
    /// is for what the device itself publishes, under topics that begin with `$`; they stay here.
    ///
    /// - Returns: the event's number, and how far it went.
    /// - Throws: `KithError` `.invalid` for a pattern, `.denied` for a topic that begins with `$`.
    @discardableResult
    package func publish(
        _ message: Events.Message, value: (any Sendable)? = nil, to topic: TopicPath,
        options: PublishOptions = PublishOptions(), sender: DeviceID? = nil, isOwn: Bool = false,
        as kind: OwnEvent = .passing
    ) throws(KithError) -> Publication {
        guard topic.isConcrete else {
            throw KithError(.invalid, "Events are published to a topic; \(topic.text) is a pattern.")
        }
        guard isOwn || !topic.isReserved else {
            throw KithError(.denied, "Topics that begin with “$” are the device's own: nobody else publishes there.")
        }
        let isLocal = options.isLocal || topic.isReserved
        let kept = options.isGuaranteed && !isLocal ? try keep(message, for: topic, sender: sender) : nil
        // As little as can be under the lock.
        let (text, time) = (topic.text, now())
        var waiters: [Waiter<Void>] = []
        let publication = state.withLock { state -> Publication in
            if kept == nil { state.sequence += 1 }
            let isRemembered = kind == .remembered && state.remembered != nil
            if kept == nil, options.retain == nil, state.subscribers.isEmpty, !isRemembered,
                isLocal || state.history == nil
            {
                return Publication(sequence: state.sequence, subscribers: 0, devices: 0)  // nobody is to get it
            }
            let event = SharedEvent(
                kept?.event
                    ?? Events.Event(
                        topic: text, message: message, publisher: publisher, epoch: epoch,
                        sequence: state.sequence, time: time, sender: sender),
                topic: topic, value: value, isLocal: isLocal, isState: kind == .state)
            if isRemembered { state.remembered?.append(event) }
            if let age = options.retain {
                let time = clock.now
                state.retained.retain(event, until: time.advanced(by: age), at: time)
                schedule(&state)
            }
            var publication = Publication(
                sequence: event.event.sequence, subscribers: 0, devices: kept?.devices ?? 0)
            state.subscribers.visit(topic) { entry in
                guard entry.path.includes(topic) else { return }
                publication.subscribers += 1
                if let waiter = entry.value.box.put(event) { waiters.append(waiter) }
            }
            // A guaranteed event comes out of the outbox.
            guard !event.isLocal, kept == nil else { return publication }
            state.history?.append(event)
            state.followed.visit(topic) { entry in
                let (isNew, waiter) = entry.value.offer(event)
                if isNew { publication.devices += 1 }
                if let waiter { waiters.append(waiter) }
            }
            return publication
        }
        for waiter in waiters { waiter.resume() }
        if kept != nil { outbox?.wake() }
        return publication
    }

    /// What becomes of an event of the device itself, beside its delivery.
    package enum OwnEvent: Hashable, Sendable {
        /// Nothing.
        case passing
        /// It is kept for those who come back and have missed it, see ``remember()``.
        case remembered
        /// It replaces the one before of its topic, for whoever has not taken that yet.
        case state
    }

    /// Keeps the events that are to be remembered from now on: the last 1,024, of 4 MiB at most.
    package func remember() {
        state.withLock { state in
            if state.remembered == nil { state.remembered = EventHistory(after: state.sequence) }
        }
    }

    /// Subscribes to topics of the device itself, with the remembered events behind `position` first, or a gap where they
    /// are not all there.
    package func follow<Message: Decodable & Sendable>(
        _ pattern: TopicPath, as type: Message.Type, buffer: Int, after position: Events.Follow.Position?
    ) throws(KithError) -> Subscription<Message> {
        var options = SubscriptionOptions(from: .here)
        // What is caught up with comes all at once.
        options.buffer = position == nil ? buffer : max(buffer, EventHistory.limit)
        return try Subscription(self, to: pattern, options, after: position)
    }

    /// Numbers a guaranteed event and writes it to the disk, for each device that may have it.
    private func keep(
        _ message: Events.Message, for topic: TopicPath, sender: DeviceID?
    ) throws(KithError) -> (event: Events.Event, devices: Int) {
        guard let outbox else {
            throw KithError(
                .closed, "A guaranteed event is kept on the disk, and the device is not running: start it first.")
        }
        let devices = try outbox.devices(for: topic)
        let sequence = state.withLock { state in
            state.sequence += 1
            return state.sequence
        }
        let event = Events.Event(
            topic: topic.text, message: message, publisher: publisher, epoch: epoch, sequence: sequence, time: now(),
            sender: sender)
        try outbox.add(event, for: devices)
        return (event, devices.count)
    }

    /// The events that wait for devices to take them; `nil` while the device has no disk.
    var outbox: Outbox? { state.withLock { $0.outbox } }

    /// Keeps guaranteed events there from now on; `nil`: there are none, because the disk is about to go.
    func use(_ outbox: Outbox?) { state.withLock { $0.outbox = outbox } }

    /// Keeps no guaranteed events from now on.
    package func closeOutbox() { use(nil) }

    /// Takes an event of another device to the subscribers that want it.
    ///
    /// `isGranted` tells whether the device may publish that here; `lookBack` is the subscription that asked for the
    /// device's retained events, and nobody else gets it; up to `position` nothing of the device is missing now.
    func receive(
        _ event: SharedEvent, isGranted: Bool, lookBack: UInt64? = nil, receipt: EventReceipt? = nil,
        position: Events.Follow.Position? = nil
    ) {
        var waiters: [Waiter<Void>] = []
        let count = state.withLock { state in
            if let position { state.positions[event.event.publisher] = position }
            var count = 0
            guard !event.topic.isReserved else { return count }
            state.subscribers.visit(event.topic) { entry in
                let subscriber = entry.value
                guard subscriber.publishers == .paired || subscriber.publishers == .granted && isGranted else { return }
                guard lookBack == nil || lookBack == subscriber.number else { return }
                count += 1
                if let waiter = subscriber.box.put(event, lookBack: lookBack, receipt: receipt) {
                    waiters.append(waiter)
                }
            }
            return count
        }
        if count == 0 { receipt?.fail() }
        for waiter in waiters { waiter.resume() }
    }

    /// Says to all who may want events of a device that some are missing.
    func receive(_ gap: Events.Gap) {
        let boxes = state.withLock { state in
            state.subscribers.all.filter { $0.publishers != .here && !$0.pattern.isReserved }.map(\.box)
        }
        for box in boxes { box.put(gap) }
    }

    /// Drops the retained events of the topics that `pattern` stands for; returns how many.
    package func clearRetained(_ pattern: TopicPath) -> Int {
        state.withLock { $0.retained.removeAll(for: pattern) }
    }

    // MARK: - Subscribing

    /// Adds a subscription; ``remove(_:)`` ends it.
    func subscribe(
        to pattern: TopicPath, _ options: SubscriptionOptions, after position: Events.Follow.Position? = nil
    ) throws(KithError) -> (id: SubscriberID, subscriber: Subscriber, sequence: UInt64) {
        let (result, isNew) = try state.withLock {
            state throws(KithError) -> ((id: SubscriberID, subscriber: Subscriber, sequence: UInt64), Bool) in
            guard state.subscribers.count < Self.subscriptionLimit else {
                throw KithError(.exhausted, "There are \(Self.subscriptionLimit) subscriptions already.")
            }
            state.lastSubscriber += 1
            let subscriber = Subscriber(state.lastSubscriber, pattern, options, at: clock.now)
            if let lookBack = subscriber.lookBack {
                let past = state.retained.events(
                    for: pattern, within: lookBack.age, perTopic: lookBack.perTopic, at: clock.now)
                // Nobody waits yet.
                for event in past { _ = subscriber.box.put(event, lookBack: subscriber.number) }
            }
            if let position { catchUp(subscriber, after: position, in: state) }
            let id = SubscriberID(id: state.subscribers.insert(subscriber, at: pattern))
            var isNew = subscriber.lookBack != nil
            if let want = Self.want(subscriber) {
                isNew = isNew || state.wanted[want] == nil
                state.wanted[want, default: 0] += 1
            } else {
                isNew = false
            }
            return ((id, subscriber, state.sequence), isNew)
        }
        if isNew { wakeFollowers() }
        return result
    }

    /// Gives a new subscriber what it missed, as far as it is remembered.
    private func catchUp(_ subscriber: Subscriber, after position: Events.Follow.Position, in state: State) {
        // Nobody waits yet.
        guard position.epoch == epoch, position.sequence <= state.sequence else {
            return subscriber.box.put(Events.Gap(publisher: publisher, reason: .restarted))
        }
        guard let (missed, isComplete) = state.remembered?.events(after: position.sequence) else {
            return subscriber.box.put(Events.Gap(publisher: publisher, reason: .disconnected))
        }
        if !isComplete { subscriber.box.put(Events.Gap(publisher: publisher, reason: .disconnected)) }
        for event in missed where subscriber.pattern.matches(event.topic) && subscriber.pattern.includes(event.topic) {
            _ = subscriber.box.put(event)
        }
    }

    /// Ends a subscription; again does nothing.
    func remove(_ id: SubscriberID) {
        let (subscriber, isLast) = state.withLock { state -> (Subscriber?, Bool) in
            guard let subscriber = state.subscribers.remove(id.id) else { return (nil, false) }
            guard let want = Self.want(subscriber), let count = state.wanted[want] else { return (subscriber, false) }
            state.wanted[want] = count > 1 ? count - 1 : nil
            return (subscriber, count == 1)
        }
        subscriber?.box.end()
        if isLast { wakeFollowers() }
    }

    /// Names a subscription.
    struct SubscriberID: Sendable {
        fileprivate let id: TopicTree<Subscriber>.ID
    }

    private static func want(_ subscriber: Subscriber) -> Want? {
        guard subscriber.publishers != .here, !subscriber.pattern.isReserved else { return nil }
        return Want(pattern: subscriber.pattern, isOfAll: subscriber.publishers == .paired)
    }

    /// The number of subscriptions, of nodes in their tree, of patterns wanted elsewhere and of retained events.
    package var counts: (subscriptions: Int, nodes: Int, wanted: Int, retained: Int) {
        state.withLock {
            ($0.subscribers.count, $0.subscribers.nodeCount, $0.wanted.count, $0.retained.count)
        }
    }

    // MARK: - Time

    /// Ends the retained events whose time is up, without anybody publishing or asking.
    private func schedule(_ state: inout State) {
        guard !state.isAsleep, let next = state.retained.nextEnd else { return }
        if let expiry = state.expiry {
            guard next < expiry.time else { return }
            timers.cancel(expiry.ticket)
        }
        let ticket = timers.schedule(at: next) { [weak self] in self?.expire() }
        state.expiry = (ticket, next)
    }

    private func expire() {
        state.withLock { state in
            state.expiry = nil
            state.retained.expire(at: clock.now)
            schedule(&state)
        }
    }

    /// Keeps no timer from now on, because the device stops.
    ///
    /// What is over is not delivered all the same.
    package func sleep() {
        state.withLock { state in
            state.isAsleep = true
            state.expiry = nil
        }
        timers.removeAll()
    }

    /// Ends what was over meanwhile, and keeps timers again.
    package func wake() {
        state.withLock { state in
            state.isAsleep = false
            state.retained.expire(at: clock.now)
            schedule(&state)
        }
    }

    // MARK: - Other devices that follow this one

    /// The last number.
    package var sequence: UInt64 { state.withLock { $0.sequence } }

    /// Adds a device that follows, and sends it again what it missed.
    func add(_ follower: Follower, resume: Events.Follow.Position?) -> Events.Follow.Position {
        state.withLock { state in
            state.followerCount += 1
            if state.history == nil { state.history = EventHistory(after: state.sequence) }
            for pattern in follower.patterns { insert(pattern, for: follower, into: &state) }
            guard let resume else { return Events.Follow.Position(epoch: epoch, sequence: state.sequence) }
            if resume.epoch != epoch {
                follower.box.put(Events.Gap(publisher: publisher, reason: .restarted))
            } else if let (missed, isComplete) = state.history?.events(after: resume.sequence) {
                if !isComplete { follower.box.put(Events.Gap(publisher: publisher, reason: .disconnected)) }
                // Nobody waits yet.
                for event in missed where follower.wants(event.topic) { _ = follower.offer(event) }
            }
            return Events.Follow.Position(epoch: epoch, sequence: state.sequence)
        }
    }

    /// Sends a device what it wants from now on.
    func add(_ pattern: TopicPath, for follower: Follower) {
        state.withLock { state in
            guard follower.add(pattern) else { return }
            insert(pattern, for: follower, into: &state)
        }
    }

    private func insert(_ pattern: TopicPath, for follower: Follower, into state: inout State) {
        follower.set(FollowedPattern(id: state.followed.insert(follower, at: pattern)), for: pattern)
    }

    /// Sends a device no more of a pattern.
    func remove(_ pattern: TopicPath, for follower: Follower) {
        state.withLock { state in
            guard let followed = follower.remove(pattern) else { return }
            state.followed.remove(followed.id)
        }
    }

    /// Sends a device nothing more.
    func remove(_ follower: Follower) {
        state.withLock { state in
            for pattern in follower.patterns {
                if let followed = follower.remove(pattern) { state.followed.remove(followed.id) }
            }
            state.followerCount -= 1
        }
        follower.box.end()
    }

    /// Names a pattern of a device that follows.
    struct FollowedPattern: Sendable {
        fileprivate let id: TopicTree<Follower>.ID
    }

    /// Sends a device the retained events it asks for.
    func lookBack(
        _ number: UInt64, _ pattern: TopicPath, within age: Duration, perTopic: Int, for follower: Follower
    ) {
        let waiter = state.withLock { state -> Waiter<Void>? in
            var waiter: Waiter<Void>?
            let past = state.retained.events(for: pattern, within: age, perTopic: perTopic, at: clock.now)
            for event in past where !event.isLocal && follower.mayHave(event.topic) {
                waiter = follower.box.put(event, lookBack: number) ?? waiter
            }
            return waiter
        }
        waiter?.resume()
    }

    /// The number of devices that follow, and of nodes in the tree of their patterns.
    var followerCounts: (devices: Int, nodes: Int) { state.withLock { ($0.followerCount, $0.followed.nodeCount) } }

    // MARK: - Following others

    /// The patterns wanted of a device that holds `grants` here, in their shortest form.
    func wanted(of grants: [Grant]) -> Set<String> {
        let wanted = state.withLock { Array($0.wanted.keys) }
        var patterns: Set<String> = []
        for want in wanted where want.isOfAll || grants.mayCover(want.pattern) {
            patterns.insert(want.pattern.text)
        }
        // So many are one: what nobody wanted is dropped here.
        return patterns.count > Events.Follow.patternLimit ? [">"] : patterns
    }

    /// The retained events that subscriptions want of a device and have not asked it for, each from now on asked for.
    func lookBacks(of device: DeviceID, epoch: UInt64, _ grants: [Grant]) -> [Events.Follow.LookBack] {
        let subscribers = state.withLock { $0.subscribers.all.filter { $0.lookBack != nil } }
        let time = clock.now
        return subscribers.compactMap { subscriber in
            guard let lookBack = subscriber.lookBack, let want = Self.want(subscriber),
                want.isOfAll || grants.mayCover(want.pattern)
            else { return nil }
            var asked = subscriber.asked.value
            guard asked[device] != epoch else { return nil }
            asked[device] = epoch
            subscriber.asked.set(asked)
            let age = lookBack.age + (time - subscriber.began)
            return Events.Follow.LookBack(
                number: subscriber.number, pattern: subscriber.pattern.text, milliseconds: age.milliseconds,
                perTopic: UInt64(max(0, lookBack.perTopic)))
        }
    }

    /// The last event received of a device.
    func position(of device: DeviceID) -> Events.Follow.Position? { state.withLock { $0.positions[device] } }

    /// Notes up to where a device's events were received; `nil` when nothing is wanted of it any more.
    func setPosition(_ position: Events.Follow.Position?, of device: DeviceID) {
        state.withLock { $0.positions[device] = position }
    }

    /// Has `body` called whenever other patterns, or retained events, are wanted, until ``remove(_:)``.
    func observe(_ body: @escaping @Sendable () -> Void) -> ObserverID {
        state.withLock { state in
            state.lastSubscriber += 1
            state.observers[state.lastSubscriber] = body
            return ObserverID(number: state.lastSubscriber)
        }
    }

    /// Calls an observer no more.
    func remove(_ observer: ObserverID) {
        let body = state.withLock { $0.observers.removeValue(forKey: observer.number) }
        _ = body  // what it holds is let go of outside the lock
    }

    /// Names an observer.
    struct ObserverID: Sendable {
        fileprivate let number: UInt64
    }

    /// Has those who follow other devices look again at what is wanted.
    func wakeFollowers() {
        for body in state.withLock({ Array($0.observers.values) }) { body() }
    }
}

extension Duration {
    /// Whole milliseconds, not below zero.
    var milliseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, isTooMuch) = UInt64(seconds).multipliedReportingOverflow(by: 1_000)
        if isTooMuch { return .max }
        return whole.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000_000_000)).partialValue
    }

    /// A number of milliseconds from elsewhere: at most a thousand years.
    init(untrustedMilliseconds count: UInt64) { self = .milliseconds(Int64(min(count, 1 << 45))) }
}

extension [Grant] {
    /// Tells whether some topic that `pattern` stands for may be covered by one of the grants; false when none is.
    func mayCover(_ pattern: TopicPath) -> Bool {
        let fixed = pattern.text.prefix { !"*>{".contains($0) }
        return contains { grant in
            guard case .node(let held) = grant else { return false }
            // `math.*` and `math/*` are the same here.
            let own = held.prefix { !"*>{".contains($0) }.replacing(".", with: "/")
            let other = fixed.replacing(".", with: "/")
            return own.hasPrefix(other) || other.hasPrefix(own)
        }
    }
}
