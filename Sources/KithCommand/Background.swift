import Foundation
import KithWire

/// A `kith up` running on its own, with its output in a log file.
struct Background {
    /// The process.
    let pid: pid_t
    /// The log file.
    let path: String

    /// Starts this executable again with `arguments`, in a new session, its output going to `DIRECTORY/kith.log`.
    static func start(_ arguments: [String], directory: String) async throws -> Background {
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let path = directory + "/kith.log"
        let program = try executablePath()

        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // A daemon keeps nothing open that its starter had: whoever waits for the end of a pipe would wait for it.
        for descriptor in 3..<Int32(4_096) { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }

        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        // Not the terminal's session: closing the terminal leaves the device up.
        unsafe posix_spawnattr_setflags(&attributes, Self.ownSession)

        var words: [UnsafeMutablePointer<CChar>?] = unsafe ([program] + arguments).map { unsafe strdup($0) } + [nil]
        defer {
            for index in unsafe words.indices { unsafe free(words[index]) }
        }
        var pid: pid_t = 0
        let status = unsafe posix_spawn(&pid, program, &actions, &attributes, &words, environ)
        guard status == 0 else {
            throw KithError(.internal, unsafe "Could not start \(program): \(String(cString: strerror(status))).")
        }
        return Background(pid: pid, path: path)
    }

    /// Whether the process still lives.
    var isRunning: Bool {
        var status: Int32 = 0
        return unsafe waitpid(pid, &status, WNOHANG) == 0
    }

    /// The last line it wrote.
    var lastLine: String {
        // A log that cannot be read has no last line.
        let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").last.map(String.init) ?? "it said nothing"
    }

    #if canImport(Darwin)
    private static let ownSession = Int16(POSIX_SPAWN_SETSID)
    #else
    /// `POSIX_SPAWN_SETSID`, which glibc's headers hide from Swift.
    private static let ownSession: Int16 = 0x80
    #endif

    private static func executablePath() throws -> String {
        guard let path = Bundle.main.executablePath else {
            throw KithError(.internal, "Could not find the path of the kith command itself.")
        }
        return path
    }
}
