import Foundation
import KithIdentity
import KithStore
import KithTesting
import KithWire
import Synchronization
import Testing

/// The files that are left when a process dies, or the machine does, in the middle of writing.
@Suite struct CrashTests {
    /// A child writes as fast as it can, noting what it was told is done; another thread of it kills it at some moment.
    @Test(arguments: [0, 1_000, 20_000, 100_000, 300_000, 1_000_000])
    func `killed at any moment, what was reported done is there`(spins: Int) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, spins] in
            let store = try openStore(path)
            let progress = Progress()
            let notes = open(path + "/done", O_WRONLY | O_CREAT | O_APPEND, 0o600)
            Thread.detachNewThread {
                while progress.count.load(ordering: .relaxed) < 5 { sched_yield() }
                for _ in 0..<spins { progress.spins.add(1, ordering: .relaxed) }
                kill(getpid(), SIGKILL)
            }
            for number in 0... {
                _ = try store.add(device(UInt8(number % 50), grants: [.shell, .forward]))
                try store.setSetting("last", String(number))
                write(notes, ".", 1)
                progress.count.add(1, ordering: .relaxed)
            }
        }
        let done = try folder.bytes("done").count
        #expect(done >= 5)
        #expect(Store.holder(of: path) == nil)
        let store = try folder.open()
        defer { store.close() }
        let last = try #require(try store.setting("last").flatMap { Int($0) })
        #expect(last + 1 == done || last + 1 == done + 1)
        let devices = try store.devices()
        #expect(devices.count == min(50, last + 1) || devices.count == min(50, last + 2))
        #expect(devices.allSatisfy { $0.grants.count == 2 })
        _ = try store.add(device(99))
    }

    /// Counts that two threads share.
    private final class Progress: Sendable {
        let count = Atomic(0)
        let spins = Atomic(0)
    }

    @Test func `a write-ahead log cut off anywhere opens as it was after some transaction`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        for number in 1...12 as ClosedRange<UInt8> {
            _ = try store.add(device(number, name: "d\(number)", grants: [.shell, .forward]))
            try store.setSetting("last", String(number))
        }
        let file = try folder.bytes("kith.sqlite")
        let log = try folder.bytes("kith.sqlite-wal")
        store.close()
        #expect(log.count > 20_000)
        var random = SystemRandomNumberGenerator()
        var counts: [Int] = []
        for cut in stride(from: 0, through: log.count, by: 777) {
            let copy = try TemporaryFolder()
            try copy.write(file, to: "kith.sqlite")
            // What follows the cut is rubbish, as a disk may leave it.
            let rubbish = (0..<100).map { _ in UInt8.random(in: 0...255, using: &random) }
            try copy.write(log.prefix(cut) + rubbish, to: "kith.sqlite-wal")
            let store = try copy.open()
            let devices = try store.devices()
            let last = try store.setting("last").flatMap { Int($0) } ?? 0
            #expect(devices.count == last || devices.count == last + 1, "cut at \(cut)")
            #expect(devices.allSatisfy { $0.grants.count == 2 })
            counts.append(devices.count)
            _ = try store.add(device(99, name: "after"))
            store.close()
        }
        #expect(counts == counts.sorted() && counts.first == 0 && counts.last == 12)
    }
}
