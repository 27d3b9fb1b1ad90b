import Foundation
import Kith
import KithAPI
import KithIdentity
import KithNode
import KithRPC
import KithSocket
import KithTesting
import KithWire
import Synchronization
import Testing

/// The ways from a program to a device.
enum Door: String, CaseIterable, CustomTestStringConvertible {
    case inProcess, socket, loopback

    var testDescription: String { rawValue }

    /// A client by this door.
    func client(of device: Device, in directory: String) async throws -> (client: Client, close: @Sendable () -> Void) {
        switch self {
        case .inProcess: return (device.client, {})
        case .socket:
            let carrier = try #require(try await SocketCarrier.connect(directory: directory))
            return (Client(carrier), { carrier.close() })
        case .loopback:
            let endpoint = try #require(try APIEndpoint.read(directory: directory))
            let carrier = try await SocketCarrier.connect(
                tcp: endpoint.port, token: endpoint.token, proof: endpoint.proof)
            return (Client(carrier), { carrier.close() })
        }
    }
}

/// What a carrier has to carry.
private enum Probe {
    struct Text: StreamMessage, Hashable {
        var text: String
        var number: Int = 0
    }

    struct Bytes: Codable, Hashable, Sendable {
        var bytes: Data
        /// The bytes of the answer.
        var answer: Int
    }

    enum Echo: Method {
        typealias Input = Text
        typealias Output = Text
        static let header = MethodHeader.query("probe.echo", by: .owner, "Answers with the input.")
    }

    enum Large: Method {
        typealias Input = Bytes
        typealias Output = Bytes
        static let header = MethodHeader.query("probe.large", by: .owner, "Answers with as many bytes as asked for.")
    }

    enum Fail: Method {
        typealias Input = Nothing
        typealias Output = Nothing
        static let header = MethodHeader.action("probe.fail", by: .owner, "Fails with a code, a message and data.")
    }

    /// Holds until its number is released, or it is cancelled.
    enum Hold: Method {
        typealias Input = Text
        typealias Output = Text
        static let header = MethodHeader.action("probe.hold", by: .owner, "Waits.")
    }

    enum Pipe: StreamMethod {
        typealias Input = Text
        typealias Output = Text
        typealias Upstream = Text
        typealias Downstream = Text
        static let header = MethodHeader.stream("probe.pipe", by: .owner, "Sends back what it receives.")
    }

    enum Flood: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Nothing
        typealias Downstream = Text
        static let header = MethodHeader.stream("probe.flood", by: .owner, "Sends as fast as it is taken.")
    }

    enum Refuse: StreamMethod {
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Nothing
        typealias Downstream = Text
        static let header = MethodHeader.stream("probe.refuse", by: .owner, "Sends one message, then fails.")
    }
}

private final class ProbeService: Service {
    let sent = Locked(0)
    let cancelled = Locked(0)
    let running = Locked(0)
    private typealias Gate = (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)
    private let gates = Mutex<[Int: Gate]>([:])

    private func gate(_ number: Int) -> Gate {
        gates.withLock { gates in
            let gate = gates[number] ?? AsyncStream.makeStream()
            gates[number] = gate
            return gate
        }
    }

    func release(_ number: Int) { gate(number).continuation.finish() }

    static let failure = {
        var error = KithError(.conflict, "The lamp is hot: wait.")
        // A code and a number are short.
        error.detail = try? KithError.Detail("lamp.hot", data: ["degrees": 91])
        return error
    }()

    var handlers: [Handler] {
        [
            .call(Probe.Echo.self) { input, _ in input },
            .call(Probe.Large.self) { input, _ in
                Probe.Bytes(bytes: Data(repeating: 7, count: input.answer), answer: input.bytes.count)
            },
            .call(Probe.Fail.self) { _, _ in throw Self.failure },
            .call(Probe.Hold.self) { input, _ in
                self.running.change { $0 += 1 }
                for await _ in self.gate(input.number).stream {}
                if Task.isCancelled { self.cancelled.change { $0 += 1 } }
                try Task.checkCancellation()
                return input
            },
            .stream(Probe.Pipe.self) { input, _, pending in
                let stream = try await pending.accept(input)
                for try await message in stream.messages { try await stream.send(message) }
                try await stream.finish()
            },
            .stream(Probe.Flood.self) { _, _, pending in
                let stream = try await pending.accept()
                let text = String(repeating: "x", count: 8 << 10)
                do {
                    for number in 0... {
                        try await stream.send(Probe.Text(text: text, number: number))
                        self.sent.set(number + 1)
                    }
                } catch {
                    self.cancelled.change { $0 += 1 }
                    throw error
                }
            },
            .stream(Probe.Refuse.self) { _, _, pending in
                let stream = try await pending.accept()
                try await stream.send(Probe.Text(text: "one"))
                throw Self.failure
            },
        ]
    }
}

/// Everything a program may rely on, whichever way it reaches the device.
@Suite(.timeLimit(.minutes(4))) struct `Every carrier` {
    private func withDevice(
        _ door: Door, _ body: (_ client: Client, _ service: ProbeService, _ device: Device) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.apiPort = 0
        let device = try await Kith.open(dataDirectory: folder.path, options: options)
        let service = ProbeService()
        try device.add(service)
        try await device.whileRunning {
            let (client, close) = try await door.client(of: device, in: folder.path)
            defer { close() }
            try await body(client, service, device)
        }
    }

    @Test(arguments: Door.allCases) func `carries a call, by type and by name`(_ door: Door) async throws {
        try await withDevice(door) { client, _, _ in
            let input = Probe.Text(text: "hé\n\"\u{0}\u{1F600}", number: .min)
            #expect(try await client.call(Probe.Echo.self, input) == input)
            let answer = try await client.call(named: "probe.echo", ["text": "x", "number": 7])
            #expect(answer == ["text": "x", "number": 7])
            #expect(try await client.locations.list().locations.isEmpty)
        }
    }

    @Test(arguments: Door.allCases) func `carries an error with its code and data`(_ door: Door) async throws {
        try await withDevice(door) { client, _, _ in
            for attempt in ["type", "name"] {
                let error = await #expect(throws: KithError.self) {
                    if attempt == "type" {
                        _ = try await client.call(Probe.Fail.self, Nothing())
                    } else {
                        _ = try await client.call(named: "probe.fail")
                    }
                }
                #expect(error?.code == .conflict && error?.message == ProbeService.failure.message, "\(attempt)")
                #expect(error?.detail?.code == "lamp.hot", "\(attempt)")
                let data = try error?.detail?.value(as: [String: Int].self)
                #expect(data == ["degrees": 91], "\(attempt)")
            }
        }
    }

    @Test(arguments: Door.allCases)
    func `refuses what is not known, and what the method does not take`(_ door: Door) async throws {
        try await withDevice(door) { client, _, _ in
            await #expect(throws: KithError(.unsupported, "")) { try await client.call(named: "probe.nothing") }
            await #expect(throws: KithError(.unsupported, "")) { try await client.open(named: "no.such") }
            let bad: [JSONValue] = [
                [:], ["text": 7, "number": 1], ["text": "x", "number": "y"], ["text": "x", "number": .number(1.5)],
                [1, 2],
                "text",
            ]
            for input in bad {
                let error = await #expect(throws: KithError.self) { try await client.call(named: "probe.echo", input) }
                #expect(error?.code == .invalid, "\(input)")
            }
            // It lives on.
            let answer = try await client.call(Probe.Echo.self, .init(text: "x"))
            #expect(answer.text == "x")
        }
    }

    @Test(arguments: Door.allCases) func `lets calls answer in any order`(_ door: Door) async throws {
        try await withDevice(door) { client, service, _ in
            let order = Locked<[Int]>([])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        let answer = try await client.call(Probe.Hold.self, .init(text: "x", number: number))
                        #expect(answer.number == number)
                        order.change { $0.append(number) }
                    }
                }
                try await eventually { service.running.value == 50 }
                for number in (0..<50).reversed() {
                    service.release(number)
                    try await eventually { order.value.last == number }
                }
                try await group.waitForAll()
            }
            #expect(order.value == (0..<50).reversed())
        }
    }

    @Test(arguments: Door.allCases) func `takes a cancellation to the service`(_ door: Door) async throws {
        try await withDevice(door) { client, service, _ in
            let call = Task { try await client.call(Probe.Hold.self, .init(text: "x", number: 1)) }
            try await eventually { service.running.value == 1 }
            call.cancel()
            await #expect(throws: KithError(.cancelled, "")) { try await call.value }
            try await eventually { service.cancelled.value == 1 }
        }
    }

    @Test(arguments: Door.allCases) func `takes a deadline to the service`(_ door: Door) async throws {
        try await withDevice(door) { client, service, _ in
            await #expect(throws: KithError(.timedOut, "")) {
                try await client.call(
                    Probe.Hold.self, .init(text: "x", number: 1), options: .init(timeout: .milliseconds(50)))
            }
            try await eventually { service.cancelled.value == 1 }
        }
    }

    @Test(arguments: Door.allCases) func `carries a stream both ways`(_ door: Door) async throws {
        try await withDevice(door) { client, _, _ in
            let opened = try await client.open(Probe.Pipe.self, .init(text: "hello", number: 3))
            #expect(opened.output == Probe.Text(text: "hello", number: 3))
            async let received = {
                var numbers: [Int] = []
                for try await message in opened.stream.messages { numbers.append(message.number) }
                return numbers
            }()
            for number in 0..<500 { try await opened.stream.send(.init(text: "x", number: number)) }
            try await opened.stream.finish()
            #expect(try await received == Array(0..<500))

            let named = try await client.open(named: "probe.pipe", ["text": "hello", "number": 3])
            try await named.send(["text": "y", "number": 9])
            #expect(try await named.next() == ["text": "y", "number": 9])
            try await named.finish()
            #expect(try await named.next() == nil)
        }
    }

    @Test(arguments: Door.allCases) func `says how a stream has failed`(_ door: Door) async throws {
        try await withDevice(door) { client, _, _ in
            let stream = try await client.open(Probe.Refuse.self, Nothing()).stream
            #expect(try await stream.receive()?.text == "one")
            let error = await #expect(throws: KithError.self) { try await stream.receive() }
            #expect(error?.code == .conflict && error?.message == ProbeService.failure.message)
            #expect(error?.detail?.code == "lamp.hot")
        }
    }

    @Test(arguments: Door.allCases) func `stops a service that nobody reads, and harms nobody`(_ door: Door)
        async throws
    {
        try await withDevice(door) { client, service, _ in
            let stream = try await client.open(Probe.Flood.self, Nothing()).stream
            // It stands still at some time: what is under way is bounded.
            var last = -1
            try await eventually {
                defer { last = service.sent.value }
                return last > 0 && last == service.sent.value
            }
            #expect(service.sent.value * (8 << 10) < 32 << 20)
            #expect(try await client.call(Probe.Echo.self, .init(text: "x")).text == "x")
            for number in 0..<100 { #expect(try await stream.receive()?.number == number) }
            stream.abort(.cancelled)
            try await eventually { service.cancelled.value == 1 }
        }
    }

    @Test(arguments: Door.allCases) func `carries large inputs and answers, or says that they are`(
        _ door: Door
    ) async throws {
        try await withDevice(door) { client, _, _ in
            let large = 1_000_000
            let answer = try await client.call(
                Probe.Large.self, .init(bytes: Data(repeating: 1, count: large), answer: large))
            #expect(answer.answer == large && answer.bytes.count == large && answer.bytes.allSatisfy { $0 == 7 })
            guard door != .inProcess else { return }
            // One line has 4 MiB at most: an input that does not fit ends the connection, with a word.
            await #expect(throws: KithError.self) {
                try await client.call(Probe.Large.self, .init(bytes: Data(repeating: 1, count: 4 << 20), answer: 0))
            }
        }
    }

    @Test(arguments: Door.allCases) func `ends what runs when the device stops`(_ door: Door) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        (options.apiPort, options.node.drain) = (0, .milliseconds(50))
        let device = try await Kith.open(dataDirectory: folder.path, options: options)
        let service = ProbeService()
        try device.add(service)
        var ends: [Task<Void, any Error>] = []
        var close: @Sendable () -> Void = {}
        try await device.whileRunning {
            let client: Client
            (client, close) = try await door.client(of: device, in: folder.path)
            let stream = try await client.open(Probe.Pipe.self, .init(text: "x")).stream
            ends = [
                Task { _ = try await client.call(Probe.Hold.self, .init(text: "x", number: 1)) },
                Task { _ = try await stream.receive() },
            ]
            try await eventually { service.running.value == 1 }
        }
        for end in ends {
            let error = await #expect(throws: KithError.self) { try await end.value }
            #expect([.closed, .cancelled].contains(error?.code), "\(String(describing: error))")
        }
        close()
    }

    @Test(arguments: [Door.socket, .loopback]) func `ends what runs when it is closed, and connects anew`(
        _ door: Door
    ) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.apiPort = 0
        let device = try await Kith.open(dataDirectory: folder.path, options: options)
        let service = ProbeService()
        try device.add(service)
        try await device.whileRunning {
            let (client, close) = try await door.client(of: device, in: folder.path)
            let call = Task { try await client.call(Probe.Hold.self, .init(text: "x", number: 1)) }
            try await eventually { service.running.value == 1 }
            close()
            await #expect(throws: KithError(.closed, "")) { try await call.value }
            try await eventually { service.cancelled.value == 1 }
            await #expect(throws: KithError(.closed, "")) { try await client.call(Probe.Echo.self, .init(text: "x")) }
            let (again, closeAgain) = try await door.client(of: device, in: folder.path)
            #expect(try await again.call(Probe.Echo.self, .init(text: "x")).text == "x")
            closeAgain()
        }
    }
}
