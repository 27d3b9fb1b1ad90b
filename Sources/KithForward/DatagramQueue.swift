import Synchronization

/// Datagrams waiting for one task to take them: when there are too many, or too many bytes of them, the oldest go.
final class DatagramQueue<Element: Sendable>: Sendable {
    private struct State {
        var elements: [(Element, Int)] = []
        var head = 0
        var bytes = 0
        var isFinished = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let limit: Int
    private let byteLimit: Int
    private let state = Mutex(State())

    /// Makes an empty queue.
    init(limit: Int = 512, byteLimit: Int = 1 << 20) {
        self.limit = limit
        self.byteLimit = byteLimit
    }

    /// Adds an element that counts for so many bytes.
    func push(_ element: Element, bytes: Int) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.isFinished else { return nil }
            state.elements.append((element, bytes))
            state.bytes += bytes
            while state.elements.count - state.head > limit || state.bytes > byteLimit,
                state.elements.count - state.head > 1
            {
                state.bytes -= state.elements[state.head].1
                state.head += 1
            }
            Self.compact(&state)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Waits for the oldest; `nil` once finished, or when the task is cancelled.
    func next() async -> Element? {
        while true {
            let (element, isFinished) = state.withLock { state -> (Element?, Bool) in
                guard state.head < state.elements.count else { return (nil, state.isFinished) }
                let (element, bytes) = state.elements[state.head]
                state.head += 1
                state.bytes -= bytes
                Self.compact(&state)
                return (element, false)
            }
            if let element { return element }
            if isFinished || Task.isCancelled { return nil }
            await wait()
        }
    }

    /// Ends the queue after what it holds.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    private static func compact(_ state: inout sending State) {
        guard state.head >= 64, state.head * 2 >= state.elements.count else { return }
        state.elements.removeFirst(state.head)
        state.head = 0
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if state.head < state.elements.count || state.isFinished || Task.isCancelled { return true }
                    state.waiter = continuation
                    return false
                }
                if goesOn { continuation.resume() }
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
