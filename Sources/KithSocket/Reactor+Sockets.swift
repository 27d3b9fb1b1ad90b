import KithIO
import KithWire

extension Reactor {
    /// A reactor for the sockets of a server, or of a carrier.
    static func forSockets() throws(KithError) -> Reactor {
        do {
            return try Reactor(name: "kith-socket")
        } catch {
            throw KithError(.exhausted, "Could not begin to wait for sockets: \(error).")
        }
    }

    /// Begins to watch a socket, which stays open until the watch has ended.
    func watch(_ descriptor: SocketDescriptor) throws(KithError) -> Watch {
        do {
            return try watch(descriptor.number, keeping: descriptor)
        } catch {
            throw KithError(.exhausted, "Could not wait for another socket: \(error).")
        }
    }
}
