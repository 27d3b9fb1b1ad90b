import KithWire
import Testing

@testable import KithQUIC

@Suite struct TransferTests {
    /// Sends `bytes` on `id` from the client as the engine takes them, and reads at the server until the end.
    private func upload(_ bytes: [UInt8], on id: StreamID, over pair: Pair, seconds: Int64 = 120) throws -> [UInt8] {
        var sent = 0
        var received: [UInt8] = []
        var isFinished = false
        let limit = pair.now + seconds * 1_000_000_000
        while !isFinished {
            if sent < bytes.count {
                sent += try bytes[sent...].withUnsafeBytes { try pair.client.write($0, to: id) }
                if sent == bytes.count { try pair.client.finish(id) }
            }
            guard pair.step(until: limit) else { break }
            if pair.serverEvents.contains(.streamOpened(id)) {
                let part = try pair.serverRead(id)
                received += part.bytes
                isFinished = part.isFinished
            }
        }
        return received
    }

    @Test func `a standing backlog of datagrams stops no stream, and what was sent of it is not kept`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        let datagram = patterned(pair.server?.maxDatagramSize ?? 0)
        var count = 0
        pair.filter = { [unowned pair] sent in
            while !sent.toServer, count < 3_000, pair.server?.sendDatagram(datagram) == true { count += 1 }
            return [sent]
        }
        let id = try pair.serverOpen(.unidirectional)
        let bytes = patterned(5_000)
        #expect(try bytes.withUnsafeBytes { try pair.server?.write($0, to: id) } == bytes.count)
        #expect(pair.server?.sendDatagram(datagram) == true)
        var received: [UInt8] = []
        while received.count < bytes.count, pair.step(until: pair.now + 1_000_000_000) {
            if pair.clientEvents.contains(.streamOpened(id)) { received += try pair.clientRead(id).bytes }
        }
        #expect(received == bytes && (50..<3_000).contains(count), "\(received.count) bytes, \(count) datagrams")
        var queue = DatagramQueue()
        queue.append(datagram)
        for _ in 0..<10_000 {
            queue.append(datagram)
            queue.removeFirst()
        }
        #expect(queue.held <= 256)
    }

    @Test func `eight megabytes arrive as they were sent`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let id = try pair.clientOpen(.unidirectional)
        let bytes = patterned(8 << 20)
        let received = try upload(bytes, on: id, over: pair)
        #expect(received == bytes)
        #expect(pair.run { $0.clientEvents.contains(.streamFinished(id)) })
        let lost = pair.client.statistics.packetsLost
        #expect(lost == 0)
        let size = pair.client.statistics.udpPayloadSize
        #expect(size == 1452)
    }

    @Test(arguments: [UInt64](1...8)) func `loss, duplication and reordering change nothing`(seed: UInt64) throws {
        let pair = try Pair()
        var generator = SeededGenerator(state: seed)
        pair.filter = { datagram in
            var copies: [Pair.Datagram] = []
            if generator.next() % 100 >= 10 { copies.append(datagram) }
            if generator.next() % 100 < 5 { copies.append(datagram) }
            for index in copies.indices where generator.next() % 100 < 20 {
                copies[index].due = copies[index].due + Int64(generator.next() % 20_000_000)
            }
            return copies
        }
        #expect(pair.connect(), "seed \(seed)")
        let id = try pair.clientOpen(.bidirectional)
        let bytes = patterned(600_000, seed: seed)
        let received = try upload(bytes, on: id, over: pair)
        #expect(received == bytes, "seed \(seed)")
    }

    @Test func `both directions at once, many streams`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        var ids: [StreamID] = []
        for index in 0..<100 {
            let id = try pair.clientOpen(.bidirectional)
            let bytes = patterned(3000 + index, seed: UInt64(index))
            let sent = try bytes.withUnsafeBytes { try pair.client.write($0, to: id) }
            #expect(sent == bytes.count)
            try pair.client.finish(id)
            ids.append(id)
        }
        var requests: [StreamID: [UInt8]] = [:]
        var ended: Set<StreamID> = []
        let limit = pair.now + 60_000_000_000
        while ended.count < 100, pair.step(until: limit) {
            for event in pair.serverEvents {
                if case .readable(let id) = event {
                    let part = try pair.serverRead(id)
                    requests[id, default: []] += part.bytes
                    if part.isFinished {
                        ended.insert(id)
                        let bytes = requests[id] ?? []
                        let sent = try bytes.withUnsafeBytes { try pair.server?.write($0, to: id) }
                        #expect(sent == bytes.count)
                        try pair.server?.finish(id)
                    }
                }
            }
            pair.serverEvents.removeAll()
        }
        #expect(ended.count == 100)
        var answers: [StreamID: [UInt8]] = [:]
        var complete: Set<StreamID> = []
        while complete.count < 100 {
            let events = pair.clientEvents
            pair.clientEvents.removeAll()
            for case .readable(let id) in events {
                let part = try pair.clientRead(id)
                answers[id, default: []] += part.bytes
                if part.isFinished { complete.insert(id) }
            }
            guard complete.count < 100, pair.step(until: limit) else { break }
        }
        for (index, id) in ids.enumerated() { #expect(answers[id] == patterned(3000 + index, seed: UInt64(index))) }
        pair.run(seconds: 2)
        let open = pair.client.statistics.openStreams
        #expect(open == 0)
    }

    @Test func `a reader that does not read stops the writer`() throws {
        let pair = try Pair(server: {
            $0.streamWindow = 100_000
            $0.maxStreamWindow = 100_000
        })
        #expect(pair.connect())
        let id = try pair.clientOpen(.unidirectional)
        let bytes = patterned(400_000)
        let taken = try bytes.withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(taken == bytes.count)
        try pair.client.finish(id)
        pair.run(seconds: 5)
        let first = try pair.serverRead(id)
        #expect(first.bytes.count == 100_000)
        #expect(!first.isFinished)
        var received = first.bytes
        let limit = pair.now + 60_000_000_000
        var isFinished = false
        while !isFinished, pair.step(until: limit) {
            let part = try pair.serverRead(id)
            received += part.bytes
            isFinished = part.isFinished
        }
        #expect(received == bytes)
    }

    @Test func `more streams than the peer allows wait for their turn`() throws {
        let pair = try Pair(server: { $0.maxIncomingUnidirectionalStreams = 2 })
        #expect(pair.connect())
        let first = try pair.clientOpen(.unidirectional)
        _ = try pair.clientOpen(.unidirectional)
        let third = pair.client.openStream(.unidirectional)
        #expect(third == nil)
        try pair.client.finish(first)
        #expect(pair.run { $0.serverEvents.contains(.readable(first)) })
        #expect(try pair.serverRead(first).isFinished)
        #expect(pair.run { $0.clientEvents.contains(.streamsAvailable(.unidirectional)) })
        _ = try pair.clientOpen(.unidirectional)
    }

    @Test func `a reset and a refusal to read reach the other end with their codes`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let id = try pair.clientOpen(.bidirectional)
        _ = try patterned(10).withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(pair.run { $0.serverEvents.contains(.readable(id)) })
        try pair.client.reset(id, code: 42)
        #expect(pair.run { $0.serverEvents.contains(.streamReset(id, code: 42)) })
        try pair.client.stopSending(id, code: 43)
        #expect(pair.run { $0.serverEvents.contains(.sendStopped(id, code: 43)) })
    }

    @Test func `datagrams cross both ways`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let limit = pair.client.maxDatagramSize ?? 0
        #expect(limit > 1000)
        let large = patterned(limit)
        let small = patterned(20)
        let accepted = large.withUnsafeBytes { pair.client.sendDatagram($0) }
        #expect(accepted)
        let refused = patterned(limit + 1).withUnsafeBytes { pair.client.sendDatagram($0) }
        #expect(!refused)
        let answered = small.withUnsafeBytes { pair.server?.sendDatagram($0) }
        #expect(answered == true)
        #expect(pair.run { $0.serverEvents.contains(.datagram(large)) && $0.clientEvents.contains(.datagram(small)) })
    }

    @Test func `datagrams of one length that nearly fill a packet leave together`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let limit = pair.client.maxDatagramSize ?? 0
        let sent = (0..<8).map { [UInt8](repeating: $0, count: limit - 40) }
        for datagram in sent {
            let isTaken = pair.client.sendDatagram(datagram)
            #expect(isTaken)
        }
        #expect(pair.client.queuedDatagrams == 8)
        var largest = 0
        var buffer = [UInt8](repeating: 0, count: 65_507)
        while pair.client.queuedDatagrams > 0 {
            let transmit = buffer.withUnsafeMutableBytes { pair.client.nextTransmit(into: $0, at: pair.now) }
            guard let transmit else { break }
            largest = max(largest, transmit.length / transmit.segmentSize)
        }
        // Those that are far from filling one are not padded: two of a little over half would cost twice as much.
        #expect(largest >= 4)
    }
}
