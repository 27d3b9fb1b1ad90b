import KithIO
import KithTesting
import Synchronization
import Testing

/// A number tasks count with.
private final class Counter: Sendable {
    private let number = Mutex(0)

    var value: Int { number.withLock { $0 } }

    /// Returns the new value.
    @discardableResult func add(_ count: Int) -> Int {
        number.withLock { number in
            number += count
            return number
        }
    }
}

/// Elements tasks have sent or received.
private final class Log: Sendable {
    private let elements = Mutex<[Int]>([])

    var sorted: [Int] { elements.withLock { $0.sorted() } }

    func add(_ element: Int) { elements.withLock { $0.append(element) } }
}

/// A count somebody may wait for at a slot.
private final class Slot: Sendable {
    struct State: Sendable {
        var count = 0
        var waiter: Waiter<Void>?
    }

    let state = Mutex(State())

    func wait() async {
        while state.withLock({ $0.count == 0 }), !Task.isCancelled {
            await state.wait(in: { $1(&$0.waiter) }) { $0.count > 0 }
        }
    }
}

/// Many tasks, cancelled at random moments: every wait ends, and what was given was received once.
@Suite(.timeLimit(.minutes(4))) struct StressTests {
    /// One run: bodies side by side, each told its number, some of them cancelled by the others at any moment.
    ///
    /// Returns when every body has returned: a lost wake-up meets the time limit.
    private func run(
        _ count: Int, seed: UInt64, cancelling share: Int, _ body: @escaping @Sendable (Int, SeededRandom) async -> Void
    ) async {
        var random = SeededRandom(seed: seed)
        let tasks = (0..<count).map { index in
            let own = SeededRandom(seed: random.next())
            return Task { await body(index, own) }
        }
        for task in tasks where Int.random(in: 0..<100, using: &random) < share {
            for _ in 0..<Int.random(in: 0..<4, using: &random) { await Task.yield() }
            task.cancel()
        }
        for task in tasks { await task.value }
    }

    private static let seeds: [UInt64] = {
        var random = SeededRandom.fromEnvironment()
        return (0..<40).map { _ in random.next() }
    }()

    @Test(arguments: seeds) func `a queue delivers every element that was sent, once, however many are cancelled`(
        seed: UInt64
    ) async throws {
        let queue = BoundedQueue<Int>(capacity: 2)
        let (sent, received) = (Log(), Log())
        let sending = Task {
            await run(30, seed: seed, cancelling: 40) { index, _ in
                for part in 0..<10 {
                    let element = index * 10 + part
                    do { try await queue.send(element) } catch { return }
                    sent.add(element)
                }
            }
        }
        // Some receivers are cancelled; the last one is not, and takes the rest.
        let receiving = Task {
            await run(30, seed: ~seed, cancelling: 60) { _, _ in
                while let element = try? await queue.receive() { received.add(element) }
            }
        }
        let last = Task {
            while let element = try await queue.receive() { received.add(element) }
        }
        await sending.value
        queue.finish()
        await receiving.value
        try await last.value
        let (all, found) = (sent.sorted, received.sorted)
        #expect(all == found, "seed \(seed)")
    }

    @Test(arguments: seeds) func `a lock is held by one at a time and free in the end`(seed: UInt64) async {
        let lock = AsyncMutex()
        let (inside, entries, refusals) = (Counter(), Counter(), Counter())
        await run(60, seed: seed, cancelling: 50) { index, random in
            var random = random
            for _ in 0..<10 {
                if index.isMultiple(of: 3) {
                    await lock.lock()
                } else {
                    do { try await lock.lockUnlessCancelled() } catch {
                        refusals.add(1)
                        continue
                    }
                }
                #expect(inside.add(1) == 1, "seed \(seed)")
                entries.add(1)
                if Bool.random(using: &random) { await Task.yield() }
                inside.add(-1)
                lock.unlock()
            }
        }
        #expect(entries.value + refusals.value == 600, "seed \(seed)")
        #expect(lock.tryLock(), "seed \(seed)")
    }

    @Test(arguments: seeds) func `what is taken from a semaphore and what is left is what was added`(
        seed: UInt64
    ) async throws {
        let semaphore = AsyncSemaphore(0)
        let (added, taken) = (Counter(), Counter())
        let adding = Task {
            await run(20, seed: ~seed, cancelling: 0) { _, random in
                var random = random
                for _ in 0..<20 {
                    let count = Int.random(in: 0...3, using: &random)
                    added.add(count)
                    semaphore.add(count)
                    await Task.yield()
                }
            }
            semaphore.finish()
        }
        await run(40, seed: seed, cancelling: 60) { _, random in
            var random = random
            while let count = try? await semaphore.take(upTo: Int.random(in: 1...3, using: &random)), count > 0 {
                taken.add(count)
            }
        }
        await adding.value
        #expect(
            taken.value + semaphore.count == added.value, "seed \(seed)")
    }

    @Test(arguments: seeds) func `a promise reaches all who wait, and those who do not any more go on`(
        seed: UInt64
    ) async {
        let promise = Promise<UInt64>()
        let event = AsyncEvent()
        let ends = Counter()
        let fulfilling = Task {
            for _ in 0..<Int(seed % 20) { await Task.yield() }
            promise.fulfil(seed)
            promise.fulfil(0)
            event.happen()
        }
        await run(60, seed: seed, cancelling: 50) { index, _ in
            switch index % 3 {
            case 0: #expect(await promise.value() == seed, "seed \(seed)")
            case 1:
                do { #expect(try await promise.valueUnlessCancelled() == seed, "seed \(seed)") } catch {
                    #expect(Task.isCancelled, "seed \(seed)")
                }
            default: #expect(await event.wait() || Task.isCancelled, "seed \(seed)")
            }
            ends.add(1)
        }
        await fulfilling.value
        #expect(ends.value == 60, "seed \(seed)")
    }

    @Test(arguments: seeds) func `whoever waits at a slot of locked state is woken by a change or its cancellation`(
        seed: UInt64
    ) async throws {
        let slot = Slot()
        for round in 0..<40 {
            let waiting = Task { await slot.wait() }
            for _ in 0..<Int(seed >> (round % 32) & 3) { await Task.yield() }
            if seed >> round & 1 == 0 {
                waiting.cancel()
            } else {
                slot.state.withLock { state in
                    state.count += 1
                    return state.waiter.take()
                }?.resume()
            }
            await waiting.value
            slot.state.withLock { state in
                state.count = 0
                #expect(state.waiter == nil, "seed \(seed)")
            }
        }
    }
}
