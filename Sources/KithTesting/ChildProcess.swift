public import Foundation
import Synchronization

/// A program that a test runs beside itself.
///
/// In place of Foundation's `Process` where thousands of files are open at once, as in the tests of the network: on Linux
/// that reads the entries of `/proc/self/fd` past the end of its buffer, and now and then the whole run crashes (Swift
/// 6.3). Of this process's files the program gets its standard streams only, and it begins with no signal blocked.
public final class ChildProcess: Sendable {
    /// What a standard stream of the program is.
    public enum Stream {
        /// `/dev/null`.
        case nothing
        /// This process's own.
        case inherited
        /// One whose far end is ``input``, ``output`` or ``errors``.
        case connected
        /// The one before it: errors are in ``output``.
        case merged
    }

    /// What is written to it; `nil` when nothing can be.
    public let input: FileHandle?
    /// What it prints; `nil` when that cannot be read.
    public let output: FileHandle?
    /// The errors it prints; `nil` when those cannot be read.
    public let errors: FileHandle?
    private let identifier: pid_t
    private let end = Mutex<Int32?>(nil)

    /// Starts a program, which is named by its path.
    ///
    /// - Throws: `POSIXError` when it cannot be started.
    public init(
        _ program: String, _ arguments: [String] = [], environment: [String: String] = [:], input: Stream = .nothing,
        output: Stream = .nothing, errors: Stream = .nothing
    ) throws {
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        var flags = Int16(POSIX_SPAWN_SETSIGMASK)
        #if canImport(Darwin)
        flags |= Int16(POSIX_SPAWN_CLOEXEC_DEFAULT)
        #endif
        unsafe posix_spawnattr_setflags(&attributes, flags)

        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        func attach(_ stream: Stream, as number: Int32) throws -> (near: FileHandle, far: FileHandle)? {
            switch stream {
            case .nothing: unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
            case .inherited: unsafe posix_spawn_file_actions_adddup2(&actions, number, number)
            case .merged: unsafe posix_spawn_file_actions_adddup2(&actions, max(number - 1, 0), number)
            case .connected:
                let ends = try Self.pair()
                unsafe posix_spawn_file_actions_adddup2(&actions, ends.far.fileDescriptor, number)
                return ends
            }
            return nil
        }
        let ends = try (
            input: attach(input, as: STDIN_FILENO), output: attach(output, as: STDOUT_FILENO),
            errors: attach(errors, as: STDERR_FILENO)
        )
        #if !canImport(Darwin)
        if let close = unsafe Self.closeFrom, unsafe close(&actions, STDERR_FILENO + 1) != 0 {
            throw POSIXError(.EINVAL)
        }
        #endif
        (self.input, self.output, self.errors) = (ends.input?.near, ends.output?.near, ends.errors?.near)

        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var words = unsafe ([program] + arguments).map { unsafe strdup($0) } + [nil]
        var settings = unsafe variables.map { unsafe strdup($0) } + [nil]
        defer { unsafe (words + settings).forEach { unsafe free($0) } }
        var identifier: pid_t = 0
        let code = unsafe posix_spawn(&identifier, program, &actions, &attributes, &words, &settings)
        for end in [ends.input?.far, ends.output?.far, ends.errors?.far] { try end?.close() }
        guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO) }
        self.identifier = identifier
    }

    #if !canImport(Darwin)
    /// `posix_spawn_file_actions_addclosefrom_np`, which glibc's headers hide from Swift: the sockets of SwiftNIO are not
    /// closed by exec, and a port would stay taken for as long as some program runs.
    private static let closeFrom = unsafe dlsym(nil, "posix_spawn_file_actions_addclosefrom_np").map {
        unsafe unsafeBitCast(
            $0, to: (@convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32).self)
    }
    #endif

    /// Two ends of which no other program gets one, even if started at the same moment, as one does of a `Pipe`.
    private static func pair() throws -> (near: FileHandle, far: FileHandle) {
        #if canImport(Darwin)
        let kind = SOCK_STREAM
        #else
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        #endif
        var ends: [Int32] = [-1, -1]
        guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
        return (
            FileHandle(fileDescriptor: ends[0], closeOnDealloc: true),
            FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
        )
    }

    /// True until it has ended.
    public var isRunning: Bool { status(WNOHANG) == nil }

    /// Waits for its end; holds the thread meanwhile.
    ///
    /// - Returns: What it said at its end; -1 for one that a signal has ended.
    @discardableResult public func waitUntilExit() -> Int32 {
        // Not under the lock: who kills it wants that.
        var information = unsafe siginfo_t()
        while unsafe waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        return status(0) ?? -1
    }

    /// Kills it.
    public func kill() { send(SIGKILL) }

    /// Sends it a signal, unless it has ended.
    public func send(_ signal: Int32) {
        end.withLock { end in
            // Its number is its own until it has been waited for.
            if end == nil { _ = Foundation.kill(identifier, signal) }
        }
    }

    private func status(_ options: Int32) -> Int32? {
        end.withLock { end in
            if let end { return end }
            var status: Int32 = 0
            var result: pid_t
            repeat { result = unsafe waitpid(identifier, &status, options) } while result < 0 && errno == EINTR
            guard result == identifier else { return nil }
            end = status & 0x7F == 0 ? status >> 8 & 0xFF : -1
            return end
        }
    }

    deinit {
        kill()
        waitUntilExit()
    }
}
