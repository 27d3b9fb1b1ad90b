import Foundation

extension Node {
    /// The time in milliseconds since 1970.
    ///
    /// In a file of its own: where another file of the module imports Foundation, a build of the whole module at once does
    /// not find the members of the C library's `timespec`.
    package static var now: Int64 { Int64((Date().timeIntervalSince1970 * 1_000).rounded()) }
}
