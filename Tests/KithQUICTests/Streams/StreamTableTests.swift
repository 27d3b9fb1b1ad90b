import KithTesting
import Testing

@testable import KithQUIC

@Suite struct StreamTableTests {
    @Test func `bytes and ends travel both ways`() throws {
        var pair = StreamPair()
        let id = try pair.open(.bidirectional)
        #expect(try pair.client.write([1, 2, 3], to: id) == 3)
        try pair.client.finish(id)
        try pair.settle()
        #expect(pair.server.events() == [.opened(id), .readable(id)])
        let read = try pair.server.read(id)
        #expect(read.bytes == [1, 2, 3] && read.isFinished)
        #expect(pair.client.events() == [.finished(id)])
        #expect(try pair.server.write([4], to: id) == 1)
        try pair.server.finish(id)
        try pair.settle()
        #expect(try pair.client.read(id).bytes == [4])
        #expect(pair.client.openCount == 0)
        #expect(pair.server.openCount == 0)
    }

    @Test func `a reset drops what has not arrived and tells why`() throws {
        var pair = StreamPair()
        let id = try pair.open(.unidirectional)
        _ = try pair.client.write([1, 2, 3], to: id)
        _ = pair.fill(toServer: true)
        try pair.deliver(0)
        try pair.client.reset(id, code: 77)
        #expect(throws: StreamError.finished) { try pair.client.write([1], to: id) }
        try pair.settle()
        #expect(pair.server.events() == [.opened(id), .readable(id), .reset(id, code: 77)])
        #expect(pair.client.openCount == 0 && pair.server.openCount == 0)
        #expect(throws: StreamError.unknown) { try pair.server.read(id) }
    }

    @Test func `a stream asked to stop is reset with the peer's code`() throws {
        var pair = StreamPair()
        let id = try pair.open(.bidirectional)
        _ = try pair.client.write([1], to: id)
        try pair.settle()
        try pair.server.stopSending(id, code: 9)
        try pair.settle()
        #expect(pair.client.events() == [.stopped(id, code: 9)])
        #expect(throws: StreamError.stopped(9)) { try pair.client.write([1], to: id) }
        // The other direction lives on.
        #expect(try pair.server.write([5], to: id) == 1)
        try pair.server.finish(id)
        try pair.settle()
        #expect(try pair.client.read(id).bytes == [5])
        #expect(pair.client.openCount == 0 && pair.server.openCount == 0)
    }

    @Test func `a write is cut at the buffer, and room is announced`() throws {
        var configuration = StreamConfiguration()
        configuration.sendCapacity = 1_000
        var pair = StreamPair(client: configuration)
        let id = try pair.open(.bidirectional)
        #expect(try pair.client.write([UInt8](repeating: 1, count: 5_000), to: id) == 1_000)
        try pair.settle()
        #expect(pair.client.events() == [.writable(id)])
    }

    @Test func `a sender stops at the stream's window and goes on when it is read`() throws {
        var configuration = StreamConfiguration()
        configuration.streamWindow = 4_000
        var pair = StreamPair(server: configuration)
        let id = try pair.open(.bidirectional)
        #expect(try pair.client.write([UInt8](repeating: 7, count: 10_000), to: id) == 10_000)
        try pair.settle()
        var total = 0
        for _ in 0..<20 {
            total += try pair.server.read(id).bytes.count
            try pair.settle()
        }
        #expect(total == 10_000)
    }

    @Test func `a sender stops at the connection's window, whichever streams it uses`() throws {
        var configuration = StreamConfiguration()
        configuration.connectionWindow = 6_000
        configuration.unreadAllowance = 0
        var pair = StreamPair(server: configuration)
        let ids = (0..<4).compactMap { _ in pair.client.open(.bidirectional) }
        for id in ids { _ = try pair.client.write([UInt8](repeating: 7, count: 5_000), to: id) }
        try pair.settle()
        #expect(pair.server.receiveWindow.arrived == 6_000)
        var total = 0
        for _ in 0..<40 {
            for id in ids { total += (try? pair.server.read(id).bytes.count) ?? 0 }
            try pair.settle()
        }
        #expect(total == 20_000)
    }

    @Test func `streams that nobody reads leave room for the others, and are bounded together`() throws {
        var configuration = StreamConfiguration()
        configuration.streamWindow = 4_000
        configuration.connectionWindow = 6_000
        configuration.unreadAllowance = 20_000
        configuration.maxStreamWindow = 4_000
        configuration.maxConnectionWindow = 6_000
        var pair = StreamPair(server: configuration)
        let still = (0..<5).compactMap { _ in pair.client.open(.bidirectional) }
        for id in still { _ = try pair.client.write([UInt8](repeating: 7, count: 9_000), to: id) }
        try pair.settle()
        #expect(pair.server.receiveWindow.arrived == 20_000)
        let id = try pair.open(.bidirectional)
        _ = try pair.client.write([UInt8](repeating: 8, count: 50_000), to: id)
        var total = 0
        for _ in 0..<60 {
            try pair.settle()
            total += (try? pair.server.read(id).bytes.count) ?? 0
        }
        #expect(total == 50_000)
        // Beyond the allowance the connection's window is all there is.
        let more = (0..<5).compactMap { _ in pair.client.open(.bidirectional) }
        for id in more { _ = try pair.client.write([UInt8](repeating: 9, count: 9_000), to: id) }
        try pair.settle()
        #expect((20_000...26_000).contains(pair.server.receiveWindow.arrived - pair.server.receiveWindow.consumed))
        #expect(pair.server.receiveWindow.window == 6_000)
    }

    @Test func `a fast reader widens the windows`() throws {
        var pair = StreamPair()
        let id = try pair.open(.bidirectional)
        var total = 0
        for step in 0..<300 {
            pair.server.advance(to: Timestamp(nanoseconds: .milliseconds(Int64(step))), rtt: .milliseconds(50))
            _ = try pair.client.write([UInt8](repeating: 7, count: 200_000), to: id)
            try pair.settle()
            total += (try? pair.server.read(id).bytes.count) ?? 0
        }
        #expect(total > 20_000_000)
        #expect(pair.server.streams[0].receiveWindow.window == 16 << 20)
        #expect(pair.server.receiveWindow.window >= 24 << 20)
    }

    @Test func `places of finished streams are given back`() throws {
        var configuration = StreamConfiguration()
        configuration.maxStreamsBidirectional = 4
        var pair = StreamPair(server: configuration)
        for _ in 0..<50 {
            for _ in 0..<4 {
                let id = try pair.open(.bidirectional)
                try pair.client.finish(id)
            }
            #expect(pair.client.open(.bidirectional) == nil)
            try pair.settle()
            for event in pair.server.events() {
                if case .readable(let id) = event {
                    #expect(try pair.server.read(id).isFinished)
                    try pair.server.finish(id)
                }
            }
            try pair.settle()
            for event in pair.client.events() {
                if case .readable(let id) = event { #expect(try pair.client.read(id).isFinished) }
            }
        }
        #expect(pair.client.openCount == 0 && pair.server.openCount == 0)
        #expect(pair.server.streams.count <= 8)
    }

    @Test func `urgent streams go first, equal ones take turns`() throws {
        var pair = StreamPair()
        let ids = (0..<3).compactMap { _ in pair.client.open(.unidirectional) }
        for id in ids { _ = try pair.client.write([UInt8](repeating: 1, count: 3_000), to: id) }
        pair.client.setPriority(ids[2], 10)
        var order: [StreamID] = []
        while pair.fill(toServer: true, size: 1_030) {
            if let id = pair.flight.last?.content.stream?.id { order.append(id) }
        }
        #expect(order.prefix(3).allSatisfy { $0 == ids[2] })
        #expect(order[3] != order[4] && order[3] == order[5] && order[4] == order[6])
    }

    @Test func `an idle stream costs less than 3 kB, also after a burst`() throws {
        #expect(MemoryLayout<Stream>.stride < 700)
        var pair = StreamPair()
        let id = try pair.open(.bidirectional)
        _ = try pair.client.write([UInt8](repeating: 1, count: 500_000), to: id)
        try pair.settle()
        _ = try pair.server.read(id)
        #expect(pair.client.streams[0].send.memory >= 500_000)
        for second in 1...3 {
            let now = Timestamp(nanoseconds: .seconds(2 * Int64(second)))
            pair.client.advance(to: now, rtt: .milliseconds(1))
            pair.server.advance(to: now, rtt: .milliseconds(1))
        }
        #expect(pair.client.streams[0].send.memory <= 1_024)
        #expect(pair.server.streams[0].receive.memory <= 1_024)
        // And it works as before.
        #expect(try pair.client.write([1, 2, 3], to: id) == 3)
        try pair.settle()
        #expect(try pair.server.read(id).bytes == [1, 2, 3])
    }

    @Test func `a peer that breaks the rules is caught`() throws {
        var configuration = StreamConfiguration()
        configuration.streamWindow = 100
        configuration.connectionWindow = 150
        configuration.unreadAllowance = 0
        configuration.maxStreamsBidirectional = 2
        let ours = StreamID(rawValue: 0)
        func server(_ body: (inout StreamTable) throws -> Void) throws {
            var table = StreamTable(configuration, isClient: false)
            try body(&table)
        }
        let bytes = [UInt8](repeating: 0, count: 101)
        func stream(_ table: inout StreamTable, _ id: UInt64, at offset: UInt64, _ count: Int, fin: Bool = false) throws
        {
            _ = try bytes.withUnsafeBytes {
                try table.receivedStream(
                    StreamID(rawValue: id), offset: offset, bytes: UnsafeRawBufferPointer(rebasing: $0[..<count]),
                    isFinished: fin)
            }
        }
        #expect(throws: StreamViolation.flowControl) { try server { try stream(&$0, 0, at: 0, 101) } }
        #expect(throws: StreamViolation.flowControl) {
            try server {
                try stream(&$0, 0, at: 0, 100)
                try stream(&$0, 4, at: 0, 51)
            }
        }
        #expect(throws: StreamViolation.flowControl) { try server { try stream(&$0, 0, at: (1 << 62) - 1, 1) } }
        #expect(throws: StreamViolation.flowControl) {
            try server { try $0.receivedReset(ours, code: 0, finalSize: 101) }
        }
        #expect(throws: StreamViolation.streamLimit) { try server { try stream(&$0, 8, at: 0, 1) } }
        #expect(throws: StreamViolation.streamState) { try server { try stream(&$0, 1, at: 0, 1) } }
        #expect(throws: StreamViolation.streamState) { try server { try stream(&$0, 3, at: 0, 1) } }
        #expect(throws: StreamViolation.streamState) {
            try server { try $0.receivedStopSending(StreamID(rawValue: 2), code: 0) }
        }
        #expect(throws: StreamViolation.finalSize) {
            try server {
                try stream(&$0, 0, at: 0, 10, fin: true)
                try $0.receivedReset(ours, code: 0, finalSize: 11)
            }
        }
    }

    @Test func `frames for a stream long gone are ignored`() throws {
        var pair = StreamPair()
        let id = try pair.open(.unidirectional)
        try pair.client.finish(id)
        try pair.settle()
        _ = try pair.server.read(id)
        #expect(pair.server.openCount == 0)
        try pair.server.receivedReset(id, code: 1, finalSize: 500)
        try pair.client.receivedMaxStreamData(id, 1 << 30)
        try pair.client.receivedStopSending(id, code: 1)
        #expect(pair.client.events() == [.finished(id)])
    }

    @Test(arguments: 0..<60) func `random use over a bad network is byte-exact and leaves nothing behind`(round: UInt64)
        throws
    {
        var random = SeededRandom(seed: 0x57A8_1E &+ round)
        var configuration = StreamConfiguration()
        configuration.streamWindow = UInt64.random(in: 500...8_000, using: &random)
        configuration.connectionWindow = UInt64.random(in: 800...20_000, using: &random)
        configuration.unreadAllowance = random.chance(0.5) ? 0 : UInt64.random(in: 1...20_000, using: &random)
        configuration.maxStreamsBidirectional = UInt64.random(in: 1...8, using: &random)
        configuration.maxStreamsUnidirectional = UInt64.random(in: 1...8, using: &random)
        configuration.sendCapacity = Int.random(in: 300...6_000, using: &random)
        var pair = StreamPair(client: configuration, server: configuration)

        struct Half {
            var bytes: [UInt8]
            var written = 0
            var got: [UInt8] = []
            var isFinished = false
            var isEnded = false
            var isAbandoned = false
        }
        // Keyed by stream and whether the bytes go to the server.
        struct Key: Hashable {
            var id: StreamID
            var toServer: Bool
        }
        var halves: [Key: Half] = [:]
        let wanted = 12
        var opened = 0
        var steps = 0
        func isOver(_ half: Half) -> Bool { half.isEnded || half.isAbandoned }
        while opened < wanted || !halves.values.allSatisfy(isOver) || !pair.flight.isEmpty
            || pair.client.openCount + pair.server.openCount > 0
        {
            steps += 1
            guard steps < 60_000 else {
                Issue.record("no progress, \(random)")
                return
            }
            let fromClient = random.chance(0.5)
            if opened < wanted, random.chance(0.1) {
                let direction: StreamDirection = random.chance(0.5) ? .bidirectional : .unidirectional
                if let id = fromClient ? pair.client.open(direction) : pair.server.open(direction) {
                    opened += 1
                    let bytes = random.bytes(random.chance(0.2) ? 0 : Int.random(in: 0...9_000, using: &random))
                    halves[Key(id: id, toServer: fromClient)] = Half(bytes: bytes)
                    if direction == .bidirectional {
                        let back = random.bytes(Int.random(in: 0...4_000, using: &random))
                        halves[Key(id: id, toServer: !fromClient)] = Half(bytes: back)
                    }
                }
            }
            for key in halves.keys.sorted(by: { ($0.id, $0.toServer ? 0 : 1) < ($1.id, $1.toServer ? 0 : 1) }) {
                guard var half = halves[key], !isOver(half), random.chance(0.3) else { continue }
                var writer = key.toServer ? pair.client : pair.server
                var reader = key.toServer ? pair.server : pair.client
                do {
                    if half.written < half.bytes.count {
                        let end = min(half.bytes.count, half.written + Int.random(in: 1...3_000, using: &random))
                        half.written += try writer.write(Array(half.bytes[half.written..<end]), to: key.id)
                    } else if !half.isFinished {
                        try writer.finish(key.id)
                        half.isFinished = true
                    }
                    if random.chance(0.003) {
                        try writer.reset(key.id, code: 5)
                        half.isAbandoned = true
                    } else if random.chance(0.003) {
                        try reader.stopSending(key.id, code: 6)
                        half.isAbandoned = true
                    }
                } catch StreamError.unknown, StreamError.stopped, StreamError.finished {
                    // The peer has not opened it yet, or the other half was abandoned meanwhile.
                }
                if key.toServer {
                    (pair.client, pair.server) = (writer, reader)
                } else {
                    (pair.server, pair.client) = (writer, reader)
                }
                halves[key] = half
            }
            // Reading, also of what was abandoned, so that everything ends.
            for key in halves.keys.sorted(by: { ($0.id, $0.toServer ? 0 : 1) < ($1.id, $1.toServer ? 0 : 1) })
            where random.chance(0.4) {
                guard var half = halves[key], !half.isEnded else { continue }
                do {
                    let limit = Int.random(in: 1...3_000, using: &random)
                    let read =
                        try key.toServer ? pair.server.read(key.id, upTo: limit) : pair.client.read(key.id, upTo: limit)
                    half.got += read.bytes
                    half.isEnded = read.isFinished
                    if half.isEnded, !half.isAbandoned { #expect(half.got == half.bytes, "\(random)") }
                } catch StreamError.reset {
                    half.isEnded = true
                } catch {}
                halves[key] = half
            }
            for toServer in [true, false] where random.chance(0.6) {
                _ = pair.fill(toServer: toServer, size: Int.random(in: 60...1_200, using: &random))
            }
            while !pair.flight.isEmpty, random.chance(0.5) || pair.flight.count > 30 {
                let index = random.chance(0.7) ? 0 : Int.random(in: 0..<pair.flight.count, using: &random)
                let fate = Double.random(in: 0..<1, using: &random)
                if fate < 0.15 {
                    pair.lose(index)
                } else if fate < 0.25 {
                    // Declared lost, and delivered later all the same.
                    let packet = pair.flight[index]
                    if packet.toServer { pair.client.lost(packet.content) } else { pair.server.lost(packet.content) }
                    try pair.deliver(index)
                } else {
                    if fate < 0.35 { pair.flight.append(pair.flight[index]) }
                    try pair.deliver(index)
                }
            }
        }
        #expect(pair.client.bookkeeping < 40 && pair.server.bookkeeping < 40, "\(random)")
        #expect(pair.client.receiveWindow.arrived == pair.server.sendWindow.used, "\(random)")
        #expect(pair.server.receiveWindow.arrived == pair.client.sendWindow.used, "\(random)")
        #expect(pair.client.receiveWindow.consumed == pair.client.receiveWindow.arrived, "\(random)")
        #expect(pair.server.receiveWindow.consumed == pair.server.receiveWindow.arrived, "\(random)")
    }

    @Test(arguments: [(1_000, 9_000), (9_000, 1_000)] as [(UInt64, UInt64)])
    func `a limit that got lost is said again until something beyond the old one comes`(
        ofStream: UInt64, ofAll: UInt64
    ) throws {
        var configuration = StreamConfiguration()
        (configuration.streamWindow, configuration.connectionWindow) = (ofStream, ofAll)
        (configuration.maxStreamWindow, configuration.maxConnectionWindow) = (ofStream, ofAll)
        configuration.unreadAllowance = 0
        var pair = StreamPair(server: configuration)
        let id = try pair.open(.unidirectional)
        _ = try pair.client.write([UInt8](repeating: 7, count: 3_000), to: id)
        while pair.fill(toServer: true) {}
        while !pair.flight.isEmpty { try pair.deliver(0) }
        // Nothing to say yet: the reader has taken nothing.
        var isStopped = pair.server.repeatLimits()
        #expect(!isStopped)
        let count = try pair.server.read(id).bytes.count
        var isSaid = pair.fill(toServer: false)
        #expect(count == 1_000 && isSaid)
        // On its way, and nobody knows yet that it is lost.
        for _ in 0..<3 {
            #expect(!pair.server.hasPending)
            isStopped = pair.server.repeatLimits()
            isSaid = pair.fill(toServer: false)
            #expect(isStopped && isSaid)
        }
        try pair.deliver(pair.flight.count - 1)
        let goesOn = pair.fill(toServer: true)
        try pair.deliver(pair.flight.count - 1)
        isStopped = pair.server.repeatLimits()
        #expect(goesOn && !isStopped)
    }

    @Test func `bytes that came before bring nothing new`() throws {
        var table = StreamTable(StreamConfiguration(), isClient: false)
        let id = StreamID(rawValue: 2)
        func receive(_ range: Range<Int>, isFinished: Bool = false) throws -> Bool {
            try [UInt8](repeating: 1, count: range.count).withUnsafeBytes {
                try table.receivedStream(id, offset: UInt64(range.lowerBound), bytes: $0, isFinished: isFinished)
            }
        }
        #expect(try receive(0..<100))
        #expect(try !receive(0..<100) && !receive(20..<50))
        #expect(try receive(200..<300))
        #expect(try !receive(200..<300) && !receive(250..<300))
        #expect(try receive(50..<250) && !receive(0..<300))
        #expect(try receive(300..<300, isFinished: true) && !receive(0..<300, isFinished: true))
        let count = try table.read(id).bytes.count
        #expect(try count == 300 && !receive(0..<300, isFinished: true))
    }
}
