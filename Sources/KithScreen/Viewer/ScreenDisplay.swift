import KithAPI
import KithIO
import KithNet
package import KithPixels
import KithWire

/// A place where a session's picture is shown: a window, a terminal, a VNC viewer.
package protocol ScreenDisplay: Sendable {
    /// Shows what happened; returns soon, as the next picture waits for it.
    func handle(_ event: ScreenViewer.Event, of viewer: ScreenViewer) async throws

    /// Shows that the session begins, is lost and sought again, or is over.
    func phaseChanged(_ phase: SessionState.Phase) async

    /// Takes a person's input until they leave.
    ///
    /// Cancelled when the session is over for good.
    func run(_ viewer: ScreenViewer) async throws
}

extension ScreenViewer {
    /// Shows a session on `display` until the person leaves, or the host ends it; one that is lost is sought again.
    ///
    /// - Throws: `KithError`: why it is over, other than by the person's leaving.
    package func show(on display: some ScreenDisplay) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let changes = BoundedQueue<Void>(capacity: 1)
            group.addTask { try await display.run(self) }
            group.addTask { try await self.keepUp(on: display, changes) }
            group.addTask {
                await NetworkMonitor.follow { _ in _ = changes.offered(()) }
                try Task.checkCancellation()
            }
            defer { group.cancelAll() }
            // Whichever ends first: the person left, or the host did.
            try await group.next()
        }
    }

    /// Connects, and connects again, as the rules of a session's life say.
    ///
    /// `changes` has an element when another network is there.
    private func keepUp(on display: some ScreenDisplay, _ changes: BoundedQueue<Void>) async throws {
        var life = SessionState()
        var failure = KithError(.timedOut, "The other device did not answer within 30 s.")
        life.connect(at: .now)
        await display.phaseChanged(life.phase)
        while true {
            while let action = life.nextAction() {
                guard action == .connect else { continue }
                do {
                    failure = try await attempt(&life, on: display)
                } catch let error as KithError where !error.isLoss {
                    // An answer, not a lost connection.
                    life.refused(at: .now)
                    await display.phaseChanged(life.phase)
                    throw error
                }
            }
            if case .ended = life.phase {
                await display.phaseChanged(life.phase)
                throw failure
            }
            guard let deadline = life.nextDeadline else { throw failure }
            do {
                try await withDeadline(max(.zero, deadline - .now)) { _ = try await changes.receive() }
                life.networkChanged(at: .now)
            } catch let error as KithError where error.code == .timedOut {
                life.timedOut(at: .now)
            }
        }
    }

    /// One connection, from the attempt to the loss.
    ///
    /// - Returns: why it was lost, or did not come about.
    private func attempt(
        _ life: inout SessionState, on display: some ScreenDisplay
    ) async throws -> KithError {
        // One task has it at a time: the handler, while the connection stands.
        let opened = Locked(false)
        var failure = KithError(.closed, "The other device ended the session.")
        do {
            try await run { event in
                if case .opened = event {
                    opened.set(true)
                    await display.phaseChanged(.active)
                }
                try await display.handle(event, of: self)
            }
            throw failure
        } catch let error as KithError where error.isLoss {
            failure = error
        }
        if opened.value {
            life.connected(at: .now)
            life.lost(at: .now)
        } else {
            life.attemptFailed(at: .now)
        }
        await display.phaseChanged(life.phase)
        return failure
    }
}

/// The cause of an error that the host itself gave: it ended the session, and another attempt would be refused.
struct EndedByHost: Error {}

extension KithError {
    /// True for what another attempt may mend: no way to the device, or a connection that broke.
    fileprivate var isLoss: Bool {
        switch code {
        case .unreachable, .timedOut, .closed: !(cause is EndedByHost)
        default: false
        }
    }
}
