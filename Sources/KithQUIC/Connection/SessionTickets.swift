internal import Crypto
internal import Synchronization
import KithWire

/// Makes and reads the tickets by which clients resume a session with a server, and decides about their early data
/// (RFC 8446 §4.6.1, RFC 9001 §4.5, §4.6).
///
/// A ticket is the server's sealed note to itself: the keys of the session, who the client is, and what the server
/// allowed it. The server keeps nothing for it. Tickets of another key are worth a full handshake, nothing else.
///
/// Early data can be repeated by anybody who has seen it. Servers that share these tickets by one *value* recognise a
/// repetition and refuse the connection; servers that share only the key do not see each other's clients.
public struct SessionTickets: Sendable {
    /// The time in which a repetition of early data is recognised: longer than a ticket's age may be wrong by.
    static let window: Duration = .seconds(150)

    let key: SecretBytes
    /// Indicates whether what a client sends with its first flight is read; if not, the client sends it again later.
    public var acceptsEarlyData: Bool
    let seen: SeenHandshakes

    /// Makes the tickets of one server.
    ///
    /// - Parameters:
    ///   - key: 48 secret bytes. Keep them in memory: after a restart nothing recognises a repetition.
    ///   - acceptsEarlyData: whether 0-RTT is accepted from clients that resume.
    ///   - capacity: how many handshakes with early data are remembered in two and a half minutes; beyond it early data
    ///     is not accepted. Each costs some 32 bytes.
    public init(key: [UInt8] = Self.randomKey(), acceptsEarlyData: Bool = true, capacity: Int = 1 << 15) {
        precondition(key.count == 48, "the key of session tickets has 48 bytes")
        self.key = SecretBytes(key)
        self.acceptsEarlyData = acceptsEarlyData
        seen = SeenHandshakes(capacity: capacity)
    }

    /// Forty-eight bytes nobody else knows.
    public static func randomKey() -> [UInt8] {
        unsafe SymmetricKey(size: .init(bitCount: 384)).withUnsafeBytes { unsafe [UInt8]($0) }
    }
}

/// The handshakes with early data of the last minutes, so that a repeated one is known (RFC 8446 §8.2).
final class SeenHandshakes: Sendable {
    private struct Name: Hashable {
        var first: UInt64
        var second: UInt64
    }

    private struct State {
        var newer: Set<Name> = []
        var older: Set<Name> = []
        var began: Timestamp?
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) {
        self.capacity = max(0, capacity)
    }

    /// Returns whether one more could be remembered now.
    func hasRoom(at now: Timestamp) -> Bool {
        state.withLock { state in
            Self.rotate(&state, at: now)
            return state.newer.count < capacity
        }
    }

    /// Remembers a ClientHello by its random bytes; false when it was there already, or there is no room.
    func insert(_ random: [UInt8], at now: Timestamp) -> Bool {
        guard random.count >= 16 else { return false }
        func word(_ start: Int) -> UInt64 { random[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        let name = Name(first: word(0), second: word(8))
        return state.withLock { state in
            Self.rotate(&state, at: now)
            guard state.newer.count < capacity, !state.older.contains(name) else { return false }
            return state.newer.insert(name).inserted
        }
    }

    /// Two generations: everything is remembered for one window at least and two at most.
    private static func rotate(_ state: inout State, at now: Timestamp) {
        guard let began = state.began else {
            state.began = now
            return
        }
        let window = SessionTickets.window.inNanoseconds
        guard now - began >= window else { return }
        state.older = now - began < 2 * window ? state.newer : []
        state.newer = []
        state.began = now
    }
}

/// A secret with which a client resumes a session with a server, good for one connection.
///
/// ``QUICConnection/Event/sessionTicket(_:)`` brings it. It holds the server's ticket, the keys that belong to it, who
/// the server was, and the limits it set, which early data keeps to (RFC 9000 §7.4.1).
public struct SessionTicket: Hashable, Sendable {
    private static let format: UInt8 = 1
    private static let longest = 1 << 16

    let version: QUICVersion
    let parameters: TransportParameters
    let tls: [UInt8]

    init(version: QUICVersion, parameters: TransportParameters, tls: [UInt8]) {
        self.version = version
        self.parameters = parameters.remembered
        self.tls = tls
    }

    /// Reads what ``encoded`` wrote; nil when it is something else.
    public init?(_ bytes: [UInt8]) {
        guard bytes.count > 7, bytes.count <= Self.longest, bytes[0] == Self.format else { return nil }
        let number = bytes[1..<5].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        let count = Int(bytes[5]) << 8 | Int(bytes[6])
        guard let version = QUICVersion(rawValue: number), bytes.count > 7 + count,
            // Not what we wrote: no ticket.
            let parameters = try? TransportParameters.decode(Array(bytes[7..<7 + count]), fromServer: true)
        else { return nil }
        self.init(version: version, parameters: parameters, tls: Array(bytes[(7 + count)...]))
    }

    /// The ticket as bytes to keep; as secret as the connection was.
    public var encoded: [UInt8] {
        let kept = parameters.encoded(grease: 0)
        let number = version.rawValue
        let head = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
        return [Self.format] + head + [UInt8(kept.count >> 8), UInt8(kept.count & 0xFF)] + kept + tls
    }
}

extension SessionTicket: CustomStringConvertible, CustomReflectable {
    /// Says how long the ticket is; what is in it stays out.
    public var description: String { "a session ticket of \(tls.count) bytes" }

    /// Shows no children, so that `dump` cannot print a byte.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension TransportParameters {
    /// The parameters a client remembers of a server with a ticket (RFC 9000 §7.4.1, RFC 9221 §3).
    var remembered: TransportParameters {
        var kept = TransportParameters()
        kept.maxIdleTimeout = maxIdleTimeout
        kept.maxUDPPayloadSize = maxUDPPayloadSize
        kept.initialMaxData = initialMaxData
        kept.initialMaxStreamDataBidiLocal = initialMaxStreamDataBidiLocal
        kept.initialMaxStreamDataBidiRemote = initialMaxStreamDataBidiRemote
        kept.initialMaxStreamDataUni = initialMaxStreamDataUni
        kept.initialMaxStreamsBidi = initialMaxStreamsBidi
        kept.initialMaxStreamsUni = initialMaxStreamsUni
        kept.disableActiveMigration = disableActiveMigration
        kept.activeConnectionIDLimit = activeConnectionIDLimit
        kept.maxDatagramFrameSize = maxDatagramFrameSize
        return kept
    }

    /// Tells whether no limit is below that of `other`, as required of a server that accepted early data.
    func allowsAll(of other: TransportParameters) -> Bool {
        initialMaxData >= other.initialMaxData
            && initialMaxStreamDataBidiLocal >= other.initialMaxStreamDataBidiLocal
            && initialMaxStreamDataBidiRemote >= other.initialMaxStreamDataBidiRemote
            && initialMaxStreamDataUni >= other.initialMaxStreamDataUni
            && initialMaxStreamsBidi >= other.initialMaxStreamsBidi
            && initialMaxStreamsUni >= other.initialMaxStreamsUni
            && activeConnectionIDLimit >= other.activeConnectionIDLimit
            && maxDatagramFrameSize >= other.maxDatagramFrameSize
    }
}
