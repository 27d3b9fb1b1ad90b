import CKithSystem

/// A socket that tasks wait at; it is closed, and no longer watched, when nobody holds it.
package final class WatchedSocket: Sendable {
    /// The descriptor.
    package let descriptor: Int32
    /// Where to wait for it.
    package let watch: Watch

    /// Takes over what a call of CKithSystem returned: a descriptor, or a number of the system's, negative.
    ///
    /// - Throws: that number, or the reactor's.
    package init(owning result: Int32, on reactor: Reactor) throws(SystemError) {
        guard result >= 0 else { throw SystemError(-result) }
        do {
            watch = try reactor.watch(result)
        } catch {
            kith_socket_close(result)
            throw error
        }
        descriptor = result
    }

    deinit {
        watch.close()
        kith_socket_close(descriptor)
    }
}
