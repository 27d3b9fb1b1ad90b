import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging

/// The log and the interceptors around each call.
///
/// The log names methods, devices, durations and codes; never the content of calls.
extension Node {
    /// Serves a call through the interceptors, and logs it.
    func observed<Result: Sendable>(
        _ method: AnyMethod, _ context: CallContext, _ body: @escaping @Sendable (CallContext) async throws -> Result
    ) async throws -> Result {
        if interceptors.isEmpty, logger.logLevel > .debug { return try await body(context) }
        return try await logged("served a call", method.name, from: Self.text(context.caller)) {
            try await intercepted(
                ServedCall(method: method.name, kind: method.kind, context: context), by: self.interceptors,
                with: { try await $0.serve($1, next: $2) }
            ) { try await body($0.context) }
        }
    }

    /// Makes a call to another device through the interceptors, and logs it.
    func observed<Result: Sendable>(
        _ name: String, _ kind: MethodKind, on device: String, _ options: CallOptions,
        _ body: @escaping @Sendable (CallOptions) async throws -> Result
    ) async throws -> Result {
        if interceptors.isEmpty, logger.logLevel > .debug { return try await body(options) }
        return try await logged(kind == .stream ? "opened a stream" : "made a call", name, from: device) {
            try await intercepted(
                OutgoingCall(method: name, kind: kind, device: device, options: options), by: self.interceptors,
                with: { try await $0.make($1, next: $2) }
            ) { try await body($0.options) }
        }
    }

    /// Serves a call, and counts it among those of its action.
    func counted<Result: Sendable>(
        _ handler: Handler, _ body: () async throws -> Result
    ) async throws -> Result {
        let start = ContinuousClock.now
        handler.statistics.begin()
        do {
            let result = try await body()
            handler.statistics.end(.now - start, nil, now: 0)
            return result
        } catch {
            handler.statistics.end(.now - start, Self.outward(error), now: Self.now)
            throw error
        }
    }

    private func logged<Result: Sendable>(
        _ what: Logger.Message, _ method: String, from peer: String, _ body: () async throws -> Result
    ) async throws -> Result {
        guard logger.logLevel <= .debug else { return try await body() }
        logger.trace("a call begins", metadata: ["method": "\(method)", "peer": "\(peer)"])
        let start = ContinuousClock.now
        func log(_ outcome: String) {
            logger.debug(
                what,
                metadata: [
                    "method": "\(method)", "peer": "\(peer)", "took": "\(Self.milliseconds(since: start)) ms",
                    "outcome": "\(outcome)",
                ])
        }
        do {
            let result = try await body()
            log("done")
            return result
        } catch {
            log(Self.outward(error).code.rawValue)
            throw error
        }
    }

    /// Logs a call that was refused before it came to a service, and tells the interceptors.
    func noteRefusal(_ method: String?, in session: Session, _ error: KithError) {
        logger.debug(
            "refused a call",
            metadata: [
                "method": "\(method ?? "unknown")", "peer": "\(Self.text(session.caller))",
                "outcome": "\(error.code.rawValue)",
            ])
        for interceptor in interceptors { interceptor.refused(method, from: session.link.peer, error) }
    }

    /// Logs a connection that begins, and tells the interceptors.
    func noteBeginning(_ session: Session) {
        logger.debug(
            "a connection began",
            metadata: [
                "peer": "\(Self.text(session.caller))", "paired": "\(session.isPaired)",
                "dialed": "\(session.link.isDialed)", "address": "\(session.link.address?.description ?? "")",
            ])
        for interceptor in interceptors { interceptor.connected(Self.observed(session)) }
    }

    /// Logs a connection that is over, and tells the interceptors.
    func noteEnding(_ session: Session) async {
        if interceptors.isEmpty, logger.logLevel > .debug { return }
        let reason = await session.link.closeReason()
        logger.debug(
            "a connection ended",
            metadata: [
                "peer": "\(Self.text(session.caller))", "outcome": "\(reason?.code.rawValue ?? "closed")",
                "why": "\(reason?.message ?? "")",
            ])
        for interceptor in interceptors { await interceptor.disconnected(Self.observed(session)) }
    }

    private static func observed(_ session: Session) -> ObservedConnection {
        let link = session.link
        return ObservedConnection(id: session.arrival, device: link.peer) { await link.status() }
    }

    private static func text(_ caller: Caller) -> String {
        switch caller {
        case .owner: "owner"
        case .device(let id, _, paired: false): id.short
        case .device(_, let name, paired: true): name
        }
    }

    private static func milliseconds(since start: ContinuousClock.Instant) -> Double {
        (((ContinuousClock.now - start) / .microseconds(1)).rounded()) / 1_000
    }
}
