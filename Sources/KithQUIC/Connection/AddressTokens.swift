internal import Crypto
public import KithWire

/// Makes and checks the tokens by which a client proves its address without the server remembering it (RFC 9000 §8.1).
///
/// A token is a sealed note of the server to itself, AES-256-GCM under a key only the server has:
///
///     │ 1 byte kind │ 12 bytes nonce │ sealed: 8 bytes time, then the ids of a Retry │ 16 bytes tag │
///
/// The client's address is authenticated with it: with its port for a Retry, which is answered at once, without for a
/// NEW_TOKEN, which a later connection from another port presents.
public struct AddressTokens: Sendable {
    /// The proof of its address in a client's first datagram.
    @nonexhaustive
    public enum Proof: Hashable, Sendable {
        /// Nothing: the address is not validated, and at most three times what came may be sent to it.
        case none
        /// It answers our Retry, which was sent to the client that first addressed `original`.
        case retried(original: ConnectionID)
        /// It shows a token an earlier connection was given.
        case known
        /// It shows a token of a Retry that is forged, too old or somebody else's: refuse it with INVALID_TOKEN (0xB).
        case invalid
    }

    private enum Kind {
        static let retry: UInt8 = 0xA1
        static let later: UInt8 = 0xA2
    }

    /// The time in which a Retry has to be answered.
    public static let retryLifetime: Duration = .seconds(15)
    /// The longest token that is looked at.
    static let maximumLength = 128

    private let key: SymmetricKey
    /// The time a token given to a client for its next connection is valid.
    public let lifetime: Duration

    /// Makes the tokens of one server.
    ///
    /// - Parameters:
    ///   - key: 32 secret bytes; tokens of another key prove nothing.
    ///   - lifetime: of the tokens for later connections. Times are the ones passed in: those of one clock.
    public init(key: [UInt8] = Self.randomKey(), lifetime: Duration = .seconds(86_400)) {
        precondition(key.count == 32, "the key of address tokens has 32 bytes")
        self.key = SymmetricKey(data: key)
        self.lifetime = lifetime
    }

    /// Thirty-two bytes nobody else knows.
    public static func randomKey() -> [UInt8] {
        unsafe SymmetricKey(size: .bits256).withUnsafeBytes { unsafe [UInt8]($0) }
    }

    /// The token of a Retry that asks a client to address `source` from now on.
    func retryToken(
        original: ConnectionID, source: ConnectionID, for remote: NetworkAddress, at now: Timestamp
    ) -> [UInt8] {
        let note = [UInt8(original.count)] + original.bytes + [UInt8(source.count)] + source.bytes
        return seal(Kind.retry, note, for: remote, at: now)
    }

    /// A token for the next connection from the same host.
    func laterToken(for remote: NetworkAddress, at now: Timestamp) -> [UInt8] {
        seal(Kind.later, [], for: remote, at: now)
    }

    /// Says what the token in a client's first datagram proves.
    ///
    /// - Parameters:
    ///   - datagram: unchanged since it came.
    ///   - header: of it.
    ///   - remote: where it came from.
    ///   - now: by the clock the token was made by.
    /// - Returns: what to treat the client as; never more than the token was made for.
    public func proof(
        in datagram: UnsafeRawBufferPointer, _ header: DatagramHeader, from remote: NetworkAddress, at now: Timestamp
    ) -> Proof {
        guard header.form == .initial, !header.token.isEmpty, header.token.upperBound <= datagram.count else {
            return .none
        }
        let token = unsafe [UInt8](UnsafeRawBufferPointer(rebasing: datagram[header.token]))
        return proof(token, destination: header.destination, from: remote, at: now)
    }

    func proof(
        _ token: [UInt8], destination: ConnectionID, from remote: NetworkAddress, at now: Timestamp
    ) -> Proof {
        // A token this server cannot have made may be another's; it is as good as none (RFC 9000 §8.1.3).
        guard let kind = token.first, kind == Kind.retry || kind == Kind.later, token.count <= Self.maximumLength else {
            return .none
        }
        let failure: Proof = kind == Kind.retry ? .invalid : .none
        guard let note = open(token, for: remote), note.count >= 8 else { return failure }
        let made = Timestamp(nanoseconds: note[..<8].reduce(Int64(0)) { $0 << 8 | Int64($1) })
        let age = now - made
        let limit = kind == Kind.retry ? Self.retryLifetime : lifetime
        guard age >= 0, age <= limit.inNanoseconds else { return failure }
        if kind == Kind.later { return .known }
        let ids = note.dropFirst(8)
        guard let count = ids.first, ids.count > 1 + Int(count),
            let original = ConnectionID(ids.dropFirst().prefix(Int(count))),
            let source = ConnectionID(ids.dropFirst(2 + Int(count))), source == destination
        else { return .invalid }
        return .retried(original: original)
    }

    // MARK: - Sealing

    private static func associated(_ kind: UInt8, _ remote: NetworkAddress) -> [UInt8] {
        guard kind == Kind.retry else { return [kind] + remote.ip }
        return [kind] + remote.ip + [UInt8(remote.port >> 8), UInt8(truncatingIfNeeded: remote.port)]
    }

    private func seal(_ kind: UInt8, _ note: [UInt8], for remote: NetworkAddress, at now: Timestamp) -> [UInt8] {
        let time = UInt64(bitPattern: now.nanoseconds)
        let plain = stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: time >> UInt64($0)) } + note
        guard
            // Throws for a key or nonce of a wrong length only, and both are made here.
            let box = try? AES.GCM.seal(plain, using: key, authenticating: Self.associated(kind, remote)),
            let combined = box.combined
        else { preconditionFailure("AES-GCM seals with a key of 32 bytes") }
        return [kind] + [UInt8](combined)
    }

    private func open(_ token: [UInt8], for remote: NetworkAddress) -> [UInt8]? {
        // What is not authentic proves nothing; why is nobody's business.
        guard let box = try? AES.GCM.SealedBox(combined: token.dropFirst()),
            let plain = try? AES.GCM.open(box, using: key, authenticating: Self.associated(token[0], remote))
        else { return nil }
        return [UInt8](plain)
    }
}
