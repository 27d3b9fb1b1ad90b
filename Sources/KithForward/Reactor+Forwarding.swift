import KithIO
import KithWire

extension Reactor {
    /// A reactor for the sockets of forwardings.
    static func forForwarding() throws(KithError) -> Reactor {
        do {
            return try Reactor(name: "kith-forward")
        } catch {
            throw KithError(.exhausted, "Could not begin to wait for forwarded sockets: \(error).")
        }
    }

    /// Begins to watch a socket; it must stay open as long as the watch does.
    func watch(socket: Int32) throws(KithError) -> Watch {
        do {
            return try watch(socket)
        } catch {
            throw KithError(.exhausted, "The system watches no more sockets: \(error).")
        }
    }
}
