/// Both halves of one stream (RFC 9000 §3).
///
/// ```
///  sending    open ──FIN──▶ (buffer complete) ──acked──▶ done
///               └─reset/stopped─▶ resetPending ─sent─▶ resetSent ─acked─▶ done
///  receiving  open ──final size known, all read──▶ done
///               ├─RESET_STREAM─▶ reset(code) (done)
///               └─we stop it─▶ stopped ─final size known─▶ done
/// ```
/// A stream that says nothing costs its own size and no buffer.
struct Stream: Sendable {
    enum SendState: Hashable, Sendable {
        case open
        case resetPending
        case resetSent
        case done
    }

    enum ReceiveState: Hashable, Sendable {
        case open
        case stopped
        case reset(UInt64)
        case done
    }

    /// Frames of this stream, other than STREAM, that wait to be sent.
    struct Pending: OptionSet, Hashable, Sendable {
        let rawValue: UInt8
        static let reset = Pending(rawValue: 1)
        static let stopSending = Pending(rawValue: 2)
        static let maxStreamData = Pending(rawValue: 4)
        static let blocked = Pending(rawValue: 8)
    }

    let id: StreamID
    var priority: UInt8 = 128
    var sendState: SendState
    var receiveState: ReceiveState
    var send = SendBuffer()
    var sendWindow: SendWindow
    var receive = ReceiveBuffer()
    var receiveWindow: ReceiveWindow
    var pending: Pending = []
    var resetCode: UInt64 = 0
    var resetSize: UInt64 = 0
    var stopCode: UInt64 = 0
    /// The code the peer stopped us with.
    var stoppedBy: UInt64?
    /// Indicates whether the application was told that something can be read.
    var isReadableTold = false
    /// Indicates whether bytes were written or arrived since the last look at who keeps memory for nothing.
    var isBusy = true
    /// Indicates whether a write was cut short and the application waits for room.
    var wantsWritable = false

    // The scheduler's and the table's own links.
    var isScheduled = false
    var nextScheduled: Int32 = -1
    var isControlQueued = false
    var isWaitingForConnection = false

    init(id: StreamID, canSend: Bool, canReceive: Bool, sendLimit: UInt64, window: ReceiveWindow) {
        self.id = id
        sendState = canSend ? .open : .done
        receiveState = canReceive ? .open : .done
        sendWindow = SendWindow(limit: sendLimit)
        receiveWindow = window
    }

    /// Indicates whether nothing will happen on this stream any more.
    var isOver: Bool {
        guard sendState == .done else { return false }
        switch receiveState {
        case .done, .reset: return pending.isEmpty
        case .open, .stopped: return false
        }
    }

    /// Indicates whether a STREAM frame could go, the connection's limit aside.
    var canSendFrame: Bool { sendState == .open && send.hasPending(below: sendWindow.limit) }
}
