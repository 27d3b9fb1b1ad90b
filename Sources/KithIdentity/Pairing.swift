import Crypto
public import KithWire

/// The way two devices come to trust each other's keys, over a connection whose TLS has proven them already.
///
/// ```
///  joiner                                                    inviter
///    │  Present: which invitation, proof, commitment, name  ─▶ │  is the invitation good?
///    │ ◀─  Challenge: nonce, name                              │
///    │  Reveal: nonce                                       ─▶ │  does it match the commitment?
///    │            both show the same code and ask              │
///    │  Verdict                                             ─▶ │
///    │ ◀─  Verdict                                             │  stored first, then said
/// ```
///
/// The *proof* is an HMAC under the invitation's secret over both keys and the TLS exporter: the secret itself never
/// travels, and a proof made for one connection is worth nothing on another.
///
/// The *code* (six digits) is what two persons compare. Somebody in the middle holds two connections with two
/// exporters, and would have to make both codes equal. The joiner is bound to its nonce by the commitment before it
/// sees the inviter's, and the inviter has sent its own before the joiner's is revealed: neither end, and nobody
/// between, can try nonces until codes collide. One guess in a million is left to each attempt.
///
/// A joiner that has the challenge knows the code before its own end of it is on any screen, and may hang up. So an
/// attempt counts from the challenge on: ``attemptLimit`` of them use an invitation up, at either end, and each that
/// came to nothing is shown to both persons.
public enum Pairing {
    /// The most challenges sent, and nonces revealed, for one invitation.
    public static let attemptLimit = 3

    /// The attempts to pair by an invitation before the present one.
    public struct Attempts: Codable, Hashable, Sendable {
        /// The number of attempts that reached a challenge and failed.
        public var earlier: Int
        /// The number of those made with another key than the present one.
        public var byOthers: Int
        /// The number of attempts that may follow the present one.
        public var left: Int

        /// Makes a count.
        public init(earlier: Int, byOthers: Int, left: Int) {
            self.earlier = earlier
            self.byOthers = byOthers
            self.left = left
        }

        /// True when the numbers are plausible: they come from the other device.
        package var isPlausible: Bool { [earlier, byOthers, left].allSatisfy { (0...1_000).contains($0) } }
    }

    /// The joiner's first message.
    public struct Present: Codable, Hashable, Sendable {
        /// ``Invitation/id`` of the invitation.
        public var invitation: String
        /// 32 bytes: HMAC-SHA256 under the invitation's proof key.
        public var proof: ByteString
        /// 32 bytes: SHA-256 over the joiner's nonce and both keys.
        public var commitment: ByteString
        /// The name the joiner gives itself.
        public var name: String
        /// The addresses the joiner listens at.
        public var addresses: [NetworkAddress]
    }

    /// The inviter's first message.
    public struct Challenge: Codable, Hashable, Sendable {
        /// 16 random bytes.
        public var nonce: ByteString
        /// The name the inviter gives itself.
        public var name: String
        /// The addresses the inviter listens at.
        public var addresses: [NetworkAddress]
        /// The attempts before this one; devices built before attempts were counted do not say.
        public var attempts: Attempts?
    }

    /// The joiner's second message.
    public struct Reveal: Codable, Hashable, Sendable {
        /// The 16 random bytes it had committed to.
        public var nonce: ByteString
    }

    /// The decision of the person at one end.
    public struct Verdict: Codable, Hashable, Sendable {
        /// True when the codes agree and the pairing is wanted.
        public var accept: Bool

        /// Makes a verdict.
        public init(accept: Bool) { self.accept = accept }
    }

    /// The facts both ends know of the connection they pair over.
    public struct Channel: Hashable, Sendable {
        /// The key of the inviting end, as TLS proved it.
        public var inviter: DeviceID
        /// The key of the joining end, as TLS proved it.
        public var joiner: DeviceID
        /// 32 bytes of the TLS exporter (RFC 8446 §7.5) with ``exporterLabel``.
        public var exporter: [UInt8]

        /// Describes a connection.
        public init(inviter: DeviceID, joiner: DeviceID, exporter: [UInt8]) {
            self.inviter = inviter
            self.joiner = joiner
            self.exporter = exporter
        }
    }

    /// The label of the TLS exporter pairing is bound to.
    public static let exporterLabel = "EXPORTER-kith-pairing-1"

    /// The joining end.
    public struct Joiner: Sendable {
        private let channel: Channel
        private let nonce: [UInt8]
        /// The first message.
        public let present: Present

        /// Begins with an invitation, a name and the addresses to be found at.
        public init(_ invitation: Invitation, channel: Channel, name: String, addresses: [NetworkAddress]) {
            self.init(invitation, channel: channel, name: name, addresses: addresses, nonce: Pairing.freshNonce())
        }

        package init(
            _ invitation: Invitation, channel: Channel, name: String, addresses: [NetworkAddress], nonce: [UInt8]
        ) {
            self.channel = channel
            self.nonce = nonce
            let commitment = Pairing.commitment(to: nonce, on: channel)
            present = Present(
                invitation: invitation.id,
                proof: ByteString(
                    Array(
                        HMAC<SHA256>.authenticationCode(
                            for: Pairing.proven(channel, commitment), using: SymmetricKey(data: invitation.proofKey)))),
                commitment: ByteString(commitment), name: name, addresses: addresses)
        }

        /// Answers the inviter's challenge with the second message and the code to compare.
        ///
        /// - Throws: `KithError` `.invalid` for a nonce of another length.
        public func answer(_ challenge: Challenge) throws(KithError) -> (Reveal, code: String) {
            guard challenge.nonce.bytes.count == 16 else {
                throw KithError(.invalid, "The other device sent a malformed pairing message.")
            }
            let code = Pairing.code(inviter: challenge.nonce.bytes, joiner: nonce, on: channel)
            return (Reveal(nonce: ByteString(nonce)), code)
        }
    }

    /// The inviting end.
    public struct Inviter: Sendable {
        private let channel: Channel
        private let nonce: [UInt8]
        private let commitment: [UInt8]
        /// The answer to the first message.
        public package(set) var challenge: Challenge

        /// Begins with the joiner's first message and the proof key of the invitation it names.
        ///
        /// - Throws: `KithError` `.unpaired` when the proof is wrong.
        public init(
            _ present: Present, proofKey: [UInt8], channel: Channel, name: String, addresses: [NetworkAddress]
        ) throws(KithError) {
            guard present.commitment.bytes.count == 32,
                HMAC<SHA256>.isValidAuthenticationCode(
                    present.proof.bytes, authenticating: Pairing.proven(channel, present.commitment.bytes),
                    using: SymmetricKey(data: proofKey))
            else { throw Pairing.refused }
            self.channel = channel
            commitment = present.commitment.bytes
            nonce = Pairing.freshNonce()
            challenge = Challenge(nonce: ByteString(nonce), name: name, addresses: addresses)
        }

        /// Takes the joiner's second message and returns the code to compare.
        ///
        /// - Throws: `KithError` `.corrupt` when the nonce is not the one it had committed to: somebody is trying codes.
        public func code(for reveal: Reveal) throws(KithError) -> String {
            guard reveal.nonce.bytes.count == 16,
                Pairing.commitment(to: reveal.nonce.bytes, on: channel) == commitment
            else {
                throw KithError(.corrupt, "The other device changed its mind about a number: it may be an attack.")
            }
            return Pairing.code(inviter: nonce, joiner: reveal.nonce.bytes, on: channel)
        }
    }

    /// The answer to every bad invitation; a wrong, an unknown and a used one look alike from outside.
    public static var refused: KithError {
        KithError(
            .unpaired, "That invitation is not valid here: it was used, taken back or never made. Ask for a new one.")
    }

    private static func freshNonce() -> [UInt8] {
        unsafe SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) }
    }

    private static func proven(_ channel: Channel, _ commitment: [UInt8]) -> [UInt8] {
        Array("kith pairing 1 proof".utf8) + channel.exporter + channel.inviter.bytes + channel.joiner.bytes
            + commitment
    }

    private static func commitment(to nonce: [UInt8], on channel: Channel) -> [UInt8] {
        Array(
            SHA256.hash(
                data: Array("kith pairing 1 commitment".utf8) + channel.inviter.bytes + channel.joiner.bytes + nonce))
    }

    /// Six digits as `123 456`, from both nonces, both keys and the connection.
    private static func code(inviter: [UInt8], joiner: [UInt8], on channel: Channel) -> String {
        let number =
            unsafe HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: inviter + joiner), salt: channel.exporter,
                info: Array("kith pairing 1 code".utf8) + channel.inviter.bytes + channel.joiner.bytes,
                outputByteCount: 8
            ).withUnsafeBytes { unsafe $0.reduce(0 as UInt64) { $0 << 8 | UInt64($1) } } % 1_000_000
        let digits = String(number)
        let padded = String(repeating: "0", count: 6 - digits.count) + digits
        return "\(padded.prefix(3)) \(padded.suffix(3))"
    }
}
