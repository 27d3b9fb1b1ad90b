public import KithAPI
public import KithIdentity
import KithNet
public import KithWire
import Synchronization

/// Calls of this device to others.
extension Node {
    /// Connects to a paired device, unless it is connected already.
    public func connect(to device: String) async throws -> LinkStatus? {
        let target = try self.target(device)
        return try await link(to: target, timeout: options.connectTimeout).status()
    }

    /// Finds the device to call; a device that has stopped has no list of them.
    private func target(_ device: String) throws -> KnownDevice {
        if isShuttingDown { throw Self.stopping }
        let target = try resolve(device)
        guard !target.isExpired else {
            throw KithError(
                .unpaired,
                "The certificate by which \(target.name) is known is over. Have it renewed there, then: kith connect \(target.name)"
            )
        }
        return target
    }

    /// A call to another device, with its input and output as CBOR.
    func call(_ method: AnyMethod, _ input: [UInt8], on device: String, options: CallOptions) async throws -> [UInt8] {
        try await observed(method.name, method.kind, on: device, options) { options in
            try await self.ask(method, input, on: device, options: options)
        }
    }

    private func ask(
        _ method: AnyMethod, _ input: [UInt8], on device: String, options: CallOptions
    ) async throws -> [UInt8] {
        let target = try self.target(device)
        return try await within(options.timeout, method.name, to: target) { scope, deadline in
            // An unpaired device that asks for an echo is refused, and may still call what is open to it.
            if method.kind == .action, !method.header.isIdempotent, !method.header.isOpenToUnpaired {
                try await self.confirm(target, scope, deadline: deadline, options)
            }
            return try await self.request(
                method.header, input, of: target, scope, deadline: deadline, options
            ).output
        }
    }

    /// A stream to another device; the deadline is for its acceptance.
    func open(_ method: AnyMethod, _ input: [UInt8], on device: String, options: CallOptions) async throws
        -> (output: [UInt8], stream: any ByteStream)
    {
        try await observed(method.name, .stream, on: device, options) { options in
            let target = try self.target(device)
            return try await self.within(options.timeout, method.name, to: target) { scope, deadline in
                let answer = try await self.request(
                    method.header, input, of: target, scope, deadline: deadline, options)
                return (answer.output, answer.stream)
            }
        }
    }

    /// Asks for a stream, and does not wait for the answer.
    func begin(_ method: MethodHeader, _ input: [UInt8], on device: String, options: CallOptions) async throws
        -> any ByteStream
    {
        let name = method.name
        return try await observed(name, .stream, on: device, options) { options in
            let target = try self.target(device)
            return try await self.within(options.timeout, name, to: target) { scope, deadline in
                let (_, stream) = try await self.freshStream(to: target, scope, isEarly: false, deadline: deadline)
                do {
                    try scope.attach(stream)
                    method.traffic.prioritize(stream, isCaller: true)
                    try await stream.write(
                        self.header(name, input, deadline: deadline, trace: options.trace).encoded())
                } catch {
                    stream.abort(.cancelled)
                    throw error
                }
                return stream
            }
        }
    }

    /// Opens a stream of a device that need not be paired yet, at the addresses and relays of its ticket.
    ///
    /// - Returns: what it answered, the stream, and the exporter of the connection's keying material, 32 bytes.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, at device: DeviceID, addresses: [NetworkAddress], relays: [String] = [],
        options: CallOptions = CallOptions()
    ) async throws -> (
        opened: OpenedStream<M>,
        exportKeyingMaterial: @Sendable (_ label: String, _ context: [UInt8]) async throws -> [UInt8]
    ) {
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let target = KnownDevice(id: device, name: device.short, grants: [], addresses: addresses)
        if !relays.isEmpty { dialer?.note(relays, of: device) }
        let (link, output, stream) = try await observed(M.name, .stream, on: device.short, options) { options in
            try await self.within(options.timeout, M.name, to: target) { scope, deadline in
                try await self.request(M.header, bytes, of: target, scope, deadline: deadline, options)
            }
        }
        let opened = OpenedStream<M>(output: try Self.output(of: method, coding, .cbor(output)), stream: stream)
        return (opened, { try await link.exportKeyingMaterial(label: $0, context: $1) })
    }

    // MARK: - Parts

    static let otherForm = KithError(.internal, "The answer has another form than the request.")

    static func output<M: Method>(of method: M.Type, _ coding: AnyMethod, _ payload: Payload) throws -> M.Output {
        do {
            guard let output = try coding.output.decode(payload) as? M.Output else { throw otherForm }
            return output
        } catch let error as KithError where error.code == .invalid {
            throw KithError(.corrupt, "The answer makes no sense to this version of Kith.", cause: error)
        }
    }

    private func within<Result: Sendable>(
        _ timeout: Duration?, _ name: String, to target: KnownDevice,
        _ body: @escaping @Sendable (CallScope, ContinuousClock.Instant?) async throws -> Result
    ) async throws -> Result {
        if isShuttingDown { throw Self.stopping }
        let deadline = timeout.map { clock.now.advanced(by: $0) }
        let scope = CallScope(timers: timers)
        do {
            return Self.mayBlock(#isolation)
                ? try await scope.runHere(until: deadline) { try await body(scope, deadline) }
                : try await scope.run(name, until: deadline) { try await body(scope, deadline) }
        } catch is CancellationError {
            throw KithError(.cancelled, "The call was cancelled.")
        } catch let error as KithError where error.code == .timedOut {
            throw await silence(of: target, error) ?? error
        }
    }

    /// The silence after which a device is named as the reason for what was not done in time.
    private static let longSilence = Duration.seconds(1)

    /// The error of a connection that stands, and on which nothing was heard while the time ran out; `nil` for others.
    private func silence(of target: KnownDevice, _ error: KithError) async -> KithError? {
        guard let status = await dialer?.current(target.id)?.status(), status.quiet > Self.longSilence else {
            return nil
        }
        let seconds = Int((status.quiet / .seconds(1)).rounded())
        return KithError(
            .timedOut,
            "\(target.name) does not answer; it was last heard \(seconds) s ago.\(tried(target)) `kith doctor \(target.name)` says more.",
            cause: error)
    }

    /// A sentence about the ways to a device, with a space before it; empty when none is known.
    private func tried(_ target: KnownDevice) -> String {
        let places = hints.places(of: target)
        let permitted = dialer?.reach?.addresses(places, for: target.id) ?? places
        var ways = hints.hosts(of: target).map(\.description) + permitted.prefix(3).map(\.description)
        if permitted.count > 3 { ways.append("\(permitted.count - 3) more addresses") }
        ways += dialer?.reach?.relayWords(to: target.id) ?? []
        return ways.isEmpty ? "" : " Tried: \(ways.joined(separator: ", "))."
    }

    private func header(
        _ method: String, _ input: [UInt8], deadline: ContinuousClock.Instant?, trace: TraceContext?
    ) throws -> StreamHeader {
        let left = try deadline.map { deadline in
            let (seconds, attoseconds) = (deadline - clock.now).components
            guard seconds > 0 || attoseconds > 0 else {
                throw KithError(.timedOut, "The time was up before anything was sent.")
            }
            return UInt64(max(1, min(seconds, 1 << 40) * 1000 + attoseconds / 1_000_000_000_000_000))
        }
        return StreamHeader(method: method, millisecondsLeft: left, trace: trace, input: input)
    }

    /// Ensures that the other device is there.
    ///
    /// An action runs at most once, so it must not be the call that discovers a dead connection. Costs a round trip
    /// after a tenth of a second without a sign of life.
    private func confirm(
        _ target: KnownDevice, _ scope: CallScope, deadline: ContinuousClock.Instant?, _ options: CallOptions
    ) async throws {
        var options = options
        options.trace = nil
        guard let link = dialer?.current(target.id), let status = await link.status(), status.quiet > .milliseconds(100)
        else { return }
        let echo = AnyMethod(ThisDevice.Echo.self)
        guard case .cbor(let nothing) = try echo.input.encode(ThisDevice.Echo.Payload(bytes: ByteString([])), .cbor)
        else { throw Self.otherForm }
        _ = try await request(echo.header, nothing, of: target, scope, deadline: deadline, options)
    }

    /// Asks on a fresh stream, and once more on a new connection when the first was found dead only now and asking twice
    /// does no harm: what is idempotent always, a stream when the other end has shown no sign of having seen it.
    ///
    /// A query to a device that was connected before goes out with the first flight (0-RTT), because it may be asked
    /// twice; actions and streams wait for the handshake.
    private func request(
        _ method: MethodHeader, _ input: [UInt8], of target: KnownDevice, _ scope: CallScope,
        deadline: ContinuousClock.Instant?, _ options: CallOptions
    ) async throws -> (link: any PeerLink, output: [UInt8], stream: any ByteStream) {
        var isRetry = false
        let start = clock.now
        while true {
            let link: any PeerLink
            let stream: any ByteStream
            do {
                (link, stream) = try await freshStream(
                    to: target, scope, isEarly: method.kind == .query && !isRetry, deadline: deadline)
            } catch let error as KithError where error.code == .unpaired {
                // It refused the handshake, or closed the connection before anything was asked.
                throw try forgotten(by: target, error) ?? error
            }
            let watch = silenceWatch(link, of: target, scope, method.kind, options)
            defer { watch?.end() }
            do {
                try scope.attach(stream)
                let header = try self.header(method.name, input, deadline: deadline, trace: options.trace)
                method.traffic.prioritize(stream, isCaller: true)
                let (output, rest) = try await HeaderExchange.request(
                    header, over: stream, isCall: method.kind != .stream)
                // Not while pairing: the other end may not have this device among its own yet.
                if !method.isOpenToUnpaired {
                    noteAnswer(of: target.id)
                }
                return (link, output, rest)
            } catch {
                // The other end must not work for a caller that is gone.
                stream.abort(.cancelled)
                if let reason = scope.reason { throw reason }
                let code = (error as? KithError)?.code
                if code == .unpaired, let forgotten = try forgotten(by: target, error) { throw forgotten }
                let isLost = !link.isOpen && (code == .closed || Self.isPortClosed(error))
                // Asked early, but it never answered there: another attempt to reach it was faster, or none was.
                let wasAnswered =
                    link.isOpen ? true : try await scope.awaited { await link.handshakeCompleted() }
                let isUnanswered = code != nil && !wasAnswered
                if code == .timedOut, isUnanswered || (!link.isOpen && method.kind != .action) {
                    throw unanswered(target, since: start, error)
                }
                let isHarmless =
                    method.isIdempotent
                    ? isLost || isUnanswered || link.isUndelivered(stream)
                    : method.kind == .stream && link.isUndelivered(stream)
                if isHarmless, !isRetry {
                    isRetry = true
                } else if isLost, method.kind == .action {
                    throw KithError(
                        .closed,
                        "The connection to \(target.name) was lost before it answered: it may have been done, or not.",
                        cause: error)
                } else if Self.isPortClosed(error) {
                    throw Self.notRunning(target, error)
                } else {
                    throw error
                }
            }
        }
    }

    /// Gives the call up when the device falls silent; nil for what waits as long as the connection lasts.
    private func silenceWatch(
        _ link: any PeerLink, of target: KnownDevice, _ scope: CallScope, _ kind: MethodKind, _ options: CallOptions
    ) -> SilenceWatch? {
        let usual = options.timeout == nil && kind != .stream ? self.options.silence : nil
        guard let limit = options.silenceLimit ?? usual else { return nil }
        return SilenceWatch(
            link, of: target.name, scope, limit: limit, patience: min(limit, self.options.heartbeat), timers: timers,
            clock: clock)
    }

    /// The device says that it does not know this one: notes it, and says what to do; nil where the two never were paired.
    private func forgotten(by target: KnownDevice, _ error: any Error) throws -> KithError? {
        guard try directory.device(target.id) != nil else { return nil }
        noteForgotten(by: target.id)
        return KithError(
            .unpaired,
            "\(target.name) is not paired with this device any more. Pair again: `kith invite` there, `kith pair` here.",
            cause: error)
    }

    /// A fresh stream; a connection found dead before anything was sent is replaced once.
    private func freshStream(
        to target: KnownDevice, _ scope: CallScope, isEarly: Bool, deadline: ContinuousClock.Instant?
    ) async throws -> (any PeerLink, any ByteStream) {
        if let link = try openLink(to: target), let stream = link.openStreamNow() { return (link, stream) }
        return try await scope.awaited {
            try await self.freshStream(to: target, isEarly: isEarly, deadline: deadline)
        }
    }

    private func freshStream(
        to target: KnownDevice, isEarly: Bool, deadline: ContinuousClock.Instant?
    ) async throws -> (any PeerLink, any ByteStream) {
        var isRetry = false
        while true {
            // A little less than what is left: the caller is to learn which device did not answer, not that time is up.
            let left = deadline.map { ($0 - clock.now) * 0.98 }
            let timeout = min(options.connectTimeout, left ?? options.connectTimeout)
            let link = try await link(to: target, isEarly: isEarly && !isRetry, timeout: timeout)
            do {
                return (link, try await link.openStream())
            } catch let error as KithError
                where !isRetry && (error.code == .closed || isEarly && !link.isOpen || Self.isPortClosed(error))
            {
                isRetry = true
            }
        }
    }

    /// The connection that is there; nil when one has to be made.
    private func openLink(to target: KnownDevice) throws -> (any PeerLink)? {
        guard let dialer, let link = dialer.current(target.id), link.isOpen, !dialer.isParticular(about: target.id)
        else { return nil }
        // At once, and not when a dead connection is found to be one.
        guard isReachable || link.address?.isLoopback == true else { throw Self.offline }
        return link
    }

    private func link(to target: KnownDevice, isEarly: Bool = false, timeout: Duration) async throws -> any PeerLink {
        guard target.id != id else { throw KithError(.invalid, "\(target.name) is this device itself.") }
        guard let dialer else {
            throw KithError(.unreachable, "This device is not on the network now; `kith up` starts it.")
        }
        if let link = try openLink(to: target) { return link }
        let start = clock.now
        var addresses = await places(of: target, within: timeout)
        let timeout = timeout - (clock.now - start)
        if !isReachable {
            // It may be on this very machine.
            addresses = addresses.filter(\.isLoopback)
            if addresses.isEmpty { throw Self.offline }
        }
        guard !addresses.isEmpty || dialer.isRelayKnown(of: target.id) || dialer.asksDirectories else {
            let names = hints.hosts(of: target).map(\.name)
            guard names.isEmpty else {
                throw KithError(
                    .unreachable,
                    "\(names.joined(separator: ", ")), where \(target.name) is said to be, has no address.")
            }
            throw KithError(
                .unreachable, "No address of \(target.name) is known. It will be when it connects to this device.")
        }
        guard timeout > .zero else {
            throw KithError(.timedOut, "\(target.name) was not reached in time.")
        }
        do {
            return try await dialer.dial(target.id, at: addresses, isEarly: isEarly, timeout: timeout)
        } catch  where !isReachable {
            throw Self.offline
        } catch let error as KithError where error.cause is UnmetPreference {
            let unmet = error.cause as? UnmetPreference
            throw KithError(error.code, unmet?.message(for: target.name) ?? error.message, cause: error.cause)
        } catch let error as KithError where error.code == .timedOut {
            throw unanswered(target, since: start, error)
        } catch  where Self.isPortClosed(error) {
            throw Self.notRunning(target, error)
        }
    }

    private static let offline = KithError(
        .unreachable, "This device is on no network now. It reaches the others again as soon as there is one.")

    private static func isPortClosed(_ error: any Error) -> Bool { (error as? KithError)?.cause is PortClosed }

    /// Makes the error of a device whose machine says that nothing listens there.
    private static func notRunning(_ target: KnownDevice, _ error: any Error) -> KithError {
        KithError(
            .unreachable,
            "\(target.name)'s machine answers, but no Kith is running there. Start it there: kith up",
            cause: (error as? KithError)?.cause)
    }

    /// Makes the error of a device that has not answered since `start`.
    private func unanswered(
        _ target: KnownDevice, since start: ContinuousClock.Instant, _ error: any Error
    ) -> KithError {
        let seconds = max(1, Int(((clock.now - start) / .seconds(1)).rounded()))
        return KithError(
            .unreachable,
            "\(target.name) did not answer within \(seconds) s.\(tried(target)) `kith doctor \(target.name)` says why.",
            cause: error)
    }
}
