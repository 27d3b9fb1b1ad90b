import KithIO
import Testing

@Suite(.timeLimit(.minutes(4))) struct WaitingTests {
    private struct Broken: Error {}

    @Test func `only the first value of a promise counts`() async throws {
        let promise = Promise<Int>()
        #expect(!promise.isFulfilled)
        #expect(promise.fulfil(1))
        #expect(!promise.fulfil(2))
        #expect(await promise.value() == 1)
        #expect(try await promise.valueUnlessCancelled() == 1)
    }

    @Test func `a cancelled wait for a promise throws, and the next goes on`() async throws {
        let promise = Promise<Int>()
        let waiting = Task { try await promise.valueUnlessCancelled() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        promise.fulfil(3)
        #expect(await promise.value() == 3)
    }

    @Test func `a wait that is not to be cancelled is not`() async throws {
        let promise = Promise<Int>()
        let lock = AsyncMutex()
        await lock.lock()
        let waiting = Task { await promise.value() }
        let locking = Task { await lock.withLock { Task.isCancelled } }
        waiting.cancel()
        locking.cancel()
        promise.fulfil(4)
        lock.unlock()
        #expect(await waiting.value == 4)
        #expect(await locking.value)
    }

    @Test func `a lock that is held is not taken`() async throws {
        let lock = AsyncMutex()
        #expect(lock.tryLock())
        #expect(!lock.tryLock())
        let waiting = Task { try await lock.lockUnlessCancelled() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        lock.unlock()
        #expect(lock.tryLock())
    }

    @Test func `what a queue holds is taken at once, and makes room for those who wait to send`() async throws {
        let queue = BoundedQueue<Int>(capacity: 2)
        #expect(queue.offered(1) && queue.offered(2) && !queue.offered(3))
        let sending = Task { try await queue.send(3) }
        var taken: [Int] = []
        while taken.count < 3 {
            taken += queue.removeAll()
            await Task.yield()
        }
        #expect(taken == [1, 2, 3])
        try await sending.value
        queue.finish(throwing: Broken())
        #expect(!queue.offered(4))
    }

    @Test func `a cancelled consumer leaves the rest to another`() async {
        let queue = BoundedQueue<Int>(capacity: 2)
        let first = Task { await queue.next() }
        first.cancel()
        #expect(await first.value == nil)
        #expect(queue.offered(7))
        #expect(await queue.next() == 7)
        queue.finish()
        #expect(await queue.next() == nil)
    }

    @Test func `a ring gives back what was put in, in order, however long it gets`() {
        var ring = Ring<Int>()
        var (next, expected) = (0, 0)
        for round in 0..<200 {
            for _ in 0..<(round % 7 * 20) {
                ring.append(next)
                next += 1
            }
            for _ in 0..<(round % 5 * 15) where !ring.isEmpty {
                #expect(ring.first == expected)
                #expect(ring.popFirst() == expected)
                expected += 1
            }
            #expect(ring.count == next - expected)
        }
        while let element = ring.popFirst() {
            #expect(element == expected)
            expected += 1
        }
        #expect(expected == next)
        #expect(ring.first == nil)
    }

    @Test func `a queue gives back in order, takes no more than it holds, and nothing after its end`() async throws {
        let queue = BoundedQueue<Int>(capacity: 2)
        #expect(try queue.offer(1))
        #expect(try queue.offer(2))
        #expect(try !queue.offer(3))
        #expect(try queue.poll() == 1)
        try await queue.send(3)
        queue.finish()
        #expect(try !queue.offer(4))
        await #expect(throws: BoundedQueue<Int>.Finished.self) { try await queue.send(4) }
        #expect(try await queue.receive() == 2)
        #expect(try await queue.receive() == 3)
        #expect(try await queue.receive() == nil)
    }

    @Test func `a queue that fails tells senders at once and receivers behind what it held`() async throws {
        let queue = BoundedQueue<Int>(capacity: 1)
        try await queue.send(1)
        queue.finish(throwing: Broken())
        #expect(throws: Broken.self) { try queue.offer(2) }
        await #expect(throws: Broken.self) { try await queue.send(2) }
        #expect(try await queue.receive() == 1)
        #expect(throws: Broken.self) { try queue.poll() }
        await #expect(throws: Broken.self) { try await queue.receive() }
    }

    @Test func `a semaphore gives what there is, never beyond its limit, and nothing after its end`() async throws {
        let semaphore = AsyncSemaphore(2, limit: 5)
        #expect(try await semaphore.take(upTo: 10) == 2)
        semaphore.add(.max)
        semaphore.add(.max)
        #expect(semaphore.count == 5)
        #expect(try await semaphore.take() == 1)
        semaphore.finish()
        #expect(try await semaphore.take() == 0)
        let failing = AsyncSemaphore(1)
        failing.finish(throwing: Broken())
        await #expect(throws: Broken.self) { try await failing.take() }
    }

    @Test func `an event that has happened is not waited for, and a cancelled wait says that it has not`() async {
        let event = AsyncEvent()
        let waiting = Task { await event.wait() }
        waiting.cancel()
        #expect(await !waiting.value)
        event.happen()
        #expect(event.hasHappened)
        #expect(await event.wait())
    }
}
