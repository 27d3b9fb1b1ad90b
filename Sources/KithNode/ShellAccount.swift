import CKithSystem

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The account shells run as: that of the process itself.
package struct ShellAccount: Hashable, Sendable {
    package var name: String
    package var home: String
    /// The login shell, absolute.
    package var shell: String

    /// Reads the account of this process from the user database; what is missing there gets a plain default.
    package static func current() -> ShellAccount {
        var entry = kith_account()
        // An account that is not in the database (a container's) still has a home and a shell.
        _ = unsafe kith_account_read(&entry)
        let name = unsafe withUnsafeBytes(of: &entry.name) { unsafe text($0) }
        let home = unsafe withUnsafeBytes(of: &entry.home) { unsafe text($0) }
        let shell = unsafe withUnsafeBytes(of: &entry.shell) { unsafe text($0) }
        return ShellAccount(
            name: name.isEmpty ? String(geteuid()) : name,
            home: home.isEmpty ? "/" : home,
            shell: shell.isEmpty ? "/bin/sh" : shell)
    }

    /// Returns the search path for programs of an environment.
    package static func path(_ environment: [String: String]) -> String {
        environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
}
