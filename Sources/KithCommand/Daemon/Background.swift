import Foundation
import Kith
import KithWire

/// A `kith up` running on its own, with its output in a log file.
struct Background {
    /// The process.
    let pid: pid_t
    /// The log file.
    let path: String

    /// Starts this executable again with `arguments`, in a new session, its output going to `DIRECTORY/kith.log`.
    ///
    /// `passphrase` is a line that it can read from its input, and nobody else from anywhere.
    static func start(_ arguments: [String], directory: String, passphrase: SecretBytes?) async throws -> Background {
        try Device.prepare(directory: directory)
        let path = directory + "/kith.log"
        let program = try executablePath()

        // A daemon keeps nothing open that its starter had: whoever waits for the end of a pipe would wait for it.
        for descriptor in 3..<Int32(4_096) { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        let input = try passphrase.map(lineToRead)
        defer { if let input { close(input) } }
        let pid: pid_t
        do throws(ProcessSpawn.Failure) {
            pid = try ProcessSpawn([program] + arguments, mode: .background(log: path, input: input)).start()
        } catch {
            throw KithError(.internal, "Could not start \(program): \(error).")
        }
        return Background(pid: pid, path: path)
    }

    /// A pipe with one line in it, and its end after that.
    private static func lineToRead(_ line: SecretBytes) throws -> Int32 {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw KithError(.exhausted, "Cannot start the device: too many files are open to hand it the passphrase.")
        }
        defer { close(ends[1]) }
        _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
        // A pipe takes far more at once than a passphrase may be long.
        let isWritten = unsafe line.withUnsafeBytes { unsafe write(ends[1], $0.baseAddress, $0.count) == $0.count }
        guard isWritten else {
            close(ends[0])
            throw KithError(.internal, "Cannot start the device: the passphrase could not be handed to it. Try again.")
        }
        return ends[0]
    }

    /// The exit status of the process; `nil` while it runs.
    ///
    /// Ask until it has ended, and not again.
    func ending() -> Int32? {
        var status: Int32 = 0
        guard unsafe waitpid(pid, &status, WNOHANG) != 0 else { return nil }
        // The low seven bits are the signal that ended it, if one did.
        return status & 0x7F == 0 ? status >> 8 & 0xFF : KithError.Code.internal.exitStatus
    }

    /// The last line it wrote, without the name it begins with and its full stop: for the middle of a sentence.
    var lastLine: String {
        // A log that cannot be read has no last line.
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        guard var line = text.split(separator: "\n").last else { return "it said nothing" }
        if line.hasPrefix("kith: ") { line = line.dropFirst(6) }
        return String(line.hasSuffix(".") ? line.dropLast() : line)
    }

    private static func executablePath() throws -> String {
        guard let path = Bundle.main.executablePath else {
            throw KithError(.internal, "Could not find the path of the kith command itself.")
        }
        return path
    }
}
