import KithIdentity
import KithWire

/// The reasons an attempt to pair fails, as the inviting end knows them.
enum PairingEnding: Error, Equatable {
    /// The person at this end said no.
    case refusedHere
    /// The person at the other end said no.
    case refusedThere
    /// The other end closed, was interrupted or lost the connection.
    case disconnected
    /// The joiner did not go on in time after the challenge.
    case noReveal
    /// One of the two people did not answer in time.
    case unanswered
    /// The invitation expired meanwhile.
    case expired
    /// The invitation was taken back meanwhile.
    case revoked
    /// The joiner revealed another nonce than the one it was bound to.
    case changedNonce
    /// The joiner left the order of the messages.
    case disorder
    /// This device was stopped.
    case stopped
    /// Something else went wrong at this end.
    case failed(KithError)

    /// True when the key that tried it must wait before it may try again.
    var isBreach: Bool {
        switch self {
        case .disconnected, .noReveal, .changedNonce, .disorder: true
        default: false
        }
    }

    /// The reason for the person at the inviting end and the audit log: the end of a sentence.
    var here: String {
        switch self {
        case .refusedHere: "it was refused at this device"
        case .refusedThere: "it was refused at the other device"
        case .disconnected: "the other device gave up"
        case .noReveal: "the other device did not go on"
        case .unanswered: "nobody answered in time"
        case .expired: "the invitation expired meanwhile"
        case .revoked: "the invitation was taken back"
        case .changedNonce: "the other device changed its mind about a number: it may be an attack"
        case .disorder: "the other device left the order of a pairing"
        case .stopped: "this device was stopped"
        case .failed(let error): error.message
        }
    }

    /// The reason for the person at the joining end, with the code.
    var there: KithError {
        switch self {
        case .refusedHere: KithError(.denied, "It was refused at the inviting device.")
        case .refusedThere: KithError(.cancelled, "It was refused at this device.")
        case .disconnected: KithError(.closed, "This device gave up.")
        case .noReveal: KithError(.timedOut, "This device did not go on in time.")
        case .unanswered: KithError(.timedOut, "The codes were not confirmed at both devices in time.")
        case .expired: KithError(.unpaired, "The invitation expired meanwhile.")
        case .revoked: KithError(.denied, "The invitation was taken back at the inviting device.")
        case .changedNonce:
            KithError(.corrupt, "This device changed its mind about a number: it may be an attack.")
        case .disorder: KithError(.invalid, "This device left the order of a pairing.")
        case .stopped: KithError(.closed, "The inviting device was stopped.")
        case .failed(let error): KithError(error.code, error.message)
        }
    }

    /// Says how often the invitation can still be tried, for the inviting end.
    static func rest(_ attemptsLeft: Int) -> String {
        attemptsLeft == 0
            ? "Nothing was stored. The invitation is not valid any more; `kith invite` makes another."
            : "Nothing was stored. The invitation can be tried \(times(attemptsLeft)) more."
    }

    /// Says how often the invitation can still be tried, for the joining end.
    static func restThere(_ attemptsLeft: Int) -> String {
        attemptsLeft == 0
            ? "Nothing was stored at either end. The invitation is not valid any more: ask for a new one."
            : "Nothing was stored at either end. The invitation can be tried \(times(attemptsLeft)) more."
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : count == 2 ? "twice" : "\(count) times" }
}
