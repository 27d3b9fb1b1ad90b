package import KithAPI
import Synchronization

/// The sending side of a shell's stream, for several tasks: whole frames, one after the other, first come first served.
package final class FrameSink: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let stream: any ByteStream
    private let state = Mutex(State())

    /// Makes the only writer of `stream`.
    package init(_ stream: any ByteStream) { self.stream = stream }

    /// Sends a frame, waiting while the other end is slow.
    package func send(_ frame: ShellFrame) async throws {
        // Whoever is in the middle of a write ends soon when cancelled, so waiting here need not be cancellable.
        await enter()
        defer { leave() }
        try await stream.write(frame.encoded)
    }

    /// Ends this direction after what was sent.
    package func finish() async throws {
        await enter()
        defer { leave() }
        try await stream.finish()
    }

    private func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isBusy {
                    state.waiting.append(continuation)
                    return false
                }
                state.isBusy = true
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    private func leave() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.waiting.isEmpty else {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }
}
