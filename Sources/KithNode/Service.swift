public import KithAPI
package import KithIO
public import KithIdentity
public import KithWire
public import Logging

/// A capability of a device: a set of handlers, added to a ``Node`` together.
///
/// Ours and those of an application are the same. An action is declared where it is served, by its name within the
/// service and the types of its closure; or, where callers share the types, as a `Method`.
///
/// ```swift
/// struct MathService: Service {
///     let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
///     var handlers: [Handler] {
///         [.action("add") { (input: Sum, _) in input.a + input.b }]
///     }
/// }
/// let math = try device.add(MathService())
/// let eight: Double = try await device.request("math/add", Sum(a: 5, b: 3))
/// ```
public protocol Service: Sendable {
    /// The path, version and description; asked once, when it is added.
    ///
    /// A service without one is made known to nobody but this device's own person.
    var info: ServiceInfo { get }

    /// The methods it serves. Asked once, when it is added.
    var handlers: [Handler] { get }

    /// Makes the service ready; calls wait until it is, at most ``Node/Options/serviceStart``.
    ///
    /// Called when it is added, and again when a device that was stopped runs again. Cancelled when the service is
    /// removed meanwhile. One that throws has failed: its calls are refused with the reason.
    func start(_ context: StartContext) async throws

    /// Tells the service that a device's grants have changed: there are none when it is not paired any more.
    ///
    /// The node ends the calls that are no longer allowed by itself; this is for what outlives a call.
    func grantsChanged(for device: DeviceID, to grants: [Grant])

    /// Tells the service that a paired device is connected, and that it has this one among its own.
    ///
    /// Called once for each connection, with the first call that either end answers; what takes long is done elsewhere.
    func connected(to device: DeviceID)

    /// Ends what outlives a call, when the device stops or the service is removed.
    ///
    /// A device that runs again asks it again.
    func stop() async
}

extension Service {
    /// Made from the name of the type.
    public var info: ServiceInfo { ServiceInfo(of: Self.self) }

    /// Is ready at once.
    public func start(_ context: StartContext) async throws {}

    /// Nothing outlives a call.
    public func grantsChanged(for device: DeviceID, to grants: [Grant]) {}

    /// It makes no difference.
    public func connected(to device: DeviceID) {}

    /// Nothing outlives a call.
    public func stop() async {}
}

/// The caller of a method.
@nonexhaustive
public enum Caller: Hashable, Sendable {
    /// This device's own person, in this process or over its socket: holds every grant.
    case owner
    /// Another device, proven by its key in the TLS handshake; `paired` is false only for `Access/anyone`.
    case device(DeviceID, name: String, paired: Bool)
}

extension Caller {
    /// The other device; `nil` for this one's owner.
    public var device: DeviceID? {
        if case .device(let id, _, _) = self { id } else { nil }
    }
}

/// The surroundings of a service, from its start to its end.
public struct StartContext: Sendable {
    /// The device it runs on.
    public let device: DeviceID
    /// The path of the service.
    public let path: TopicPath
    /// Calls methods as this device: on itself, and on the devices it is paired with.
    public let client: Client
    /// A logger that names the service.
    public let logger: Logger
    /// The topics of the device: what the service publishes and subscribes to.
    public let events: EventHub?
    /// Happens when the device stops: what would go on for ever ends then.
    package let shutdown: AsyncEvent
    /// The files that no other device reaches here; `nil`: none.
    package let protection: ProtectedFiles?
}

extension StartContext: EventSpace {}

/// The context of a call, for the handler that serves it.
public struct CallContext: Sendable {
    /// The caller.
    public var caller: Caller
    /// The grants the caller has on this device, at the time of the call.
    ///
    /// Empty for the owner, who needs none.
    public var grants: [Grant]
    /// The time at which the caller stops waiting; `nil`: it waits.
    public var deadline: ContinuousClock.Instant?
    /// The values of the parameters in the path of the method: of `users/{id}`, called as `users/42`, `id` is `42`.
    public internal(set) var parameters: [String: String] = [:]
    /// The trace the call belongs to; the calls of ``client`` continue it.
    public var trace: TraceContext? {
        didSet { client.trace = trace }
    }
    /// Keeps a further check with a call from another device, see ``narrow(_:by:)``; `nil` for the owner's.
    var narrowing: (@Sendable (_ purpose: String, _ check: @escaping @Sendable ([Grant]) -> KithError?) throws -> Void)?
    /// Calls methods as this device: on itself (`on: nil`) and on the devices it is paired with.
    public var client: Client
    /// Exports 32 bytes of keying material (RFC 8446 §7.5) of the caller's connection; `nil` for a call of the owner.
    public var exportKeyingMaterial: (@Sendable (_ label: String, _ context: [UInt8]) async throws -> [UInt8])?
    /// Returns the present address of the calling device; `nil` for a call of the owner.
    public var callerAddress: (@Sendable () async -> NetworkAddress?)?
    /// Takes the reason a calling device gives for the end of a stream that this one opened.
    package var explain: (@Sendable (_ stream: UInt64, _ error: KithError) -> Void)?
    /// Returns why the call was called off, once its task is cancelled: `.closed` for a connection that ended,
    /// `.denied` for a grant that was taken away.
    public var calledOff: @Sendable () -> KithError?
    /// Notes that the call has changed something, even if it fails: the audit log says then that it was allowed.
    package var noteChange: @Sendable () -> Void = {}
    /// The logger of the service that answers the call.
    public internal(set) var logger = Logger(label: "kith", factory: { _ in SwiftLogNoOpLogHandler() })
    /// The topics of the device; `nil` for a context without a node.
    public internal(set) var events: EventHub?
    /// The files that the caller may not reach, whatever its grants.
    public var protection: ProtectedFiles?
    /// Returns the path of the root of a grant of files at the time it was granted, with links resolved.
    package var grantedRoot: @Sendable (String) throws -> String = { $0 }

    /// Makes a context.
    public init(
        caller: Caller, grants: [Grant], deadline: ContinuousClock.Instant? = nil, trace: TraceContext? = nil,
        client: Client,
        exportKeyingMaterial: (@Sendable (_ label: String, _ context: [UInt8]) async throws -> [UInt8])? = nil,
        calledOff: @escaping @Sendable () -> KithError? = { nil }
    ) {
        self.caller = caller
        self.grants = grants
        self.deadline = deadline
        self.trace = trace
        self.client = client
        self.client.trace = trace
        self.exportKeyingMaterial = exportKeyingMaterial
        self.calledOff = calledOff
    }
}

extension CallContext: EventSpace {
    /// Makes a further check of the caller's grants: now, and again whenever they change; a refusal then ends the call.
    ///
    /// For methods whose access depends on more than their input (`Access/holding(_:for:)`). The check replaces the one
    /// before; a refusal is written to the audit log, with what the call was for. The owner passes.
    ///
    /// - Throws: the error that `check` returns.
    public func narrow(_ purpose: String, by check: @escaping @Sendable ([Grant]) -> KithError?) throws {
        if caller == .owner { return }
        if let narrowing { return try narrowing(purpose, check) }
        if let refusal = check(grants) { throw refusal }
    }
}

/// A stream a caller has asked for and the handler has not yet accepted.
///
/// A handler that throws before ``accept(_:)`` refuses the stream with its error;
/// one that throws after it aborts the stream with the error.
public struct PendingStream<M: StreamMethod>: Sendable {
    let acceptance: @Sendable (M.Output) async throws -> any ByteStream

    /// Makes a stream to be accepted by `acceptance`.
    public init(acceptance: @escaping @Sendable (M.Output) async throws -> any ByteStream) {
        self.acceptance = acceptance
    }

    /// Answers `output` and gives the service's end of the stream.
    ///
    /// Call it once.
    public func accept(_ output: M.Output) async throws -> MethodStream<M.Upstream, M.Downstream> {
        MethodStream(try await acceptance(output))
    }
}

extension PendingStream where M.Output == Nothing {
    /// Accepts and gives the service's end of the stream.
    public func accept() async throws -> MethodStream<M.Upstream, M.Downstream> { try await accept(Nothing()) }
}
