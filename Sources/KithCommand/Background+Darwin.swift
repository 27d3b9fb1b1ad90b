#if canImport(Darwin)
import Foundation

extension Background {
    /// A session of its own, and nothing open that the starter had.
    static let flags = Int16(POSIX_SPAWN_SETSID | POSIX_SPAWN_CLOEXEC_DEFAULT)

    /// `POSIX_SPAWN_CLOEXEC_DEFAULT` does it.
    static func closeTheRest(_ actions: inout posix_spawn_file_actions_t?) {}
}
#endif
