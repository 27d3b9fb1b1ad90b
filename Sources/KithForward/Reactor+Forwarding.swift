import KithIO
import KithWire

extension Reactor {
    /// A reactor for the sockets of forwardings.
    static func forForwarding() throws(KithError) -> Reactor {
        do {
            return try Reactor(name: "kith-forward")
        } catch {
            throw KithError(
                .exhausted,
                "Cannot forward: the system gives no descriptor to wait at (\(error)). Close some connections.")
        }
    }
}
