import KithAPI
import KithWire

/// The decisions of a ``ShellSession``: how far output and input have come, what is sent again after a lost connection, and
/// how long it is looked for.
///
/// A pure state machine: it does no I/O and reads no clock. Tell it what happened and when; do what it returns.
///
/// ```
///  open ──connection lost──▶ interrupted ──device found──▶ open
///   │                             └── too long, gone there ──▶ (the caller hears why)
///   ├── close, detach ──▶ left ──┐
///   └── exit ────────────────────┴──▶ exited
/// ```
struct ShellSessionEngine {
    /// A lost connection.
    struct Loss {
        var since: ContinuousClock.Instant
        var error: KithError
        var attempts = 0
    }

    private enum Phase {
        case open
        case interrupted(Loss)
        /// This end has closed or detached.
        case left
        case exited
    }

    /// The answer to a frame.
    enum Reaction {
        /// Nothing.
        case none
        /// Send the frame, if there is one, then give the event to whoever asks for the next.
        case give(ShellSession.Event, after: ShellFrame? = nil)
        /// So much more input may be sent.
        case grant(Int)
        /// A program there asks the ssh agent.
        case askAgent(number: UInt64, bytes: [UInt8])
        /// The processes are gone: finish our direction, then give that.
        case exit(ShellExit)
        /// The device has let this end go, for good: let go of the stream, and fail with that.
        case fail(KithError)
    }

    /// The consequence of a lost connection.
    enum Consequence {
        /// It is over: this end had left.
        case end
        /// Nothing brings it back.
        case fail
        /// Tell of it, and look for the device when the next event is asked for.
        case interrupt
    }

    /// The next step to find the device again.
    enum Search {
        /// Nothing: this end has left.
        case end
        /// Nothing: the connection is there.
        case found
        /// The device has ended the session by now.
        case giveUp(KithError)
        /// Wait so long, then attach, with the output from there on and the terminal's size.
        case attach(after: Duration, position: UInt64, size: Shell.Size?)
    }

    /// The number of times of input kept that is not echoed yet.
    private static let samples = 64

    private let isTerminal: Bool
    /// The time for which it is worth looking for the device; nil when it cannot be found again.
    private let patience: Duration?
    private var phase = Phase.open
    /// Output dealt with, and the last position the device was told.
    private var position: UInt64
    private var acknowledged: UInt64
    private var size: Shell.Size?
    /// Input the process has not been given yet, from this position on; kept to be sent again.
    private var unsent: [UInt8] = []
    private var unsentFrom: UInt64 = 0
    private var hasEndedInput = false
    /// When what was typed last was sent, to tell the round trip.
    private var sentAt: [(position: UInt64, at: ContinuousClock.Instant)] = []

    init(isTerminal: Bool, patience: Duration?, position: UInt64, size: Shell.Size?) {
        self.isTerminal = isTerminal
        self.patience = patience
        self.position = position
        acknowledged = position
        self.size = size
    }

    /// Indicates whether the exit has come.
    var hasExited: Bool { if case .exited = phase { true } else { false } }

    /// Indicates whether the connection is lost.
    var isInterrupted: Bool { if case .interrupted = phase { true } else { false } }

    /// Indicates whether there is a connection to send over, and somebody there to receive.
    var canSend: Bool {
        switch phase {
        case .open, .left: true
        case .interrupted, .exited: false
        }
    }

    /// The number of bytes typed or written so far.
    var inputPosition: UInt64 { unsentFrom + UInt64(unsent.count) }

    /// Since when input waits to be echoed.
    var unansweredSince: ContinuousClock.Instant? { sentAt.first?.at }

    // MARK: - Out

    /// Refuses a place that the output of a shell never reaches.
    static func check(_ position: UInt64) throws(KithError) {
        guard position <= ShellFrame.lastPosition else {
            throw KithError(.invalid, "The device says that the shell has written \(position) bytes: none can.")
        }
    }

    /// Takes a frame in.
    ///
    /// - Throws: `.invalid` for what a device does not send.
    mutating func received(_ frame: ShellFrame, at now: ContinuousClock.Instant) throws(KithError) -> Reaction {
        switch frame {
        case .output(let bytes): return .give(.output(bytes), after: advance(bytes.count))
        case .errorOutput(let bytes): return .give(.errorOutput(bytes), after: advance(bytes.count))
        case .jump(let position):
            try Self.check(position)
            self.position = position
            acknowledged = position
            return .none
        case .screen(let bytes): return .give(.screen(bytes))
        case .taken(let position):
            let count = arrived(upTo: position)
            unsent.removeFirst(count)
            unsentFrom += UInt64(count)
            return .grant(count)
        case .echoed(let position, let held):
            let sent = sentAt.last { $0.position <= position }
            sentAt.removeAll { $0.position <= position }
            // Without a sample of its own the last one stands.
            guard let sent, sent.position == position else {
                return .give(.echoed(input: position, roundTrip: .zero))
            }
            return .give(.echoed(input: position, roundTrip: max(.zero, now - sent.at - held)))
        case .agent(let number, let bytes): return .askAgent(number: number, bytes: bytes)
        case .exited(let exit):
            phase = .exited
            return .exit(exit)
        case .ended(let code, let message): return .fail(KithError(code, message, cause: HostedShellEngine.gone))
        case .input, .endOfInput, .resize, .signal, .received:
            throw KithError(.invalid, "The device sent what only a caller sends.")
        }
    }

    /// Counts output that is about to be dealt with; what came before it is by now.
    private mutating func advance(_ count: Int) -> ShellFrame? {
        defer { position += UInt64(count) }
        return acknowledgement()
    }

    /// The frame that tells the device how much has been dealt with, when that is worth it.
    ///
    /// Also before waiting for more: one piece of output may be all that the device may send.
    mutating func acknowledgement() -> ShellFrame? {
        guard position - acknowledged >= UInt64(isTerminal ? 8 << 10 : 128 << 10) else { return nil }
        acknowledged = position
        return .received(position)
    }

    /// The amount of what is kept that lies before a position of the input.
    private func arrived(upTo position: UInt64) -> Int {
        min(Int(clamping: position - min(position, unsentFrom)), unsent.count)
    }

    // MARK: - The way back

    /// The connection was lost.
    mutating func lost(_ error: KithError, at now: ContinuousClock.Instant) -> Consequence {
        if case .left = phase { return .end }
        guard patience != nil, Self.isPassing(error) else { return .fail }
        phase = .interrupted(Loss(since: now, error: error))
        return .interrupt
    }

    /// Returns whether an error is one that a connection found again mends.
    static func isPassing(_ error: KithError) -> Bool {
        switch error.code {
        case .closed, .unreachable, .timedOut: true
        default: false
        }
    }

    /// The next step of looking for the device.
    func search(at now: ContinuousClock.Instant) -> Search {
        switch phase {
        case .open: return .found
        case .left, .exited: return .end
        case .interrupted(let loss):
            let pause: Duration =
                loss.attempts > 0 ? .milliseconds(min(3_000, 100 << min(loss.attempts, 6))) : .zero
            guard now + pause - loss.since < patience ?? .zero else {
                return .giveUp(
                    KithError(
                        .closed, "The device could not be reached for as long as it keeps the shell.",
                        cause: loss.error))
            }
            return .attach(after: pause, position: position, size: size)
        }
    }

    /// An attempt to find the device has failed.
    mutating func searchFailed() {
        guard case .interrupted(var loss) = phase else { return }
        loss.attempts += 1
        phase = .interrupted(loss)
    }

    /// The device is found, with output from `position` on; it has input up to `inputPosition`.
    ///
    /// - Returns: the input to send again, before anything else, and whether it has ended; nil when this end has left.
    mutating func attached(position: UInt64, inputPosition: UInt64) -> (input: [UInt8], hasEnded: Bool)? {
        self.position = position
        acknowledged = position
        sentAt = []
        if case .left = phase { return nil }
        return (Array(unsent.dropFirst(arrived(upTo: inputPosition))), hasEndedInput)
    }

    /// Notes that everything to be sent again was sent.
    mutating func resumed() {
        if case .interrupted = phase { phase = .open }
    }

    // MARK: - In

    /// Something is typed or written; true when it is to be sent now, else it is when the device is found.
    mutating func typed(_ bytes: [UInt8], at now: ContinuousClock.Instant) -> Bool {
        unsent += bytes
        if sentAt.count < Self.samples { sentAt.append((inputPosition, now)) }
        return !isInterrupted
    }

    /// Input ends; true when that is to be sent now.
    mutating func endInput() -> Bool {
        if hasExited { return false }
        // On a terminal it is one key among others, which must not be typed twice.
        if !isTerminal { hasEndedInput = true }
        return !isInterrupted
    }

    /// The terminal has another size; true when that is to be sent now.
    mutating func resize(_ size: Shell.Size) -> Bool {
        self.size = size
        return canSend
    }

    // MARK: - The end

    /// This end closes or detaches; true when there is something to end.
    mutating func leave() -> Bool {
        switch phase {
        case .exited, .left: return false
        case .open, .interrupted:
            phase = .left
            return true
        }
    }
}
