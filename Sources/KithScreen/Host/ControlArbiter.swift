/// Decides whose keys and movements have an effect, when several viewers control one screen.
///
/// Whoever begins keeps the control until half a second of rest; what others send meanwhile is left out. Before another
/// one takes over, what the one before holds is let go.
struct ControlArbiter {
    /// The answer to one input.
    enum Answer: Hashable {
        /// It has its effect.
        case perform
        /// It has, once everything that is held was let go: somebody else was in control.
        case takeOver
        /// Another viewer is in control.
        case leaveOut
    }

    /// The time without input after which another viewer may take over.
    static let rest = Duration.milliseconds(500)

    /// The viewer in control, by its session.
    private(set) var controller: String?
    private var lastInput: ContinuousClock.Instant?

    /// Answers to an input of a session.
    mutating func received(from session: String, at now: ContinuousClock.Instant) -> Answer {
        defer { if controller == session { lastInput = now } }
        guard let controller, controller != session else {
            self.controller = session
            return .perform
        }
        guard lastInput.map({ now - $0 >= Self.rest }) ?? true else { return .leaveOut }
        self.controller = session
        return .takeOver
    }

    /// Takes in that a session ended, or may not control any more; true when what it holds is to be let go.
    mutating func left(_ session: String) -> Bool {
        guard controller == session else { return false }
        (controller, lastInput) = (nil, nil)
        return true
    }
}
