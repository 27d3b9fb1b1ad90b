package import KithIO
package import KithWire

extension Reactor {
    /// A reactor for shells and terminals.
    package static func forShells() throws(KithError) -> Reactor {
        do {
            return try Reactor(name: "kith-shell")
        } catch {
            throw KithError(.exhausted, "Could not begin to wait for another shell: \(error).")
        }
    }

    /// Begins to watch a terminal, a pipe or a socket; it must stay open as long as the watch does.
    package func watch(terminal descriptor: Int32, reads: Bool = true) throws(KithError) -> Watch {
        do {
            return try watch(descriptor, reads: reads)
        } catch {
            throw KithError(.exhausted, "The system watches no more descriptors: \(error).")
        }
    }
}
