public import Synchronization

/// Suspended tasks in the order in which they came, each with what it asks for; part of the locked state of what they wait
/// for.
///
/// Like the other generic types of this module it is inlinable: a queue of bytes on the path of a copy is then made for its
/// element where it is used, and asks for no metadata while it runs.
@usableFromInline struct WaitList<Request: Sendable, Answer: Sendable>: Sendable {
    /// A suspended task.
    @usableFromInline struct Entry: Sendable {
        @usableFromInline let request: Request
        @usableFromInline let waiter: Waiter<Answer>

        @inlinable init(request: Request, waiter: Waiter<Answer>) {
            self.request = request
            self.waiter = waiter
        }
    }

    @usableFromInline var places: [(ticket: UInt64, entry: Entry?)] = []
    /// The first place where a task may still wait.
    @usableFromInline var head = 0
    @usableFromInline var lastTicket: UInt64 = 0
    /// The number of tasks that wait.
    @usableFromInline var count = 0

    @inlinable init() {}

    @inlinable var isEmpty: Bool { count == 0 }

    /// A place behind all there have been.
    @inlinable mutating func makeTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    /// Keeps a task at its place.
    @inlinable mutating func append(_ entry: Entry, at ticket: UInt64) {
        var index = places.count
        // Tickets are drawn before the task is suspended, so a later one may come first.
        while index > head, places[index - 1].ticket > ticket { index -= 1 }
        places.insert((ticket, entry), at: index)
        count += 1
    }

    /// The task that came first, which waits here no longer.
    @inlinable mutating func popFirst() -> Entry? {
        if isEmpty { return nil }
        while head < places.count {
            let entry = places[head].entry.take()
            head += 1
            guard let entry else { continue }
            count -= 1
            compact()
            return entry
        }
        compact()
        return nil
    }

    /// The task at a place, which waits here no longer; `nil` when it does not, or not yet.
    @inlinable mutating func remove(_ ticket: UInt64) -> Entry? {
        var (low, high) = (head, places.count)
        while low < high {
            let middle = low + (high - low) / 2
            if places[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        guard low < places.count, places[low].ticket == ticket, let entry = places[low].entry.take() else { return nil }
        count -= 1
        compact()
        return entry
    }

    /// All of them, in their order; nobody waits here any longer.
    @inlinable mutating func removeAll() -> [Entry] {
        defer {
            (places, head, count) = ([], 0, 0)
        }
        return places[head...].compactMap { $0.entry }
    }

    /// Drops the places nobody waits at, when they are more than half.
    @inlinable mutating func compact() {
        guard places.count >= 16, count * 2 < places.count else {
            if count == 0 {
                places.removeAll(keepingCapacity: true)
                head = 0
            }
            return
        }
        places.removeAll { $0.entry == nil }
        head = 0
    }
}

extension Mutex where Value: Sendable {
    /// Waits in a list of the locked state, unless there is an answer already.
    ///
    /// - Parameters:
    ///   - list: Hands the list of the state in which the task waits, behind those who came before, to what is to be done
    ///     with it: `{ $1(&$0.waiting) }`. A key path to a member of a generic type would be made anew, by name, in each
    ///     call, for several microseconds.
    ///   - request: What it asks for, for whoever answers.
    ///   - cancelled: The answer when the task is cancelled before another comes; `nil` for a wait that goes on then.
    ///   - attempt: Looks for an answer, under the lock; called once or twice.
    /// - Returns: the answer of `attempt`, of whoever resumed the task, or `cancelled`.
    @inlinable func wait<Request: Sendable, Answer: Sendable>(
        in list: @Sendable (inout Value, (inout WaitList<Request, Answer>) -> Void) -> Void, asking request: Request,
        cancelled: Answer?, unless attempt: (inout Value) -> Answer?
    ) async -> Answer {
        let (answer, ticket) = withLock { state -> (Answer?, UInt64) in
            if let answer = attempt(&state) { return (answer, 0) }
            var ticket: UInt64 = 0
            list(&state) { ticket = $0.makeTicket() }
            return (nil, ticket)
        }
        if let answer { return answer }
        return await suspend { waiter in
            withLock { state in
                if let answer = attempt(&state) { return answer }
                if let cancelled, Task.isCancelled { return cancelled }
                list(&state) { $0.append(.init(request: request, waiter: waiter), at: ticket) }
                return nil
            }
        } onCancel: {
            guard let cancelled else { return }
            let entry = withLock { state in
                var entry: WaitList<Request, Answer>.Entry?
                list(&state) { entry = $0.remove(ticket) }
                return entry
            }
            entry?.waiter.resume(returning: cancelled)
        }
    }

    /// Waits for whoever changes the locked state and then resumes the waiter in a slot of it, or until the task is
    /// cancelled.
    ///
    /// The caller looks at the state again afterwards, and asks its task. One task at a time waits in a slot. Whoever changes
    /// the state takes the waiter out under the lock (`state.waiter.take()`) and resumes it outside.
    ///
    /// - Parameters:
    ///   - slot: Hands the slot where the waiter is kept to what is to be done with it: `{ $1(&$0.waiter) }`. A key path
    ///     would be followed by the runtime in each call.
    ///   - isReady: Under the lock, tells that there is nothing to wait for.
    @inlinable package func wait(
        in slot: @Sendable (inout Value, (inout Waiter<Void>?) -> Void) -> Void,
        until isReady: (borrowing Value) -> Bool
    ) async {
        await suspend { waiter in
            withLock { state -> Void? in
                if isReady(state) || Task.isCancelled { return () }
                slot(&state) {
                    precondition($0 == nil, "two tasks wait for what one is to have")
                    $0 = waiter
                }
                return nil
            }
        } onCancel: {
            let waiter = withLock { state in
                var waiter: Waiter<Void>?
                slot(&state) { waiter = $0.take() }
                return waiter
            }
            waiter?.resume()
        }
    }
}
