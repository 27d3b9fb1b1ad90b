import Crypto
import KithIO
import KithWire
import Synchronization

/// Lets in the callers of a TCP port who prove, by their first line, that they know a token: the system does not say who
/// they are.
///
/// Any user of the machine, and any page in a browser, can connect. Until it has said `rpc.hello` with the token, a
/// connection may say nothing else, ``lineLimit`` bytes in all, and must do so within a few seconds. Of more than
/// ``pendingLimit`` that have not, the one that has waited longest is closed: whoever knows the token says so at once.
final class TokenGate: Sendable {
    /// The most connections that have not said who they are.
    static let pendingLimit = 32
    /// The longest first line, in bytes.
    static let lineLimit = 4096

    /// A connection that has not proven anything yet.
    struct Ticket: Sendable {
        fileprivate let number: UInt64
        fileprivate let timer: TimerQueue.Ticket
    }

    private struct State {
        var lastNumber: UInt64 = 0
        /// In the order in which they came.
        var pending: [(number: UInt64, descriptor: SocketDescriptor)] = []
    }

    /// What the device says in its turn.
    let proof: String
    private let token: SHA256Digest
    private let patience: Duration
    private let timers = TimerQueue()
    private let state = Mutex(State())

    init(token: String, proof: String, patience: Duration) {
        self.token = SHA256.hash(data: Array(token.utf8))
        self.proof = proof
        self.patience = patience
    }

    /// A secret of 32 random bytes, as text.
    static func makeSecret() -> String {
        var random = SystemRandomNumberGenerator()
        return Hex.encode((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }

    /// Takes note of a new connection.
    func enter(_ descriptor: SocketDescriptor) -> Ticket {
        let (number, oldest) = state.withLock { state in
            state.lastNumber += 1
            state.pending.append((state.lastNumber, descriptor))
            let oldest = state.pending.count > Self.pendingLimit ? state.pending.removeFirst().descriptor : nil
            return (state.lastNumber, oldest)
        }
        oldest?.shutDown()
        return Ticket(number: number, timer: timers.schedule(at: .now + patience) { descriptor.shutDown() })
    }

    /// Takes note that a connection is let in, or gone.
    func leave(_ ticket: Ticket) {
        timers.cancel(ticket.timer)
        state.withLock { state in state.pending.removeAll { $0.number == ticket.number } }
    }

    /// The number of connections that have not proven anything.
    var pendingCount: Int { state.withLock { $0.pending.count } }

    /// True for the token; how long it takes says nothing about what of it is right.
    func admits(_ token: String) -> Bool { SHA256.hash(data: Array(token.utf8)) == self.token }
}
