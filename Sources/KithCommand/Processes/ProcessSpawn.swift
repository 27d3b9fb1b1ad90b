import Foundation

/// A program about to be started as a child process.
///
/// The child begins with no signal blocked and with the default disposition of every one. Left alone it would inherit
/// both: the mask of the thread that starts it, in which Dispatch and Swift's executors block nearly all signals, and
/// what this process ignores.
struct ProcessSpawn {
    /// The way a child is attached to this process.
    enum Mode {
        /// In this process's group, on its terminal and its standard streams.
        case foreground
        /// The same as ``foreground``, but that its output goes to this descriptor.
        case answering(output: Int32)
        /// In a session of its own, so that closing the terminal leaves it alone; its input is this descriptor, or nothing,
        /// its output and errors are in the file `log`.
        case background(log: String, input: Int32?)
        /// In this process's group, without input or errors, its output in a descriptor of this process.
        case reading(output: Int32)
    }

    /// The reason a program could not be started.
    struct Failure: Error, CustomStringConvertible {
        /// The errno of posix_spawn(3).
        let number: Int32

        var description: String { unsafe String(cString: strerror(number)) }
    }

    private let words: [String]
    private let environment: [String: String]
    private let mode: Mode

    /// The first word is the program: a path, or a name to be looked for in `PATH`.
    init(
        _ words: [String], environment: [String: String] = ProcessInfo.processInfo.environment,
        mode: Mode = .foreground
    ) {
        precondition(!words.isEmpty, "a command has a program")
        self.words = words
        self.environment = environment
        self.mode = mode
    }

    /// Starts it; returns its process id, which the caller is to wait for.
    func start() throws(Failure) -> pid_t {
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        unsafe sigfillset(&signals)
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)

        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        var flags = Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF)
        if case .answering(let output) = mode {
            unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        }
        if case .background(let log, let input) = mode {
            flags |= Self.ownSession
            if let input {
                unsafe posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
            } else {
                unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
            }
            unsafe posix_spawn_file_actions_addopen(
                &actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            unsafe posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        }
        if case .reading(let output) = mode {
            unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
            unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
            unsafe posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        }
        unsafe posix_spawnattr_setflags(&attributes, flags)

        let variables = CStrings(environment.map { "\($0.key)=\($0.value)" })
        var pid: pid_t = 0
        let number = unsafe CStrings(words).withPointers { words in
            unsafe variables.withPointers { unsafe posix_spawnp(&pid, self.words[0], &actions, &attributes, words, $0) }
        }
        guard number == 0 else { throw Failure(number: number) }
        return pid
    }

    #if canImport(Darwin)
    private static let ownSession = Int16(POSIX_SPAWN_SETSID)
    #else
    /// `POSIX_SPAWN_SETSID`, which glibc's headers hide from Swift.
    private static let ownSession: Int16 = 0x80
    #endif
}

/// Strings as C wants a list of them: each ended by a NUL, the list by a null pointer.
private struct CStrings {
    private var bytes: [CChar] = []
    private var starts: [Int] = []

    init(_ strings: [String]) {
        for string in strings {
            starts.append(bytes.count)
            bytes += string.utf8CString
        }
    }

    /// Lends the list for as long as `body` runs.
    func withPointers<Result>(_ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result) -> Result {
        var bytes = bytes
        return unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            var pointers = unsafe starts.map { start in unsafe buffer.baseAddress.map { unsafe $0 + start } }
            unsafe pointers.append(nil)
            return unsafe pointers.withUnsafeBufferPointer { list in
                guard let base = list.baseAddress else { preconditionFailure("a list with its end is not empty") }
                return unsafe body(base)
            }
        }
    }
}
