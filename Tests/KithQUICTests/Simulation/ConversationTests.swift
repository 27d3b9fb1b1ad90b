import KithTesting
import Synchronization
import Testing

@testable import KithQUIC

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Whole connections on bad networks.
///
/// `KITH_CONVERSATIONS` sets how many, `KITH_SEED` which is the first, `KITH_TASKS` how many at once: a failure names the
/// seed to begin with. Long runs say on standard error how far they are.
@Suite struct ConversationTests {
    @Test(.timeLimit(.minutes(environment("KITH_CONVERSATIONS") == nil ? 30 : 1_440)))
    func `random conversations over bad networks are byte-exact, end, and leave nothing behind`() async {
        let count = environment("KITH_CONVERSATIONS").flatMap { UInt64($0) } ?? 10_000
        let tasks = environment("KITH_TASKS").flatMap { Int($0) } ?? 2
        let progress = Progress(first: SeededRandom.fromEnvironment().seed, count: count)
        await withTaskGroup { group in
            for _ in 0..<tasks {
                group.addTask {
                    while let seed = progress.nextSeed() {
                        var conversation = Conversation(seed: seed)
                        do {
                            try conversation.run()
                            if let line = progress.completed(conversation) { report(line) }
                        } catch {
                            report("\(error)")
                            progress.failed("\(error)")
                        }
                    }
                }
            }
        }
        print(progress.summary())
        for failure in progress.failures { Issue.record("\(failure)") }
    }
}

/// Writes a line on standard error at once.
private func report(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    // A line that cannot be written is missed by nobody.
    _ = write(2, bytes, bytes.count)
}

/// What the tasks share.
private final class Progress: Sendable {
    private struct State {
        var next: UInt64 = 0
        var completed: UInt64 = 0
        var bytes = 0
        var seconds: Int64 = 0
        var records = 0
        var failures: [String] = []
    }

    private let first: UInt64
    private let count: UInt64
    private let state = Mutex(State())
    private let start = ContinuousClock.now

    init(first: UInt64, count: UInt64) {
        self.first = first
        self.count = count
    }

    /// The next conversation's seed; nil when there have been enough, or enough failures.
    func nextSeed() -> UInt64? {
        state.withLock { state in
            guard state.next < count, state.failures.count < 5 else { return nil }
            defer { state.next += 1 }
            return first &+ state.next
        }
    }

    /// Counts a conversation; what to say when another hundredth of a long run is done.
    func completed(_ conversation: Conversation) -> String? {
        let isDue = state.withLock { state in
            state.completed += 1
            state.bytes += conversation.bytes
            state.seconds += conversation.simulated / 1_000_000_000
            state.records = max(state.records, conversation.bookkeeping)
            return count >= 20_000 && state.completed % (count / 100) == 0
        }
        return isDue ? summary() : nil
    }

    func failed(_ reason: String) {
        state.withLock { $0.failures.append(reason) }
    }

    var failures: [String] { state.withLock { $0.failures } }

    func summary() -> String {
        state.withLock { state in
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            return """
                \(state.completed) of \(count) conversations from seed \(first) in \(Int(seconds)) s, \
                \(Int(Double(state.completed) / max(seconds, 0.001))) a second, \(state.failures.count) failed: \
                \(state.bytes) bytes in \(state.seconds) simulated seconds, at most \(state.records) records held at the end
                """
        }
    }
}
