public import KithIdentity
import KithWire

/// An entry of the table of methods: its name, its input and output, and the access it needs.
///
/// A capability is declared once, as a type that conforms, and served once, by a service of the node.
/// Every caller (Swift in this process, JSON-RPC, other devices) uses the same entry.
///
/// ```swift
/// extension Lamp {
///     enum Change: Method {
///         typealias Input = Brightness
///         typealias Output = Nothing
///         static let header = MethodHeader.action("lamp.set", by: .grant(.node), isIdempotent: true, "Dims the lamp.")
///     }
/// }
/// ```
public protocol Method: Sendable {
    /// The message the caller sends, at most 1 MiB encoded.
    associatedtype Input: Codable & Sendable
    /// The answer of the service; for a stream, the one it gives when it accepts the stream.
    associatedtype Output: Codable & Sendable

    /// Its name, the kind of call it takes, its callers and its summary.
    static var header: MethodHeader { get }
    /// Returns the access a caller needs for this very input; the node checks it before the service sees anything.
    ///
    /// By default this is the access the header names. The input of an unpaired device is decoded only if the header
    /// lets anyone call.
    static func access(for input: Input) -> Access
}

extension Method {
    /// The stable name on every wire: `service.verb`.
    public static var name: String { header.name }

    /// Returns the access the header names.
    public static func access(for input: Input) -> Access { header.access }
}

/// A method whose call opens a stream: once the service has accepted, both ends send until they finish.
///
/// ```swift
/// extension Lamp {
///     enum Watch: StreamMethod {
///         typealias Input = Nothing
///         typealias Output = Nothing
///         typealias Upstream = Nothing
///         typealias Downstream = Brightness
///         static let header = MethodHeader.stream("lamp.watch", by: .grant(.node), "Tells of each change.")
///     }
/// }
/// ```
public protocol StreamMethod: Method {
    /// The content the caller sends.
    associatedtype Upstream: StreamContent
    /// The content the service sends.
    associatedtype Downstream: StreamContent
}

/// The ways to call a method.
@frozen
public enum MethodKind: String, Hashable, Sendable, Codable, CaseIterable {
    /// One answer, no effect: may be repeated.
    case query
    /// One answer, with an effect.
    case action
    /// An answer, then a stream both ways until both ends finish: a ``StreamMethod``.
    case stream
}

/// The access a caller needs.
@nonexhaustive
public enum Access: Hashable, Sendable {
    /// Anyone who completed the handshake, paired or not; only the presentation of an invitation is open to them.
    case anyone
    /// Any paired device.
    case paired
    /// Only this device's own person, in this process or over its socket.
    case owner
    /// A paired device holding a grant that covers this one.
    case granted(Grant)
    /// A paired device holding any grant of this kind; the service narrows it further.
    ///
    /// `purpose` tells the audit log what the call is for: `example.org:443`.
    case holding(Grant.Kind, for: String? = nil)
}

/// The input or output of a method that needs none.
public struct Nothing: Codable, Hashable, Sendable {
    /// Makes nothing.
    public init() {}
}
