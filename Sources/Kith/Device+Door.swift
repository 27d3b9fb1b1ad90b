package import KithStore
package import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// What a door of this device needs of it, beside its client: callers of its own, and the database.

extension Device {
    /// Serves a caller who has the other end of a pair of sockets as one at the Unix socket, until it is gone or the task
    /// is cancelled.
    ///
    /// `number` is closed in the end, whatever comes of it.
    ///
    /// - Throws: `KithError` `.closed` while the device is not up, `.exhausted` when there are too many callers.
    package func serve(caller number: Int32) async throws(KithError) {
        guard let parts else {
            closeDescriptor(number)
            throw notUp
        }
        try await parts.serve(caller: number)
    }

    /// Signs what a door says, by which it is known to be this device's; it begins with what it is for.
    ///
    /// - Throws: `KithError` `.closed` while the device is not up.
    package func doorSignature(for message: [UInt8]) throws(KithError) -> [UInt8] {
        guard let parts else { throw notUp }
        return try parts.key.signature(for: message)
    }

    /// Asks the database of the device.
    ///
    /// - Throws: `KithError` `.closed` while the device is not up; what `body` throws.
    package func withStore<Value>(_ body: (Store) throws(KithError) -> Value) throws(KithError) -> Value {
        guard let parts else { throw notUp }
        return try body(parts.store)
    }

    private var notUp: KithError { KithError(.closed, "The device \(name) is not up.") }
}

/// The C function whose name a method of ``DeviceParts`` hides.
func closeDescriptor(_ number: Int32) { close(number) }
