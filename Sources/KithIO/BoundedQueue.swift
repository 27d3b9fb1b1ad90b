public import Synchronization

/// A first-in-first-out queue between tasks that holds at most `capacity` elements.
///
/// Senders wait for room and receivers for elements, each in the order in which they came. A task that is cancelled while it
/// waits has neither sent nor received: nothing is lost and nobody else misses a turn.
@usableFromInline package final class BoundedQueue<Element: Sendable>: Sendable {
    /// Refuses an element after the end.
    @usableFromInline package struct Finished: Error {
        @inlinable init() {}
    }

    @usableFromInline typealias Senders = WaitList<Element, Result<Void, any Error>>
    @usableFromInline typealias Receivers = WaitList<Void, Result<Element?, any Error>>

    @usableFromInline struct State: Sendable {
        @usableFromInline var elements = Ring<Element>()
        @usableFromInline var isFinished = false
        @usableFromInline var failure: (any Error)?
        /// Wait only while the queue is full.
        @usableFromInline var senders = Senders()
        /// Wait only while it is empty.
        @usableFromInline var receivers = Receivers()

        @inlinable init() {}

        /// The next element, and the sender whose element has its place now.
        @inlinable mutating func take() -> (element: Element, sender: Senders.Entry?)? {
            guard let element = elements.popFirst() else { return nil }
            let sender = senders.popFirst()
            if let sender { elements.append(sender.request) }
            return (element, sender)
        }
    }

    @usableFromInline enum Placing {
        case queued
        /// To be handed to a receiver that waits.
        case handed(Receivers.Entry)
        case full
    }

    @usableFromInline let capacity: Int
    @usableFromInline let state = Mutex(State())

    /// Makes a queue that holds `capacity` elements, 1….
    @inlinable package init(capacity: Int) {
        precondition(capacity > 0, "a queue holds something")
        self.capacity = capacity
    }

    /// Waits for room, then queues.
    ///
    /// - Throws: what the queue failed with, ``Finished`` after its end, or `CancellationError` when the task is cancelled
    ///   first; then the element is not queued.
    @inlinable package func send(_ element: Element) async throws {
        try Task.checkCancellation()
        var receiver: Receivers.Entry?
        let result = await state.wait(
            in: { $1(&$0.senders) }, asking: element, cancelled: .failure(CancellationError())
        ) {
            state in
            do {
                switch try place(element, in: &state) {
                case .full: return nil
                case .queued: break
                case .handed(let entry): receiver = entry
                }
                return .success(())
            } catch {
                return .failure(error)
            }
        }
        receiver?.waiter.resume(returning: .success(element))
        try result.get()
    }

    /// Queues at once; false when there is no room, or the queue has ended.
    ///
    /// - Throws: what the queue failed with.
    @inlinable package func offer(_ element: Element) throws -> Bool {
        let placing: Placing
        do {
            placing = try state.withLock { state throws in try place(element, in: &state) }
        } catch is Finished {
            return false
        }
        switch placing {
        case .full: return false
        case .queued: return true
        case .handed(let receiver):
            receiver.waiter.resume(returning: .success(element))
            return true
        }
    }

    /// Queues at once; false when there is no room, or the queue has ended in whatever way.
    @inlinable package func offered(_ element: Element) -> Bool {
        do { return try offer(element) } catch { return false }
    }

    @inlinable func place(_ element: Element, in state: inout State) throws -> Placing {
        if let failure = state.failure { throw failure }
        if state.isFinished { throw Finished() }
        if let receiver = state.receivers.popFirst() { return .handed(receiver) }
        guard state.elements.count < capacity else { return .full }
        state.elements.append(element)
        return .queued
    }

    /// The next element when it is there.
    ///
    /// - Throws: what the queue failed with, behind what it held.
    @inlinable package func poll() throws -> Element? {
        let next = try state.withLock { state throws -> (element: Element, sender: Senders.Entry?)? in
            if let next = state.take() { return next }
            if let failure = state.failure { throw failure }
            return nil
        }
        next?.sender?.waiter.resume(returning: .success(()))
        return next?.element
    }

    /// Waits for the next element; `nil` at the end.
    ///
    /// - Throws: what the queue failed with, behind what it held, or `CancellationError` when the task is cancelled first;
    ///   then the next element is another's.
    @inlinable package func receive() async throws -> Element? {
        try Task.checkCancellation()
        var sender: Senders.Entry?
        let result = await state.wait(in: { $1(&$0.receivers) }, asking: (), cancelled: .failure(CancellationError())) {
            state in
            if let next = state.take() {
                sender = next.sender
                return .success(next.element)
            }
            if let failure = state.failure { return .failure(failure) }
            return state.isFinished ? .success(nil) : nil
        }
        sender?.waiter.resume(returning: .success(()))
        return try result.get()
    }

    /// Waits for the next element of a queue that ends well; `nil` at its end, and when the task is cancelled.
    ///
    /// For a consumer who looks at its task itself.
    @inlinable package func next() async -> Element? {
        do { return try await receive() } catch { return nil }
    }

    /// Takes everything the queue holds at once, for whoever cleans up.
    @inlinable package func removeAll() -> [Element] {
        let (elements, senders) = state.withLock { state in
            var elements: [Element] = []
            var senders: [Senders.Entry] = []
            while let next = state.take() {
                elements.append(next.element)
                if let sender = next.sender { senders.append(sender) }
            }
            return (elements, senders)
        }
        for sender in senders { sender.waiter.resume(returning: .success(())) }
        return elements
    }

    /// Ends the queue after what it holds and what waits to be sent; with an error, both ends meet it, senders at once.
    ///
    /// Only the first error counts.
    @inlinable package func finish(throwing failure: (any Error)? = nil) {
        let (senders, receivers) = state.withLock { state -> ([Senders.Entry], [Receivers.Entry]) in
            state.isFinished = true
            if state.failure == nil { state.failure = failure }
            return (failure == nil ? [] : state.senders.removeAll(), state.receivers.removeAll())
        }
        for receiver in receivers { receiver.waiter.resume(returning: failure.map { .failure($0) } ?? .success(nil)) }
        if let failure { for sender in senders { sender.waiter.resume(returning: .failure(failure)) } }
    }
}
