import Foundation
import Kith
import KithAPI
import KithSocket
import KithTesting
import KithWire
import Synchronization
import Testing

/// Many programs at the socket of one device, and some that take no care.
@Suite(.timeLimit(.minutes(4))) struct ManyClientsTests {
    private static func subscription(_ id: Int, raw: Bool = false) -> String {
        let input = #"{"topic":"flood/>","from":"here","retainedPerTopic":1,"buffer":4096,"overflow":"dropOldest"}"#
        let request = #"{"jsonrpc":"2.0","id":\#(id),"method":"events.subscribe","params":\#(input)"#
        return request + (raw ? #","raw":true}"# : "}") + "\n"
    }

    @Test func `two hundred programs are answered beside a flood of events that some of them never read`() async throws
    {
        // Kept until the device has stopped.
        let remaining = Locked<[RawPeer]>([])
        try await withDeviceUntilStopped { device, directory in
            // Those who want all events and read none of them, in each way in which they could be sent.
            var deaf: [RawPeer] = []
            for number in 0..<50 {
                let peer = try RawPeer(directory)
                await peer.send(Self.subscription(1, raw: number % 2 == 0))
                #expect(await peer.line().contains(#""result""#))
                deaf.append(peer)
            }
            let message = try Events.Message(String(repeating: "x", count: 4_000))
            let isOver = Atomic(false)
            let flood = Task {
                var count = 0
                while !isOver.load(ordering: .relaxed) {
                    _ = try await device.client.call(
                        Events.Publish.self, .init(topic: "flood/\(count % 7)", message: message))
                    count += 1
                    // Nothing of it waits: it would keep its thread for itself.
                    await Task.yield()
                }
                return count
            }
            try await withThrowingTaskGroup { group in
                for number in 0..<150 {
                    let carrier = try #require(try await SocketCarrier.connect(directory: directory))
                    let client = Client(carrier)
                    group.addTask {
                        defer { carrier.close() }
                        // A third of them reads events as well.
                        let events =
                            number % 3 == 0
                            ? try await client.open(
                                Events.Subscribe.self, .init(topic: "flood/>", from: .here, buffer: 16)
                            ).stream : nil
                        var deliveries = events?.messages.makeAsyncIterator()
                        for _ in 0..<20 {
                            _ = try await client.call(Devices.List.self, .init(probe: false))
                            if deliveries != nil { #expect(try await deliveries?.next() != nil) }
                        }
                    }
                }
                try await group.waitForAll()
            }
            isOver.store(true, ordering: .relaxed)
            // More than fits between the device and those who do not read.
            #expect(try await flood.value > 0)
            for _ in 0..<4_000 {
                _ = try await device.client.call(Events.Publish.self, .init(topic: "flood/0", message: message))
            }
            // The device stops although they are still there.
            remaining.set(deaf)
        }
        #expect(remaining.value.count == 50)
    }
}
