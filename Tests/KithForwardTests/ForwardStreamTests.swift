import KithAPI
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithForward

@Suite struct ForwardStreamTests {
    @Test func `bytes survive however they are cut, and each direction ends by itself`() async throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<20 {
            let pipe = Pipe(capacity: Int.random(in: 1...100_000, using: &random))
            let (left, right) = (ForwardStream(pipe.left), ForwardStream(pipe.right))
            let (toRight, toLeft) = (random.bytes(Int.random(in: 0...900_000, using: &random)), random.bytes(1_000_000))
            let sizes = (0..<8).map { _ in Int.random(in: 1...300_000, using: &random) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (stream, bytes) in [(left, toRight), (right, toLeft)] {
                    group.addTask {
                        var rest = bytes[...]
                        var turn = 0
                        while !rest.isEmpty {
                            let part = rest.prefix(sizes[turn % sizes.count])
                            try await stream.write(Array(part))
                            rest = rest.dropFirst(part.count)
                            turn += 1
                        }
                        try await stream.finish()
                    }
                }
                for (stream, bytes) in [(right, toRight), (left, toLeft)] {
                    group.addTask {
                        let received = try await stream.readAll()
                        #expect(received == bytes)
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func `a reader that does not read stops its writer and nobody else`() async throws {
        let pipe = Pipe(capacity: 1_000)
        let (left, right) = (ForwardStream(pipe.left), ForwardStream(pipe.right))
        // As much as is granted goes at once, though the pipe is small.
        try await left.write([UInt8](repeating: 1, count: ForwardStream.firstWindow))
        let more = Task { try await left.write([2]) }
        // The other direction goes on as if nothing was.
        for _ in 0..<100 {
            try await right.write([UInt8](repeating: 3, count: 10_000))
            _ = try await left.read(exactly: 10_000)
        }
        #expect(try await right.read(exactly: ForwardStream.firstWindow).allSatisfy { $0 == 1 })
        try await more.value
        #expect(try await right.read(exactly: 1) == [2])
    }

    @Test func `room for more is not granted behind the end`() async throws {
        let pipe = Pipe()
        let held = HeldStream(pipe.left)
        let (left, right) = (ForwardStream(held), ForwardStream(pipe.right))
        try await left.finish()
        try await right.write([UInt8](repeating: 1, count: ForwardStream.firstWindow))
        // The reader grants what it has read; before that is written, the other direction ends as well.
        held.isHolding.store(true, ordering: .sequentiallyConsistent)
        let reading = Task { try await left.read(exactly: ForwardStream.firstWindow).count }
        while held.waiting.load(ordering: .sequentiallyConsistent) == 0 { await Task.yield() }
        try await right.finish()
        for _ in 0..<1_000 { await Task.yield() }
        held.isHolding.store(false, ordering: .sequentiallyConsistent)
        #expect(try await reading.value == ForwardStream.firstWindow)
        #expect(try await left.read(upTo: 1) == nil)
        #expect(try await right.read(upTo: 1) == nil)
        while held.isFinished.load(ordering: .sequentiallyConsistent) == false { await Task.yield() }
    }

    @Test func `an abandoned connection is abandoned at both ends`() async throws {
        let pipe = Pipe()
        let (left, right) = (ForwardStream(pipe.left), ForwardStream(pipe.right))
        left.abort(.denied)
        await #expect(throws: KithError(.denied, "")) { try await right.read(upTo: 1) }
        await #expect(throws: KithError(.denied, "")) { try await right.write([1]) }
        await #expect(throws: KithError(.denied, "")) { try await left.read(upTo: 1) }
    }

    @Test(arguments: [
        // More than was granted; an end, then more; a kind that is none; too much granted; a stream that just ends.
        [0x80, 0x08, 0x00, 0x04], [0x02, 0x04, 0x61], [0x03], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFD], [],
    ])
    func `what breaks the rules ends the connection`(bytes: [UInt8]) async throws {
        let pipe = Pipe()
        let stream = ForwardStream(pipe.left)
        try await pipe.right.write(bytes)
        if bytes.isEmpty { try await pipe.right.finish() }
        let expected = KithError(bytes.isEmpty ? .closed : .invalid, "")
        await #expect(throws: expected) {
            while true {
                try await stream.write([0])
                await Task.yield()
            }
        }
        if !bytes.isEmpty {
            await #expect(throws: expected) { while try await pipe.right.read(upTo: 64) != nil {} }
        }
    }

    @Test func `windows grow no further than the room they share`() async throws {
        let room = WindowBudget(ForwardStream.firstWindow)
        let pipe = Pipe()
        let (left, right) = (ForwardStream(pipe.left), ForwardStream(pipe.right, room: room))
        let sending = Task {
            for _ in 0..<64 { try await left.write([UInt8](repeating: 0, count: 64 << 10)) }
            try await left.finish()
        }
        #expect(try await right.readAll().count == 4 << 20)
        try await sending.value
    }

    @Test func `the body of a request loses nothing of the stream it comes on`() async throws {
        #expect(try await WrappedStream.lost { MeteredBody($0, HTTPBodyMeter(.upgrade)) } == [])
    }
}

/// A stream whose writes wait while it is told to hold them.
private final class HeldStream: StreamWrapper {
    let isHolding = Atomic(false)
    let waiting = Atomic(0)
    let isFinished = Atomic(false)
    let base: any ByteStream

    init(_ base: any ByteStream) { self.base = base }

    func write(_ bytes: [UInt8]) async throws {
        while isHolding.load(ordering: .sequentiallyConsistent) {
            waiting.store(1, ordering: .sequentiallyConsistent)
            await Task.yield()
        }
        try await base.write(bytes)
    }
    func finish() async throws {
        try await base.finish()
        isFinished.store(true, ordering: .sequentiallyConsistent)
    }
}
