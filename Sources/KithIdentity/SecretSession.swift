import CKithSystem
import Synchronization

/// A connection to the Secret Service of a desktop session, for one question at a time.
///
/// It is made when it is first needed, and once more when it was lost since. One is kept as long as this is, because the
/// keyring of GNOME (42) does not outlive many programs that come and go at once.
package final class SecretSession: Sendable {
    // The pointer is used only while the lock is held.
    @safe private struct State: @unchecked Sendable {
        var connection: OpaquePointer?
    }

    private let bus: String?
    private let state = Mutex(State())

    /// Connects to nothing yet; `bus` is the D-Bus address of the session, `nil` the one in the environment.
    package init(bus: String?) { self.bus = bus }

    deinit { state.withLock { Self.close(&$0) } }

    /// Asks by `body`, which gets the connection and room for a reason; returns what it returned, and the reason.
    ///
    /// What is asked may be asked again, when the connection turns out to be an old one, unless `mayRepeat` is false.
    func ask(
        mayRepeat: Bool,
        _ body: (OpaquePointer, UnsafeMutablePointer<CChar>) -> kith_secret_outcome
    ) -> (outcome: kith_secret_outcome, reason: String) {
        var reason = [CChar](repeating: 0, count: Int(KITH_SECRET_REASON))
        let outcome = unsafe reason.withUnsafeMutableBufferPointer { reason in
            guard let reason = reason.baseAddress else { return KITH_SECRET_FAILED }
            return state.withLock { state in
                let isOld = unsafe state.connection != nil
                let outcome = unsafe attempt(&state, reason, body)
                guard mayRepeat, isOld, unsafe state.connection == nil else { return outcome }
                return unsafe attempt(&state, reason, body)
            }
        }
        let text = reason.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
        return (outcome, String(decoding: text, as: UTF8.self))
    }

    /// Asks once; a connection that is of no use any more is closed then.
    private func attempt(
        _ state: inout State, _ reason: UnsafeMutablePointer<CChar>,
        _ body: (OpaquePointer, UnsafeMutablePointer<CChar>) -> kith_secret_outcome
    ) -> kith_secret_outcome {
        if unsafe state.connection == nil {
            let outcome = unsafe open(&state, reason)
            guard outcome == KITH_SECRET_DONE else { return outcome }
        }
        guard let connection = unsafe state.connection else { return KITH_SECRET_FAILED }
        let outcome = unsafe body(connection, reason)
        switch outcome {
        case KITH_SECRET_NO_BUS, KITH_SECRET_NO_SERVICE, KITH_SECRET_GONE:
            Self.close(&state)
        default: break
        }
        return outcome
    }

    private func open(_ state: inout State, _ reason: UnsafeMutablePointer<CChar>) -> kith_secret_outcome {
        guard let bus else { return unsafe kith_secrets_open(nil, &state.connection, reason) }
        return unsafe kith_secrets_open(bus, &state.connection, reason)
    }

    private static func close(_ state: inout State) {
        if let connection = unsafe state.connection { unsafe kith_secrets_close(connection) }
        unsafe state.connection = nil
    }
}
