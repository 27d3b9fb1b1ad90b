public import KithAPI
public import KithIdentity
public import KithWire

/// A call that this device serves, as an interceptor sees it: its header and who calls, nothing of its content.
public struct ServedCall: Sendable {
    /// The method's name.
    public let method: String
    /// The kind of the method.
    public let kind: MethodKind
    /// The caller, what they hold, the deadline and the trace; the service gets it as the last interceptor leaves it.
    public var context: CallContext

    /// Makes a call to be served.
    public init(method: String, kind: MethodKind, context: CallContext) {
        self.method = method
        self.kind = kind
        self.context = context
    }
}

/// A connection with another device, as an interceptor sees it.
public struct ObservedConnection: Identifiable, Sendable {
    /// Its number among the connections of the node.
    public let id: UInt64
    /// The other device, proven by its key; not always a paired one.
    public let device: DeviceID
    /// Its status now; `nil` where that is not known.
    public let status: @Sendable () async -> LinkStatus?

    /// Describes a connection.
    public init(id: UInt64, device: DeviceID, status: @escaping @Sendable () async -> LinkStatus?) {
        self.id = id
        self.device = device
        self.status = status
    }
}

/// Work around the calls of a node: those it serves, those it makes to other devices, and its connections.
///
/// ```swift
/// struct OfficeHours: CallInterceptor {
///     let isOpen: @Sendable () -> Bool
///
///     func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws {
///         guard call.context.caller == .owner || isOpen() else { throw KithError(.denied, "Closed for today.") }
///         try await next(call)
///     }
/// }
/// options.interceptors = [OfficeHours(isOpen: isOpen)]
/// ```
///
/// The first of several is the outermost. They stand behind the checks: what a caller may not do never reaches them, and
/// what they refuse was never done. Each runs in the task of its call, which is cancelled when the caller goes away, the
/// deadline passes, or a grant is taken: `next` throws then, and an interceptor need only let it.
///
/// A node without any pays nothing.
public protocol CallInterceptor: Sendable {
    /// Serves a call by `next`, at most once, or refuses it by throwing.
    ///
    /// `next` returns when the service is done with it; of a stream, when that is over.
    func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws

    /// Makes a call to another device by `next`, at most once, or refuses it by throwing.
    ///
    /// `next` returns when the call is answered or, of a stream, when the service there has accepted it. Nothing is
    /// encoded again: of the call, only its options may be changed.
    func make(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws

    /// Tells the interceptor that a call of another device was refused before it came to a service.
    ///
    /// `method` is `nil` where this device serves none of that name.
    func refused(_ method: String?, from device: DeviceID, _ error: KithError)

    /// Tells the interceptor that a connection with another device has begun.
    func connected(_ connection: ObservedConnection)

    /// Tells the interceptor that a connection has ended; its status can still be read.
    func disconnected(_ connection: ObservedConnection) async
}

extension CallInterceptor {
    /// Serves it.
    public func serve(_ call: ServedCall, next: NextCall<ServedCall>) async throws { try await next(call) }

    /// Makes it.
    public func make(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws { try await next(call) }

    /// Nothing.
    public func refused(_ method: String?, from device: DeviceID, _ error: KithError) {}

    /// Nothing.
    public func connected(_ connection: ObservedConnection) {}

    /// Nothing.
    public func disconnected(_ connection: ObservedConnection) async {}
}
