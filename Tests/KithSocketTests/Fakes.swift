import KithAPI
import KithSocket
import KithTesting
import KithWire
import Logging
import Testing

enum Echo: Method {
    struct Payload: Codable, Sendable { var text: String }
    typealias Input = Payload
    typealias Output = Payload
    static let header = MethodHeader.query("test.echo", by: .owner, "")
}

enum Fail: Method {
    struct Input: Codable, Sendable { var code: KithError.Code }
    typealias Output = Nothing
    static let header = MethodHeader.query("test.fail", by: .owner, "")
}

/// Methods without input or output of note.
protocol Plain: Method where Input == Nothing {}
protocol PlainStream: Plain, StreamMethod where Upstream == RawBytes, Downstream == RawBytes {}
enum Hang: Plain {
    typealias Output = Nothing
    static let header = MethodHeader.query("test.hang", by: .owner, "")
}
enum Wait: Plain {
    typealias Output = Nothing
    static let header = MethodHeader.query("test.wait", by: .owner, "")
}
enum Act: Plain {
    typealias Output = Nothing
    static let header = MethodHeader.action("test.act", by: .owner, "")
}
enum Loop: PlainStream {
    typealias Output = String
    static let header = MethodHeader.stream("test.loop", by: .owner, "")
}
enum Refuse: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.refuse", by: .owner, "")
}
enum AbortLater: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.abort", by: .owner, "")
}
enum Listen: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.listen", by: .owner, "")
}
enum Idle: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.idle", by: .owner, "")
}
enum NeverAccept: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.never", by: .owner, "")
}
struct Number: StreamMessage, Hashable {
    var value: Int
}
enum Count: Plain, StreamMethod {
    typealias Upstream = Number
    typealias Downstream = Number
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.count", by: .owner, "")
}
enum Dropped: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.dropped", by: .owner, "")
}
/// Ends before its caller does.
enum Short: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.short", by: .owner, "")
}
enum Flood: PlainStream {
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.flood", by: .owner, "")
}

/// Serves the methods above, as a node would.
final class FakeDispatcher: Dispatcher {
    static let floodSize = 20 << 20

    let last = Locked<IncomingCall?>(nil)
    let failure = Locked<KithError.Code?>(nil)
    let started = Signal()
    let cancelled = Signal()
    let proceed = Signal()
    /// The service a program has registered.
    let registered = Locked<(any ExternalService)?>(nil)
    let removed = Signal()

    func add(_ service: any ExternalService) throws -> @Sendable (KithError) async -> Void {
        registered.set(service)
        return { _ in self.removed.open() }
    }

    private static let entries = [
        AnyMethod(Loop.self), AnyMethod(Refuse.self), AnyMethod(AbortLater.self), AnyMethod(Listen.self),
        AnyMethod(Idle.self), AnyMethod(NeverAccept.self), AnyMethod(Flood.self), AnyMethod(Count.self),
        AnyMethod(Dropped.self), AnyMethod(Short.self), AnyMethod(Echo.self), AnyMethod(Fail.self),
        AnyMethod(Hang.self), AnyMethod(Wait.self),
    ]

    func entry(_ method: String) -> AnyMethod? { Self.entries.first { $0.name == method } }

    func dispatch(_ call: IncomingCall) async throws -> Payload {
        last.set(call)
        switch call.method {
        case Echo.name:
            let coding = AnyMethod(Echo.self)
            return try coding.output.encode(try coding.input.decode(call.input), .json)
        case Fail.name:
            guard let input = try AnyMethod(Fail.self).input.decode(call.input) as? Fail.Input else { throw Odd() }
            throw KithError(input.code, "As asked.")
        case Hang.name, Act.name:
            started.open()
            do { try await untilCancelled() } catch {
                cancelled.open()
                throw error
            }
        case Wait.name:
            started.open()
            await proceed.wait()
        default: throw KithError(.unsupported, "No such method.")
        }
        return .json(Array("{}".utf8))
    }

    private struct Odd: Error {}

    func dispatch(
        stream call: IncomingCall, accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws {
        last.set(call)
        switch call.method {
        case Loop.name:
            let stream = try await accept(.json(Array("\"ready\"".utf8)))
            while let bytes = try await stream.read(upTo: 128 << 10) { try await stream.write(bytes) }
            try await stream.finish()
        case AbortLater.name:
            let stream = try await accept(.json(Array("{}".utf8)))
            try await stream.write([1, 2, 3])
            stream.abort(.unpaired)
        case Listen.name:
            let stream = try await accept(.json(Array("{}".utf8)))
            do {
                while try await stream.read(upTo: 10) != nil {}
            } catch let error as KithError {
                failure.set(error.code)
                cancelled.open()
            }
        case Idle.name:
            let stream = try await accept(.json(Array("{}".utf8)))
            try await stream.write([1])
            do { try await untilCancelled() } catch {
                cancelled.open()
                stream.abort(.cancelled)
            }
        case NeverAccept.name:
            started.open()
            do { try await untilCancelled() } catch {
                cancelled.open()
                throw error
            }
        case Short.name:
            let stream = try await accept(.json(Array("{}".utf8)))
            try await stream.write([7, 7, 7])
            try await stream.finish()
        case Dropped.name: _ = try await accept(.json(Array("{}".utf8)))
        case Count.name:
            let stream = MethodStream<Number, Number>(try await accept(.json(Array("{}".utf8))))
            for try await number in stream.messages {
                if number.value < 0 { throw KithError(.denied, "Not below zero.") }
                for value in 0..<number.value { try await stream.send(Number(value: value)) }
            }
            try await stream.send(Number(value: -1))
            try await stream.finish()
        case Flood.name:
            let stream = try await accept(.json(Array("{}".utf8)))
            let chunk = [UInt8](repeating: 7, count: 1 << 20)
            for _ in 0..<20 { try await stream.write(chunk) }
            try await stream.finish()
        default: throw KithError(.denied, "Not this one.")
        }
    }
}

/// Something that happens once.
final class Signal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }
    func open() { continuation.yield() }
    func wait() async { for await _ in stream { return } }
}

func withServer(
    in directory: String? = nil, _ body: @Sendable (String, FakeDispatcher) async throws -> Void
) async throws {
    let folder = try TemporaryFolder()
    let directory = directory ?? folder.path
    let dispatcher = FakeDispatcher()
    let server = try SocketServer(directory: directory, dispatcher: dispatcher, logger: .quiet)
    try await whileRunning(server) { try await body(directory, dispatcher) }
}

func whileRunning(_ server: SocketServer, _ body: @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await server.run() }
        try await body()
        server.beginGracefulShutdown()
        group.cancelAll()
        while let result = await group.nextResult() {
            if case .failure(let error) = result, !(error is CancellationError) { throw error }
        }
    }
}

func connected(_ directory: String) async throws -> Client {
    Client(try #require(try await SocketCarrier.connect(directory: directory)))
}

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// SplitMix64, so that a failure can be repeated from its printed seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
