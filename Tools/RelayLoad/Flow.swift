import KithIdentity
import KithReach
import NIOCore
import NIOPosix

/// A client that sends to another one, both on one event loop.
///
/// What is under way is bounded, as QUIC bounds it: a relay drops what no link takes.
final class Flow: @unchecked Sendable {  // everything but its two constants is touched on the loop only
    struct Result: Sendable {
        var bytes = 0
        var datagrams = 0
        /// In milliseconds.
        var delays: [Double] = []
    }

    /// The most bytes under way.
    private static let window = 192 << 10
    private let loop: any EventLoop
    private let every: TimeAmount
    private let sender = Client(key: DeviceKey())
    private let receiver = Client(key: DeviceKey())
    private var result = Result()
    private var sent = 0
    private var arrived = 0
    private var isOver = false
    /// Messages that are sent again and again, and the bytes of datagrams in them.
    private var messages = ByteBuffer()
    private var contents = 0

    private init(on loop: any EventLoop, every: TimeAmount) { (self.loop, self.every) = (loop, every) }

    static func open(
        _ relay: RelayLoad.Relay, on loop: any EventLoop, batch: Int, every: TimeAmount
    ) async throws -> Flow {
        let flow = Flow(on: loop, every: every)
        let tls = try Client.context(relay)
        for isSender in [false, true] {
            let opened = loop.makePromise(of: Void.self)
            _ = try await Client.connect(relay, tls: tls, on: loop) {
                let client = isSender ? flow.sender : flow.receiver
                client.onOpen = { opened.succeed() }
                return client
            }.get()
            try await opened.futureResult.get()
        }
        try await loop.submit { flow.prepare(batch: batch) }.get()
        return flow
    }

    private func prepare(batch: Int) {
        // The receiver's answers are counted when they come, so the loop is the only clock.
        receiver.onDatagrams = { [unowned self] contents, count in arrived(contents, count) }
        let sizes = stride(from: 1_200, through: 1_400, by: 20).map { $0 }
        if batch > 1 {
            messages = message(1_300, count: batch)
            contents = 1_300 * batch
        } else {
            for size in sizes {
                var one = message(size, count: 1)
                messages.writeBuffer(&one)
                contents += size
            }
        }
    }

    private func message(_ size: Int, count: Int) -> ByteBuffer {
        let bytes = (0..<size * count).map { _ in UInt8.random(in: 0...255) }
        let datagrams = RelayedDatagrams(bytes, segmentSize: count > 1 ? UInt16(size) : nil)
        return Client.message(RelayFrame.send(to: receiver.id, datagrams).bytes)
    }

    func begin() {
        loop.execute { [self] in
            guard every == .nanoseconds(0) else { return sendOne() }
            fill()
            look(arrivedBefore: -1)
        }
    }

    /// Looks whether anything arrives, and comes again: what a relay has dropped does not arrive any more.
    private func look(arrivedBefore before: Int) {
        guard !isOver else { return }
        if arrived == before { sent = arrived }
        fill()
        loop.assumeIsolated().scheduleTask(in: .milliseconds(200)) { [self, arrived] in look(arrivedBefore: arrived) }
    }

    private func fill() {
        while !isOver, sent - arrived + contents <= Self.window {
            sent += contents
            sender.write(messages)
        }
    }

    private func arrived(_ contents: ByteBuffer, _ count: Int) {
        result.bytes += contents.readableBytes
        result.datagrams += count
        arrived += contents.readableBytes
        if every > .nanoseconds(0) {
            if let time = contents.getInteger(at: contents.readerIndex, as: UInt64.self) {
                result.delays.append(Double(NIODeadline.now().uptimeNanoseconds - time) / 1e6)
            }
        } else if sent - arrived <= Self.window / 2 {
            fill()
        }
    }

    /// Sends a datagram that tells when it was sent, and comes again.
    private func sendOne() {
        guard !isOver else { return }
        var bytes = [UInt8](repeating: 0, count: 1_200)
        let now = NIODeadline.now().uptimeNanoseconds
        for index in 0..<8 { bytes[index] = UInt8(truncatingIfNeeded: now >> (56 - 8 * UInt64(index))) }
        sender.write(Client.message(RelayFrame.send(to: receiver.id, RelayedDatagrams(bytes)).bytes))
        loop.assumeIsolated().scheduleTask(in: every) { [self] in sendOne() }
    }

    func end() async throws -> Result {
        try await loop.submit { [self] in
            isOver = true
            sender.close()
            receiver.close()
            return result
        }.get()
    }
}
