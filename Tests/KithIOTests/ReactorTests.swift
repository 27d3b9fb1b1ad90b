import CKithSystem
import Foundation
import KithIO
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct ReactorTests {
    private let reactor: Reactor

    init() throws { reactor = try Reactor(name: "kith-test") }

    // MARK: - What is told

    @Test func `a task goes on when there is something to read`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let reading = Task { try await near.read() }
        try await far.write([1, 2, 3])
        #expect(try await reading.value == [1, 2, 3])
    }

    @Test func `what comes before the wait does not make anybody wait`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        try await far.write([1])
        await near.watch.wait(for: .reading)
        #expect(near.readNow() == [1])
    }

    @Test func `what comes after less was given than asked for is told`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        for byte in UInt8(0)..<200 {
            try await far.write([byte])
            await near.watch.wait(for: .reading)
            // There may be nothing after a wait, but never anything that was not told.
            while near.readNow().isEmpty { await near.watch.wait(for: .reading) }
        }
    }

    @Test func `an end that comes with the last bytes is told`() async throws {
        for _ in 0..<100 {
            let (near, far) = try Socket.pair(on: reactor)
            let reading = Task {
                var bytes: [UInt8] = []
                while true {
                    await near.watch.wait(for: .reading)
                    // One attempt for each wait, which is less than there may be; then only the end is left.
                    let (more, isEnd) = near.receive(upTo: 64)
                    bytes += more
                    if isEnd { return bytes }
                }
            }
            try await far.write([7, 8])
            far.close()
            #expect(await reading.value == [7, 8])
        }
    }

    @Test func `an end that came with the last bytes before anybody waited is told after them`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        try await far.write([7, 8])
        far.close()
        // The system has reported it all, once.
        await near.watch.wait(for: .hangUp)
        await near.watch.wait(for: .reading)
        #expect(near.receive(upTo: 64).bytes == [7, 8])
        await near.watch.wait(for: .reading)
        #expect(near.receive(upTo: 64).isEnd)
    }

    @Test func `a task goes on when there is room to write again`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let sent = (0..<3 << 20).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let writing = Task { try await near.write(sent) }
        var received: [UInt8] = []
        while received.count < sent.count { received += try await far.read() }
        try await writing.value
        #expect(received == sent)
    }

    @Test func `both directions of one descriptor are waited for at once`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        while near.writeNow([UInt8](repeating: 0, count: 64 << 10)) > 0 {}
        let writing = Task { try await near.write([9]) }
        let reading = Task { try await near.read() }
        while reactor.waitingCount < 2 { await Task.yield() }
        try await far.write([5])
        #expect(try await reading.value == [5])
        var last: UInt8 = 0
        while last != 9 { last = try await far.read().last ?? 0 }
        try await writing.value
    }

    @Test func `that the other end is gone is told, before and after it went, and behind unread bytes`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let early = Task { await near.watch.wait(for: .hangUp) }
        while reactor.waitingCount == 0 { await Task.yield() }
        try await far.write([1])
        far.close()
        await early.value
        await near.watch.wait(for: .hangUp)
        #expect(near.readNow() == [1])
    }

    @Test func `that the other end writes no more is told, though it still reads`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let early = Task { await near.watch.wait(for: .end) }
        while reactor.waitingCount == 0 { await Task.yield() }
        try await far.write([1])
        try #require(shutdown(far.descriptor, Int32(SHUT_WR)) == 0)
        await early.value
        await near.watch.wait(for: .end)
        #expect(near.readNow() == [1])
        try await near.write([2])
        #expect(try await far.read() == [2])
    }

    @Test func `the first of several descriptors ends the wait for all`() async throws {
        let pairs = try (0..<8).map { _ in try Socket.pair(on: reactor) }
        for (_, far) in pairs.shuffled() {
            let waiting = Task { await reactor.wait(for: .reading, ofAny: pairs.map(\.0.watch)) }
            while reactor.waitingCount == 0 { await Task.yield() }
            try await far.write([1])
            await waiting.value
            #expect(reactor.waitingCount == 0)
            var found = 0
            for (near, _) in pairs { found += near.readNow().count }
            #expect(found == 1)
        }
    }

    @Test func `a regular file and the null device are always ready`() async throws {
        for (path, flags) in [("/dev/null", O_RDWR), (#filePath, O_RDONLY)] {
            let descriptor = open(path, flags)
            defer { close(descriptor) }
            let watch = try reactor.watch(descriptor)
            await watch.wait(for: .reading)
            await watch.wait(for: .writing)
            watch.close()
        }
        #expect(reactor.count == 0)
    }

    @Test func `a descriptor that is not open is refused`() {
        #expect(throws: SystemError(EBADF)) { try reactor.watch(1 << 20) }
        #expect(reactor.count == 0)
    }

    // MARK: - Ends

    @Test func `a cancelled task goes on, and another waits in its place`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        for _ in 0..<100 {
            let waiting = Task { await near.watch.wait(for: .reading) }
            waiting.cancel()
            await waiting.value
        }
        #expect(reactor.waitingCount == 0)
        let reading = Task { try await near.read() }
        try await far.write([4])
        #expect(try await reading.value == [4])
    }

    @Test func `a wait that is not to be cancelled is not`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let waiting = Task { await near.watch.wait(for: .reading, isCancellable: false) }
        waiting.cancel()
        while reactor.waitingCount == 0 { await Task.yield() }
        try await far.write([4])
        await waiting.value
        #expect(near.readNow() == [4])
    }

    @Test func `closing a watch wakes all who wait, and all who come`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let interests: [Reactor.Interest] = [.reading, .reading, .end, .hangUp]
        let waiting = interests.map { interest in
            Task { await near.watch.wait(for: interest, isCancellable: false) }
        }
        while reactor.waitingCount < waiting.count { await Task.yield() }
        near.watch.close()
        for task in waiting { await task.value }
        await near.watch.wait(for: .writing, isCancellable: false)
        #expect(reactor.count == 1)
        far.close()
        #expect(reactor.count == 0)
    }

    @Test func `a watch keeps what closes its descriptor until it has ended`() throws {
        final class Owner: Sendable {}
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        weak var owner: Owner?
        var watch: Watch?
        do {
            let strong = Owner()
            owner = strong
            watch = try reactor.watch(ends[0], keeping: strong)
        }
        #expect(owner != nil)
        _ = watch
        watch = nil
        #expect(owner == nil)
        #expect(reactor.count == 0)
    }

    @Test func `a reactor ends with its last watch`() async throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        weak var reactor: Reactor?
        var watch: Watch?
        do {
            let strong = try Reactor(name: "kith-test")
            reactor = strong
            watch = try strong.watch(ends[0])
        }
        #expect(reactor != nil)
        watch?.close()
        watch = nil
        #expect(reactor == nil)
    }

    // MARK: - The executor

    @Test func `a task that prefers the executor goes on where it waited`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let threads = Task(executorPreference: reactor.executor) {
            var threads: Set<UInt> = [currentThread()]
            for _ in 0..<50 {
                #expect(try await near.read().count == 1)
                threads.insert(currentThread())
                try await near.write([1])
            }
            return threads
        }
        for _ in 0..<50 {
            try await far.write([1])
            _ = try await far.read()
        }
        let own = currentThread()
        let found = try await threads.value
        #expect(found.count == 1)
        #expect(!found.contains(own))
    }

    @Test func `a task that never rests does not keep others from being told`() async throws {
        let (near, far) = try Socket.pair(on: reactor)
        let restless = Task(executorPreference: reactor.executor) {
            while !Task.isCancelled { await Task.yield() }
        }
        let reading = Task { try await near.read() }
        try await far.write([3])
        #expect(try await reading.value == [3])
        restless.cancel()
        await restless.value
    }

    @Test func `a task goes on elsewhere once the reactor has ended`() async throws {
        var short: Reactor? = try Reactor(name: "kith-test")
        guard let executor = short?.executor else { return }
        short = nil
        let task = Task(executorPreference: executor) {
            await Task.yield()
            return 5
        }
        #expect(await task.value == 5)
    }

    // MARK: - Stress

    @Test(arguments: [false, true]) func `no report is lost among many descriptors`(onThread: Bool) async throws {
        let (pairCount, rounds) = (64, 60)
        let pairs = try (0..<pairCount).map { _ in try Socket.pair(on: reactor) }
        let executor: (any TaskExecutor)? = onThread ? reactor.executor : nil
        try await withThrowingTaskGroup(of: Int.self) { group in
            for (near, far) in pairs {
                group.addTask(executorPreference: executor) {
                    // Sends on what it is given, one byte more.
                    while true {
                        let bytes = try await near.read()
                        if bytes.isEmpty { return 0 }
                        try await near.write(bytes.map { $0 &+ 1 })
                    }
                }
                group.addTask {
                    var value: UInt8 = 0
                    for _ in 0..<rounds {
                        try await far.write([value])
                        value = try await far.read()[0]
                    }
                    shutdown(far.descriptor, Int32(SHUT_WR))
                    return Int(value)
                }
            }
            var sum = 0
            for try await value in group { sum += value }
            #expect(sum == pairCount * rounds)
        }
        for (near, far) in pairs {
            near.close()
            far.close()
        }
        #expect(reactor.count == 0)
        #expect(reactor.waitingCount == 0)
    }

    @Test func `no report is lost to a task that is cancelled at that moment`() async throws {
        let seed = UInt64.random(in: .min ... .max)
        let (near, far) = try Socket.pair(on: reactor)
        let count = 2_000
        let writing = Task {
            for index in 0..<count {
                try await far.write([UInt8(truncatingIfNeeded: index)])
                if index % 16 == 0 { await Task.yield() }
            }
            far.close()
        }
        // One after the other takes up where the last was called off.
        var random = seed
        var received: [UInt8] = []
        var isOver = false
        while !isOver {
            let reading = Task { () -> (bytes: [UInt8], isEnd: Bool) in
                while true {
                    let (bytes, isEnd) = near.receive(upTo: 16)
                    if !bytes.isEmpty || isEnd || Task.isCancelled { return (bytes, isEnd) }
                    await near.watch.wait(for: .reading)
                }
            }
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            for _ in 0..<(random >> 60) { await Task.yield() }
            if random & 1 << 32 != 0 { reading.cancel() }
            let (bytes, isEnd) = await reading.value
            received += bytes
            isOver = isEnd
        }
        try await writing.value
        #expect(received == (0..<count).map { UInt8(truncatingIfNeeded: $0) }, "seed \(seed)")
        #expect(reactor.waitingCount == 0)
    }

    @Test func `nobody waits for a descriptor that is closed at that moment`() async throws {
        for round in 0..<300 {
            let (near, far) = try Socket.pair(on: reactor)
            await withTaskGroup { group in
                for interest in [Reactor.Interest.reading, .writing, .hangUp] {
                    group.addTask { await near.watch.wait(for: interest, isCancellable: false) }
                }
                group.addTask { await reactor.wait(for: .reading, ofAny: [near.watch, far.watch]) }
                group.addTask { _ = far.writeNow([1]) }
                group.addTask {
                    for _ in 0..<(round % 8) { await Task.yield() }
                    near.watch.close()
                }
            }
            near.close()
            far.close()
        }
        #expect(reactor.count == 0)
        #expect(reactor.waitingCount == 0)
    }

    @Test func `descriptors whose number is used again are not taken for those before`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in UInt8(0)..<8 {
                group.addTask {
                    for _ in 0..<100 {
                        let (near, far) = try Socket.pair(on: reactor)
                        try await far.write([worker])
                        #expect(try await near.read() == [worker])
                        far.close()
                        #expect(try await near.read().isEmpty)
                        near.close()
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(reactor.count == 0)
    }
}

private func currentThread() -> UInt {
    #if canImport(Darwin)
    UInt(bitPattern: pthread_self())
    #else
    pthread_self()
    #endif
}

/// One end of a pair of sockets.
private final class Socket: Sendable {
    let descriptor: Int32
    let watch: Watch
    private let isClosed = Mutex(false)

    private init(_ descriptor: Int32, on reactor: Reactor) throws {
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        self.descriptor = descriptor
        watch = try reactor.watch(descriptor)
    }

    static func pair(on reactor: Reactor) throws -> (Socket, Socket) {
        var ends: [Int32] = [-1, -1]
        #if canImport(Darwin)
        let kind = SOCK_STREAM
        #else
        let kind = Int32(SOCK_STREAM.rawValue)
        #endif
        try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
        return (try Socket(ends[0], on: reactor), try Socket(ends[1], on: reactor))
    }

    deinit { close() }

    func close() {
        isClosed.withLock { isClosed in
            if isClosed { return }
            isClosed = true
            watch.close()
            _ = Foundation.close(descriptor)
        }
    }

    /// What is there now, and whether nothing more comes.
    func receive(upTo limit: Int) -> (bytes: [UInt8], isEnd: Bool) {
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = recv(descriptor, &bytes, limit, 0)
        return (Array(bytes[..<max(count, 0)]), count == 0)
    }

    func readNow() -> [UInt8] { receive(upTo: 64 << 10).bytes }

    /// Waits for bytes; none at the end.
    func read() async throws -> [UInt8] {
        while true {
            try Task.checkCancellation()
            let (bytes, isEnd) = receive(upTo: 64 << 10)
            if !bytes.isEmpty || isEnd { return bytes }
            await watch.wait(for: .reading)
        }
    }

    func writeNow(_ bytes: [UInt8]) -> Int {
        #if canImport(Darwin)
        let flags: Int32 = 0
        #else
        let flags = Int32(MSG_NOSIGNAL)
        #endif
        return send(descriptor, bytes, bytes.count, flags)
    }

    func write(_ bytes: [UInt8]) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let count = writeNow(Array(rest))
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else {
                try #require(errno == EAGAIN)
                await watch.wait(for: .writing)
            }
        }
    }
}
