import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithLibrary

/// How many calls of other devices run at once, and which wait.
@Suite struct VisitorQueueTests {
    private static let limits = VisitorQueue<String>.Limits(
        runningEach: 2, runningInAll: 3, waitingEach: 2, waitingInAll: 4)

    @Test func `a device runs as many as it may, then waits, then is refused`() throws {
        var queue = VisitorQueue<String>(Self.limits)
        #expect(queue.enter("phone") == .run)
        #expect(queue.enter("phone") == .run)
        let first = try #require(queue.enter("phone").ticket)
        let second = try #require(queue.enter("phone").ticket)
        #expect(first != second)
        #expect(queue.enter("phone") == .refuseDevice)
        #expect(queue.counts == (2, 2))
        #expect(queue.leave("phone") == first)
        #expect(queue.leave("phone") == second)
        #expect(queue.leave("phone") == nil && queue.leave("phone") == nil)
        #expect(queue.counts == (0, 0))
    }

    @Test func `a device with a long line keeps no other waiting`() throws {
        var queue = VisitorQueue<String>(Self.limits)
        for _ in 0..<2 { #expect(queue.enter("greedy") == .run) }
        for _ in 0..<2 { #expect(queue.enter("greedy").ticket != nil) }
        // There is one place that it cannot have.
        #expect(queue.enter("phone") == .run)
        let waiting = try #require(queue.enter("phone").ticket)
        // Its turn comes before those of the line, whose device has as many as it may.
        #expect(queue.leave("phone") == waiting)
    }

    @Test func `all devices together wait in a bounded line`() {
        var queue = VisitorQueue<Int>(
            .init(runningEach: 1, runningInAll: 1, waitingEach: 2, waitingInAll: 4))
        #expect(queue.enter(0) == .run)
        for device in 1...4 { #expect(queue.enter(device).ticket != nil) }
        #expect(queue.enter(5) == .refuseAll)
    }

    @Test func `whoever leaves the line is not called any more`() throws {
        var queue = VisitorQueue<String>(.init(runningEach: 1, runningInAll: 1, waitingEach: 2, waitingInAll: 2))
        #expect(queue.enter("a") == .run)
        let first = try #require(queue.enter("b").ticket)
        let second = try #require(queue.enter("c").ticket)
        let (isOut, isOutAgain) = (queue.abandon(first), queue.abandon(first))
        #expect(isOut && !isOutAgain)
        #expect(queue.leave("a") == second)
        // It runs: its place is given back by leaving.
        let wasWaiting = queue.abandon(second)
        #expect(!wasWaiting)
    }

    @Test func `whatever comes and goes, the limits hold and nobody is forgotten`() {
        var random = SeededRandom.fromEnvironment()
        let limits = VisitorQueue<Int>.Limits(runningEach: 2, runningInAll: 3, waitingEach: 3, waitingInAll: 6)
        var queue = VisitorQueue<Int>(limits)
        var running: [Int] = []
        var waiting: [(visitor: Int, ticket: VisitorQueue<Int>.Ticket)] = []
        func check() {
            #expect(queue.counts == (running.count, waiting.count))
            #expect(running.count <= 3 && waiting.count <= 6)
            for visitor in 0..<4 {
                #expect(running.count { $0 == visitor } <= 2 && waiting.count { $0.visitor == visitor } <= 3)
            }
            // None waits that might run.
            for entry in waiting { #expect(running.count == 3 || running.count { $0 == entry.visitor } == 2) }
        }
        for _ in 0..<20_000 {
            switch random.next() % 5 {
            case 0, 1:
                let visitor = Int(random.next() % 4)
                switch queue.enter(visitor) {
                case .run: running.append(visitor)
                case .wait(let ticket): waiting.append((visitor, ticket))
                case .refuseDevice, .refuseAll: break
                }
            case 2 where !waiting.isEmpty:
                let entry = waiting.remove(at: Int(random.next() % UInt64(waiting.count)))
                let isOut = queue.abandon(entry.ticket)
                #expect(isOut)
            default:
                guard !running.isEmpty else { continue }
                let visitor = running.remove(at: Int(random.next() % UInt64(running.count)))
                if let next = queue.leave(visitor), let place = waiting.firstIndex(where: { $0.ticket == next }) {
                    running.append(waiting.remove(at: place).visitor)
                }
            }
            check()
        }
    }
}

extension VisitorQueue.Admission {
    fileprivate var ticket: VisitorQueue.Ticket? { if case .wait(let ticket) = self { ticket } else { nil } }
}

/// The same with tasks.
@Suite(.timeLimit(.minutes(4))) struct VisitorsTests {
    private static func caller(_ number: UInt8) throws -> Caller {
        .device(try DeviceID(publicKey: [UInt8](repeating: number, count: 32)), name: "phone", paired: true)
    }

    @Test func `calls run a few at a time, in their order, and this device's own at once`() async throws {
        let visitors = Visitors(
            .init(runningEach: 1, runningInAll: 1, waitingEach: 4, waitingInAll: 8), within: .seconds(600))
        let phone = try Self.caller(1)
        let (isIn, mayGo) = (AsyncEvent(), AsyncEvent())
        let order = Locked<[Int]>([])
        let first = Task {
            try await visitors.run(phone) {
                isIn.happen()
                await mayGo.wait()
            }
        }
        await isIn.wait()
        var others: [Task<Void, any Error>] = []
        for number in 0..<3 {
            others.append(Task { [phone] in try await visitors.run(phone) { order.set(order.value + [number]) } })
            try await eventually { visitors.counts.waiting == number + 1 }
        }
        #expect(try await visitors.run(.owner) { 7 } == 7)
        others[1].cancel()
        await #expect(throws: CancellationError.self) { try await others[1].value }
        #expect(visitors.counts == (1, 2))
        mayGo.happen()
        try await first.value
        try await others[0].value
        try await others[2].value
        #expect(order.value == [0, 2])
        #expect(visitors.counts == (0, 0))
    }

    @Test func `a flood is refused with a word, and one who is patient gets in`() async throws {
        let clock = ManualClock()
        let visitors = Visitors(
            .init(runningEach: 1, runningInAll: 1, waitingEach: 1, waitingInAll: 1), within: .seconds(10), on: clock)
        let (phone, tablet) = (try Self.caller(1), try Self.caller(2))
        let (isIn, mayGo) = (AsyncEvent(), AsyncEvent())
        let first = Task {
            try await visitors.run(phone) {
                isIn.happen()
                await mayGo.wait()
            }
        }
        await isIn.wait()
        let second = Task { try await visitors.run(phone) {} }
        try await eventually { visitors.counts.waiting == 1 }
        for _ in 0..<100 {
            for caller in [phone, tablet] {
                await #expect(throws: KithError(.exhausted, "")) { try await visitors.run(caller) {} }
            }
        }
        let patient = Task { try await visitors.run(tablet, isPatient: true) { 7 } }
        mayGo.happen()
        try await first.value
        try await second.value
        #expect(try await clock.advance(by: .milliseconds(100)) { try await patient.value } == 7)
    }

    @Test func `a call that takes too long is ended, and gives its place back`() async throws {
        let clock = ManualClock()
        let visitors = Visitors(
            .init(runningEach: 1, runningInAll: 1, waitingEach: 1, waitingInAll: 1), within: .seconds(10), on: clock)
        let phone = try Self.caller(1)
        let slow = Task { try await visitors.run(phone) { try await untilCancelled() } }
        await #expect(throws: KithError(.exhausted, "")) {
            try await clock.advance(by: .seconds(1)) { try await slow.value }
        }
        #expect(visitors.counts == (0, 0))
        #expect(try await visitors.run(phone) { 7 } == 7)
    }
}
