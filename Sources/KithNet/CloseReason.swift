import KithQUIC
public import KithWire

/// The reason a connection ended.
public struct CloseReason: Hashable, Sendable {
    /// The sides and the causes that end a connection.
    @nonexhaustive
    public enum Origin: Hashable, Sendable {
        /// This device closed it.
        case local
        /// The other device closed it.
        case remote
        /// Nothing was heard from the other device for too long.
        case idleTimeout
        /// The protocol was violated, or the handshake refused.
        case transport
    }

    /// The side, or the cause, that ended it.
    public var origin: Origin
    /// The code that says what a caller can do about it.
    public var code: KithError.Code
    /// One sentence for a person.
    public var message: String
    /// The other machine's report that its port is closed, when that is the reason.
    private var closedPort: PortClosed?

    /// Makes a reason.
    public init(origin: Origin, code: KithError.Code, message: String) {
        self.origin = origin
        self.code = code
        self.message = message
    }

    /// Nobody listens where it was dialed.
    init(_ closedPort: PortClosed) {
        self.init(origin: .transport, code: .unreachable, message: closedPort.message)
        self.closedPort = closedPort
    }

    /// The error that operations on the connection and its streams fail with.
    public var error: KithError { KithError(code, message, cause: closedPort) }
}

extension CloseReason {
    /// Reads the engine's reason.
    init(_ reason: QUICConnection.CloseReason) {
        switch reason {
        case .application(let code, let text, let isRemote):
            let code = KithError.Code(wireCode: code)
            let said = Self.printable(text)
            let who = isRemote ? "The other device" : "This device"
            self.init(
                origin: isRemote ? .remote : .local, code: code,
                message: said.isEmpty ? "\(who) closed the connection." : "\(who) closed the connection: \(said)")
        case .transport(let code, _, let text, let isRemote):
            self = Self.transport(code: code, text: Self.printable(text), isRemote: isRemote)
        case .idleTimeout:
            self.init(
                origin: .idleTimeout, code: .unreachable,
                message: "The other device stopped answering.")
        case .handshakeTimeout:
            self.init(origin: .idleTimeout, code: .timedOut, message: "The other device did not answer in time.")
        case .statelessReset:
            self.init(
                origin: .remote, code: .closed,
                message: "The other device no longer knows the connection; it was probably restarted.")
        case .versionMismatch:
            self.init(
                origin: .transport, code: .unsupported,
                message: "The other device speaks no version of QUIC that this one knows.")
        }
    }

    private static func transport(code: UInt64, text: String, isRemote: Bool) -> CloseReason {
        let who = isRemote ? "The other device" : "This device"
        let detail = text.isEmpty ? "" : " (\(text))"
        switch code {
        case 0x131 where isRemote:
            return CloseReason(
                origin: .transport, code: .unpaired,
                message: "The other device does not know this one, and no invitation waits there for it.")
        case 0x131, 0x12A, 0x12B, 0x12C, 0x12D, 0x12E, 0x130, 0x133, 0x174:
            // access_denied, and the alerts about certificates (RFC 8446 §6).
            return CloseReason(
                origin: .transport, code: .denied, message: "\(who) refused the other's key during the handshake.")
        case 0x178:
            return CloseReason(
                origin: .transport, code: .unsupported,
                message: "The other device does not speak this application protocol.")
        case 0x2:
            return CloseReason(
                origin: .transport, code: .exhausted, message: "\(who) takes no more connections now.")
        case 0x0:
            return CloseReason(
                origin: isRemote ? .remote : .local, code: .closed, message: "\(who) closed the connection.")
        default:
            return CloseReason(
                origin: .transport, code: .closed,
                message: "\(who) ended the connection with transport error 0x\(String(code, radix: 16))\(detail).")
        }
    }

    /// The peer's words, made safe for a terminal and a log: at most 200 characters, no control characters.
    private static func printable(_ bytes: [UInt8]) -> String {
        let text = String(decoding: bytes.prefix(800), as: UTF8.self)
        return String(
            String.UnicodeScalarView(
                text.unicodeScalars.prefix(200).filter { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }))
    }
}
