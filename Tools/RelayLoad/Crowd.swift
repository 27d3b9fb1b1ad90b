import KithIdentity
import NIOCore
import NIOPosix
import NIOSSL

/// Clients that do nothing but ping as devices do, and answer pings, and come back when their relay has closed.
///
/// They come from many addresses of this machine, as a relay bounds what one may do.
final class Crowd: @unchecked Sendable {  // touched on its loop only, but for `changes`
    /// What is worth a line: all are open, one was closed, all are back.
    let changes: AsyncStream<[String: Double]>
    private let feed: AsyncStream<[String: Double]>.Continuation
    private let relay: RelayLoad.Relay
    private let tls: NIOSSLContext?
    private let loop: any EventLoop
    private let keys: [DeviceKey]
    private var waiting: [Int] = []
    private var clients: [Int: Client] = [:]
    private var opening = 0
    private var open = 0
    private var failures = 0
    private var lostAt: ContinuousClock.Instant?

    /// The most that are being opened.
    private static let mostOpening = 128
    /// The clients of one address; a relay lets it begin 500 handshakes at once.
    private static let perAddress = 400

    init(_ relay: RelayLoad.Relay, count: Int, on loop: any EventLoop) throws {
        (changes, feed) = AsyncStream.makeStream()
        (self.relay, self.loop) = (relay, loop)
        tls = try Client.context(relay)
        keys = (0..<count).map { _ in DeviceKey() }
        waiting = Array((0..<count).reversed())
        lostAt = .now
        loop.execute {
            self.openMore()
            self.tick()
        }
    }

    private func tick() {
        for client in clients.values { client.tick() }
        loop.assumeIsolated().scheduleTask(in: .milliseconds(250)) { [unowned self] in tick() }
    }

    private func openMore() {
        while opening < Self.mostOpening, let index = waiting.popLast() {
            opening += 1
            let client = Client(key: keys[index])
            var isOpen = false
            client.onOpen = { [unowned self, unowned client] in
                isOpen = true
                client.keepUp()
                clients[index] = client
                opening -= 1
                open += 1
                if open == keys.count, let lostAt {
                    feed.yield([
                        "open": Double(open), "seconds": (.now - lostAt) / .seconds(1), "failures": Double(failures),
                    ])
                    self.lostAt = nil
                    failures = 0
                }
                openMore()
            }
            client.onEnd = { [unowned self] client in
                clients[index] = nil
                if isOpen { open -= 1 } else { opening -= 1 }
                failed(index, after: isOpen ? client.returnsAfter : nil, wasOpen: isOpen)
            }
            let bound = NIOLoopBound(client, eventLoop: loop)
            let host = index / Self.perAddress
            Client.connect(relay, from: "127.0.\(1 + host / 200).\(1 + host % 200)", tls: tls, on: loop) { bound.value }
                .assumeIsolated()
                .whenFailure { [unowned self] _ in
                    opening -= 1
                    failed(index, after: nil, wasOpen: false)
                }
        }
    }

    /// A client is to be opened again, after a while.
    private func failed(_ index: Int, after pause: TimeAmount?, wasOpen: Bool) {
        if !wasOpen { failures += 1 }
        if lostAt == nil {
            lostAt = .now
            feed.yield(["lost": 1])
        }
        // A device's back-off ends at 16 s; while a relay is known to restart it tries every quarter of a second.
        loop.assumeIsolated().scheduleTask(in: pause ?? .milliseconds(250)) { [unowned self] in
            waiting.append(index)
            openMore()
        }
    }
}
