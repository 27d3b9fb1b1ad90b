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

    /// Begins to watch a socket; it must stay open as long as the watch does.
    func watch(socket: Int32) throws(KithError) -> Watch {
        do {
            return try watch(socket)
        } catch {
            throw KithError(
                .exhausted, "Cannot forward another connection: the system watches no more sockets (\(error)).")
        }
    }
}
