import Crypto
import KithWire

/// The links that let a browser in: each once, for five minutes, kept in memory alone.
///
/// A right proof is accepted whenever it comes. Wrong ones are given a verdict once a second; until then others get none, so
/// that whoever tries many keeps nobody else out.
struct LoginLinks {
    /// The outcome of a proof.
    enum Outcome: Hashable {
        /// It is right; the link is used up.
        case accepted
        /// It is that of no link.
        case wrong
        /// It is that of no link, and another was a moment ago.
        case crowded
    }

    /// The time a link is good for.
    static let lifetime = Duration.seconds(300)
    /// The most links at once; one more makes the oldest void.
    static let limit = 16
    /// The time between two verdicts over wrong proofs.
    static let pause = Duration.seconds(1)

    private var links: [(secret: SymmetricKey, ends: ContinuousClock.Instant)] = []
    private var lastWrong: ContinuousClock.Instant?

    /// Makes a link, and returns its secret, 16 bytes.
    mutating func make(at now: ContinuousClock.Instant) -> [UInt8] {
        links.removeAll { $0.ends <= now }
        if links.count >= Self.limit { links.removeFirst() }
        let secret = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
        links.append((SymmetricKey(data: secret), now + Self.lifetime))
        return secret
    }

    /// Tries the proof of a page: HMAC-SHA-256 of its transcript with a link's secret.
    mutating func use(_ proof: [UInt8], over transcript: [UInt8], at now: ContinuousClock.Instant) -> Outcome {
        links.removeAll { $0.ends <= now }
        let index = links.firstIndex { link in
            HMAC<SHA256>.isValidAuthenticationCode(proof, authenticating: transcript, using: link.secret)
        }
        if let index {
            links.remove(at: index)
            return .accepted
        }
        if let lastWrong, now < lastWrong + Self.pause { return .crowded }
        lastWrong = now
        return .wrong
    }
}
