#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A number of the system's for a failure.
package struct SystemError: Error, Hashable, CustomStringConvertible {
    /// `errno`.
    package let number: Int32

    /// Names a failure by its number.
    package init(_ number: Int32) { self.number = number }

    /// True if the call would have had to wait.
    package var isWouldBlock: Bool { number == EAGAIN || number == EWOULDBLOCK }

    package var description: String { unsafe String(cString: strerror(number)) }
}
