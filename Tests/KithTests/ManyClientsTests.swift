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
    /// Runs a device at a socket until it has stopped by itself: whatever keeps it fails the test.
    private func withDevice(_ body: (Device, _ directory: String) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        (options.name, options.apiPort) = ("laptop", 0)
        // What should end at once does not get the time that other calls have.
        options.node.drain = .seconds(3_600)
        let device = try await Device.open(directory: folder.path, options: options)
        let running = Task { try await device.run() }
        try await eventually { (try? RawPeer(folder.path)) != nil }
        do {
            try await body(device, folder.path)
        } catch {
            running.cancel()
            throw error
        }
        device.beginGracefulShutdown()
        try await running.value
        #expect(!Device.isRunning(directory: folder.path))
    }

    private static func subscription(_ id: Int, raw: Bool = false) -> String {
        let input = #"{"topic":"flood/>","from":"here","retainedPerTopic":1,"buffer":4096,"overflow":"dropOldest"}"#
        let request = #"{"jsonrpc":"2.0","id":\#(id),"method":"events.subscribe","params":\#(input)"#
        return request + (raw ? #","raw":true}"# : "}") + "\n"
    }

    @Test func `two hundred programs are answered beside a flood of events that some of them never read`() async throws
    {
        // Kept until the device has stopped.
        let remaining = Locked<[RawPeer]>([])
        try await withDevice { device, directory in
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

    @Test(arguments: Door.allCases)
    func `streams that go on for ever end at once when the device stops`(door: Door) async throws {
        let folder = try TemporaryFolder()
        let ends = Locked<[Task<KithError.Code?, Never>]>([])
        try await withDevice { device, directory in
            let (client, _) = try await door.client(of: device, in: directory)
            try FileManager.default.createDirectory(
                atPath: folder.path + "/tree", withIntermediateDirectories: true)
            _ = try await client.call(Locations.Add.self, .init(path: Files.Path(folder.path + "/tree")))
            func follow<M: StreamMethod>(_ method: M.Type, _ input: M.Input) async throws
            where M.Downstream: StreamMessage {
                let stream = try await client.open(method, input).stream
                let reading = Task { () -> KithError.Code? in
                    do { for try await _ in stream.messages {} } catch {
                        return (error as? KithError)?.code ?? .internal
                    }
                    return nil
                }
                ends.set(ends.value + [reading])
            }
            try await follow(Events.Subscribe.self, .init(topic: "a/>", from: .here))
            try await follow(LibraryEvents.Follow.self, .init())
            try await follow(Search.Follow.self, .init(query: "holiday"))
            try await follow(Jobs.Follow.self, .init())
            try await follow(Volumes.Follow.self, .init())
            try await follow(Inbox.Watch.self, Nothing())
            try await follow(PairingMethods.Watch.self, Nothing())
        }
        #expect(ends.value.count == 7)
        for reading in ends.value {
            let code = await reading.value
            #expect(code == nil || code == .closed)
        }
    }
}
