import KithAPI
import KithIdentity
import KithNet
import KithWire
import Synchronization

/// Measures connections: the end that asks, and the end that sends and receives the bytes.
public final class LoadService: Service {
    /// The node owns its services, and outlives their calls.
    private unowned let node: Node
    /// The devices that measure now; `nil` stands for the owner.
    private let busy = Mutex<Set<DeviceID?>>([])
    /// The most that may measure at once, so that none keeps the others from it.
    private static let limit = 4

    /// Makes the service.
    public init(node: Node) { self.node = node }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .stream(Reach.Load.self) { input, context, pending in try await self.load(input, context, pending) },
            .stream(Reach.Measure.self) { input, context, pending in try await self.measure(input, context, pending) },
        ]
    }

    private static let block = 256 << 10

    /// Bytes that a compressor on the path cannot shrink.
    private static let noise: [UInt8] = {
        var state = UInt64.random(in: 0 ... .max)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(block)
        for _ in 0..<block {
            // Knuth's linear congruence (MMIX); its upper bits are as good as needed.
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            bytes.append(UInt8(truncatingIfNeeded: state >> 56))
        }
        return bytes
    }()

    // MARK: - The end that is asked

    private func load(
        _ input: Reach.Load.Input, _ context: CallContext, _ pending: PendingStream<Reach.Load>
    ) async throws {
        guard (1...Reach.Load.longest).contains(input.milliseconds) else {
            throw KithError(.invalid, "A measurement takes up to \(Reach.Load.longest / 1_000) s.")
        }
        if case .device(_, let name, _) = context.caller, context.grants.isEmpty {
            throw KithError(
                .denied,
                "Measuring needs some grant, no matter which. On the other device: kith grant \(name) --add GRANT")
        }
        let device = context.caller.device
        let isFirst = busy.withLock { $0.count < Self.limit && $0.insert(device).inserted }
        guard isFirst else {
            throw KithError(.exhausted, "Another measurement runs on that device now. Try again when it is over.")
        }
        defer { busy.withLock { _ = $0.remove(device) } }
        let stream = try await pending.accept().bytes
        let time = Duration.milliseconds(input.milliseconds)
        switch input.direction {
        case .down:
            try await Self.send(to: stream, for: time) { _ in }
            try await stream.finish()
        case .up:
            // What is under way when the time is over still arrives: a slow link has that much of it.
            let count = try await withDeadline(.now + time + .seconds(30)) {
                try await Self.receive(from: stream) { _ in }
            }
            try await stream.write((0..<8).map { UInt8(truncatingIfNeeded: count >> UInt64(56 - 8 * $0)) })
            try await stream.finish()
        }
    }

    /// Sends for a while.
    private static func send(
        to stream: any ByteStream, for time: Duration, _ report: @Sendable (UInt64) async throws -> Void
    ) async throws {
        let bytes = noise
        let end = ContinuousClock.now + time
        var sent: UInt64 = 0
        while ContinuousClock.now < end, sent < Reach.Load.mostBytes {
            try await stream.write(bytes)
            sent += UInt64(bytes.count)
            try await report(sent)
        }
    }

    /// Counts what comes until the other end is done.
    private static func receive(
        from stream: any ByteStream, _ report: @Sendable (UInt64) async throws -> Void
    ) async throws -> UInt64 {
        var count: UInt64 = 0
        while let bytes = try await stream.read(upTo: block) {
            count += UInt64(bytes.count)
            guard count <= Reach.Load.mostBytes + UInt64(block) else {
                throw KithError(.exhausted, "More bytes came than one measurement has.")
            }
            try await report(count)
        }
        return count
    }

    // MARK: - The end that asks

    private typealias Reports = MethodStream<Nothing, Reach.Measure.Report>

    private func measure(
        _ input: Reach.Measure.Input, _ context: CallContext, _ pending: PendingStream<Reach.Measure>
    ) async throws {
        guard (100...Reach.Load.longest).contains(input.milliseconds), (1...10_000).contains(input.requests) else {
            throw KithError(.invalid, "A measurement takes 0.1 to 30 s each way and 1 to 10,000 requests.")
        }
        _ = try await node.connect(to: input.device)
        let device = try node.resolve(input.device)
        let before = await node.link(to: device.id)?.statistics
        let messages = try await pending.accept()
        do {
            try await measure(input, context, messages, device, before)
        } catch let error as KithError {
            // An accepted stream carries codes only; the sentence says what to do.
            try await messages.send(
                Reach.Measure.Report(phase: "failed", progress: 1, code: error.code, message: error.message))
        }
        try await messages.finish()
    }

    private func measure(
        _ input: Reach.Measure.Input, _ context: CallContext, _ messages: Reports, _ device: KnownDevice,
        _ before: ConnectionStatistics?
    ) async throws {
        var latencies: [Double] = []
        let empty = ThisDevice.Echo.Payload(bytes: ByteString([]))
        var spoken = ContinuousClock.now
        for number in 1...input.requests {
            let start = ContinuousClock.now
            _ = try await context.client.call(
                ThisDevice.Echo.self, empty, on: input.device, options: CallOptions(timeout: .seconds(10)))
            latencies.append((ContinuousClock.now - start) / .milliseconds(1))
            if ContinuousClock.now - spoken > .milliseconds(200) {
                spoken = .now
                try await messages.send(
                    Reach.Measure.Report(phase: "latency", progress: Double(number) / Double(input.requests)))
            }
        }
        latencies.sort()
        let down = try await down(input, context, messages)
        let up = try await up(input, context, messages, down: down)
        let after = await node.link(to: device.id)
        var link = after?.statistics.map { Reach.Link($0) }
        if let before, let counted = link {
            link?.packetsSent = counted.packetsSent &- before.packetsSent
            link?.packetsLost = counted.packetsLost &- before.packetsLost
        }
        try await messages.send(
            Reach.Measure.Report(phase: "done", progress: 1, latencies: latencies, down: down, up: up, link: link))
    }

    private func down(
        _ input: Reach.Measure.Input, _ context: CallContext, _ messages: Reports
    ) async throws -> Double {
        let stream = try await context.client.open(
            Reach.Load.self, Reach.Load.Input(direction: .down, milliseconds: input.milliseconds), on: input.device,
            options: CallOptions(timeout: .seconds(10))
        ).stream.bytes
        let meter = Meter(input, "down", messages)
        try? await stream.finish()  // the device reads nothing, and may have sent everything before this is said
        let count = try await Self.receive(from: stream) { try await meter.passed($0) { ($0, nil) } }
        return Double(count) / meter.seconds
    }

    private func up(
        _ input: Reach.Measure.Input, _ context: CallContext, _ messages: Reports, down: Double
    ) async throws -> Double {
        let stream = try await context.client.open(
            Reach.Load.self, Reach.Load.Input(direction: .up, milliseconds: input.milliseconds), on: input.device,
            options: CallOptions(timeout: .seconds(10))
        ).stream.bytes
        let meter = Meter(input, "up", messages)
        try await Self.send(to: stream, for: .milliseconds(input.milliseconds)) {
            try await meter.passed($0) { (down, $0) }
        }
        try await stream.finish()
        var answer: [UInt8] = []
        while answer.count < 8, let bytes = try await stream.read(upTo: 8 - answer.count) { answer += bytes }
        guard answer.count == 8 else {
            throw KithError(.closed, "The device did not say how much had arrived.")
        }
        // Until the count is here, everything has arrived.
        return Double(answer.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }) / meter.seconds
    }

    /// Turns counts into reports, five in a second.
    private final class Meter: Sendable {
        private let start = ContinuousClock.now
        private let spoken: Mutex<ContinuousClock.Instant>
        private let input: Reach.Measure.Input
        private let phase: String
        private let messages: Reports

        init(_ input: Reach.Measure.Input, _ phase: String, _ messages: Reports) {
            (self.input, self.phase, self.messages) = (input, phase, messages)
            spoken = Mutex(start)
        }

        var seconds: Double { max((ContinuousClock.now - start) / .seconds(1), 0.000_001) }

        func passed(_ count: UInt64, _ rates: @Sendable (Double) -> (Double?, Double?)) async throws {
            let isTime = spoken.withLock { spoken in
                guard ContinuousClock.now - spoken > .milliseconds(200) else { return false }
                spoken = .now
                return true
            }
            guard isTime else { return }
            let (down, up) = rates(Double(count) / seconds)
            try await messages.send(
                Reach.Measure.Report(
                    phase: phase, progress: min(1, seconds * 1_000 / Double(input.milliseconds)), down: down, up: up))
        }
    }
}
