import Synchronization

/// A queue between one sending and one receiving task that holds at most `capacity` elements; a sender waits beyond.
package final class BoundedChannel<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var isFinished = false
        var failure: (any Error)?
        var sender: CheckedContinuation<Void, Never>?
        var receiver: CheckedContinuation<Void, Never>?
    }

    private let capacity: Int
    private let state = Mutex(State())

    /// Makes a channel that holds `capacity` elements, 1….
    package init(capacity: Int) { self.capacity = capacity }

    /// Waits for room, then queues.
    ///
    /// Throws what the channel failed with, or `CancellationError`.
    package func send(_ element: Element) async throws {
        while true {
            try Task.checkCancellation()
            let (isQueued, receiver) = try state.withLock { state throws -> (Bool, CheckedContinuation<Void, Never>?) in
                if let failure = state.failure { throw failure }
                guard state.elements.count < capacity else { return (false, nil) }
                state.elements.append(element)
                defer { state.receiver = nil }
                return (true, state.receiver)
            }
            receiver?.resume()
            if isQueued { return }
            await wait(isSender: true)
        }
    }

    /// Queues at once; false when there is no room.
    ///
    /// Throws what the channel failed with.
    package func offer(_ element: Element) throws -> Bool {
        let (isQueued, receiver) = try state.withLock { state throws -> (Bool, CheckedContinuation<Void, Never>?) in
            if let failure = state.failure { throw failure }
            guard state.elements.count < capacity else { return (false, nil) }
            state.elements.append(element)
            defer { state.receiver = nil }
            return (true, state.receiver)
        }
        receiver?.resume()
        return isQueued
    }

    /// The next element when it is there.
    ///
    /// Throws what the channel failed with.
    package func poll() throws -> Element? {
        let (element, sender) = try state.withLock { state throws -> (Element?, CheckedContinuation<Void, Never>?) in
            guard !state.elements.isEmpty else {
                if let failure = state.failure { throw failure }
                return (nil, nil)
            }
            defer { state.sender = nil }
            return (state.elements.removeFirst(), state.sender)
        }
        sender?.resume()
        return element
    }

    /// Waits for the next element, or the end.
    ///
    /// `nil` is the end. Throws what the channel failed with, or `CancellationError`.
    package func receive() async throws -> Element? {
        while true {
            try Task.checkCancellation()
            let (element, isEnd, sender) = try state.withLock {
                state throws -> (Element?, Bool, CheckedContinuation<Void, Never>?) in
                if !state.elements.isEmpty {
                    defer { state.sender = nil }
                    return (state.elements.removeFirst(), false, state.sender)
                }
                if let failure = state.failure { throw failure }
                return (nil, state.isFinished, nil)
            }
            sender?.resume()
            if let element { return element }
            if isEnd { return nil }
            await wait(isSender: false)
        }
    }

    /// Ends the channel after what it holds; with an error, both ends meet it.
    package func finish(_ failure: (any Error)? = nil) {
        let waiters = state.withLock { state in
            state.isFinished = true
            if state.failure == nil { state.failure = failure }
            defer {
                state.sender = nil
                state.receiver = nil
            }
            return [state.sender, state.receiver]
        }
        for waiter in waiters { waiter?.resume() }
    }

    private func wait(isSender: Bool) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    let isBlocked =
                        isSender
                        ? state.elements.count >= capacity && state.failure == nil
                        : state.elements.isEmpty && !state.isFinished
                    // The cancellation handler may have run before the continuation was there.
                    guard isBlocked, !Task.isCancelled else { return true }
                    if isSender { state.sender = continuation } else { state.receiver = continuation }
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                if isSender {
                    defer { state.sender = nil }
                    return state.sender
                }
                defer { state.receiver = nil }
                return state.receiver
            }
            waiter?.resume()
        }
    }
}
