import KithIO
import Synchronization

/// Something that happened in one of a client's groups.
public struct ClientEvent: Sendable {
    /// The group it happened in: one this client is new to where it is ``GroupEvent/joined(epoch:)``.
    public let group: GroupSession
    /// Rises with every event of that group on this client.
    public let number: UInt64
    /// The event.
    public let event: GroupEvent
}

extension GroupClient {
    /// The events of all groups, beginning with those not taken yet: of those there are, and of those joined later.
    ///
    /// Those of one group come in their order; groups with many leave room for the others. An event is taken, and will not
    /// come again, when the next one is asked for; killed before that, the program gets it again with the same
    /// ``ClientEvent/number``. Ends with ``close()`` or with the task. Meant for one loop at a time, in place of
    /// ``GroupSession/events``.
    ///
    /// ```swift
    /// for try await happened in client.events {
    ///     guard case .message(let message) = happened.event else { continue }
    ///     print(message.senderName ?? "member \(message.sender)", message.data.count, "bytes")
    /// }
    /// ```
    ///
    /// A group that cannot be opened has no events here; ``synchronise()`` says why.
    public var events: ClientEvents { ClientEvents(client: self) }
}

/// The events of all groups of a client, one by one.
public struct ClientEvents: AsyncSequence, Sendable {
    let client: GroupClient

    /// Begins with the first events that were not taken.
    public func makeAsyncIterator() -> Iterator { Iterator(client: client) }

    /// Walks along the events of all groups.
    public struct Iterator: AsyncIteratorProtocol {
        let client: GroupClient
        /// The news that were looked at; nil before all groups were.
        private var seen: UInt64?
        /// The groups that may have events, the one whose turn is next first.
        private var ready: [[UInt8]] = []
        private var given: ClientEvent?

        init(client: GroupClient) { self.client = client }

        /// Takes the event before for good and gives the next one; nil when the client is closed or the task cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(GroupError) -> ClientEvent? {
            try await take()
            while !Task.isCancelled {
                let (news, isClosed) = try lookForNews()
                guard !isClosed else { return nil }
                while let groupID = ready.first {
                    guard let event = try await firstEvent(of: groupID) else {
                        ready.removeFirst()
                        continue
                    }
                    ready.append(ready.removeFirst())
                    given = event
                    return event
                }
                // Ends early only when the task is cancelled, which is looked at next.
                await news.wait()
            }
            return nil
        }

        private mutating func take(isolation actor: isolated (any Actor)? = #isolation) async throws(GroupError) {
            guard let last = given else { return }
            do throws(GroupError) { try await last.group.acknowledge(through: last.number) } catch {
                guard error.isOfLostGroup else { throw error }
            }
            given = nil
        }

        /// Notes which groups have had events since, and gives what happens with the next.
        private mutating func lookForNews() throws(GroupError) -> (next: AsyncEvent, isClosed: Bool) {
            let (count, woken, next, isClosed) = client.news.withLock {
                ($0.count, $0.groups(after: seen ?? 0), $0.next, $0.isClosed)
            }
            let client = client
            let all =
                seen == nil ? try client.storing { () throws(GroupStorageError) in try client.storage.groups() } : []
            seen = count
            let known = Set(ready)
            var added: Set<[UInt8]> = []
            for groupID in all + woken where !known.contains(groupID) && added.insert(groupID).inserted {
                ready.append(groupID)
            }
            return (next, isClosed)
        }

        private func firstEvent(
            of groupID: [UInt8], isolation actor: isolated (any Actor)? = #isolation
        ) async throws(GroupError) -> ClientEvent? {
            do throws(GroupError) {
                guard let group = try client.group(groupID), let first = try await group.waitingEvents().first else {
                    return nil
                }
                return ClientEvent(group: group, number: first.number, event: first.event)
            } catch {
                guard error.isOfLostGroup else { throw error }
                return nil
            }
        }
    }
}

extension GroupError {
    /// True where one group is gone or unreadable, and others need not be.
    fileprivate var isOfLostGroup: Bool {
        switch self {
        case .closed, .unknownGroup, .storage(.corrupt), .storage(.rolledBack), .storage(.laterFormat): true
        default: false
        }
    }
}

/// Which groups of a client have had events, and when, by a count that rises with each time.
struct ClientNews {
    private(set) var count: UInt64 = 0
    private var last: [[UInt8]: UInt64] = [:]
    /// Happens with the next news; then another takes its place.
    private(set) var next = AsyncEvent()
    private(set) var isClosed = false

    /// The groups with news since a count, those with the oldest first.
    func groups(after seen: UInt64) -> [[UInt8]] {
        guard seen < count else { return [] }
        return last.filter { $0.value > seen }.sorted { $0.value < $1.value }.map(\.key)
    }

    /// Notes that a group may have events, or none any more.
    mutating func note(_ groupID: [UInt8]) {
        count += 1
        last[groupID] = count
        next.happen()
        next = AsyncEvent()
    }

    /// Notes that a group is gone.
    mutating func drop(_ groupID: [UInt8]) { last[groupID] = nil }

    /// Notes that there will be no more.
    mutating func close() {
        isClosed = true
        next.happen()
    }
}
