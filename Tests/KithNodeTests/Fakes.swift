import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

/// A table of friends in memory.
final class MemoryDirectory: DeviceDirectory {
    private let state = Mutex((devices: [DeviceID: KnownDevice](), audit: [AuditRecord](), seen: [DeviceID]()))

    init(_ devices: KnownDevice...) {
        for device in devices { set(device) }
    }

    func set(_ device: KnownDevice) { state.withLock { $0.devices[device.id] = device } }
    func setGrants(_ grants: [Grant], of id: DeviceID) { state.withLock { $0.devices[id]?.grants = grants } }
    func forget(_ id: DeviceID) { state.withLock { $0.devices[id] = nil } }
    var audit: [AuditRecord] { state.withLock { $0.audit } }
    var seenDevices: [DeviceID] { state.withLock { $0.seen } }

    func device(_ id: DeviceID) throws -> KnownDevice? { state.withLock { $0.devices[id] } }
    func devices() throws -> [KnownDevice] { state.withLock { $0.devices.values.sorted { $0.name < $1.name } } }
    func record(_ records: [AuditRecord]) throws { state.withLock { $0.audit += records } }
    func seen(_ id: DeviceID, at addresses: [NetworkAddress]) throws { state.withLock { $0.seen.append(id) } }
    func announced(_ id: DeviceID, _ addresses: [NetworkAddress]) throws {}
    func standing(_ id: DeviceID, _ grants: [Grant]?) throws {}
}

/// A stream of such a connection, which notes the priority it is given.
private final class PipeStream: StreamWrapper, PrioritizedStream {
    let base: any ByteStream
    private let link: PipeLink

    init(_ base: any ByteStream, of link: PipeLink) {
        self.base = base
        self.link = link
    }

    func setPriority(_ priority: Int32) { link.priorities.set(link.priorities.value + [priority]) }
}

/// One end of a connection made of pipes.
final class PipeLink: PeerLink {
    let peer: DeviceID
    /// The priorities that streams were given at this end.
    let priorities = Locked<[Int32]>([])
    private let streams: AsyncStream<any ByteStream>
    private let arrivals: AsyncStream<any ByteStream>.Continuation
    private let state = Mutex(State())

    private struct State {
        var isOpen = true
        var other: PipeLink?
        var ends: [End] = []
        var reason: (KithError.Code, String)?
        /// Whether streams come before the handshake is complete.
        var isEarly = false
        var completion: [Promise<Bool>] = []
        /// How long the other end has owed a sign of life.
        var silence = Duration.zero
        /// The number of times that was asked.
        var silenceLooks = 0
    }

    /// A stream that somebody may still hold.
    private struct End {
        weak var stream: (any ByteStream)?
    }

    /// What makes its keying material that of no other pair.
    private let secret: [UInt8]

    private init(peer: DeviceID, secret: [UInt8]) {
        self.peer = peer
        self.secret = secret
        (streams, arrivals) = AsyncStream.makeStream()
    }

    /// Two ends: the first is held by `first` and leads to `second`.
    static func pair(_ first: DeviceID, _ second: DeviceID, secret: [UInt8] = []) -> (PipeLink, PipeLink) {
        let (left, right) = (PipeLink(peer: second, secret: secret), PipeLink(peer: first, secret: secret))
        left.state.withLock { $0.other = right }
        right.state.withLock { $0.other = left }
        return (left, right)
    }

    /// The other end.
    var other: PipeLink? { state.withLock { $0.other } }
    var isOpen: Bool { state.withLock { $0.isOpen } }
    /// Why it was closed.
    var reason: (code: KithError.Code, message: String)? { state.withLock { $0.reason } }

    func openStream() async throws -> any ByteStream {
        let pipe = Pipe()
        let other = try state.withLock { state throws -> PipeLink? in
            guard state.isOpen else { throw KithError(.closed, "The connection is closed.") }
            state.ends.append(End(stream: pipe.left))
            return state.other
        }
        if let other { other.arrivals.yield(PipeStream(pipe.right, of: other)) }
        return PipeStream(pipe.left, of: self)
    }

    func nextStream() async -> (any ByteStream)? {
        for await stream in streams { return stream }
        return nil
    }

    func close(_ code: KithError.Code, reason: String) {
        let other = state.withLock { $0.other }
        for link in [self, other].compactMap({ $0 }) {
            let ends = link.state.withLock { state -> [End] in
                guard state.isOpen else { return [] }
                state.isOpen = false
                state.reason = (code, reason)
                defer { state.ends = [] }
                return state.ends
            }
            for end in ends { end.stream?.abort(.closed) }
            link.arrivals.finish()
        }
    }

    /// Lets the callers at the other end take their answers.
    func drain(_ limit: Duration) async {
        let other = state.withLock { $0.other }
        while other?.state.withLock({ $0.ends.contains { $0.stream != nil } }) == true { await Task.yield() }
        close(.closed, reason: "drained")
    }

    /// Makes this end one whose handshake is not complete.
    func beginEarly() { state.withLock { $0.isEarly = true } }

    /// Ends that, one way or the other.
    func endEarly(_ isComplete: Bool) {
        let waiting = state.withLock { state in
            state.isEarly = false
            defer { state.completion = [] }
            return state.completion
        }
        for promise in waiting { promise.fulfil(isComplete) }
    }

    func isEarly(_ stream: any ByteStream) -> Bool { state.withLock { $0.isEarly } }

    func handshakeCompleted() async -> Bool {
        let completion = Promise<Bool>()
        let isWaiting = state.withLock { state in
            if state.isEarly { state.completion.append(completion) }
            return state.isEarly
        }
        return isWaiting ? await completion.value() : true
    }

    /// How many wait for the end of the handshake.
    var waitingCount: Int { state.withLock { $0.completion.count } }

    /// Says how long the other end has been silent.
    func setSilence(_ silence: Duration) { state.withLock { $0.silence = silence } }
    var silenceLooks: Int { state.withLock { $0.silenceLooks } }
    func silence(_ body: @escaping @Sendable (Duration) -> Void) {
        let silence = state.withLock { state in
            state.silenceLooks += 1
            return state.silence
        }
        body(silence)
    }

    func isUndelivered(_ stream: any ByteStream) -> Bool { false }
    func status() async -> LinkStatus? {
        LinkStatus(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433), roundTrip: .milliseconds(1), quiet: .zero)
    }
    func exportKeyingMaterial(label: String, context: [UInt8]) async throws -> [UInt8] {
        Array(label.utf8) + context + secret
    }
}

/// Dials by making a pair of pipe links and having the other node serve its end.
final class PipeDialer: PeerDialer {
    private let id: DeviceID
    private let state: Mutex<State>

    private struct State {
        var peers: [DeviceID: Node]
        var links: [DeviceID: PipeLink] = [:]
        var dials = 0
        var early: [Bool] = []
    }

    init(_ id: DeviceID, peers: [DeviceID: Node]) {
        self.id = id
        state = Mutex(State(peers: peers))
    }

    var dials: Int { state.withLock { $0.dials } }
    /// Of each dial, whether it might be early.
    var early: [Bool] { state.withLock { $0.early } }
    func link(to id: DeviceID) -> PipeLink? { state.withLock { $0.links[id] } }

    func current(_ id: DeviceID) -> (any PeerLink)? { state.withLock { $0.links[id] } }

    func dial(
        _ id: DeviceID, at addresses: [NetworkAddress], isEarly: Bool, timeout: Duration
    ) async throws -> any PeerLink {
        let (near, far) = PipeLink.pair(self.id, id)
        let node = try state.withLock { state throws -> Node in
            guard let node = state.peers[id] else { throw KithError(.unreachable, "Nobody there.") }
            state.links[id] = near
            state.dials += 1
            state.early.append(isEarly)
            return node
        }
        Task { await node.serve(link: far) }
        return near
    }
}

/// Two nodes that know each other.
struct Friends {
    let laptop: Node
    let phone: Node
    let laptopDirectory: MemoryDirectory
    let dialer: PipeDialer
    let service: TestService
    let phoneID: DeviceID
    let laptopID: DeviceID

    /// The phone calls, the laptop serves; the phone holds `grants` there, or is not paired at all.
    init(
        grants: [Grant]?, options: Node.Options = Node.Options(), interceptors: [any CallInterceptor] = [],
        clock: any Ticker = ContinuousClock()
    ) throws {
        laptopID = try Self.id(1)
        phoneID = try Self.id(2)
        let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: 4433)
        laptopDirectory = MemoryDirectory()
        if let grants {
            laptopDirectory.set(KnownDevice(id: phoneID, name: "phone", grants: grants, addresses: []))
        }
        laptop = Node(
            id: laptopID, directory: laptopDirectory, interceptors: interceptors, options: options, clock: clock,
            logger: .quiet)
        service = TestService()
        try laptop.add(service)
        phone = Node(
            id: phoneID,
            directory: MemoryDirectory(
                KnownDevice(id: laptopID, name: "laptop", grants: [], addresses: [address])),
            methods: TestService().handlers.map(\.method), interceptors: interceptors, options: options, clock: clock,
            logger: .quiet)
        dialer = PipeDialer(phoneID, peers: [laptopID: laptop])
        phone.use(dialer)
    }

    static func id(_ number: UInt8) throws -> DeviceID {
        try DeviceID(publicKey: [UInt8](repeating: number, count: 32))
    }
}

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// Something that happens once.
final class Signal: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }
    func open() { continuation.yield() }
    func wait() async { for await _ in stream { return } }
}

// MARK: - Methods

/// A method whose access is in its input.
enum Guarded: Method {
    struct Input: Codable, Sendable {
        enum Rule: String, Codable, Sendable { case anyone, paired, owner, shell, read, holding }
        var rule: Rule
    }
    typealias Output = String
    static let header = MethodHeader.action("test.guarded", by: .anyone, "Guarded.")
    static func access(for input: Input) -> Access {
        switch input.rule {
        case .anyone: .anyone
        case .paired: .paired
        case .owner: .owner
        case .shell: .granted(.shell)
        case .read: .granted(.files(.read, root: "/srv/a"))
        case .holding: .holding(.files)
        }
    }
}

enum Ask: Method {
    typealias Input = String
    typealias Output = String
    static let header = MethodHeader.query("test.ask", by: .paired, "Answers.")
}

enum Hang: Method {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.query("test.hang", by: .paired, "Never answers.")
}

enum Dies: Method {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.action("test.dies", by: .paired, "Ends the connection while it runs.")
}

/// As ``Dies``, but may be asked for again.
enum Revives: Method {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.action("test.revives", by: .paired, isIdempotent: true, "Ends the connection.")
}

/// The same as a stream.
enum Reopens: StreamMethod {
    typealias Input = Nothing
    typealias Output = Nothing
    typealias Upstream = Nothing
    typealias Downstream = Nothing
    static let header = MethodHeader.stream("test.reopens", by: .paired, isIdempotent: true, "Ends the connection.")
}

enum Pour: StreamMethod {
    typealias Input = Nothing
    typealias Output = String
    static let header = MethodHeader.stream("test.pour", by: .grant(.shell), "Sends back what it gets.")
    typealias Upstream = RawBytes
    typealias Downstream = RawBytes
    static func access(for input: Input) -> Access { .granted(.shell) }
}

enum Stall: StreamMethod {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.stall", by: .grant(.shell), "Accepts, then neither reads nor writes.")
    typealias Upstream = RawBytes
    typealias Downstream = RawBytes
    static func access(for input: Input) -> Access { .granted(.shell) }
}

enum Slow: StreamMethod {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.slow", by: .anyone, "Never accepts.")
    typealias Upstream = RawBytes
    typealias Downstream = RawBytes
}

enum Fails: StreamMethod {
    struct Input: Codable, Sendable {
        var code: KithError.Code
        var accepts: Bool
    }
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.fails", by: .paired, "Fails.")
    typealias Upstream = RawBytes
    typealias Downstream = RawBytes
}

final class TestService: Service {
    let started = Signal()
    let cancelled = Signal()
    let lastContext = Locked<CallContext?>(nil)
    let served = Locked(0)
    let onDies = Locked<(@Sendable () -> Void)?>(nil)

    private func hang() async throws {
        started.open()
        do {
            try await untilCancelled()
        } catch {
            cancelled.open()
            throw error
        }
    }

    var handlers: [Handler] {
        [
            .call(Guarded.self) { _, context in
                self.lastContext.set(context)
                self.served.set(self.served.value + 1)
                return "done"
            },
            .call(Ask.self) { input, context in
                self.lastContext.set(context)
                return input + "!"
            },
            .call(Hang.self) { _, context in
                self.lastContext.set(context)
                try await self.hang()
                return Nothing()
            },
            .call(Dies.self) { _, _ in
                self.served.set(self.served.value + 1)
                self.onDies.value?()
                return Nothing()
            },
            .call(Revives.self) { _, _ in
                self.served.set(self.served.value + 1)
                self.onDies.value?()
                return Nothing()
            },
            .stream(Reopens.self) { _, _, pending in
                self.served.set(self.served.value + 1)
                self.onDies.value?()
                try await pending.accept().finish()
            },
            .stream(Pour.self) { _, context, pending in
                self.lastContext.set(context)
                let stream = try await pending.accept("ready")
                while let bytes = try await stream.read(upTo: 64 << 10) { try await stream.write(bytes) }
                try await stream.finish()
            },
            .stream(Stall.self) { _, _, pending in
                let stream = try await pending.accept()
                try await stream.write([1])
                try await self.hang()
            },
            .stream(Export.self) { _, context, pending in
                let stream = try await pending.accept()
                guard let bytes = try await context.exportKeyingMaterial?("label", [1, 2]) else { return }
                try await stream.write(bytes)
            },
            .stream(Slow.self) { _, _, _ in try await self.hang() },
            .stream(Fails.self) { input, _, pending in
                if input.accepts { _ = try await pending.accept() }
                throw KithError(input.code, "As asked.")
            },
        ]
    }
}

/// Sends what the connection's exporter gives.
enum Export: StreamMethod {
    typealias Input = Nothing
    typealias Output = Nothing
    static let header = MethodHeader.stream("test.export", by: .anyone, "Exports.")
    typealias Upstream = Nothing
    typealias Downstream = RawBytes
}

/// A service whose one call waits until it is called off; notes what happens to it, in order.
final class Pausing: Service {
    enum Pause: Method {
        typealias Input = Nothing
        typealias Output = Nothing
        static let header = MethodHeader.action("test.pause", by: .paired, "Waits until it is called off.")
    }

    let begun = Signal()
    let course = Locked<[String]>([])

    var handlers: [Handler] {
        [
            .call(Pause.self) { _, _ in
                self.course.set(self.course.value + ["begun"])
                self.begun.open()
                // Only cancelling ends it.
                try? await untilCancelled()
                self.course.set(self.course.value + ["ended"])
                try Task.checkCancellation()
                return Nothing()
            }
        ]
    }

    func stop() async { course.set(course.value + ["stopped"]) }
}
