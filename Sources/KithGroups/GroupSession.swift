import KithIO
public import KithMLS
import Synchronization

/// One group of a client: everything it does with it, one thing after the other.
///
/// Callers are served in the order they came, each to its end, whatever it waits for in between; groups do not wait for
/// each other. Every change is in storage before anything that follows from it leaves: a message before it is sent, an
/// event before it is shown. Killed at any moment, the session goes on from there.
///
///     ours:    stage ──▶ pending ──send──▶ accepted ──▶ next epoch, Welcome sent
///                           │                └─ refused ──▶ as before; the winner comes with the messages
///                           └──discard──▶ as before
///     theirs:  message ──▶ checked ──▶ next epoch, event
public actor GroupSession {
    /// The number of tries of a change when another process is faster.
    private static let attempts = 32

    /// The group's name.
    public nonisolated let groupID: [UInt8]
    package nonisolated let client: GroupClient
    private let executor = GroupExecutor()

    private var group: Group?
    private var version: UInt64?
    private(set) var record = SessionRecord()
    private(set) var outbox: [Outgoing] = []
    private(set) var inbox: [NumberedEvent] = []
    private var isClosed = false
    /// True when what is stored is an old copy, which must not be used.
    private var isRolledBack = false
    /// True while what was stored last must not leave yet.
    private var isUnsettled = false
    /// The messages received since the last synchronisation reported them.
    var fetched = Synchronisation()
    /// A commit to join by that was sent, and not answered.
    var unansweredJoin: ExternalJoin?

    private let lock = AsyncMutex()
    /// Happens when there are more events, or no more; then another takes its place.
    private var news = AsyncEvent()

    /// The executor of the session: a thread of its own, which may wait for the disk.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init(_ groupID: [UInt8], client: GroupClient) {
        self.groupID = groupID
        self.client = client
    }

    var storage: any GroupStorage { client.storage }
    var delivery: any GroupDelivery { client.delivery }
    var now: UInt64 { client.options.now() }

    // MARK: Looking

    /// The current epoch.
    public func epoch() throws(GroupError) -> UInt64 { try look { $0.epoch } }

    /// The state that all members agree on.
    public func context() throws(GroupError) -> GroupContext { try look { $0.context } }

    /// This member's leaf.
    public func leafIndex() throws(GroupError) -> UInt32 { try look { $0.leafIndex } }

    /// The members, by their leaves.
    public func members() throws(GroupError) -> [EpochChange.Member] {
        try look { $0.tree.members.map { EpochChange.Member(leaf: $0.index, node: $0.leaf) } }
    }

    /// The proposals that await a commit.
    public func queuedProposals() throws(GroupError) -> [QueuedProposal] { try look { $0.queuedProposals } }

    /// The own commit that awaits its confirmation.
    public func pendingCommit() throws(GroupError) -> EpochChange? { try look { $0.pendingCommit?.change } }

    /// True once a commit has removed this client.
    public func isRemoved() throws(GroupError) -> Bool { try look { $0.isRemoved } }

    /// A value that two members compare to know that they see the same group.
    public func epochAuthenticator() throws(GroupError) -> [UInt8] { try look { $0.epochAuthenticator } }

    /// A secret for the application, which all members of this epoch can make (RFC 9420 §8.5).
    public func export(label: String, context: [UInt8], count: Int) throws(GroupError) -> StoredBytes {
        try reload()
        switch group {
        case .none: throw .unknownGroup
        case .some(let group):
            do throws(MLSError) {
                return StoredBytes(copying: try group.export(label: label, context: context, count: count).reveal())
            } catch { throw .refused(error) }
        }
    }

    /// Reads a message without using its key up: for a program that only shows it, while another keeps the group.
    ///
    /// Nothing changes here or in storage. Nil for anything but data of the application.
    public func peek(_ message: [UInt8]) throws(GroupError) -> ApplicationMessage? {
        guard let stored = try storing({ () throws(GroupStorageError) in try storage.load(groupID) }) else {
            throw .unknownGroup
        }
        var copy = try storing { () throws(GroupStorageError) in
            try Group.restored(from: stored, configuration: client.options.configuration)
        }
        do throws(MLSError) {
            guard case .application(let data) = try copy.process(MLSMessage(message), at: now) else { return nil }
            return data
        } catch { throw .refused(error) }
    }

    /// The newest state that is known of the group, and whether this client is out of it.
    func lastKnown() throws(GroupError) -> (context: GroupContext, isRemoved: Bool) {
        try look { ($0.context, $0.isRemoved) }
    }

    private func look<Value>(_ body: (borrowing Group) -> Value) throws(GroupError) -> Value {
        try reload()
        switch group {
        case .none: throw .unknownGroup
        case .some(let group): return body(group)
        }
    }

    /// Makes a group that comes from this one.
    func found(_ body: (borrowing Group) throws(MLSError) -> GroupFounding) throws(GroupError) -> GroupFounding {
        try reload()
        switch group {
        case .none: throw .unknownGroup
        case .some(let group): do throws(MLSError) { return try body(group) } catch { throw .refused(error) }
        }
    }

    // MARK: Changing

    /// The additions of a change to the session, besides the group's own rows.
    struct Draft {
        var record: SessionRecord
        var sent: [Outgoing] = []
        var removedOutgoing: Set<UInt64> = []
        var events: [NumberedEvent] = []
        var taken: [StorageItem.Key] = []

        mutating func send(_ kind: Outgoing.Kind, _ bytes: [UInt8]) {
            sent.append(Outgoing(number: record.nextOutgoing, kind: kind, bytes: bytes))
            record.nextOutgoing += 1
        }

        /// Replaces a message that waits, at its place.
        mutating func rewrite(_ outgoing: Outgoing, _ bytes: [UInt8]) {
            var outgoing = outgoing
            outgoing.bytes = bytes
            sent.append(outgoing)
        }

        /// Gives the application what an old copy says is still to be sent: it may have been since, as the numbers that
        /// follow may have been given to other things.
        mutating func giveBack(_ outbox: [Outgoing]) {
            record.nextOutgoing &+= 1 << 32
            record.nextEvent &+= 1 << 32
            removedOutgoing = Set(outbox.map(\.number))
            for case .data(let data, let authenticated) in outbox.map(\.kind) {
                notify(.unsent(data, authenticatedData: authenticated))
            }
        }

        mutating func notify(_ event: GroupEvent) {
            events.append(NumberedEvent(number: record.nextEvent, event: event))
            record.nextEvent += 1
        }
    }

    /// Changes the group and the session in one write; when another process was faster, again with what it left.
    ///
    /// A refusal of the engine changes nothing and writes nothing.
    func change<Value>(
        _ body: (inout Group, inout Draft) throws(MLSError) -> Value
    ) throws(GroupError) -> Value {
        for _ in 0..<Self.attempts {
            try reload()
            if let value = try attempt(body) { return value }
        }
        throw .contended
    }

    /// Nil when another process was faster.
    private func attempt<Value>(
        _ body: (inout Group, inout Draft) throws(MLSError) -> Value
    ) throws(GroupError) -> Value? {
        guard var current = group.take() else { throw .unknownGroup }
        var draft = Draft(record: record)
        let value: Value
        do throws(MLSError) { value = try body(&current, &draft) } catch {
            // One operation that fails leaves the group as it was. Of several the first may have changed it: then it is
            // read again from storage.
            if current.takeChanges().isEmpty { group = consume current } else { version = nil }
            throw .refused(error)
        }
        var changes = StorageChanges(rows(current.takeChanges(), draft))
        changes.taken = draft.taken
        guard !changes.isEmpty else {
            group = consume current
            record.cursor = draft.record.cursor
            return value
        }
        do throws(GroupStorageError) { try write(changes) } catch {
            version = nil
            if error == .conflict { return nil }
            throw .storage(error)
        }
        group = consume current
        version = changes.groups.first?.nextVersion
        apply(draft)
        return value
    }

    /// Writes changes; what follows from them waits where the storage says so.
    private func write(_ changes: StorageChanges) throws(GroupStorageError) {
        do throws(GroupStorageError) {
            try storage.commit(changes)
            isUnsettled = false
        } catch {
            guard case .unsettled = error else { throw error }
            isUnsettled = true
        }
    }

    /// Makes sure that what was stored may leave.
    func settle() throws(GroupError) {
        guard isUnsettled else { return }
        _ = try storing { () throws(GroupStorageError) in try storage.maintain(limit: 0) }
        isUnsettled = false
    }

    private func rows(_ changes: GroupChanges, _ draft: Draft) -> GroupChanges {
        var changes = changes
        changes.expectedVersion = version
        changes.rows += draft.sent.filter { !draft.removedOutgoing.contains($0.number) }.map(\.row)
        changes.removed += draft.removedOutgoing.sorted().map { GroupRow.Key(.outbox, number: $0) }
        changes.rows += draft.events.map(\.row)
        // Being further in the order alone is written with the next change: until then the same is looked at again.
        var before = record
        before.cursor = draft.record.cursor
        if draft.record != before || (draft.record != record && !changes.isEmpty) {
            changes.rows.append(draft.record.row)
        }
        return changes
    }

    private func apply(_ draft: Draft) {
        record = draft.record
        for outgoing in draft.sent {
            if let index = outbox.firstIndex(where: { $0.number == outgoing.number }) {
                outbox[index] = outgoing
            } else {
                outbox.append(outgoing)
            }
        }
        outbox.removeAll { draft.removedOutgoing.contains($0.number) }
        inbox += draft.events
        if !draft.events.isEmpty { wake() }
    }

    /// Notes that a message was looked at and changed nothing.
    func pass(_ position: UInt64) { record.cursor = max(record.cursor, position + 1) }

    /// Makes sure that what is in memory is what is in storage.
    func reload() throws(GroupError) {
        guard !isClosed else { throw .closed }
        let stored = try storing { () throws(GroupStorageError) in try storage.version(of: groupID) }
        if let version, stored == version, group != nil { return }
        group = nil
        version = nil
        guard stored != nil, let rows = try storing({ () throws(GroupStorageError) in try storage.load(groupID) })
        else {
            throw .unknownGroup
        }
        var record = SessionRecord()
        if let row = rows.rows(.session).first { record = try SessionRecord(row) }
        var outbox: [Outgoing] = []
        for row in rows.rows(.outbox) { outbox.append(try Outgoing(row)) }
        var inbox: [NumberedEvent] = []
        for row in rows.rows(.inbox) { inbox.append(try NumberedEvent(row)) }
        // Before the group itself: one that cannot be opened can be joined anew, and what waits stays.
        record.cursor = max(record.cursor, self.record.cursor)
        self.record = record
        self.outbox = outbox
        self.inbox = inbox
        isRolledBack = rows.isRolledBack
        guard !isRolledBack else { throw .storage(.rolledBack) }
        group = try storing { () throws(GroupStorageError) in
            try Group.restored(from: rows, configuration: client.options.configuration)
        }
        version = rows.version
        if !inbox.isEmpty { wake() }
    }

    /// The part of a group that one which was made or joined takes the place of.
    enum Replaced {
        case nothing
        /// What is left of an earlier membership; what waits stays.
        case membership
        /// Rows that cannot be read, with all that waits.
        case everything
    }

    /// Writes a group that was made or joined just now.
    func begin(
        _ fresh: consuming Group, replacing: Replaced, taken: [StorageItem.Key] = [], added: [StorageItem] = [],
        publishes: Bool
    ) throws(GroupError) {
        guard !isClosed else { throw .closed }
        var fresh = fresh
        // Another process may have gone on meanwhile.
        if replacing == .membership { try? reload() }
        var draft = Draft(record: replacing == .membership ? record : SessionRecord())
        if replacing == .membership {
            // What was said and not delivered is still to be, and who was added waits for the Welcome.
            draft.removedOutgoing = Set(outbox.filter { $0.kind == .commit || $0.kind == .proposal }.map(\.number))
            if isRolledBack { draft.giveBack(outbox) }
        }
        draft.record.firstEpoch = fresh.epoch
        draft.record.needsRejoin = false
        draft.record.publishes = publishes
        draft.notify(.joined(epoch: fresh.epoch))
        let stored = try storing { () throws(GroupStorageError) in try storage.version(of: groupID) }
        version = replacing == .nothing ? nil : stored
        var changes = StorageChanges(rows(fresh.takeChanges(), draft))
        changes.groups[0].replacesState = stored != nil && replacing != .everything
        changes.groups[0].deletesGroup = stored != nil && replacing == .everything
        changes.taken = taken
        changes.added = added
        do throws(GroupStorageError) { try write(changes) } catch {
            version = nil
            throw error == .conflict ? .refused(.groupAlreadyKnown) : .storage(error)
        }
        version = changes.groups[0].nextVersion
        group = consume fresh
        isRolledBack = false
        if replacing == .everything { (outbox, inbox) = ([], []) }
        apply(draft)
    }

    func storing<Value: ~Copyable>(
        _ body: () throws(GroupStorageError) -> Value
    ) throws(GroupError) -> Value {
        do throws(GroupStorageError) { return try body() } catch { throw .storage(error) }
    }

    // MARK: One after the other

    /// Waits for those who came before, and keeps others out to the end.
    func exclusively<Value>(
        _ body: (isolated GroupSession) async throws(GroupError) -> Value
    ) async throws(GroupError) -> Value {
        await lock.lock()
        defer { lock.unlock() }
        return try await body(self)
    }

    /// Ends the session after what it is doing; every later call throws ``GroupError/closed``.
    public func close() async {
        // The only error there could be is that it is closed already.
        try? await exclusively { session throws(GroupError) in
            session.isClosed = true
            session.group = nil
            session.wake()
        }
    }

    /// Deletes the group here, with everything that is kept of it; its members are not notified.
    public func forget() async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            try session.delete()
            session.isClosed = true
            session.wake()
        }
        client.dropped(groupID)
    }

    /// Deletes what is stored, whether it can be read or not.
    func delete() throws(GroupError) {
        guard !isClosed else { throw .closed }
        guard let stored = try storing({ () throws(GroupStorageError) in try storage.version(of: groupID) }) else {
            throw .unknownGroup
        }
        var changes = GroupChanges(groupID, expectedVersion: stored)
        changes.deletesGroup = true
        try storing { () throws(GroupStorageError) in try write(StorageChanges(changes)) }
        (version, record, outbox, inbox) = (nil, SessionRecord(), [], [])
        group = nil
    }

    // MARK: Events

    /// The events of the group, beginning with those not taken yet; ``GroupClient/events`` has those of all groups.
    ///
    /// An event is taken, and will not come again, when the next one is asked for. Killed before that, the program gets it
    /// again with the same ``NumberedEvent/number``.
    public nonisolated var events: GroupEvents { GroupEvents(session: self) }

    /// The events that were not taken yet.
    public func waitingEvents() throws(GroupError) -> [NumberedEvent] {
        try reload()
        return inbox
    }

    /// Takes all events up to a number: they will not come again.
    public func acknowledge(through number: UInt64) async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            for _ in 0..<Self.attempts {
                try session.reload()
                let taken = session.inbox.filter { $0.number <= number }
                guard !taken.isEmpty else { return }
                var changes = GroupChanges(session.groupID, expectedVersion: session.version)
                changes.removed = taken.map { GroupRow.Key(.inbox, number: $0.number) }
                do throws(GroupStorageError) {
                    try session.write(StorageChanges(changes))
                } catch {
                    session.version = nil
                    if error == .conflict { continue }
                    throw .storage(error)
                }
                session.version = changes.nextVersion
                session.inbox.removeAll { $0.number <= number }
                return
            }
            throw .contended
        }
    }

    /// The first event beyond a number, as soon as there is one; nil when the session or the task ends.
    func nextEvent(after number: UInt64?) async -> NumberedEvent? {
        while !isClosed, !Task.isCancelled {
            if let event = inbox.first(where: { event in number.map { event.number > $0 } ?? true }) { return event }
            // Ends early only when the task is cancelled, which is looked at next.
            await news.wait()
        }
        return nil
    }

    private func wake() {
        news.happen()
        news = AsyncEvent()
        client.news.withLock { $0.note(groupID) }
    }
}

/// The events of a group, one by one.
public struct GroupEvents: AsyncSequence, Sendable {
    let session: GroupSession

    /// Begins with the first event that was not taken.
    public func makeAsyncIterator() -> Iterator { Iterator(session: session) }

    /// Walks along a group's events.
    public struct Iterator: AsyncIteratorProtocol {
        let session: GroupSession
        private var last: UInt64?

        init(session: GroupSession) { self.session = session }

        /// Takes the event before for good and gives the next one; nil when the session is closed or the task cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(GroupError) -> NumberedEvent? {
            if let last {
                do throws(GroupError) { try await session.acknowledge(through: last) } catch {
                    if error == .closed { return nil }
                    throw error
                }
            }
            let event = await session.nextEvent(after: last)
            last = event?.number ?? last
            return event
        }
    }
}
