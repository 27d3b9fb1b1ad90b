import Synchronization

/// A bounded queue from the event loop to one consuming task.
///
/// A cancelled consumer gets `nil` and loses nothing: another may take over.
final class Mailbox<Element: Sendable>: Sendable {
    private struct State {
        var elements: [Element] = []
        var head = 0
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?

        var count: Int { elements.count - head }

        mutating func takeFirst() -> Element? {
            guard head < elements.count else { return nil }
            let element = elements[head]
            head += 1
            if head == elements.count {
                elements.removeAll(keepingCapacity: elements.count <= 64)
                head = 0
            } else if head >= 64, head * 2 >= elements.count {
                elements.removeFirst(head)
                head = 0
            }
            return element
        }
    }

    private enum Next {
        case element(Element)
        case end
        case wait
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Makes a queue of at most `limit` elements.
    init(limit: Int) { self.limit = limit }

    /// Appends `element`; false, and nothing happens, when the queue is full or finished.
    func offer(_ element: Element) -> Bool {
        let (accepted, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            guard !state.isFinished, state.count < limit else { return (false, nil) }
            state.elements.append(element)
            defer { state.waiter = nil }
            return (true, state.waiter)
        }
        waiter?.resume()
        return accepted
    }

    /// Ends the queue; what is in it can still be taken.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Takes everything that waits, for whoever cleans up.
    func takeAll() -> [Element] {
        state.withLock { state in
            defer {
                state.elements = []
                state.head = 0
            }
            return Array(state.elements[state.head...])
        }
    }

    /// Waits for the next element; `nil` at the end, or when the task is cancelled.
    func next() async -> Element? {
        while true {
            let next = state.withLock { state -> Next in
                if let element = state.takeFirst() { return .element(element) }
                return state.isFinished ? .end : .wait
            }
            switch next {
            case .element(let element): return element
            case .end: return nil
            case .wait: break
            }
            if Task.isCancelled { return nil }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isReady = state.withLock { state in
                        // Cancellation sets the task's flag before it runs the handler below,
                        // so one of the two always sees the other.
                        if state.count > 0 || state.isFinished || Task.isCancelled { return true }
                        precondition(state.waiter == nil, "a queue has one consumer")
                        state.waiter = continuation
                        return false
                    }
                    if isReady { continuation.resume() }
                }
            } onCancel: {
                let waiter = state.withLock { state in
                    defer { state.waiter = nil }
                    return state.waiter
                }
                waiter?.resume()
            }
        }
    }
}
