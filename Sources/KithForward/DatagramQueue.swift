import KithIO
import Synchronization

/// Datagrams waiting for one task to take them: when there are too many, or too many bytes of them, the oldest go.
final class DatagramQueue<Element: Sendable>: Sendable {
    private struct State {
        var elements: [(Element, Int)] = []
        var head = 0
        var bytes = 0
        var isFinished = false
        var waiter: Waiter<Void>?
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
        let waiter = state.withLock { state -> Waiter<Void>? in
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
            return state.waiter.take()
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
            await state.wait(in: { $1(&$0.waiter) }) { $0.head < $0.elements.count || $0.isFinished }
        }
    }

    /// Ends the queue after what it holds.
    func finish() {
        let waiter = state.withLock { state in
            state.isFinished = true
            return state.waiter.take()
        }
        waiter?.resume()
    }

    private static func compact(_ state: inout sending State) {
        guard state.head >= 64, state.head * 2 >= state.elements.count else { return }
        state.elements.removeFirst(state.head)
        state.head = 0
    }
}
