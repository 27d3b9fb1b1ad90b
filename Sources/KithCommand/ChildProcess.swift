import Foundation
import KithWire
import UnixSignals

/// A command run in the foreground, on this process's own terminal.
enum ChildProcess {
    /// Runs a program with its arguments and waits for it; returns the status a shell would give.
    ///
    /// It stays in this process's group, so that the keys of the terminal reach it; signals sent to this process alone are
    /// passed on.
    ///
    /// - Throws: `.notFound` for a program that is not there, `.denied` for one that may not be run.
    static func run(_ command: [String], environment: [String: String]) async throws -> Int32 {
        let pid = try spawn(command, environment: environment)
        // The keys of the terminal are for the command: it decides what they mean.
        let keys = [SIGINT, SIGQUIT].map { number in (number, signal(number, SIG_IGN)) }
        defer { for (number, handler) in keys { signal(number, handler) } }
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sighup, .sigusr1, .sigusr2)
        let passing = Task(name: "kith signals") {
            for await received in signals { kill(pid, Self.number(received)) }
        }
        defer { passing.cancel() }
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                var status: Int32 = 0
                while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
                let signal = status & 0x7F
                continuation.resume(returning: signal == 0 ? status >> 8 & 0xFF : 128 + signal)
            }
        }
    }

    private static func number(_ received: UnixSignal) -> Int32 {
        switch received {
        case .sighup: SIGHUP
        case .sigusr1: SIGUSR1
        case .sigusr2: SIGUSR2
        default: SIGTERM
        }
    }

    private static func spawn(_ command: [String], environment: [String: String]) throws -> pid_t {
        guard let program = command.first else { throw KithError(.invalid, "There is no command to run.") }
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        // What this process ignores or traps, the command shall not.
        var defaults = sigset_t()
        unsafe sigemptyset(&defaults)
        for number in [SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] {
            unsafe sigaddset(&defaults, number)
        }
        unsafe posix_spawnattr_setsigdefault(&attributes, &defaults)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))

        var words: [UnsafeMutablePointer<CChar>?] = unsafe command.map { unsafe strdup($0) } + [nil]
        var variables: [UnsafeMutablePointer<CChar>?] =
            unsafe environment.map { unsafe strdup("\($0)=\($1)") } + [nil]
        defer {
            for index in unsafe words.indices { unsafe free(words[index]) }
            for index in unsafe variables.indices { unsafe free(variables[index]) }
        }
        var pid: pid_t = 0
        let status = unsafe posix_spawnp(&pid, program, nil, &attributes, &words, &variables)
        switch status {
        case 0: return pid
        case ENOENT, ENOTDIR: throw KithError(.notFound, "There is no program “\(program)” here.")
        case EACCES, EPERM: throw KithError(.denied, "“\(program)” may not be run.")
        default:
            throw KithError(.internal, unsafe "Could not run “\(program)”: \(String(cString: strerror(status))).")
        }
    }
}
