import Dispatch
import KithIO
import NIOCore
import Synchronization
import Testing

@testable import KithNet

@Suite struct `The turn to touch an endpoint` {
    @Test func `is the thread's while it works, and may be asked for again there`() async {
        let loop = EndpointLoop()
        let done = Promise<[String]>()
        loop.execute {
            var order = ["begin"]
            loop.withLock { order.append("again") }
            let isFree = loop.tryLock {
                order.append("free")
                return true
            }
            order.append(isFree ? "taken" : "refused")
            done.fulfil(order)
        }
        #expect(await done.value() == ["begin", "again", "refused"])
    }

    @Test func `is any task's that finds it free, and then nobody else's`() async {
        let loop = EndpointLoop()
        let isNested = loop.tryLock { loop.tryLock { true } }
        #expect(!isNested)
        #expect(loop.tryLock { true })
        #expect(!loop.tryLock { false }, "what the work returns is what the caller gets")
    }

    @Test func `makes the thread wait for a task that has it`() async {
        let loop = EndpointLoop()
        let events = Mutex<[String]>([])
        let ended = Promise<Void>()
        _ = loop.tryLock {
            loop.execute {
                events.withLock { $0.append("thread") }
                ended.fulfil(())
            }
            events.withLock { $0.append("task") }
            return true
        }
        await ended.value()
        #expect(events.withLock { $0 } == ["task", "thread"])
    }

    @Test(.timeLimit(.minutes(4)))
    func `lets a task send a few bytes while the thread does something else`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let gate = DispatchSemaphore(value: 0)
            defer { gate.signal() }
            let isBusy = Promise<Void>()
            pair.client.driver.loop.eventLoop.execute {
                isBusy.fulfil(())
                gate.wait()
            }
            await isBusy.value()
            try await near.write([7])
            #expect(try await far.read(upTo: 1) == [7])
        }
    }

    @Test func `is not had by tasks that run on the thread, which take it like others`() async {
        let loop = EndpointLoop()
        let took = await withTaskExecutorPreference(loop) {
            var took: [Bool] = []
            for _ in 0..<3 {
                took.append(loop.eventLoop.inEventLoop && loop.tryLock { true })
                await Task.yield()
            }
            return took
        }
        #expect(took == [true, true, true])
    }
}
