/// A violation by the peer, or a fault of ours, that closes the connection (RFC 9000 §20.1).
package struct TransportError: Error, Hashable, Sendable {
    /// The error code in the CONNECTION_CLOSE frame.
    package var code: UInt64
    /// The frame that caused it; 0 when none did.
    package var frameType: UInt64
    /// A few words for the peer's log.
    package var reason: String

    /// Makes an error.
    package init(_ code: Code, frameType: UInt64 = 0, _ reason: String) {
        self.code = code.rawValue
        self.frameType = frameType
        self.reason = reason
    }

    /// Makes an error from a number of the registry.
    package init(code: UInt64, frameType: UInt64 = 0, _ reason: String) {
        self.code = code
        self.frameType = frameType
        self.reason = reason
    }

    /// The registered transport error codes.
    package enum Code: UInt64, Hashable, Sendable {
        case noError = 0x0
        case internalError = 0x1
        case connectionRefused = 0x2
        case flowControl = 0x3
        case streamLimit = 0x4
        case streamState = 0x5
        case finalSize = 0x6
        case frameEncoding = 0x7
        case transportParameter = 0x8
        case connectionIDLimit = 0x9
        case protocolViolation = 0xA
        case invalidToken = 0xB
        case applicationError = 0xC
        case cryptoBufferExceeded = 0xD
        case keyUpdate = 0xE
        case aeadLimitReached = 0xF
        case noViablePath = 0x10
        case versionNegotiation = 0x11
    }

    /// The code that carries a TLS alert (RFC 9001 §4.8).
    package static func alert(_ description: UInt8) -> UInt64 { 0x100 + UInt64(description) }
}
