import KithAPI
import KithIO
import KithQUIC
import KithWire
import NIOCore

// Use: when nobody needs the connection any more, and who waits for that.
extension ConnectionDriver {
    /// Begins to watch whether anybody uses it; streams may be open already.
    func watchUse() {
        guard let limit = endpoint.options.idleClosing else { return }
        var closing = IdleClosing(after: limit, at: .now())
        for entry in streams.values where !entry.isInBackground { closing.began() }
        idleClosing = closing
        checkUse()
    }

    private func checkUse() {
        let now = Timestamp.now()
        switch idleClosing?.next(at: now) {
        case .wait(let until):
            idleTimer = loop.scheduleTask(in: .nanoseconds(max(0, until - now))) { [weak self] in self?.checkUse() }
        // Whoever wants something of the other end connects anew.
        case .close: close(code: .closed, reason: "Nobody used the connection.")
        case nil: break
        }
    }

    /// Notes that a datagram goes out.
    func wasUsed() { idleClosing?.used(at: .now()) }

    /// Notes that a stream does not keep the connection open.
    func isInBackground(_ id: StreamID) {
        guard let entry = streams[id], !entry.isInBackground else { return }
        streams[id]?.isInBackground = true
        idleClosing?.ended(at: .now())
    }

    /// Takes no more streams and calls back once there are none.
    func drain(_ done: Promise<Void>) {
        for pending in pendingOpens {
            pending.fulfil(.failure(KithError(.closed, "The connection is being closed.")))
        }
        pendingOpens = []
        var waiters = if case .draining(let waiters) = intake { waiters } else { [Promise<Void>]() }
        waiters.append(done)
        intake = .draining(waiters)
        if streams.isEmpty || isClosed { releaseDrainWaiters() }
    }

    var isDraining: Bool { if case .draining = intake { true } else { false } }

    func releaseDrainWaiters() {
        guard case .draining(let waiters) = intake else { return }
        intake = .draining([])
        for waiter in waiters { waiter.fulfil(()) }
    }
}
