/// The reason a connection of the remote framebuffer protocol cannot go on.
package enum RFBError: Error, Hashable, Sendable {
    /// The other end does not begin with a protocol version (RFC 6143 §7.1.1).
    case notRFB
    /// The server refuses the connection, and says why.
    case refused(reason: String)
    /// The password is wrong, or the server takes no more attempts.
    case authenticationFailed(reason: String)
    /// The server asks for a password, and none was given.
    case passwordNeeded
    /// None of the security types offered is one we know.
    case unsupportedSecurity([UInt8])
    /// A length is above what is allowed in its place.
    case tooLong(field: String, limit: Int, actual: Int)
    /// A picture has more pixels than are allowed.
    case tooLarge(width: Int, height: Int, limit: Int)
    /// A rectangle lies outside the picture.
    case outside(RFBRectangle)
    /// A feature that we did not ask for, or that the protocol allows and we do not offer.
    case unsupported(String)
    /// A value that must not occur.
    case malformed(String)
    /// A half-finished message or handshake took too long.
    case timedOut(String)
}

extension RFBError: CustomStringConvertible {
    /// One sentence for a person.
    package var description: String {
        switch self {
        case .notRFB: "The other end does not speak the remote framebuffer protocol."
        case .refused(let reason): "The server refused the connection: \(reason)"
        case .authenticationFailed(let reason): "The password was not accepted: \(reason)"
        case .passwordNeeded: "The server asks for a password."
        case .unsupportedSecurity(let types):
            "The server offers only security types that are not supported (\(types.map(String.init).joined(separator: ", ")))."
        case .tooLong(let field, let limit, let actual):
            "The \(field) has \(actual) bytes; at most \(limit) are allowed."
        case .tooLarge(let width, let height, let limit):
            "A picture of \(width) × \(height) pixels is larger than the \(limit) allowed."
        case .outside(let rectangle): "The rectangle \(rectangle) is not inside the picture."
        case .unsupported(let feature): "The other end uses \(feature), which is not supported."
        case .malformed(let rule): "The other end sent something invalid: \(rule)."
        case .timedOut(let subject): "The other end did not finish \(subject) in time."
        }
    }
}
