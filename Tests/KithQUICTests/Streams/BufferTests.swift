import KithTesting
import Testing

@testable import KithQUIC

extension SendBuffer {
    mutating func append(_ bytes: [UInt8]) -> Int { bytes.withUnsafeBytes { append($0) } }

    func bytes(_ range: PendingRange) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: range.length)
        result.withUnsafeMutableBytes { copy(offset: range.offset, into: $0) }
        return result
    }
}

extension ReceiveBuffer {
    mutating func receive(_ bytes: [UInt8], at offset: UInt64, isFinished: Bool = false) throws(StreamViolation) {
        let copy = bytes
        var failure: StreamViolation?
        copy.withUnsafeBytes {
            do throws(StreamViolation) {
                try receive(offset: offset, bytes: $0, isFinished: isFinished)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    mutating func read(_ limit: Int) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: limit)
        let count = result.withUnsafeMutableBytes { read(into: $0) }
        return Array(result[..<count])
    }
}

@Suite struct SendBufferTests {
    @Test func `lost bytes go before new ones`() {
        var buffer = SendBuffer()
        #expect(buffer.append(Array(0..<100)) == 100)
        #expect(buffer.take(upTo: 40)?.offset == 0)
        #expect(buffer.take(upTo: 40)?.offset == 40)
        buffer.lost(offset: 0, length: 40, isFinished: false)
        #expect(buffer.take(upTo: 25) == PendingRange(offset: 0, length: 25, isFinished: false))
        #expect(buffer.take(upTo: 25) == PendingRange(offset: 25, length: 15, isFinished: false))
        #expect(buffer.take(upTo: 25) == PendingRange(offset: 80, length: 20, isFinished: false))
        #expect(buffer.take(upTo: 25) == nil)
    }

    @Test func `a full buffer takes no more until bytes are acknowledged`() {
        var buffer = SendBuffer(capacity: 10)
        #expect(buffer.append(Array(0..<20)) == 10)
        #expect(buffer.append([1]) == 0)
        _ = buffer.take(upTo: 10)
        buffer.acknowledged(offset: 4, length: 6, isFinished: false)
        #expect(buffer.room == 0)
        buffer.acknowledged(offset: 0, length: 4, isFinished: false)
        #expect(buffer.room == 10)
    }

    @Test func `a lost FIN goes again, alone or with the last bytes`() {
        var buffer = SendBuffer()
        _ = buffer.append([1, 2, 3])
        #expect(buffer.take(upTo: 9)?.isFinished == false)
        buffer.finish()
        #expect(buffer.take(upTo: 9) == PendingRange(offset: 3, length: 0, isFinished: true))
        buffer.lost(offset: 3, length: 0, isFinished: true)
        buffer.lost(offset: 0, length: 3, isFinished: false)
        #expect(buffer.take(upTo: 9) == PendingRange(offset: 0, length: 3, isFinished: true))
        #expect(buffer.take(upTo: 9) == nil)
        buffer.acknowledged(offset: 0, length: 3, isFinished: true)
        #expect(buffer.isComplete)
    }

    @Test(arguments: 0..<60) func `whatever is lost, everything arrives once acknowledged`(round: UInt64) {
        var random = SeededRandom(seed: 0x5E4D &+ round)
        let bytes = random.bytes(Int.random(in: 0...20_000, using: &random))
        let capacity = Int.random(in: 1...4_000, using: &random)
        var buffer = SendBuffer(capacity: capacity)
        var written = 0
        var flight: [PendingRange] = []
        var arrived = [Bool](repeating: false, count: bytes.count)
        var hasEnd = false
        var steps = 0
        while !buffer.isComplete {
            steps += 1
            guard steps < 200_000 else {
                Issue.record("no progress, \(random)")
                return
            }
            if written < bytes.count, random.chance(0.5) {
                let count = Int.random(in: 1...2_000, using: &random)
                written += buffer.append(Array(bytes[written..<min(bytes.count, written + count)]))
            }
            if written == bytes.count, random.chance(0.3) { buffer.finish() }
            if random.chance(0.7), let range = buffer.take(upTo: Int.random(in: 1...700, using: &random)) {
                let start = Int(range.offset)
                #expect(buffer.bytes(range) == Array(bytes[start..<start + range.length]), "\(random)")
                flight.append(range)
            }
            if !flight.isEmpty, random.chance(0.6) {
                let index = Int.random(in: 0..<flight.count, using: &random)
                let range = flight[index]
                // A probe declares lost what is still on its way, and later both may be acknowledged.
                if random.chance(0.35) {
                    buffer.lost(offset: range.offset, length: range.length, isFinished: range.isFinished)
                    if random.chance(0.7) { flight.remove(at: index) }
                } else {
                    flight.remove(at: index)
                    buffer.acknowledged(offset: range.offset, length: range.length, isFinished: range.isFinished)
                    for position in Int(range.offset)..<Int(range.offset) + range.length { arrived[position] = true }
                    hasEnd = hasEnd || range.isFinished
                }
            }
            #expect(buffer.held <= capacity, "\(random)")
        }
        #expect(hasEnd && arrived.allSatisfy { $0 }, "\(random)")
        #expect(buffer.bookkeeping == 0, "\(random)")
    }
}

@Suite struct ReceiveBufferTests {
    @Test func `bytes come out in order whatever order they came in`() throws {
        var buffer = ReceiveBuffer()
        try buffer.receive([4, 5, 6], at: 3)
        #expect(buffer.readableCount == 0)
        try buffer.receive([1, 2, 3, 4], at: 0)
        #expect(buffer.read(10) == [1, 2, 3, 4, 5, 6])
    }

    @Test func `the final size holds`() throws {
        var buffer = ReceiveBuffer()
        try buffer.receive([1, 2, 3], at: 0, isFinished: true)
        #expect(throws: StreamViolation.finalSize) { try buffer.receive([9], at: 3) }
        #expect(throws: StreamViolation.finalSize) { try buffer.receive([1, 2], at: 0, isFinished: true) }
        try buffer.receive([3], at: 2, isFinished: true)
        #expect(buffer.read(10) == [1, 2, 3])
        #expect(buffer.isFinished)
    }

    @Test func `an end before bytes already seen is a violation`() throws {
        var buffer = ReceiveBuffer()
        try buffer.receive([1, 2, 3], at: 10)
        #expect(throws: StreamViolation.finalSize) { try buffer.receive([], at: 5, isFinished: true) }
    }

    @Test func `a peer that only leaves holes is stopped`() throws {
        var buffer = ReceiveBuffer()
        #expect(throws: StreamViolation.tooFragmented) {
            for index in 0..<10_000 { try buffer.receive([1], at: UInt64(index * 2 + 1)) }
        }
        #expect(buffer.bookkeeping <= ReceiveBuffer.maximumRuns)
    }

    @Test(arguments: 0..<60) func `overlaps, duplicates and disorder give the bytes that were sent`(round: UInt64)
        throws
    {
        var random = SeededRandom(seed: 0x4EC0 &+ round)
        let bytes = random.bytes(Int.random(in: 1...9_000, using: &random))
        var buffer = ReceiveBuffer()
        var out: [UInt8] = []
        var steps = 0
        while !buffer.isFinished {
            steps += 1
            guard steps < 100_000 else {
                Issue.record("no progress, \(random)")
                return
            }
            // Near the reader mostly, so that it ends; anywhere at times.
            let center = random.chance(0.8) ? out.count : Int.random(in: 0...bytes.count, using: &random)
            let start = max(0, min(bytes.count, center + Int.random(in: -300...300, using: &random)))
            let end = min(bytes.count, start + Int.random(in: 0...500, using: &random))
            try buffer.receive(
                Array(bytes[start..<end]), at: UInt64(start), isFinished: end == bytes.count && random.chance(0.5))
            if random.chance(0.5) { out += buffer.read(Int.random(in: 0...800, using: &random)) }
        }
        #expect(out == bytes, "\(random)")
        #expect(buffer.bookkeeping == 0 && buffer.memory == 0, "\(random)")
    }
}
