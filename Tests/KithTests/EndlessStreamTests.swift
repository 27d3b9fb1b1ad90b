import Foundation
import Kith
import KithAPI
import KithSocket
import KithTesting
import KithWire
import Testing

/// Runs a device at a socket until it has stopped by itself: whatever keeps it fails the test.
func withDeviceUntilStopped(_ body: (Device, _ directory: String) async throws -> Void) async throws {
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

/// What goes on for ever, when the device stops.
@Suite(.timeLimit(.minutes(4))) struct EndlessStreamTests {
    @Test(arguments: Door.allCases)
    func `streams that go on for ever end at once when the device stops`(door: Door) async throws {
        let folder = try TemporaryFolder()
        let ends = Locked<[Task<KithError.Code?, Never>]>([])
        try await withDeviceUntilStopped { device, directory in
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
