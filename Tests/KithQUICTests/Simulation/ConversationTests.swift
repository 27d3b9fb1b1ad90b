import KithTesting
import Synchronization
import Testing

@testable import KithQUIC

/// Whole connections on bad networks. `KITH_CONVERSATIONS` sets how many, `KITH_SEED` where they start.
@Suite struct ConversationTests {
    @Test(.timeLimit(.minutes(15)))
    func `random conversations over bad networks are byte-exact, end, and leave nothing behind`() async {
        let count = environment("KITH_CONVERSATIONS").flatMap { UInt64($0) } ?? 10_000
        let first = SeededRandom.fromEnvironment().seed
        let next = Mutex<UInt64>(0)
        let failures = Mutex<[String]>([])
        let totals = Mutex<(bytes: Int, seconds: Int64, records: Int)>((0, 0, 0))
        await withTaskGroup { group in
            for _ in 0..<workers {
                group.addTask {
                    while true {
                        let index = next.withLock { value -> UInt64 in
                            defer { value += 1 }
                            return value
                        }
                        guard index < count, failures.withLock({ $0.count < 5 }) else { return }
                        var conversation = Conversation(seed: first &+ index)
                        do {
                            try conversation.run()
                        } catch {
                            failures.withLock { $0.append("\(error)") }
                        }
                        totals.withLock {
                            $0.bytes += conversation.bytes
                            $0.seconds += conversation.simulated / 1_000_000_000
                            $0.records = max($0.records, conversation.bookkeeping)
                        }
                    }
                }
            }
        }
        let (bytes, seconds, records) = totals.withLock { $0 }
        print("\(count) conversations from seed \(first): \(bytes) bytes, \(seconds) s simulated, ≤ \(records) records")
        for failure in failures.withLock({ $0 }) { Issue.record("\(failure)") }
    }

    private var workers: Int { 2 }
}
