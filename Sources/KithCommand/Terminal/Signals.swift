import CKithSystem
import Foundation

/// The signals a command handles itself.
enum Signals {
    /// SIGWINCH, and with `endings` SIGINT, SIGTERM and SIGHUP, as they arrive.
    ///
    /// One that was ignored from the start (`nohup`, a job in the background) stays so. A process asks once; a second
    /// time there are none.
    static func arriving(endings: Bool) -> AsyncStream<Int32> {
        let (numbers, arrivals) = AsyncStream.makeStream(of: Int32.self)
        let descriptor = kith_terminal_signals(endings ? 1 : 0)
        guard descriptor >= 0 else {
            arrivals.finish()
            return numbers
        }
        let thread = Thread {
            var number: UInt8 = 0
            while true {
                let count = unsafe read(descriptor, &number, 1)
                if count == 1 {
                    arrivals.yield(Int32(number))
                } else if !(count < 0 && errno == EINTR) {
                    return
                }
            }
        }
        thread.name = "kith-signals"
        thread.start()
        return numbers
    }

    /// The outcome of work that a person may interrupt.
    enum Ending<Value: Sendable>: Sendable {
        case done(Value)
        /// This signal came before; the work was cancelled.
        case interrupted(Int32)

        /// The signal that came before.
        var signal: Int32? { if case .interrupted(let number) = self { number } else { nil } }
    }

    /// Runs `work` until it is done, or cancels it when a signal asks this process to end.
    ///
    /// SIGHUP is no such signal where `onHangUp` takes it.
    static func untilInterrupted<Value: Sendable>(
        onHangUp: (@Sendable () -> Void)? = nil, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Ending<Value> {
        let signals = arriving(endings: true)
        return try await withThrowingTaskGroup(of: Ending<Value>?.self) { group in
            group.addTask { .done(try await work()) }
            group.addTask {
                for await number in signals where number != SIGWINCH {
                    guard number == SIGHUP, let onHangUp else { return .interrupted(number) }
                    onHangUp()
                }
                return nil
            }
            defer { group.cancelAll() }
            while let ending = try await group.next() {
                guard let ending else { continue }
                guard case .interrupted = ending else { return ending }
                group.cancelAll()
                // What cancelled work throws is known.
                while await group.nextResult() != nil {}
                return ending
            }
            throw CancellationError()
        }
    }
}
