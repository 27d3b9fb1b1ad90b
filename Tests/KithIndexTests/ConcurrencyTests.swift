import Foundation
import GRDB
import KithCatalog
import KithIO
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithIndex

/// A number that many tasks add to.
private final class Tally: Sendable {
    let count = Atomic(0)
}

/// Many who read an index at once, and scans beside them.
struct ConcurrencyTests {
    @Test func `hundreds of searches, calls that do not suspend and scans do not block one another`() async throws {
        let tree = try IndexedTree()
        for folder in 0..<20 {
            try tree.make("folder \(folder)")
            for file in 0..<50 { try tree.write("folder \(folder)/holiday \(file).txt") }
        }
        let location = try tree.added()
        _ = try await tree.index.scan(location.id)
        let query = try SearchQuery("holiday", now: 0, offsetFromUTC: 0)
        let answers = Tally()
        try await withThrowingTaskGroup { group in
            group.addTask {
                for number in 0..<10 {
                    try tree.write("folder 0/late \(number).txt")
                    _ = try await tree.index.scan(location.id)
                }
            }
            for _ in 0..<400 {
                group.addTask {
                    let page = try await tree.index.search(query, limit: 10)
                    answers.count.add(page.entries.count == 10 ? 1 : 0, ordering: .relaxed)
                }
                group.addTask {
                    // Blocks the thread until there is a connection.
                    answers.count.add(try tree.index.locations().count, ordering: .relaxed)
                }
                group.addTask { answers.count.add(try await tree.index.statistics().locations, ordering: .relaxed) }
            }
            try await group.waitForAll()
        }
        #expect(answers.count.load(ordering: .relaxed) == 1_200)
        #expect(try tree.contents() == (try await tree.fresh()))
    }

    @Test func `a search that waits for its turn can be cancelled, and takes nobody's`() async throws {
        let tree = try IndexedTree()
        try tree.write("holiday")
        _ = try await tree.index.scan(tree.added().id)
        let index = tree.index
        let (isIn, mayGo) = (AsyncSemaphore(0), DispatchSemaphore(value: 0))
        // All places are taken.
        let busy = (0..<ReadingQueue.places).map { _ in
            Task {
                try await index.read { _ in
                    isIn.add(1)
                    mayGo.wait()
                }
            }
        }
        for _ in busy { _ = try await isIn.take() }
        // Who does not suspend still gets a connection.
        #expect(try index.locations().count == 1)
        let query = try SearchQuery("holiday", now: 0, offsetFromUTC: 0)
        let waiting = Task { try await index.search(query) }
        waiting.cancel()
        await #expect(throws: KithError(.cancelled, "")) { _ = try await waiting.value }
        let patient = Task { try await index.search(query) }
        for _ in busy { mayGo.signal() }
        for task in busy { try await task.value }
        #expect(try await patient.value.entries.count == 1)
    }

    @Test func `scans that end at the same moment remove what has gone`() async throws {
        let tree = try IndexedTree()
        let index = tree.index
        // The bodies of scans, held until all have done their work.
        let (listed, mayEnd) = (AsyncSemaphore(0), AsyncEvent())
        try tree.write("one")
        let location = try tree.added()
        _ = try await index.scan(location.id)
        try tree.remove("one")
        let scans = (0..<2).map { _ in
            Task {
                try await index.withScan("look") { _ in
                    _ = try await index.scan(location.id)
                    listed.add(1)
                    await mayEnd.wait()
                }
            }
        }
        for _ in scans { _ = try await listed.take() }
        func gone() throws -> Int? {
            try index.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM entry WHERE flags & 2") }
        }
        #expect(try gone() == 1)
        // Nobody writes before both are there to do it.
        let mayWrite = DispatchSemaphore(value: 0)
        let holding = AsyncEvent()
        let writer = Task {
            try await index.database.write { _ in
                holding.happen()
                mayWrite.wait()
            }
        }
        await holding.wait()
        mayEnd.happen()
        try await eventually { index.scans.withLock { $0.hasListedAll } }
        mayWrite.signal()
        try await writer.value
        for scan in scans { try await scan.value }
        #expect(try gone() == 0)
    }

    @Test func `what one scan misses is not removed while another may find it`() async throws {
        let tree = try IndexedTree()
        let index = tree.index
        try tree.make("a")
        try tree.make("b")
        try tree.write("a/one", "1")
        let location = try tree.added()
        _ = try await index.scan(location.id)
        let before = try tree.numbers()[tree.path("a/one")]
        let mayEnd = AsyncEvent()
        let isIn = AsyncEvent()
        let other = Task {
            try await index.withScan("look") { _ in
                isIn.happen()
                await mayEnd.wait()
                return try await index.scan(location.id)
            }
        }
        await isIn.wait()
        try tree.remove("a/one")
        _ = try await index.scan(location.id)
        #expect(try tree.numbers()[tree.path("a/one")] == before)
        mayEnd.happen()
        _ = try await other.value
        #expect(try tree.contents() == (try await tree.fresh()))
    }
}
