public import KithIdentity
import Synchronization

/// A device whose lock and whose person follow a script.
public final class ScriptedDevice: DeviceConditions, Authenticator {
    private struct State {
        var condition = DeviceCondition(.unlocked)
        var enrolled: [UInt8]? = [1]
        var answers: [AuthenticationAnswer] = []
        var requests: [AuthenticationRequest] = []
    }

    private let state = Mutex(State())
    /// What happens while the person is asked.
    private let whileAsked: @Sendable () -> Void

    /// An unlocked device with something enrolled, whose person answers no question yet.
    public init(whileAsked: @escaping @Sendable () -> Void = {}) { self.whileAsked = whileAsked }

    /// The state of its lock and of the program.
    public var condition: DeviceCondition {
        get { state.withLock { $0.condition } }
        set { state.withLock { $0.condition = newValue } }
    }

    /// The fingers and faces it knows.
    public var enrolledBiometrics: [UInt8]? {
        get { state.withLock { $0.enrolled } }
        set { state.withLock { $0.enrolled = newValue } }
    }

    /// Has the next questions answered so.
    public func answer(_ answers: AuthenticationAnswer...) { state.withLock { $0.answers += answers } }

    /// The questions since the last call.
    public func takeRequests() -> [AuthenticationRequest] {
        state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }

    /// Answers as the script says; where it says nothing more, nobody can be asked.
    public func authenticate(_ request: AuthenticationRequest) -> AuthenticationAnswer {
        state.withLock { $0.requests.append(request) }
        whileAsked()
        return state.withLock { $0.answers.isEmpty ? .unavailable : $0.answers.removeFirst() }
    }
}
