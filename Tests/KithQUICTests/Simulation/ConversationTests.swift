import KithTesting
import Synchronization
import Testing

@testable import KithQUIC

/// Whole connections on bad networks.
///
/// `KITH_CONVERSATIONS` sets how many, `KITH_SEED` which is the first: a failure names the seed to begin with.
@Suite struct ConversationTests {
    @Test(.timeLimit(.minutes(environment("KITH_CONVERSATIONS") == nil ? 30 : 1_440)))
    func `random conversations over bad networks are byte-exact, end, and leave nothing behind`() async {
        let count = environment("KITH_CONVERSATIONS").flatMap { UInt64($0) } ?? 10_000
        let progress = Progress(first: SeededRandom.fromEnvironment().seed, count: count)
        await withTaskGroup { group in
            for _ in 0..<2 {
                group.addTask {
                    while let seed = progress.nextSeed() {
                        var conversation = Conversation(seed: seed)
                        do {
                            try conversation.run()
                            progress.completed(conversation)
                        } catch {
                            progress.failed("\(error)")
                        }
                    }
                }
            }
        }
        print(progress.summary)
        for failure in progress.failures { Issue.record("\(failure)") }
    }
}

/// What the tasks share.
private final class Progress: Sendable {
    private struct State {
        var next: UInt64 = 0
        var bytes = 0
        var seconds: Int64 = 0
        var records = 0
        var failures: [String] = []
    }

    private let first: UInt64
    private let count: UInt64
    private let state = Mutex(State())

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

    func completed(_ conversation: Conversation) {
        state.withLock { state in
            state.bytes += conversation.bytes
            state.seconds += conversation.simulated / 1_000_000_000
            state.records = max(state.records, conversation.bookkeeping)
        }
    }

    func failed(_ reason: String) {
        state.withLock { $0.failures.append(reason) }
    }

    var failures: [String] { state.withLock { $0.failures } }

    var summary: String {
        state.withLock { state in
            """
            \(state.next) conversations from seed \(first): \(state.bytes) bytes in \(state.seconds) simulated seconds, \
            at most \(state.records) records held at the end
            """
        }
    }
}
