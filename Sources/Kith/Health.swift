import KithNet
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The facts from which a device's health is judged.
struct Health {
    /// Its data directory.
    var directory: String
    /// True when it is to be found by others.
    var listens: Bool
    /// The addresses it has.
    var addresses: [NetworkAddress]
    /// The loss of lines of the audit log, in words.
    var auditProblem: String?
    /// The file that the secrets of its connections are written to.
    var keyLogFile: String?
    /// The number of secrets that may reach the disk.
    var unlockedSecrets = 0
    /// The room its disk has, in bytes; `nil` where that is not known.
    var freeBytes: UInt64?

    /// Less than this, and the database soon cannot be written.
    private static let enoughBytes: UInt64 = 32 << 20

    /// The problems, a sentence each, with what to do about it.
    var problems: [String] {
        var problems: [String] = []
        if listens, addresses.isEmpty {
            problems.append("It has no address, so no other device can reach it: is the network up?")
        } else if listens, addresses.allSatisfy(\.isLoopback) {
            problems.append("Only this machine can reach it: it has no address but the loopback's.")
        }
        if let freeBytes, freeBytes < Self.enoughBytes {
            problems.append("The disk of \(directory) is almost full: \(freeBytes >> 20) MiB are left. Make room.")
        }
        if let auditProblem { problems.append(auditProblem) }
        if let keyLogFile {
            problems.append(
                "The secrets of every connection are written to \(keyLogFile): who has it can read what is sent.")
        }
        if unlockedSecrets > 0 {
            problems.append(
                "\(unlockedSecrets) secrets could be swapped out: the limit of locked memory (ulimit -l) is too low.")
        }
        return problems
    }

    /// The room on the disk of a folder, for this user.
    static func freeBytes(in directory: String) -> UInt64? {
        var status = statvfs()
        guard unsafe statvfs(directory, &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? .max : bytes
    }
}
