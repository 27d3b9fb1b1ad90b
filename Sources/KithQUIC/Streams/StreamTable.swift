/// All streams of a connection: their states, both levels of flow control, stream limits, and whose turn it is to send.
///
/// Frames of the peer come in by the `received…` calls, frames to the peer are written straight into a packet by
/// ``writeFrames(into:content:)``, and the connection reports what became of them by ``acknowledged(_:)`` and ``lost(_:)``.
/// Streams lie in one array with a free list; a finished stream's place is used again.
package struct StreamTable: Sendable {
    /// The most streams of one kind, by RFC 9000 §4.6.
    static let largestCount: UInt64 = 1 << 60
    /// The largest offset of a stream.
    static let largestOffset: UInt64 = (1 << 62) - 1

    /// The interval at which streams are checked for memory they do not use.
    static let trimInterval: Int64 = .seconds(1)

    /// The state of one of the two kinds of streams one end opens.
    struct Kind: Sendable {
        /// The number of streams opened.
        var opened: UInt64 = 0
        /// The number of streams that may be opened in all.
        var limit: UInt64 = 0
        /// Theirs: how many are over and done.
        var closed: UInt64 = 0
        /// Ours: the limit at which we last said that it stops us.
        var announcedBlocked: UInt64?
        var isRefused = false
    }

    let isClient: Bool
    private(set) var configuration: StreamConfiguration
    var streams: ContiguousArray<Stream> = []
    var free: [Int] = []
    var slots: [UInt64: Int] = [:]
    var lastID = UInt64.max
    var lastSlot = 0
    var ours = [Kind(), Kind()]
    var theirs = [Kind(), Kind()]
    var peerLimits = PeerStreamLimits()
    var sendWindow = SendWindow(limit: 0)
    var receiveWindow: ReceiveWindow
    /// The connection's limit at which the peer last said that it stops it.
    var peerBlockedAt: UInt64?
    /// The streams of which it said so, with the limit of each; the newest.
    var peerBlockedStreams: [(id: StreamID, limit: UInt64)] = []
    /// The most of them remembered.
    static let maximumPeerBlocked = 32
    var scheduler = StreamScheduler()
    var controlQueue = SlotQueue()
    var waitingForConnection: [Int] = []
    /// Connection-wide frames that wait to be sent.
    var pendingControl: ControlFlags = []
    var events = DrainQueue<StreamEvent>()
    var now = Timestamp.zero
    var rtt: Int64 = .milliseconds(100)
    var lastTrim = Timestamp.zero

    /// The number of written bytes a stream holds until they are acknowledged; to be kept at some windows' worth.
    package var sendCapacity: Int

    package init(_ configuration: StreamConfiguration, isClient: Bool) {
        self.isClient = isClient
        self.configuration = configuration
        sendCapacity = configuration.sendCapacity
        receiveWindow = ReceiveWindow(
            window: configuration.connectionWindow, maximum: configuration.maxConnectionWindow,
            allowance: configuration.unreadAllowance)
        theirs[0].limit = configuration.maxStreamsBidirectional
        theirs[1].limit = configuration.maxStreamsUnidirectional
    }

    /// The number of open streams.
    package var openCount: Int { slots.count }

    /// The number of records and separate runs held, for tests of bounds.
    package var bookkeeping: Int {
        streams.reduce(streams.count) { $0 + $1.send.bookkeeping + $1.receive.bookkeeping }
    }

    /// The next thing the application should know.
    package mutating func nextEvent() -> StreamEvent? { events.next() }

    /// Tells the time and the round trip that windows are tuned by; once for each datagram received.
    package mutating func advance(to now: Timestamp, rtt: Int64) {
        self.now = now
        self.rtt = rtt
        if now - lastTrim > Self.trimInterval { trim() }
    }

    /// Takes back what streams keep that have been quiet for a second or two, so that idle ones stay cheap.
    private mutating func trim() {
        lastTrim = now
        for slot in slots.values {
            if !streams[slot].isBusy {
                streams[slot].send.trim()
                streams[slot].receive.trim()
            }
            streams[slot].isBusy = false
        }
    }

    /// Takes the peer's transport parameters in; streams opened before grow to them.
    package mutating func receivedPeerLimits(_ limits: PeerStreamLimits) {
        peerLimits = limits
        receivedMaxData(limits.maxData)
        receivedMaxStreams(.bidirectional, limits.maxStreamsBidi)
        receivedMaxStreams(.unidirectional, limits.maxStreamsUni)
        for slot in slots.values where streams[slot].sendWindow.raise(to: sendLimit(for: streams[slot].id)) {
            schedule(slot)
        }
    }

    /// Allows the peer what `configuration` says from now on, which is no less than before; streams keep their windows.
    package mutating func raise(to configuration: StreamConfiguration) {
        self.configuration = configuration
        receiveWindow.raise(
            to: configuration.connectionWindow, maximum: configuration.maxConnectionWindow,
            allowance: configuration.unreadAllowance)
        pendingControl.insert(.maxData)
        let wanted = configuration.maxStreamsBidirectional + theirs[0].closed
        guard wanted > theirs[0].limit else { return }
        theirs[0].limit = wanted
        pendingControl.insert(.maxStreamsBidirectional)
    }

    // MARK: - Finding and making

    func index(_ direction: StreamDirection) -> Int { direction == .bidirectional ? 0 : 1 }

    func isOurs(_ id: StreamID) -> Bool { id.isClientInitiated == isClient }

    /// The place of an open stream.
    mutating func slot(_ id: StreamID) -> Int? {
        if id.rawValue == lastID { return lastSlot }
        guard let slot = slots[id.rawValue] else { return nil }
        lastID = id.rawValue
        lastSlot = slot
        return slot
    }

    private func sendLimit(for id: StreamID) -> UInt64 {
        switch (id.direction, isOurs(id)) {
        case (.unidirectional, _): peerLimits.maxStreamDataUni
        case (.bidirectional, true): peerLimits.maxStreamDataBidiRemote
        case (.bidirectional, false): peerLimits.maxStreamDataBidiLocal
        }
    }

    mutating func make(_ id: StreamID) {
        let isOurs = isOurs(id)
        let isBidirectional = id.direction == .bidirectional
        var stream = Stream(
            id: id, canSend: isBidirectional || isOurs, canReceive: isBidirectional || !isOurs,
            sendLimit: sendLimit(for: id),
            window: ReceiveWindow(window: configuration.streamWindow, maximum: configuration.maxStreamWindow))
        stream.send.capacity = sendCapacity
        if let slot = free.popLast() {
            streams[slot] = stream
            slots[id.rawValue] = slot
        } else {
            slots[id.rawValue] = streams.count
            streams.append(stream)
        }
    }

    /// The place of the stream a frame is for, opening it if the peer may; nil when it is over and the frame is late.
    mutating func receiving(_ id: StreamID) throws(StreamViolation) -> Int? {
        if let slot = slot(id) { return slot }
        let kind = index(id.direction)
        if isOurs(id) {
            guard id.index < ours[kind].opened else { throw .streamState }
            return nil
        }
        guard id.index < theirs[kind].limit else { throw .streamLimit }
        guard id.index >= theirs[kind].opened else { return nil }
        // Opening one opens all before it (RFC 9000 §3.2).
        for index in theirs[kind].opened...id.index {
            let opened = StreamID(index: index, isClientInitiated: !isClient, direction: id.direction)
            make(opened)
            events.append(.opened(opened))
        }
        theirs[kind].opened = id.index + 1
        return slot(id)
    }

    /// Forgets a stream whose two halves are done.
    mutating func removeIfOver(_ slot: Int) {
        guard streams[slot].isOver else { return }
        let id = streams[slot].id
        guard slots.removeValue(forKey: id.rawValue) != nil else { return }
        if lastID == id.rawValue { lastID = .max }
        scheduler.remove(slot, in: &streams)
        // Queues that still name the place notice by these flags that it is not theirs any more.
        if streams[slot].isControlQueued { controlQueue.remove(slot) }
        if streams[slot].isWaitingForConnection { waitingForConnection.removeAll { $0 == slot } }
        streams[slot] = Stream(
            id: id, canSend: false, canReceive: false, sendLimit: 0, window: ReceiveWindow(window: 0, maximum: 0))
        free.append(slot)
        guard !isOurs(id) else { return }
        let kind = index(id.direction)
        theirs[kind].closed += 1
        let wanted =
            id.direction == .bidirectional
            ? configuration.maxStreamsBidirectional : configuration.maxStreamsUnidirectional
        // A new limit once half of the places have been freed.
        if theirs[kind].closed + wanted - theirs[kind].limit >= max(1, wanted / 2) {
            theirs[kind].limit = theirs[kind].closed + wanted
            pendingControl.insert(
                id.direction == .bidirectional ? .maxStreamsBidirectional : .maxStreamsUnidirectional)
        }
    }

    // MARK: - Turns

    /// Puts a stream in line if it has something to send.
    mutating func schedule(_ slot: Int) {
        guard !streams[slot].isScheduled, streams[slot].canSendFrame else { return }
        scheduler.append(slot, in: &streams)
    }

    /// Notes that a frame other than STREAM waits.
    mutating func queue(_ frame: Stream.Pending, _ slot: Int) {
        streams[slot].pending.insert(frame)
        guard !streams[slot].isControlQueued else { return }
        streams[slot].isControlQueued = true
        controlQueue.append(slot)
    }
}

/// A first-in first-out line of places in the table.
struct SlotQueue: Sendable {
    private var elements: [Int] = []
    private var head = 0

    var isEmpty: Bool { head == elements.count }
    var first: Int? { isEmpty ? nil : elements[head] }

    mutating func append(_ slot: Int) {
        elements.append(slot)
    }

    mutating func removeFirst() {
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: true)
            head = 0
        }
    }

    /// Takes a place out wherever it stands.
    mutating func remove(_ slot: Int) {
        elements.removeSubrange(0..<head)
        head = 0
        elements.removeAll { $0 == slot }
    }
}
