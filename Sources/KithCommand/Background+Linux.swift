#if !canImport(Darwin)
import Foundation

extension Background {
    /// `POSIX_SPAWN_SETSID`, which glibc's headers hide from Swift.
    static let flags: Int16 = 0x80

    /// A daemon keeps nothing open that its starter had: whoever waits for the end of a pipe would wait for it.
    static func closeTheRest(_ actions: inout posix_spawn_file_actions_t) {
        unsafe posix_spawn_file_actions_addclosefrom_np(&actions, 3)
    }
}
#endif
